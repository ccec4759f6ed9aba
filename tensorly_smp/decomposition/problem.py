"""The first room of the decomposition: whatever is handed in, read into one form."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tensorly_smp._support.checks import MOST, checked_integer, checked_sample_weight
from tensorly_smp.codes.binning import Binning
from tensorly_smp.codes.encoding import Codes
from tensorly_smp.codes.thinning import thinned
from tensorly_smp.decomposition.options import SolverOptions, checked_name
from tensorly_smp.exceptions import InvalidInputError, InvalidTypeError, SizeLimitError
from tensorly_smp.factors.contexts import checked_context
from tensorly_smp.factors.coupled import CoupledTensors, couple_marginals, couple_tensors
from tensorly_smp.factors.forms import FORMS, couple_samples
from tensorly_smp.factors.implicit import CoupledCodes
from tensorly_smp.factors.losses import LOSSES
from tensorly_smp.marginals.histograms import Marginals


@dataclass(frozen=True, eq=False)
class Problem:
    """A coupled decomposition that is to be solved.

    Attributes
    ----------
    tensors : CoupledTensors or CoupledCodes
        Ready for the solver.
    rank : int
    loss : str
        "kl" or "frobenius".
    binning : Binning or None
        Names and edges, where known.
    data : Marginals, Codes, tensor or sequence of tensor
        What the algebraic start decomposes.
    modes : sequence of (j, k, l) or None
        Of tensors.
    sample_weight : ndarray (n_samples,) or None
        Of codes.
    form : str
        "counted" or "implicit" for codes, empty for anything else.
    """

    tensors: CoupledTensors | CoupledCodes
    rank: int
    loss: str
    binning: Binning | None
    data: Any
    modes: Sequence[Sequence[int]] | None = None
    sample_weight: np.ndarray | None = None
    form: str = ""

    @property
    def n_bins(self) -> tuple[int, ...]:
        """Number of bins of every variable."""
        return self.tensors.n_bins

    @cached_property
    def algebraic_data(self) -> Marginals | Codes:
        """Histograms or codes for the algebra; tensors come to the host here, and not before."""
        if isinstance(self.data, Marginals | Codes):
            return self.data
        return Marginals.from_tensors(self.data, self.modes)


def as_problem(
    data: Any,
    modes: Sequence[Sequence[int]] | None = None,
    *,
    rank: int,
    loss: str = "kl",
    weights: str = "count",
    sample_weight: Any = None,
    variables: Sequence[Hashable] | None = None,
    samples: Codes | None = None,
    form: str = "auto",
    options: SolverOptions | None = None,
) -> Problem:
    """Read what is to be factorized.

    Parameters
    ----------
    data : Marginals, Codes, tensor or sequence of tensor
    modes : sequence of (j, k, l), optional
        Of tensors.
    rank : int
    loss : {"kl", "frobenius"}
    weights : {"count", "uniform"}
    sample_weight : array_like (n_samples,), optional
        Of codes, as `data` or as `samples`.
    variables : sequence of hashable, optional
        Names of the variables of tensors.
    samples : Codes, optional
        Of Marginals: what the algebraic start decomposes in their place, where not all triples have been counted.
    form : {"auto", "counted", "implicit"}
        Of codes: see :func:`couple_samples`.
    options : SolverOptions, optional
        For the dtype and the device.

    Returns
    -------
    Problem

    Raises
    ------
    InvalidInputError, InvalidTypeError
        Input that cannot be used; the message says what was expected.
    """
    options = options or SolverOptions()
    if (rank := checked_integer(rank, "rank", 1)) > MOST["n_components"]:
        raise SizeLimitError(f"rank is {rank}; expected at most {MOST['n_components']}.")
    loss = checked_name(loss, LOSSES, "loss")
    checked_name(form, FORMS, "form")
    if isinstance(data, Marginals | Codes) and (modes is not None or variables is not None):
        raise InvalidInputError(
            f"data is {type(data).__name__}, which has its variables; give modes and variables with tensors only."
        )
    if isinstance(data, Codes):
        problem = _problem_of_codes(data, rank, loss, weights, form, sample_weight, options)
    elif sample_weight is not None and samples is None:
        raise InvalidInputError(
            f"data is {type(data).__name__}; sample_weight is for Codes. count_marginals weights the samples as it "
            "counts them."
        )
    elif isinstance(data, Marginals):
        tensors = couple_marginals(data, weights, checked_context(options.dtype, options.device))
        if samples is None:
            problem = Problem(tensors, rank, loss, data.binning, data)
        else:
            _check_samples(samples, tensors.n_bins)
            kept = checked_sample_weight(sample_weight, samples.n_samples)
            problem = Problem(tensors, rank, loss, data.binning, samples, sample_weight=kept)
    else:
        tensors = couple_tensors(data, modes, weights, options.dtype, options.device)
        binning = None if variables is None else Binning.from_n_bins(tensors.n_bins, variables)
        problem = Problem(tensors, rank, loss, binning, data, modes)
    if 0 < problem.tensors.n_samples < rank:
        raise InvalidInputError(
            f"{rank} components with {problem.tensors.n_samples} samples; expected at most one component per sample."
        )
    return problem


def _problem_of_codes(
    codes: Codes, rank: int, loss: str, weights: str, form: str, sample_weight: Any, options: SolverOptions
) -> Problem:
    """Problem of all triples of samples; the algebraic start takes a part of them where they are many."""
    context = checked_context(options.dtype, options.device)
    tensors = couple_samples(codes, rank, loss, weights, form, sample_weight, context)
    values, kept = thinned(codes.values, checked_sample_weight(sample_weight, codes.n_samples))
    some = codes if values is codes.values else Codes(values, codes.binning)
    found = "implicit" if isinstance(tensors, CoupledCodes) else "counted"
    return Problem(tensors, rank, loss, codes.binning, some, None, kept, found)


def _check_samples(samples: Any, n_bins: tuple[int, ...]) -> None:
    if not isinstance(samples, Codes):
        raise InvalidTypeError(f"samples is {type(samples).__name__}; expected Codes, as of encode_samples.")
    if samples.n_bins != n_bins:
        raise InvalidInputError(f"samples have {samples.n_bins} bins; expected those of the histograms, {n_bins}.")
