"""Several starts, refined and compared: what many samples save, and that it changes nothing else."""

import numpy as np
import pytest

import tensorly_smp as smp
from tensorly_smp.decomposition import (
    MANY_PER_COMPONENT,
    START_SWEEPS,
    START_SWEEPS_OF_MANY_SAMPLES,
    Decomposition,
    are_many,
)
from tensorly_smp.fit_samples import SamplesInMemory
from tensorly_smp.likelihood.cells import lay_cells
from tensorly_smp.multistart import N_KEPT, refine_starts

RANK, FEW = 3, 600
MANY = int(MANY_PER_COMPONENT) * RANK


def settings(total_weight, **changes):
    options = dict(loss="auto", init="gevd", n_init="auto", is_start=True, max_iter=1000, tol=1e-6) | changes
    shared = dict(n_jobs=None, random_state=0, callback=None, verbose=0)
    return Decomposition(RANK, "all", **options, **shared).settings((6, 6, 6), total_weight)


def test_sweeps_are_few_and_in_single_precision_for_starts_from_many_samples_only():
    assert are_many(MANY, RANK)
    assert not are_many(MANY - 1, RANK)
    short = settings(MANY)
    assert (short["n_iter_max"], short["options"].dtype) == (START_SWEEPS_OF_MANY_SAMPLES, "float32")
    for other in (settings(MANY - 1), settings(MANY, loss="frobenius")):
        assert (other["n_iter_max"], other["options"].dtype) == (START_SWEEPS, None)
    whole = settings(MANY, is_start=False)
    assert (whole["n_iter_max"], whole["options"].dtype) == (1000, None)
    assert settings(MANY, max_iter=2)["n_iter_max"] == 2


def problem(n_samples):
    """Samples in bins, cells, the factors of the true labels, and others that are hardly better than chance."""
    X, labels, _ = smp.datasets.make_smooth_mixture("gaussian", n_samples, 5, RANK, random_state=0)
    codes = smp.encode_samples(X, smp.choose_binning(X, n_bins=8))
    rng = np.random.default_rng(1)

    def factors(share):
        drawn = np.where(rng.random(n_samples) < share, labels, rng.integers(RANK, size=n_samples))
        of = np.eye(RANK)[drawn]
        columns = [np.eye(8)[codes.values[:, n]].T @ of / of.sum(axis=0) for n in range(5)]
        return smp.MixtureFactors(of.mean(axis=0), tuple(columns))

    samples = SamplesInMemory(X, codes, None)
    return samples, lay_cells(X, RANK, codes.binning.edges), [factors(1.0), factors(0.25), factors(0.15)]


def test_of_many_samples_starts_that_come_to_agree_are_followed_once():
    samples, cells, starts = problem(MANY)
    assert len(samples.distinct(samples.posteriors(starts))) > 1
    refined = refine_starts(samples, starts, cells)
    assert np.isfinite(refined.criteria).sum() == 1
    assert refined.criteria[refined.best] == refined.fit.information
    alone = refine_starts(samples, [starts[refined.best]], cells)
    assert refined.fit.information == pytest.approx(alone.fit.information, abs=0.5)


def test_of_few_samples_as_many_as_go_on_are_followed_to_their_end_without_comparing():
    samples, cells, starts = problem(FEW)
    assert len(samples.distinct(samples.posteriors(starts[:N_KEPT]))) == N_KEPT
    refined = refine_starts(samples, starts[:N_KEPT], cells)
    each = [refine_starts(samples, [start], cells).fit.information for start in starts[:N_KEPT]]
    assert refined.criteria.tolist() == each
    assert refined.best == np.argmax(each)


@pytest.mark.parametrize("n_samples", [FEW, MANY])
def test_number_of_jobs_changes_nothing(n_samples):
    samples, cells, starts = problem(n_samples)
    one, two = (refine_starts(samples, starts, cells, n_jobs=n_jobs) for n_jobs in (1, 2))
    assert one.best == two.best
    assert np.array_equal(one.criteria, two.criteria, equal_nan=True)
    assert np.array_equal(one.fit.posterior, two.fit.posterior)


def test_without_passes_nothing_is_learned_and_the_best_start_is_kept():
    samples, cells, starts = problem(MANY)
    refined = refine_starts(samples, starts, cells, n_iter_max=0)
    assert refined.fit.n_passes == 0
    assert refined.best == 0
