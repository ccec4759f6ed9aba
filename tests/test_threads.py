"""Pieces of work in threads, and what is left of them after an interrupt."""

from threading import Event

import pytest
from joblib import Parallel, delayed, effective_n_jobs, parallel_config

from tensorly_smp.threads import allowed_threads, run_each


def run(work, items, n_threads):
    return run_each(work, items, n_threads, lambda result: result == "interrupted")


@pytest.mark.parametrize("n_jobs", [None, 1, 3, -1])
def test_outside_of_workers_as_many_threads_as_joblib_says(n_jobs):
    assert allowed_threads(n_jobs) == effective_n_jobs(n_jobs)
    with parallel_config(backend="threading", n_jobs=5):
        assert allowed_threads(n_jobs) == (5 if n_jobs is None else effective_n_jobs(n_jobs))
    # What does not run beside anything may use all threads.
    assert Parallel(n_jobs=1)([delayed(allowed_threads)(3)]) == [3]


@pytest.mark.parametrize("backend", ["threading", "loky"])
def test_one_thread_inside_workers(backend):
    assert Parallel(n_jobs=2, backend=backend)(delayed(allowed_threads)(n) for n in (3, -1, None)) == [1, 1, 1]


@pytest.mark.parametrize("n_threads", [1, 2, 5])
def test_results_are_in_order(n_threads):
    assert run(lambda item, check: item**2, list(range(10)), n_threads) == ([i**2 for i in range(10)], False)


def test_one_after_the_other_an_interrupt_ends_the_row():
    results = run(lambda item, check: "interrupted" if item == 2 else item, list(range(10)), 1)
    assert results == ([0, 1, "interrupted"], True)


def test_an_interrupt_reaches_the_other_threads():
    begun, fired = Event(), Event()

    def work(item, check):
        if item == 0:
            begun.wait(10)
            fired.set()
            return "interrupted"
        begun.set()
        fired.wait(10)
        for _ in range(1000):
            Event().wait(0.005)
            try:
                check()
            except KeyboardInterrupt:
                return "interrupted"
        return "missed"

    assert run(work, [0, 1], 2) == (["interrupted", "interrupted"], True)


@pytest.mark.parametrize("n_threads", [1, 2])
def test_errors_are_passed_on(n_threads):
    def work(item, check):
        raise ValueError(f"item {item}")

    with pytest.raises(ValueError, match="item 0"):
        run(work, [0, 1], n_threads)


def test_nothing_to_do():
    assert run(lambda item, check: item, [], 3) == ([], False)


@pytest.mark.parametrize("n_threads", [1, 2])
def test_an_interrupt_that_a_piece_does_not_answer(n_threads):
    def work(item, check):
        if item == 1:
            raise KeyboardInterrupt
        return item

    assert run(work, [0, 1], n_threads) == ([0], True)
    with pytest.raises(KeyboardInterrupt):
        run(work, [1], n_threads)
