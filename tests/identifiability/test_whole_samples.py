"""Reports on whole samples, and the order of evidence."""

import importlib
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from oracles import joint_distribution, margins_of, plain_free_directions
from rooms import random_model

import tensorly_smp as smp
from tensorly_smp.identifiability.bounds import KnownMarginals, max_identifiable_rank
from tensorly_smp.identifiability.criteria import GENERIC, OPEN, UNIQUE, ReportLine, Strength, not_identifiable, overall
from tensorly_smp.identifiability.jacobian import LocalIdentifiability
from tensorly_smp.identifiability.likeness import identifiability_issues

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
uniqueness = importlib.import_module("uniqueness")


# ---- latent classes of binary items ----


@pytest.mark.parametrize(("n_items", "rank"), [(3, 2), (4, 2), (5, 4), (6, 5), (10, 17)])
def test_classes_of_binary_items(n_items, rank):
    assert max_identifiable_rank(n_items, 2, "joint") == rank
    report = smp.check_identifiability(n_items, 2, rank, known="samples")
    assert (report.verdict, report.n_free_directions) == (GENERIC, 0)
    at_model = smp.check_identifiability(random_model([2] * n_items, rank), known="samples")
    assert at_model.verdict == at_model["joint"].verdict == at_model["jacobian"].verdict == UNIQUE


@pytest.fixture(scope="module")
def four_items():
    rng = np.random.default_rng(0)
    probabilities = np.array([[0.9, 0.2, 0.6], [0.8, 0.3, 0.1], [0.15, 0.85, 0.5], [0.7, 0.1, 0.4]])
    return (rng.random((500, 4)) < probabilities[:, rng.integers(3, size=500)].T).astype(float)


@pytest.mark.filterwarnings("ignore::tensorly_smp.exceptions.TensorlySmpWarning")
def test_four_items_and_three_classes_leave_one_direction(four_items):
    for report in (
        smp.check_identifiability(4, 2, 3, known="samples"),
        smp.check_identifiability(random_model([2] * 4, 3), known="samples"),
        smp.SmoothProductMixture(3, refine="em", n_bins=2, n_init=1, random_state=0).fit(four_items).identifiability_,
    ):
        assert report.verdict == "not identifiable: 1 free direction"
        assert report["counting"].verdict == ""


def test_fourteen_classes_of_nine_items():
    assert smp.check_identifiability(9, 2, 14).verdict == "not identifiable: 10 free directions"
    report = smp.check_identifiability(9, 2, 14, known="samples")
    assert report.verdict == report["joint-bound"].verdict == GENERIC
    assert report.max_ranks["joint"] == 16
    assert report.grouping is not None
    assert [stack.rank for stack in report.products] == [min(14, 2 ** len(group)) for group in report.grouping]
    assert "whole samples known" in repr(report).splitlines()[0]
    assert "whole samples known" in report.summary()


# ---- what is known ----


def test_positions_names_and_marginals_are_read_alike():
    by_name = smp.check_identifiability(n_variables=4, n_bins=3, rank=5)
    assert smp.check_identifiability(4, 3, 5).verdict == by_name.verdict
    assert repr(smp.check_identifiability(4, [3, 3, 3, 3], rank=5)) == repr(by_name)
    marginals = random_model([3] * 4, 2).to_marginals()
    assert smp.check_identifiability(marginals, rank=5).verdict == by_name.verdict
    with pytest.raises(smp.exceptions.InvalidInputError, match=r"leave \['n_bins'\] out"):
        smp.check_identifiability(marginals, 3, 5)


def test_patterns_link_or_do_not_link():
    model = random_model([3] * 6, 3)
    chain = np.array([[1, 1, 1, 1, 0, 0], [0, 0, 1, 1, 1, 1]], dtype=bool)
    apart = np.array([[1, 1, 1, 0, 0, 0], [0, 0, 0, 1, 1, 1]], dtype=bool)
    assert smp.check_identifiability(model, patterns=chain).verdict == UNIQUE
    report = smp.check_identifiability(model, patterns=apart)
    assert (report.verdict, report.n_free_directions) == (OPEN, 0)
    assert report.known.name == "samples"
    assert "do not follow" in str(report)
    assert smp.check_identifiability(6, 3, 3, patterns=chain).verdict == GENERIC
    assert smp.check_identifiability(6, 3, 3, patterns=apart).verdict == OPEN
    # Samples with a complete one among them are whole samples.
    whole = smp.check_identifiability(model, patterns=np.vstack([apart, np.ones(6, dtype=bool)]))
    assert whole.known.describe() == "whole samples known"


def test_given_groups():
    model = random_model([2] * 5, 4)
    report = smp.check_identifiability(model, known="samples", partition=[[0, 1], [2, 3], [4]])
    assert report["joint"].verdict == UNIQUE
    assert tuple(report.grouping) == ((0, 1), (2, 3), (4,))
    blind = smp.check_identifiability(model, known="samples", partition=[[0], [1], [2, 3, 4]])
    assert blind["joint"].verdict == OPEN


def test_hundreds_of_variables():
    report = smp.check_identifiability(random_model([15] * 400, 10), known="samples")
    assert report.verdict == report["joint"].verdict == UNIQUE
    sizes_only = smp.check_identifiability(1000, 15, 6900, known="samples")
    assert sizes_only.verdict == GENERIC
    assert max(map(len, str(sizes_only).splitlines())) <= 100
    assert sizes_only.max_ranks["joint"] == max_identifiable_rank(1000, 15, "joint") > 15**499


@pytest.mark.parametrize(("refine", "known"), [(None, "triples"), ("em", "samples"), ("smooth", "samples")])
def test_a_fit_is_judged_by_what_made_it(refine, known):
    X = smp.datasets.make_smooth_mixture("gaussian", 400, n_variables=4, n_components=2, random_state=0).X
    model = smp.SmoothProductMixture(2, refine=refine, n_bins=6, n_init=1, random_state=0).fit(X)
    report = model.identifiability_
    assert report.known.name == known
    assert report.is_unique
    assert ("densities" in report.to_dataframe().index) == (refine == "smooth")
    assert smp.check_identifiability(model).verdict == report.verdict
    assert smp.check_identifiability(model.result_, known="triples").known.name == "triples"
    assert smp.check_identifiability(model, triples=3).n_triples == 3
    assert smp.check_identifiability(model.factors_).known.name == "triples"


def test_missing_entries_are_recorded_where_no_sample_is_complete(tmp_path):
    X = smp.datasets.make_smooth_mixture("gaussian", 600, n_variables=5, n_components=2, random_state=0).X
    X[np.arange(600), np.arange(600) % 5] = np.nan
    model = smp.SmoothProductMixture(2, n_init=1, random_state=0).fit(X)
    assert model.result_.patterns.shape == (5, 5)
    report = model.identifiability_
    assert report.known.describe() == "samples known in 5 patterns of 4 variables"
    assert report.is_unique
    model.save(tmp_path / "fit.nc")
    assert smp.load(tmp_path / "fit.nc").identifiability_.verdict == report.verdict


def test_densities_count_as_independent_only_beyond_noise():
    X = smp.datasets.make_smooth_mixture("gaussian", 400, n_variables=4, n_components=2, random_state=0).X
    result = smp.SmoothProductMixture(2, n_init=1, random_state=0).fit(X).result_
    line = smp.check_identifiability(result)["densities"]
    assert line.verdict == UNIQUE
    assert "tolerance 0.05" in line.value
    # Two components with the same splines: independent of each other only by rounding.
    alike = result.assign(spline=result.spline.where(result.component == 0, result.spline.isel(component=0) + 1e-6))
    line = smp.check_identifiability(alike)["densities"]
    assert line.verdict == OPEN


@pytest.mark.parametrize(("refine", "n_bins"), [("smooth", 2), ("smooth", 15), ("em", 2), (None, 2)])
@pytest.mark.filterwarnings("ignore::tensorly_smp.exceptions.TensorlySmpWarning")
def test_components_that_are_equal_in_one_of_three_variables_are_not_proved_unique(refine, n_bins):
    rng = np.random.default_rng(5)
    z = rng.integers(3, size=400)
    X = rng.normal(size=(400, 3)) + 5 * np.array([[0, 0, 1], [0, 1, 2], [0, 2, 1]]).T[z]
    report = smp.SmoothProductMixture(3, refine=refine, n_bins=n_bins, random_state=0).fit(X).identifiability_
    (first,) = (stack for stack in report.stacked if 0 in stack.variables)
    assert (first.variables, first.k_rank) == ((0,), 1)
    assert not report.is_unique
    assert report["distinct"].value == "2 or more variables"
    assert "within the uncertainty of its 400 samples" in " ".join(str(report).split())


@pytest.mark.filterwarnings("ignore::tensorly_smp.exceptions.TensorlySmpWarning")
def test_patterns_with_counts_are_as_many_samples_as_their_rows(four_items):
    patterns, counts = np.unique(four_items, axis=0, return_counts=True)
    model = smp.SmoothProductMixture(2, n_init=1, random_state=0).fit(patterns, sample_weight=counts)
    assert "within the uncertainty of its 500 samples" in " ".join(str(model.identifiability_).split())


def test_directions_of_a_fit_are_free_to_rounding_and_settled_beyond_noise():
    X = smp.datasets.make_smooth_mixture("gaussian", 400, n_variables=4, n_components=2, random_state=0).X
    result = smp.SmoothProductMixture(2, refine="em", n_bins=6, n_init=1, random_state=0).fit(X).result_
    first, second = (result.factors.isel(component=r) for r in range(2))
    for share, verdict, n_free in ((0.0, not_identifiable(1 + 4 * 5), 1 + 4 * 5), (0.02, OPEN, None)):
        alike = first + share * (second - first)
        report = smp.check_identifiability(result.assign(factors=result.factors.where(result.component == 0, alike)))
        assert (report.verdict, report.n_free_directions) == (verdict, n_free)
        assert report["distinct"].value == "0 or more variables"


# ---- warnings of fits ----


def test_warnings_go_by_what_is_known():
    assert "at least 10 directions" in identifiability_issues(random_model([2] * 9, 14))[0]
    samples = KnownMarginals.of_samples(9)
    assert identifiability_issues(random_model([2] * 9, 14), samples) == []
    assert "40 components are more than 16" in identifiability_issues(random_model([2] * 9, 40), samples)[0]
    assert "at least 4 directions" in identifiability_issues(random_model([2] * 4, 4), KnownMarginals.of_samples(4))[0]
    # Fine cells say more than bins.
    fine = random_model([50] * 3, 4).factors
    assert identifiability_issues(random_model([2] * 3, 4), KnownMarginals.of_samples(3), fine) == []
    apart = np.array([[1, 1, 1, 0, 0, 0], [0, 0, 0, 1, 1, 1]], dtype=bool)
    (issue,) = identifiability_issues(random_model([3] * 6, 2), KnownMarginals.of_samples(6, apart))
    assert "2 groups" in issue
    linked = KnownMarginals.of_samples(6, apart | [True, False, False, False, True, False])
    assert identifiability_issues(random_model([3] * 6, 2), linked) == []


def test_a_latent_class_fit_does_not_warn():
    rng = np.random.default_rng(0)
    items = rng.uniform(0.05, 0.95, (9, 6))
    z = rng.integers(6, size=3000)
    X = (rng.random((3000, 9)) < items[:, z].T).astype(float)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", smp.exceptions.AlgebraicStartWarning)  # triples allow five classes only
        model = smp.SmoothProductMixture(6, random_state=0).fit(X)
    assert model.identifiability_.verdict == UNIQUE


# ---- order of evidence ----


def line(key, verdict, strength, n_free=0):
    return ReportLine(key, key, "", "", verdict, n_free, strength)


def test_the_strongest_line_decides():
    bound = line("bound", GENERIC, Strength.GENERIC)
    rounding = line("jacobian", not_identifiable(3), Strength.NUMERICAL, 3)
    refuted = line("distinct", not_identifiable(2), Strength.REFUTED, 2)
    proof = line("kruskal", UNIQUE, Strength.PROVED)
    info = line("set", OPEN, Strength.INFORMS)
    assert overall([info]) == OPEN
    assert overall([info, bound]) == GENERIC
    assert overall([bound, rounding]) == not_identifiable(3)
    assert overall([bound, refuted]) == not_identifiable(2)
    assert overall([rounding, refuted]) == not_identifiable(3)
    assert overall([bound, rounding, refuted, proof]) == UNIQUE
    assert list(Strength) == sorted(Strength)


@pytest.mark.parametrize("known", ["triples", "samples"])
def test_rounding_never_outranks_a_proof(known):
    rng = np.random.default_rng(0)
    weights = np.array([1e-6, *np.full(7, (1 - 1e-6) / 7)])
    model = smp.MixtureFactors(weights, [rng.dirichlet(np.ones(12), size=8).T for _ in range(10)])
    report = smp.check_identifiability(model, known=known)
    assert (report.verdict, report.n_free_directions, report.local.n_free_directions) == (UNIQUE, 0, 0)
    assert report.local.singular_values[-1] > 0.01
    assert smp.check_identifiability(model, known=known, max_parameters=0).verdict == UNIQUE


def test_a_wrong_rank_is_outranked(monkeypatch):
    wrong = LocalIdentifiability(np.array([1.0] * 30 + [0.0] * 5), 1e-10)
    monkeypatch.setattr("tensorly_smp.identifiability.criteria.local_identifiability", lambda *a, **k: wrong)
    report = smp.check_identifiability(random_model([4] * 4, 3))
    assert (report.verdict, report.n_free_directions) == (UNIQUE, 0)
    assert report["jacobian"].verdict == ""
    assert "a proof outranks it" in " ".join(str(report).split())
    # Of sizes, a bound is a proof.
    assert smp.check_identifiability(4, 4, 3).verdict == GENERIC


def test_unsettled_ranks_say_nothing(monkeypatch):
    monkeypatch.setattr("tensorly_smp.identifiability.jacobian._AGAIN_OPERATIONS", 0)
    model = random_model([8, 8, 8], 17)
    factors = [a.copy() for a in model.factors]
    for factor in factors[:2]:
        factor[:, 1] = 0.9999999 * factor[:, 0] + 0.0000001 * factor[:, 1]
    report = smp.check_identifiability(smp.MixtureFactors(model.weights, factors))
    assert not report.local.is_decided
    assert report.verdict == OPEN
    assert report.n_free_directions is None
    assert "cannot be told from zero" in " ".join(str(report).split())


@pytest.mark.parametrize("known", ["triples", "samples"])
@pytest.mark.parametrize("zero", [0.0, 0.1])
def test_with_zeros_a_verdict_on_free_directions_holds_up_to_signs(known, zero):
    factors = [np.array([[zero, 0.5], [1 - zero, 0.5]]), np.array([[0.3, 0.6], [0.7, 0.4]]), np.full((2, 2), 0.5)]
    report = smp.check_identifiability(smp.MixtureFactors(np.array([0.4, 0.6]), factors), known=known)
    assert report.verdict == not_identifiable(2)
    assert ("up to signs" in " ".join(str(report).split())) == (zero == 0)


def test_almost_every_model_does_not_speak_for_one_whose_factor_occurs_twice():
    rng = np.random.default_rng(0)
    factors = [rng.dirichlet(np.ones(4), size=6).T for _ in range(4)]
    triples = [(0, 1, 2), (1, 2, 3)]
    usual = smp.check_identifiability(smp.MixtureFactors(np.full(6, 1 / 6), factors), triples=triples)
    assert usual.verdict == UNIQUE
    factors[3] = factors[0]
    report = smp.check_identifiability(smp.MixtureFactors(np.full(6, 1 / 6), factors), triples=triples)
    assert (report.verdict, report["kruskal-bound"].verdict) == (OPEN, "withdrawn: special factors")
    assert "Stacked, the factors of x0, x3 have rank 4" in " ".join(str(report).split())


# ---- against plain loops, and against other models ----


@pytest.mark.parametrize("seed", range(3))
def test_random_models_of_all_kinds(seed):
    rng = np.random.default_rng(seed)
    _, model, triples, patterns = uniqueness.random_problem(rng)
    for options in ({"known": "triples", "triples": triples}, {"known": "samples", "patterns": patterns}):
        report = smp.check_identifiability(model, **options)
        free = plain_free_directions(model.weights, model.factors, margins_of(report.known))
        assert report.local.n_free_directions == free
        assert report.verdict != UNIQUE or report.n_free_directions == 0
        if report.verdict == UNIQUE:
            assert uniqueness.another_model(model, margins_of(report.known), 1, rng)[1] == 0


def test_the_search_finds_other_models_where_there_are_some():
    model = random_model([3, 3, 3], 3)
    expected = sum(model.weights[r] * joint_distribution(model.factors, (0, 1, 2), r) for r in range(3))
    found = uniqueness.distributions(model.weights, model.factors, [(0, 1, 2)])
    np.testing.assert_allclose(found, expected.ravel(), atol=1e-15)
    factors = [a.copy() for a in model.factors]
    factors[0][:, 1] = factors[0][:, 0]
    model = smp.MixtureFactors(model.weights, factors)
    assert uniqueness.another_model(model, [(0, 1, 2)], 3, np.random.default_rng(0))[1] > 0
