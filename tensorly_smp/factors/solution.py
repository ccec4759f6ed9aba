"""Result of the solver: factors, the reason of its end, and the record of every sweep."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

import numpy as np
from tensorly.cp_tensor import CPTensor

from tensorly_smp.checks import checked_flag
from tensorly_smp.exceptions import InvalidInputError, InvalidTypeError
from tensorly_smp.factors.arrays import Tensor
from tensorly_smp.factors.mixture_factors import MixtureFactors
from tensorly_smp.representations import html_summary, short_repr

if TYPE_CHECKING:
    import xarray as xr


class StopReason(Enum):
    """Why an iteration ended; each member says what it means and what to do about it.

    Examples
    --------
    >>> import tensorly_smp as smp
    >>> smp.StopReason.MAX_SWEEPS.remedy
    'raise n_iter_max (max_iter of the estimator), or the tolerance tol'
    >>> [reason.name for reason in smp.StopReason if reason.is_converged]
    ['CONVERGED', 'EXACT']
    """

    CONVERGED = ("the improvement per sweep fell below the tolerance", "nothing to do")
    EXACT = ("the loss is down to rounding error: the model explains the histograms exactly", "nothing to do")
    MAX_SWEEPS = (
        "the largest number of sweeps was reached first",
        "raise n_iter_max (max_iter of the estimator), or the tolerance tol",
    )
    SCREENED = (
        "other starts were lower after the sweeps of the screening",
        "to run all to their end: n_screen=None",
    )
    CALLBACK = ("the callback asked to stop", "nothing to do if that was meant")
    NONFINITE = (
        "the loss was not a finite number any more; the result is the last one that was",
        "take double precision (dtype), or another start",
    )
    INTERRUPTED = ("the keyboard interrupted the iteration", "start again from these factors: init=solution.factors")

    def __init__(self, explanation: str, remedy: str) -> None:
        self.explanation = explanation
        self.remedy = remedy

    @property
    def is_converged(self) -> bool:
        """True if the iteration ended by itself."""
        return self in (StopReason.CONVERGED, StopReason.EXACT)

    def __str__(self) -> str:
        return f"{self.name.lower()}: {self.explanation}"


@dataclass(frozen=True, eq=False)
class SweepTrace:
    """Record of an iteration, one entry per sweep and one for the start: n_sweeps + 1 entries each.

    Attributes
    ----------
    loss : ndarray (n_sweeps + 1,)
        Weighted sum over triples of the loss.
    change : ndarray (n_sweeps + 1,)
        Largest change of a weight or factor entry in the sweep; NaN at the start.
    seconds : ndarray (n_sweeps + 1,)
        Since the start.

    Examples
    --------
    >>> import tensorly_smp as smp
    >>> data = smp.datasets.make_smooth_mixture("gaussian", 500, 4, 2, random_state=0)
    >>> codes = smp.encode_samples(data.X, smp.choose_binning(data.X, n_bins=5))
    >>> trace = smp.coupled_simplex_parafac(codes, rank=2, random_state=0).trace
    >>> bool((trace.loss[1:] <= trace.loss[:-1]).all())
    True
    """

    loss: np.ndarray
    change: np.ndarray
    seconds: np.ndarray

    __repr__ = short_repr

    @property
    def n_sweeps(self) -> int:
        """Number of sweeps that are kept in the result."""
        return len(self.loss) - 1

    def followed_by(self, later: SweepTrace) -> SweepTrace:
        """Record of both, the start of the later being the end of this one."""
        if not isinstance(later, SweepTrace):
            raise InvalidTypeError(f"later is {type(later).__name__}; expected a SweepTrace.")
        return SweepTrace(
            np.concatenate([self.loss, later.loss[1:]]),
            np.concatenate([self.change, later.change[1:]]),
            np.concatenate([self.seconds, self.seconds[-1] + later.seconds[1:]]),
        )


@dataclass(frozen=True, repr=False, eq=False)
class CoupledSolution:
    """Result of :func:`coupled_simplex_parafac`.

    Attributes
    ----------
    factors : MixtureFactors
        Of the start that ended lowest.
    trace : SweepTrace
        Of that start.
    status : StopReason
        Of that start.
    start_losses : ndarray (n_starts,)
        Final loss of every start, in their order.
    start_statuses : tuple of StopReason
    loss_name : str
        "kl" or "frobenius".
    best_start : int
        Position of the start that ended lowest.
    start_info : dict
        What the initializer reports about the start, numbers and strings.
    start_factors : tuple of MixtureFactors
        Where every start ended, in their order.
    start_traces : tuple of SweepTrace
        Record of every start, in their order.
    triples : ndarray of int (n_triples, 3) or None
        Variables of the histograms that were factorized, j < k < l; None if not recorded.
    totals : ndarray (n_tensors,) or None
        Sums of the tensors before they were divided by them, in their order; None without histograms.
    squared_norm : float
        Weighted sum of the squared entries of all tensors, each divided by its sum.

    Notes
    -----
    A solution is unpacked as TensorLy's CPTensor is, ``weights, factors = solution``, so that every function of
    TensorLy's that takes a CPTensor takes it too; with ``copy=True`` where it would overwrite its argument otherwise.

    Examples
    --------
    >>> import tensorly_smp as smp
    >>> data = smp.datasets.make_smooth_mixture("gaussian", 500, 4, 2, random_state=0)
    >>> codes = smp.encode_samples(data.X, smp.choose_binning(data.X, n_bins=5))
    >>> solution = smp.coupled_simplex_parafac(codes, rank=2, random_state=0)
    >>> solution.status.is_converged, len(solution.trace.loss) == solution.trace.n_sweeps + 1
    (True, True)
    >>> solution.to_dataset().factors.dims
    ('variable', 'bin', 'component')
    """

    factors: MixtureFactors
    trace: SweepTrace
    status: StopReason
    start_losses: np.ndarray
    start_statuses: tuple[StopReason, ...]
    loss_name: str
    best_start: int = 0
    start_info: dict[str, Any] = field(default_factory=dict)
    start_factors: tuple[MixtureFactors, ...] = ()
    start_traces: tuple[SweepTrace, ...] = ()
    triples: np.ndarray | None = None
    totals: np.ndarray | None = None
    squared_norm: float = float("nan")

    def __iter__(self) -> Iterator[Any]:
        yield self.factors.weights
        yield list(self.factors.factors)

    def __len__(self) -> int:
        return 2

    def __getitem__(self, index: int) -> Any:
        return tuple(self)[index]

    @property
    def weights(self) -> Tensor:
        """Weights of the components (rank,), in the backend's arrays."""
        return self.factors.weights

    @property
    def rank(self) -> int:
        """Number of components."""
        return self.factors.rank

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of bins of every variable, as the shape of a CPTensor is."""
        return self.factors.n_bins

    def cp_copy(self) -> CPTensor:
        """CPTensor with copies of the arrays, as TensorLy's method of this name."""
        return self.to_cp_tensor().cp_copy()

    @property
    def errors(self) -> np.ndarray:
        """Error at the start and after every sweep, (n_sweeps + 1,).

        With the Frobenius loss the relative one, ||X - model|| / ||X|| as TensorLy's decompositions return it, over all
        tensors, each divided by its sum; with the KL loss the loss itself.
        """
        if self.loss_name != "frobenius" or not self.squared_norm > 0:
            return self.trace.loss
        return np.sqrt(np.maximum(self.trace.loss, 0.0) / self.squared_norm)

    @property
    def loss(self) -> float:
        """Final loss."""
        return float(self.trace.loss[-1])

    def to_cp_tensor(self, scale: bool = False) -> CPTensor:
        """TensorLy's CPTensor (weights, factors), in the backend's arrays.

        Parameters
        ----------
        scale : bool, default False
            Multiply the weights by the sum of the tensors, so that the model is of the counts that were handed in.

        Raises
        ------
        InvalidInputError
            The tensors have different sums, or none has been recorded.
        """
        cp_tensor = self.factors.to_cp_tensor()
        if not checked_flag(scale, "scale"):
            return cp_tensor
        if self.totals is None:
            raise InvalidInputError("scale=True without histograms; expected the solution of tensors or Marginals.")
        if np.ptp(self.totals) > 1e-6 * self.totals.max():
            raise InvalidInputError(
                f"scale=True with tensors that sum to {self.totals.min():.6g} to {self.totals.max():.6g}; expected the "
                "same sum. Multiply the weights by that of a tensor: solution.totals has them all."
            )
        return CPTensor((cp_tensor.weights * float(self.totals[0]), cp_tensor.factors))

    def to_dataset(self) -> xr.Dataset:
        """Weights, factors, edges and trace as one labelled xarray.Dataset."""
        from tensorly_smp.results import solution_to_dataset

        return solution_to_dataset(self)

    def __repr__(self) -> str:
        return (
            f"CoupledSolution({self.loss_name} loss {self.loss:.6g} after {self.trace.n_sweeps} sweeps, "
            f"{self.status.name.lower()}, best of {len(self.start_losses)})\n  {self.factors!r}"
        )

    def _repr_html_(self) -> str:
        pairs = [
            ("loss", f"{self.loss:.6g} ({self.loss_name})"),
            ("sweeps", self.trace.n_sweeps),
            ("status", self.status),
            ("what to do", self.status.remedy),
            ("starts", len(self.start_losses)),
        ]
        return html_summary("CoupledSolution", pairs) + self.factors._repr_html_()
