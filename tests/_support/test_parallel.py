"""Pieces of work in threads, and what is left of them after an interrupt."""

import ast
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event, Thread

import numpy as np
import pytest
import tensorly
from joblib import Parallel, delayed, effective_n_jobs, parallel_config
from sklearn.base import clone

import tensorly_smp as smp
from tensorly_smp._support.checks import collected_warnings, warn
from tensorly_smp._support.parallel import (
    FAN_IN,
    OnePart,
    Parts,
    allowed_threads,
    one_blas_thread,
    require_dask,
    run_each,
)
from tensorly_smp.exceptions import ConvergenceWarning, MissingDependencyError


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
    assert run(lambda item, check: item, [], n_threads) == ([], False)


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
def test_errors_and_interrupts_that_a_piece_does_not_answer(n_threads):
    def work(item, check):
        if item < 0:
            raise ValueError(f"item {item}")
        if item == 1:
            raise KeyboardInterrupt
        return item

    with pytest.raises(ValueError, match="item -1"):
        run(work, [-1, -2], n_threads)
    assert run(work, [0, 1], n_threads) == ([0], True)
    with pytest.raises(KeyboardInterrupt):
        run(work, [1], n_threads)


def test_blas_keeps_its_threads_after_blocks_that_overlap():
    from threadpoolctl import threadpool_info, threadpool_limits

    def n_threads():
        return [each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"]

    with threadpool_limits(2, user_api="blas"):
        before, inside, started, may_end = n_threads(), [], Event(), Event()

        def first():
            with one_blas_thread():
                started.set()
                may_end.wait(10)
                inside.append(n_threads())

        thread = Thread(target=first)
        thread.start()
        started.wait(10)
        with one_blas_thread():
            may_end.set()
            thread.join()
            inside.append(n_threads())  # the other one has left
        assert inside == [[1] * len(before)] * 2
        assert n_threads() == before


def process_state():
    return (
        list(warnings.filters),
        warnings.showwarning,
        np.geterr(),
        tensorly.get_backend(),
        str(np.random.get_state()),  # noqa: NPY002
    )


def test_fits_and_selections_in_threads_leave_the_process_as_it_was():
    X = smp.datasets.make_smooth_mixture("gaussian", 60, 4, 2, random_state=0).X
    kinds = [smp.SmoothProductMixture(2, n_init=1, random_state=0, refine=refine) for refine in ("smooth", "em", None)]
    kinds.append(smp.UnmixedProductMixture(1, random_state=0))
    before = process_state()
    with ThreadPoolExecutor(5) as pool:  # beside each other, and one kind beside itself
        list(pool.map(lambda estimator: clone(estimator).fit(X), [*kinds, kinds[0]]))
    assert process_state() == before
    with parallel_config(backend="threading"), pytest.warns(ConvergenceWarning) as given:
        table = smp.select_n_components(X, [1, 2, 3, 4], n_jobs=4, random_state=0, max_iter=0)
    # Each fit runs in a thread, and what it says is said once, by the thread that has asked.
    assert [str(each.message).partition(":")[0] for each in given] == ["All fits"]
    assert all("ConvergenceWarning" in names for names in table.warnings.values.tolist())
    assert process_state() == before


def test_warnings_are_collected_by_the_thread_that_asks():
    started, may_end = Event(), Event()

    def collect(message):
        with collected_warnings() as caught:
            started.set()
            may_end.wait(10)
            warn(message)
        return [str(each) for each in caught]

    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(collect, "inside")
        started.wait(10)
        with pytest.warns(UserWarning, match="^outside$"):
            warn("outside")
        may_end.set()
        assert other.result() == ["inside"]
    with collected_warnings() as caught:
        run(lambda item, check: warn(str(item)), [1, 2], 2)
    assert sorted(map(str, caught)) == ["1", "2"]


def test_no_warning_is_caught_in_the_package():
    # Filters of warnings belong to the whole process: two threads that restore them leave what the other had set.
    allowed = {
        "cli/parser.py",  # the whole process is its
        "_support/parallel.py",  # in the main thread only
    }
    package = Path(smp.__file__).parent
    calls = {"catch_warnings", "simplefilter", "filterwarnings", "seterr", "set_printoptions"}
    for path in package.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        if any(f".{name}" in text for name in calls):  # in docstrings they may be
            names = {node.attr for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Attribute)}
            assert not names & calls or path.relative_to(package).as_posix() in allowed


dask = pytest.importorskip("dask")


def numbers(n):
    return Parts.of([dask.delayed(i) for i in range(n)])


def joined(strings):
    return "(" + " ".join(map(str, strings)) + ")"


@pytest.mark.parametrize("n", [1, 2, FAN_IN, FAN_IN + 1, FAN_IN**2 + 3])
def test_reduction_merges_all_pieces_in_their_order(n):
    merged = numbers(n).reduce(joined)
    assert [int(word) for word in merged.replace("(", "").replace(")", "").split()] == list(range(n))
    # A tree: no merge has more than FAN_IN pieces.
    assert max(group.count(" ") for group in merged.replace(")", "(").split("(")) < FAN_IN


def test_functions_get_the_piece_then_its_own_argument_then_the_shared_ones():
    parts = numbers(3)
    assert parts.map(joined_arguments, "a", [1]).gather() == [(0, "a", [1]), (1, "a", [1]), (2, "a", [1])]
    assert parts.map(joined_arguments, "a", each=[7, 8, 9]).gather() == [(0, 7, "a"), (1, 8, "a"), (2, 9, "a")]
    strange = (len, "abc")  # Dask would run a tuple that begins with a function, and takes strings for names of tasks
    assert parts.map(joined_arguments, strange, parts.keys[0]).gather()[1] == (1, strange, parts.keys[0])


def joined_arguments(*arguments):
    return arguments


def test_kept_pieces_are_not_computed_again():
    calls = []
    kept = numbers(3).map(lambda number: calls.append(number) or number).persist()
    assert sorted(calls) == [0, 1, 2]
    assert kept.map(lambda number: number + 1).gather() == [1, 2, 3]
    assert kept.reduce(sum) == 3
    assert len(calls) == 3


def test_a_part_in_memory_is_mapped_and_merged_like_one_of_many():
    first = numbers(1)
    for parts in (OnePart(0), first):
        kept = parts.map(joined_arguments, "a", [1]).group([[0]], tuple).persist()
        assert kept.gather() == [(0, "a", [1])]
        assert kept.reduce(joined) == "((0, 'a', [1]))"


def test_groups_are_put_together():
    parts = numbers(5)
    assert parts.group([[0], [1, 2, 3], [4]], tuple).gather() == [(0,), (1, 2, 3), (4,)]
    assert parts.group([[i] for i in range(5)], tuple) is parts


def test_pieces_made_where_they_are_used_are_in_no_task_of_their_own():
    made = Parts.of([[[dask.delayed(i)], i] for i in range(3)], joined_arguments)
    found = made.map(joined_arguments, (len, "abc"), each=[7, 8, 9])
    assert found.gather() == [(([i], i), 7 + i, (len, "abc")) for i in range(3)]
    # One for each input, one for each piece, and the arguments.
    assert len(found.graph.to_dict()) == 3 + 3 + 1


def test_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "dask", None)
    with pytest.raises(MissingDependencyError, match=r"tensorly_smp\[dask\]"):
        require_dask()
