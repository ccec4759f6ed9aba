"""All triples of samples, in one of two forms: counted as histograms, or implicit, as sums over samples."""

from __future__ import annotations

from dataclasses import replace
from math import comb
from typing import Any

import numpy as np
import tensorly as tl

from tensorly_smp.codes.encoding import Codes
from tensorly_smp.exceptions import InvalidInputError, SizeLimitError
from tensorly_smp.factors.coupled import CoupledTensors, check_weights, couple_marginals
from tensorly_smp.factors.implicit import CoupledCodes, couple_codes, distinct_patterns
from tensorly_smp.marginals.histograms import BYTES_PER_TRIPLE, count_marginals
from tensorly_smp.marginals.triples import cells_of_all_triples

FORMS = ("auto", "counted", "implicit")
#: Size of the histograms of all triples above which they are not counted, in bytes.
MOST_BYTES = 1e9
#: Nanoseconds of a sweep, see ``benchmarks/bench_implicit.py``. Counted: per column of an unfolding and component, and
#: for each of its bins. Implicit: per entry and component, per Gram entry of a pattern, and per variable.
COLUMN = 4.1
COLUMN_BIN = 0.06
ENTRY = 6.5
PATTERN = 2.0
VARIABLE = 8e4


def couple_samples(
    codes: Codes,
    rank: int,
    loss: str,
    weights: str,
    form: str,
    sample_weight: Any,
    context: dict[str, Any] | None = None,
) -> CoupledTensors | CoupledCodes:
    """All triples of some samples, counted or implicit.

    Parameters
    ----------
    codes : Codes
    rank : int
    loss : {"kl", "frobenius"}
    weights : {"count", "uniform"}
    form : {"auto", "counted", "implicit"}
    sample_weight : array_like (n_samples,) or None
    context : dict, optional
        Of :func:`checked_context`; by default float64 on the backend's own device.

    Raises
    ------
    SizeLimitError
        The histograms have to be counted but take more than 1 GB.
    InvalidInputError
        The implicit form does not have this loss, these weights, or this backend.
    """
    check_weights(weights)
    # The same weights where all samples are in all triples.
    by_count = weights == "count" or bool((codes.values >= 0).all())
    if form == "implicit" and loss != "frobenius":
        raise InvalidInputError(f'histograms is "implicit" with loss="{loss}"; expected loss="frobenius".')
    if form == "implicit" and not by_count:
        raise InvalidInputError(
            'weights is "uniform" with missing entries; in the implicit form a triple counts by its samples. Expected '
            'weights="count", or histograms="counted".'
        )
    if form == "implicit" and tl.get_backend() != "numpy":
        raise InvalidInputError(
            f'histograms is "implicit" with the backend "{tl.get_backend()}"; sums over samples are for NumPy alone. '
            'Expected histograms="counted", or tensorly.set_backend("numpy").'
        )
    if form == "auto":
        can_be_implicit = loss == "frobenius" and by_count and tl.get_backend() == "numpy"
        form = "implicit" if can_be_implicit and _is_better_implicit(codes, rank) else "counted"
    if form == "implicit":
        return couple_codes(codes, sample_weight, context)
    return _counted(codes, loss, weights, sample_weight, context)


def _counted(
    codes: Codes, loss: str, weights: str, sample_weight: Any, context: dict[str, Any] | None
) -> CoupledTensors:
    try:
        tensors = couple_marginals(count_marginals(codes, "all", sample_weight, max_bytes=MOST_BYTES), weights, context)
    except SizeLimitError as error:
        implicit = 'loss="frobenius", which needs none' if loss != "frobenius" else 'histograms="implicit"'
        if tl.get_backend() != "numpy":
            implicit = f'{implicit} with tensorly.set_backend("numpy")'
        raise SizeLimitError(
            f"The histograms of all {comb(codes.n_variables, 3)} triples would take "
            f"{bytes_of_histograms(codes.n_bins) / 1e9:.3g} GB, over the limit of {MOST_BYTES / 1e9:.3g} GB. Expected "
            f"{implicit}; or some of the triples, as of "
            "count_marginals(codes, triples=1000), which uses all variables evenly; or fewer bins."
        ) from error
    is_complete = tensors.triples is not None and len(tensors.triples) == comb(codes.n_variables, 3)
    return replace(tensors, triples=None) if is_complete else tensors


def bytes_of_histograms(n_bins: tuple[int, ...]) -> float:
    """Size of the histograms of all triples."""
    return 8 * cells_of_all_triples(n_bins) + BYTES_PER_TRIPLE * comb(len(n_bins), 3)


def _is_better_implicit(codes: Codes, rank: int) -> bool:
    """Tell whether histograms would be too large, or a sweep over them slower than one over the samples."""
    if bytes_of_histograms(codes.n_bins) > MOST_BYTES:
        return True
    sizes = np.array(codes.n_bins, dtype=float)
    pairs = np.minimum(np.outer(sizes, sizes), codes.n_samples)  # columns at most: those without samples are left out
    np.fill_diagonal(pairs, 0.0)
    # Pairs of the other variables, for every variable; and once more, each triple once, for the weights.
    n_columns = pairs.sum() / 2 - pairs.sum(axis=1)
    counted = float(n_columns @ (COLUMN + COLUMN_BIN * sizes)) * rank * 4 / 3
    observed = codes.values >= 0
    n_patterns = 1 if observed.all() else distinct_patterns(observed, np.ones(len(observed)))[0].shape[1]
    grams = PATTERN * n_patterns * rank * (rank + 1) / 2
    return len(sizes) * (ENTRY * codes.n_samples * rank + grams + VARIABLE) < counted
