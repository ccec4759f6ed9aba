"""Numbers that would take all time or memory are refused at once; docs/scaling.md has the limits."""

import re
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

import tensorly_smp as smp
from tensorly_smp._support.checks import MOST, MOST_BINS, MOST_CANDIDATES, MOST_ENTRIES, checked_integer
from tensorly_smp.exceptions import InvalidInputError, SizeLimitError

X = np.random.default_rng(0).normal(size=(60, 4))
HUGE = 10**9
FACTORS = smp.MixtureFactors(np.ones(1), [np.full((3, 1), 1 / 3)] * 3, smp.Binning.from_n_bins([3, 3, 3]))

CALLS = {
    "fit, n_components": lambda: smp.SmoothProductMixture(HUGE).fit(X),
    "fit, n_bins": lambda: smp.SmoothProductMixture(2, n_bins=10**6).fit(X),
    "fit, n_init": lambda: smp.SmoothProductMixture(2, n_init=HUGE).fit(X),
    "fit, n_jobs": lambda: smp.SmoothProductMixture(2, n_jobs=HUGE).fit(X),
    "fit, 20 001 columns": lambda: smp.SmoothProductMixture(2).fit(np.ones((3, 20_001))),
    "fit, 400 digits": lambda: smp.SmoothProductMixture(2, max_iter=10**400).fit(X),
    "fit, 5000 digits": lambda: smp.SmoothProductMixture(10**5000).fit(X),
    "select, a number": lambda: smp.select_n_components(X, HUGE),
    "select, a range": lambda: smp.select_n_components(X, range(1, HUGE)),
    "select, one of them": lambda: smp.select_n_components(X, [1, HUGE]),
    "max_identifiable_rank": lambda: smp.max_identifiable_rank(HUGE, 5),
    "min_bins_for_rank": lambda: smp.min_bins_for_rank(HUGE, 5),
    "check_identifiability": lambda: smp.check_identifiability(n_variables=HUGE, n_bins=3, rank=2),
    "default_partition": lambda: smp.default_partition(HUGE),
    "paper_partition": lambda: smp.paper_partition(HUGE),
    "from_n_bins": lambda: smp.Binning.from_n_bins([HUGE]),
    "from_array": lambda: smp.Codes.from_array([[HUGE], [1]]),
    "choose_binning": lambda: smp.choose_binning(X, 10**6),
    "sample": lambda: smp.reconstruct_density(FACTORS).sample(10**12),
    "make_smooth_mixture": lambda: smp.datasets.make_smooth_mixture("gaussian", 10**12),
    "make_smooth_mixture, variables": lambda: smp.datasets.make_smooth_mixture("gaussian", 10, HUGE),
    "make_smooth_mixture, components": lambda: smp.datasets.make_smooth_mixture("gaussian", 10, 3, HUGE),
    "decompose, rank": lambda: smp.coupled_simplex_parafac(FACTORS.to_marginals(), HUGE),
    "decompose, n_init": lambda: smp.coupled_simplex_parafac(FACTORS.to_marginals(), 1, n_init=HUGE),
    "gevd_start": lambda: smp.gevd_start(FACTORS.to_marginals(), HUGE),
}


@pytest.mark.parametrize("name", CALLS)
def test_numbers_that_run_away_are_refused_beforehand(name):
    tracemalloc.start()
    try:
        with pytest.raises(InvalidInputError) as caught:
            CALLS[name]()
        assert tracemalloc.get_traced_memory()[1] < 128e6  # before anything of that size is made
    finally:
        tracemalloc.stop()
    assert re.search("expected|at most", str(caught.value))
    assert len(str(caught.value)) < 500


def test_limits_are_allowed_and_in_the_docs():
    for name, most in MOST.items():
        assert checked_integer(most, name) == most
        with pytest.raises(SizeLimitError, match=f"{name} is {most + 1}; expected at most {most}"):
            checked_integer(most + 1, name)
    assert checked_integer(2**53, "anything") == 2**53
    with pytest.raises(SizeLimitError):
        checked_integer(-(10**400), "anything")
    # The docs have the limits.
    text = (Path(__file__).parents[1] / "docs" / "scaling.md").read_text(encoding="utf-8")
    table = text[text.index("## Limits") :]
    numbers = {int(number.replace(" ", "")) for number in re.findall(r"\d[\d ]*\d", table)}
    assert {*MOST.values(), MOST_BINS, MOST_CANDIDATES, MOST_ENTRIES} <= numbers
