"""Candidates of a fit: where they come from, which go on, and what is recorded of them."""

import numpy as np
import pytest

import tensorly_smp as smp
from tensorly_smp.fitting.candidates import refine_candidates
from tensorly_smp.fitting.fit_samples import in_memory
from tensorly_smp.fitting.stages import binned_factors, searched_starts
from tensorly_smp.likelihood.cells import choose_cells, curved_cells
from tensorly_smp.likelihood.comparison import Candidate
from tensorly_smp.search.coarse import SearchSamples
from tensorly_smp.search.search import search

RANK = 3


def problem(n_samples=600, kind="gaussian"):
    X, labels, _ = smp.datasets.make_smooth_mixture(kind, n_samples, 5, RANK, random_state=0)
    samples = in_memory(X, smp.choose_binning(X, n_bins=8), None)
    return samples, labels, choose_cells(X, RANK)


def searched(samples, n_init):
    found = search(SearchSamples(samples.values, samples.weights, (), RANK), RANK, n_init, 0, None, 0)
    return searched_starts(samples, found)


def blurred(labels, share, seed=1):
    rng = np.random.default_rng(seed)
    return np.eye(RANK)[np.where(rng.random(len(labels)) < share, labels, rng.integers(RANK, size=len(labels)))]


def test_the_candidate_with_the_highest_criterion_is_kept():
    samples, labels, cells = problem()
    candidates = [Candidate(blurred(labels, share), "given", 0) for share in (0.2, 1.0, 0.3)]
    found, best = refine_candidates(samples, candidates, cells)
    assert len(found) == 3
    assert best is found[best.number]
    assert best.criterion == best.fit.akaike == np.nanmax([each.criterion for each in found])
    assert all(each.fit is None for each in candidates)  # those of the caller stay as they are
    assert smp.metrics.clustering_accuracy(labels, best.clusters) > 0.98


@pytest.mark.parametrize("kind", ["gmm", "laplace"])
def test_more_starts_never_end_lower(kind):
    samples, labels, cells = problem(300, kind)
    others = curved_cells(cells, samples.values, RANK)
    candidates = [Candidate(blurred(labels, 0.5, seed), "search", seed) for seed in range(3)]
    ends = [refine_candidates(samples, candidates[: n + 1], cells, others)[1].criterion for n in range(3)]
    assert ends == sorted(ends)


def test_a_fit_that_is_tried_again_ends_no_lower_and_a_given_start_is_not_tried_again(monkeypatch):
    samples, labels, cells = problem(300, "gmm")
    others = curved_cells(cells, samples.values, RANK)
    ends = {}
    for origin in ("search", "given"):
        for many in (0, np.inf):
            monkeypatch.setattr("tensorly_smp.fitting.candidates.MANY_SAMPLES", many)
            monkeypatch.setattr("tensorly_smp.fitting.candidates.rival_moves", lambda *_: [])
            start = Candidate(blurred(labels, 0.5), origin)
            ends[origin, many] = refine_candidates(samples, [start], cells, others)[1].criterion
    assert ends["search", np.inf] > ends["search", 0] == ends["given", 0] == ends["given", np.inf]


def test_binned_factors_are_weighted_histograms():
    samples, labels, _ = problem(200)
    weights = np.random.default_rng(0).integers(0, 3, 200).astype(float)
    posterior = blurred(labels, 0.7)
    found = binned_factors(samples.codes, posterior, weights)
    owned = posterior * weights[:, None]
    for n, table in enumerate(found.factors):
        counts = np.array([[owned[samples.codes.values[:, n] == i, r].sum() for r in range(RANK)] for i in range(8)])
        np.testing.assert_allclose(table, (counts + 0.1) / (counts + 0.1).sum(axis=0))
    np.testing.assert_allclose(found.weights, owned.sum(axis=0) / owned.sum())


def test_searches_are_recorded_each_in_its_own_stream():
    samples, _, _ = problem(300, "gmm")
    one, three = (searched(samples, n) for n in (1, 3))
    assert np.array_equal(one.traces[0].loss, three.traces[0].loss)
    assert len(three.traces) == 3
    assert all((np.diff(trace.loss) <= 0).all() for trace in three.traces)
    assert one.candidates[0].start == 0
    assert np.array_equal(one.candidates[0].posterior, three.candidates[0].posterior)
    assert {candidate.origin for candidate in three.candidates} == {"search"}


@pytest.mark.parametrize("refine", ["smooth", "em", None])
def test_the_default_start_is_the_search(refine):
    X, labels, _ = smp.datasets.make_smooth_mixture("gaussian", 500, 5, RANK, random_state=0)
    model = smp.SmoothProductMixture(RANK, refine=refine, random_state=0).fit(X)
    assert model.init == "auto"
    assert smp.metrics.clustering_accuracy(labels, model.labels_) > 0.98
    assert model.result_.sizes["start"] == 1
    expected = {"smooth": "search", "em": "kl", None: "kl"}[refine]
    assert model.result_.attrs["loss_name"] == expected
    if refine == "smooth":
        assert model.result_.candidate_origin.values.tolist()[0] == "search"
        assert model.result_.candidate_agreement[model.result_.attrs["best_candidate"]] == 1.0
        assert model.n_iter_ == model.result_.attrs["n_passes"] > 0


@pytest.mark.parametrize("init", ["gevd", "random"])
def test_other_starts_are_of_the_coupled_decomposition(init):
    X = smp.datasets.make_smooth_mixture("gaussian", 500, 5, RANK, random_state=0).X
    result = smp.SmoothProductMixture(RANK, init=init, random_state=0).fit(X).result_
    assert result.sizes["start"] == 5
    assert set(result.candidate_origin.values) == {init}
    assert result.attrs["loss_name"] == "kl"


@pytest.mark.parametrize("refine", ["smooth", None])
def test_order_and_signs_of_rows_and_variables_change_nothing(refine):
    X, _, _ = smp.datasets.make_smooth_mixture("gmm", 500, 5, RANK, random_state=3)
    rng = np.random.default_rng(0)
    rows, variables = rng.permutation(500), rng.permutation(5)
    options = dict(refine=refine, random_state=0, binning="uniform")
    if refine is None:
        options |= dict(density="histogram")
    plain = smp.SmoothProductMixture(RANK, **options).fit(X)
    for moved in (X[rows], X[:, variables], -X):
        other = smp.SmoothProductMixture(RANK, **options).fit(moved)
        if refine == "smooth":
            found, expected = (float(np.nanmax(m.result_.start_criterion)) for m in (other, plain))
        else:
            found, expected = float(other.result_.loss[-1]), float(plain.result_.loss[-1])
        assert found == pytest.approx(expected, abs=0.05 if refine else 1e-4)


def test_a_callback_of_the_caller_sees_histograms_before_every_pass():
    X, _, _ = smp.datasets.make_smooth_mixture("gaussian", 400, 4, 2, random_state=0)
    seen = []

    def callback(cp_tensor, loss):
        _, factors = cp_tensor
        assert [table.shape for table in factors] == [(15, 2)] * 4
        seen.append(loss)

    model = smp.SmoothProductMixture(2, random_state=0, callback=callback).fit(X)
    assert len(seen) >= model.n_iter_
    assert np.isfinite(seen).all()
