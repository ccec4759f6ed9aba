""""""

import io
import logging
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from backend_problems import tensor

import tensorly_smp as smp
from tensorly_smp._support.checks import to_numpy
from tensorly_smp._support.iteration import (
    SILENT,
    Coordinates,
    MeanGain,
    SquaredExtrapolation,
    StopReason,
    checked_verbose,
    dask_progress,
    iterate,
    progress_bar,
)
from tensorly_smp.exceptions import MissingDependencyError

PLAIN = Coordinates(lambda x: x, lambda vector, _: vector)
RATES = np.array([0.99, 0.9, 0.5])


def climb(**options):
    """A linear iteration towards zero, the slowest entry by a hundredth a step, and minus the squared distance."""
    options = dict(rule=MeanGain(1e-12, 3000)) | options
    return iterate(np.ones(3), lambda x: (None, -float(x @ x)), lambda x, _: RATES * x, **options)


def test_the_objective_never_falls_and_extrapolation_saves_steps():
    plain, fast = climb(), climb(coordinates=PLAIN)
    for found in (plain, fast):
        assert found.status is StopReason.CONVERGED
        assert (np.diff(found.values) >= 0).all()
        assert len(found.values) == len(found.seconds) == found.n_steps + 1
        assert found.value == -float(found.position @ found.position)
    assert fast.n_steps < plain.n_steps / 4
    assert plain.position[0] == pytest.approx(0.99**plain.n_steps)


def test_an_extrapolation_that_would_lower_the_objective_is_not_taken():
    def far(vector, _):
        return vector + 100.0

    assert np.array_equal(climb(coordinates=Coordinates(lambda x: x, far)).values, climb().values)


def test_steps_that_gain_much_are_not_extrapolated():
    seen = []

    def record(vector, _):
        seen.append(vector)
        return vector

    climb(coordinates=Coordinates(lambda x: x, record), fast_gain=0.0)
    assert not seen
    climb(coordinates=Coordinates(lambda x: x, record), fast_gain=1e-3)
    assert seen


def test_a_callback_stops_and_sees_every_step_and_an_interrupt_keeps_what_was_reached():
    seen = []
    found = climb(callback=lambda x, detail, value: seen.append(value) or len(seen) == 4)
    assert found.status is StopReason.CALLBACK
    assert found.values.tolist() == seen

    def interrupt(x, detail, value):
        if value > -2.0:
            raise KeyboardInterrupt

    found = climb(callback=interrupt)
    assert found.status is StopReason.INTERRUPTED
    assert found.value > -2.0


def test_the_limit_of_steps():
    found = climb(rule=MeanGain(1e-12, 7))
    assert (found.status, found.n_steps) == (StopReason.MAX_SWEEPS, 7)
    assert climb(rule=MeanGain(1e-12, 0)).n_steps == 0


@pytest.mark.parametrize("values", [[np.nan], [np.inf], [-np.inf], [0.0, 1.0, 2.0, np.nan]])
def test_a_value_that_is_not_a_number_ends_the_iteration(values):
    found = iterate(0, lambda k: (None, values[k]), lambda k, _: k + 1, rule=MeanGain(0.0, 100))
    assert (found.status, found.n_steps) == (StopReason.NONFINITE, max(len(values) - 2, 0))


@pytest.mark.parametrize(
    ("values", "may_fall", "end"),
    [([0.0, 1.0, 1.0 - 1e-16], False, 1), ([0.0, 2.0, 1.0, 3.0, 3.0, 3.0], True, 5)],
    ids=["by rounding", "where that is allowed"],
)
def test_a_step_that_falls(values, may_fall, end):
    rule = MeanGain(0.0, 100)
    found = iterate(0, lambda k: (None, values[k]), lambda k, _: k + 1, rule=rule, may_fall=may_fall)
    assert (found.status, found.position) == (StopReason.CONVERGED, end)
    assert found.values.tolist() == values[: end + 1]


def test_a_lifted_position_goes_on():
    lifts = iter([100.0, None])
    found = iterate(
        0.0,
        lambda x: (None, x),
        lambda x, _: x + 2.0**-10 if x >= 100.0 else x / 2.0,
        rule=MeanGain(0.01, 50),
        lift=lambda x, value: next(lifts),
    )
    assert found.status is StopReason.CONVERGED
    assert found.values[3] == 100.0
    assert found.value == 100.0 + 2 * 2.0**-10


def test_extrapolation_of_a_geometric_sequence_is_its_limit(backend, dtype):
    limit, off = np.array([1.0, -2.0]), np.array([0.3, 0.5])
    points = [tensor(limit + 0.9**k * off, dtype) for k in range(3)]
    extrapolation = SquaredExtrapolation(largest_step=100.0)
    assert extrapolation.propose(points[0], points[1]) is None
    # Of second differences of a hundredth of the points, whose rounding is made ten times larger.
    found = to_numpy(extrapolation.propose(points[1], points[2]))
    np.testing.assert_allclose(found, limit, rtol=1e3 * np.finfo(dtype).eps)


def test_extrapolation_is_limited_and_shortened(backend, dtype):
    extrapolation = SquaredExtrapolation()
    points = [tensor([0.99**k], dtype) for k in range(3)]

    def proposal():
        extrapolation.propose(points[0], points[1])
        return float(extrapolation.propose(points[1], points[2])[0])

    steps = [proposal() for _ in range(3)]
    assert 1 > steps[0] > steps[1] > steps[2] > 0  # longer and longer towards the limit, which is zero
    extrapolation.reject()
    assert steps[1] > proposal() == pytest.approx(steps[2], rel=1e3 * float(np.finfo(dtype).eps))


DATA = smp.datasets.make_smooth_mixture("gaussian", n_samples=300, n_variables=4, n_components=2, random_state=1)
X = DATA.X
MARGINALS = smp.count_marginals(smp.encode_samples(X, smp.choose_binning(X, 6)))


def estimator(**parameters):
    return smp.SmoothProductMixture(**{"n_components": 2, "n_bins": 6, "n_init": 3, "random_state": 0, **parameters})


@pytest.fixture
def bars(monkeypatch):
    """Every bar that is shown, with its count at the end."""
    tqdm_auto = pytest.importorskip("tqdm.auto")
    shown = []

    class Recorded(tqdm_auto.tqdm):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **{**kwargs, "file": io.StringIO()})
            shown.append(self)

    monkeypatch.setattr(tqdm_auto, "tqdm", Recorded)
    return shown


def ends(bars):
    """(description, steps done, steps expected) of every bar."""
    return [(bar.desc, bar.n, bar.total) for bar in bars]


# Silence


def test_nothing_is_printed_by_default_and_bars_on_the_error_stream(capfd):
    estimator().fit(X)
    estimator(refine="em").fit(X)
    smp.coupled_simplex_parafac(MARGINALS, 2, random_state=0)
    smp.select_n_components(X, [1, 2], random_state=0, n_init=1)
    assert capfd.readouterr() == ("", "")
    pytest.importorskip("tqdm")
    smp.coupled_simplex_parafac(MARGINALS, 2, random_state=0, verbose=1)
    out, err = capfd.readouterr()
    assert out == ""
    assert "coupled CPD: 100%" in err
    assert "loss=" in err


@pytest.mark.parametrize("function", ["fit", "solver", "refine_em", "select"])
def test_without_tqdm(function, monkeypatch):
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    codes = smp.encode_samples(X, smp.choose_binning(X, 6))
    calls = {
        "fit": lambda: estimator(verbose=1).fit(X),
        "solver": lambda: smp.coupled_simplex_parafac(MARGINALS, 2, verbose=1),
        "refine_em": lambda: smp.refine_em(smp.MixtureFactors([1.0], [np.full((6, 1), 1 / 6)] * 4), codes, verbose=1),
        "select": lambda: smp.select_n_components(X, 2, verbose=1),
    }
    with pytest.raises(MissingDependencyError, match=r"tensorly_smp\[progress\]"):
        calls[function]()


# Counts


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_bars_of_the_solver(bars, n_jobs):
    options = dict(n_init=3, init="random", random_state=0, options=smp.SolverOptions(n_jobs=n_jobs))
    solution = smp.coupled_simplex_parafac(MARGINALS, 2, verbose=1, **options)
    assert ends(bars) == [("coupled CPD", 3, 3)]
    bars.clear()
    counted, options["verbose"] = [], 2
    again = smp.coupled_simplex_parafac(MARGINALS, 2, callback=lambda cp, loss: counted.append(loss), **options)
    assert ends(bars) == [("coupled CPD", 3, 3), ("sweeps", len(counted), None)]
    assert len(counted) >= again.trace.n_sweeps + 3
    np.testing.assert_array_equal(again.trace.loss, solution.trace.loss)
    # Those that go on after the screening count again.
    bars.clear()
    options = dict(n_init=4, tol=1e-9, random_state=0, options=smp.SolverOptions(n_screen=2, n_jobs=n_jobs))
    solution = smp.coupled_simplex_parafac(MARGINALS, 2, verbose=1, **options)
    assert sum(status is StopReason.SCREENED for status in solution.start_statuses) == 2
    assert ends(bars) == [("coupled CPD", 6, 6)]


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_bars_of_the_estimator(bars, n_jobs):
    model = estimator(verbose=2, n_jobs=n_jobs).fit(X)
    found = {bar.desc: (bar.n, bar.total) for bar in bars}
    assert found["search"] == (3, 3)
    followed, expected = found["smoothed EM"]
    assert 1 <= followed == expected <= 3
    assert found["passes"][0] >= model.result_.attrs["n_passes"]
    silent = estimator(n_jobs=n_jobs).fit(X)
    np.testing.assert_array_equal(model.score_samples(X), silent.score_samples(X))
    bars.clear()
    model = estimator(verbose=1, refine="em", n_jobs=n_jobs).fit(X)
    assert [bar.desc for bar in bars] == ["search", "coupled CPD", "EM"]
    assert bars[-1].n == model.result_.attrs["n_passes"] + 1  # the start counts too


def test_bar_of_the_selection(bars):
    smp.select_n_components(X[:100], [1, 2], random_state=0, n_init=1, verbose=1)
    assert ends(bars) == [("selection", 2, 2)]
    bars.clear()
    smp.select_n_components(X[:100], [1, 2], "cv", n_folds=2, random_state=0, n_init=1, verbose=1)
    assert ends(bars) == [("selection", 6, 6)]


def test_a_bar_that_threads_move(bars):
    n_steps = 1600
    with progress_bar(1, "work", n_steps) as bar, ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda step: bar.advance(loss=step), range(n_steps)))
    assert ends(bars) == [("work", n_steps, n_steps)]


def test_levels(bars):
    assert (checked_verbose(False), checked_verbose(True), checked_verbose(2)) == (0, 1, 2)
    with progress_bar(1, "steps", level=2) as bar:
        assert bar is SILENT
        bar.advance(loss=1.0)
        bar.extend(3)
        assert bar.counting(None) is None
        assert bar.counting(len) is len
    assert bars == []


def test_bars_of_dask_and_of_chunked_samples(bars):
    array = pytest.importorskip("dask.array")
    lazy = array.from_array(X, chunks=(100, 4))
    with dask_progress(0, "silent"):
        lazy.sum().compute(scheduler="sync")
    assert bars == []
    with dask_progress(1, "summing"):
        lazy.sum().compute(scheduler="sync")
    assert [(bar.desc, bar.n) for bar in bars] == [("summing", bars[0].total)]
    assert bars[0].total >= 3
    bars.clear()
    model = estimator(verbose=1).fit(lazy)
    assert {"reading samples", "search", "smoothed EM"} <= {bar.desc for bar in bars}
    assert all(bar.n == bar.total for bar in bars)
    bars.clear()
    again = estimator().fit(lazy)
    assert bars == []
    np.testing.assert_array_equal(model.weights_, again.weights_)


# Messages


def messages(caplog):
    assert {(record.name, record.levelno) for record in caplog.records} <= {("tensorly_smp", logging.INFO)}
    return [record.getMessage() for record in caplog.records]


def test_messages_of_the_stages(caplog):
    with caplog.at_level(logging.INFO, "tensorly_smp"):
        model = estimator().fit(np.where(np.arange(4) == 0, np.where(np.arange(300) < 30, np.nan, X[:, 0])[:, None], X))
    samples, solved, refined, fitted = messages(caplog)
    assert samples == "Samples: 300, of 4 variables in 6 to 6 bins; 2.5 % of the entries missing"
    assert solved.startswith("Search: 3 searches on 300 samples, objective ")
    assert refined.startswith(f"Smoothed EM: {model.result_.sizes['candidate']} candidates, number ")
    assert f"after {model.result_.attrs['n_passes']} passes, converged" in refined
    assert fitted.startswith("Fit: 2 components, logspline densities; ")
    assert all(text.endswith(" s") for text in (solved, refined, fitted))


def test_messages_of_em_and_of_the_selection(caplog):
    with caplog.at_level(logging.INFO, "tensorly_smp"):
        smp.select_n_components(X, [1, 2], random_state=0, n_init=1, refine="em")
    texts = messages(caplog)
    assert sum(text.startswith("EM: log-likelihood ") for text in texts) == 2
    assert texts[-1].startswith("Selection: 2 of [1, 2] components by bic; 2 fits, ")
