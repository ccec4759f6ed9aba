import numpy as np
import pytest
from rooms import nearly_equal, random_model
from scipy import stats

from tensorly_smp.factors.mixture_factors import MixtureFactors
from tensorly_smp.identifiability.bounds import KnownMarginals, n_parameters
from tensorly_smp.identifiability.likeness import (
    PARALLEL_COSINE,
    describe_pair,
    identifiability_issues,
    nearly_parallel_pairs,
)
from tensorly_smp.marginals.triples import symmetric_sums


def test_counts():
    assert n_parameters([2, 2, 2], 3) == 2 + 9
    assert KnownMarginals.of_triples(3).n_independent_cells([2, 2, 2]) == 7
    assert symmetric_sums([2, 3, 5]) == (10, 31, 30)


def test_nothing_to_say():
    assert identifiability_issues(random_model([15] * 10, 10)) == []
    some = KnownMarginals.of_triples(4, np.array([(0, 1, 2), (1, 2, 3)]))
    assert identifiability_issues(random_model([3, 4, 9, 5], 5), some) == []
    linked = KnownMarginals.of_triples(6, np.array([(0, 1, 2), (2, 3, 4), (3, 4, 5)]))
    assert identifiability_issues(random_model([4] * 6, 2), linked) == []


def test_rank_above_what_sizes_allow_and_groups_that_no_triple_links():
    assert "at least 4 directions stay free" in identifiability_issues(random_model([2, 2, 2], 3))[0]
    assert "at least 1 direction stays free" in identifiability_issues(random_model([3, 3, 3], 4))[0]
    (issue,) = identifiability_issues(random_model([3] * 5, 9))
    assert "9 components are more than 5" in issue
    apart = KnownMarginals.of_triples(6, np.array([(0, 1, 2), (3, 4, 5)]))
    rank, groups = identifiability_issues(random_model([4] * 6, 6), apart)
    assert "6 components are more than" in rank
    assert "2 groups" in groups
    assert identifiability_issues(random_model([4] * 6, 2), apart) == [groups]


@pytest.mark.parametrize("n_apart", [0, 1, 2, 3])
def test_near_degenerate_components(n_apart):
    model = nearly_equal(random_model([8] * 6, 3), 0, 2, range(n_apart, 6))
    concerns = identifiability_issues(model)
    assert len(concerns) == (n_apart <= 2)
    if concerns:
        assert concerns[0].startswith("Components 0 and 2 are nearly equal in all ")
        assert all(f"x{n}" in concerns[0] for n in range(n_apart))


def test_empty_components_are_no_concern_of_this_function():
    model = nearly_equal(random_model([8] * 6, 3), 0, 1, range(6))
    model = MixtureFactors(np.array([1.0, 0.0, 0.0]), model.factors)
    assert identifiability_issues(model) == []
    # Numbers of components are those of the model, not of what is left of it.
    factors = nearly_equal(random_model([8] * 6, 3), 1, 2, range(6), share=1e-4).factors
    for fine in (None, factors):
        (issue,) = identifiability_issues(MixtureFactors(np.array([0.0, 0.5, 0.5]), factors), fine=fine)
        assert issue.startswith("Components 1 and 2")


def test_many_pairs_are_counted():
    model = random_model([8] * 4, 5)
    for second in range(1, 5):
        model = nearly_equal(model, 0, second, range(4), share=0.001)
    concerns = identifiability_issues(model)
    assert len(concerns) == 4
    assert concerns[-1].startswith("7 more pairs")


def gaussians(shift, edges):
    """Cells of two unit Gaussians, at 0 and at `shift`."""
    columns = np.stack([np.diff(stats.norm.cdf(edges, center)) for center in (0.0, shift)], axis=1)
    return columns / columns.sum(axis=0)


@pytest.mark.parametrize(("cosine", "expected"), [(PARALLEL_COSINE + 1e-3, 1), (PARALLEL_COSINE - 1e-3, 0)])
@pytest.mark.parametrize("edges", [np.linspace(-9, 9, 500), np.sinh(np.linspace(-3, 3, 900)), np.linspace(-9, 9, 5000)])
def test_threshold_of_fine_cells_is_that_of_densities_whatever_the_cells(cosine, expected, edges):
    # exp(-shift^2/4) is the cosine of the densities.
    fine = [gaussians(2 * np.sqrt(-np.log(cosine)), edges)] * 4
    model = MixtureFactors(np.array([0.5, 0.5]), random_model([15] * 4, 2).factors)
    assert len(identifiability_issues(model, fine=fine)) == expected
    assert identifiability_issues(model) == []


@pytest.mark.parametrize("n_variables", [3, 6])
def test_groups_that_two_variables_separate_get_no_advice(n_variables):
    edges = np.linspace(-9, 18, 300)
    near, far, same = (gaussians(shift, edges) for shift in (1.0, 8.0, 0.0))
    model = MixtureFactors(np.array([0.5, 0.5]), random_model([15] * n_variables, 2).factors)

    def issues(first, second):
        return identifiability_issues(model, fine=[first, second, *[same] * (n_variables - 2)])

    assert issues(far, far) == []
    for others in ((near, near), (far, same), (near, same)):  # of (far, same), one component of two peaks is as good
        (issue,) = issues(*others)
        assert "Use fewer components" in issue
    note = describe_pair(*nearly_parallel_pairs([far, far, same]), "abc")
    assert note == "Components 0 and 1 are equal in all variables but a and b."


def test_fine_cells_decide_which_components_are_alike():
    equal = np.repeat(random_model([15], 1).factors[0], 2, axis=1)
    model, apart = MixtureFactors(np.array([0.5, 0.5]), [equal] * 4), random_model([700] * 4, 2).factors
    (issue,) = identifiability_issues(model)
    assert "equal in all 4 variables" in issue
    assert identifiability_issues(model, fine=apart) == []
    (issue,) = identifiability_issues(model, fine=[*apart[:2], equal, equal])
    assert "equal in all variables but x0 and x1" in issue
    # Sizes are judged by the bins, whatever the cells are.
    small = random_model([2, 2, 2], 3)
    (issue,) = identifiability_issues(small, fine=random_model([99] * 3, 3).factors)
    assert issue == identifiability_issues(small)[0]
    assert "at least 4 directions" in issue
