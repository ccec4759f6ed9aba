"""Result of the solver: factors, the reason of its end, the record of every sweep, and their labelled Dataset."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from math import comb
from typing import Any

import numpy as np
import tensorly as tl
import xarray as xr
from tensorly.cp_tensor import CPTensor

from tensorly_smp._support.checks import checked_flag, is_integer
from tensorly_smp._support.iteration import StopReason, SweepTrace
from tensorly_smp._support.representations import html_summary
from tensorly_smp._support.result_schema import result_values, with_results
from tensorly_smp.codes.binning import Binning
from tensorly_smp.exceptions import InvalidInputError
from tensorly_smp.factors.backend import Tensor
from tensorly_smp.factors.mixture_factors import MixtureFactors
from tensorly_smp.storage import described, storable


def factors_to_dataset(factors: MixtureFactors, records: Mapping[str, Any] | None = None) -> xr.Dataset:
    """Weights, factors and, where known, edges of the bins and values of discrete variables; and other `records`.

    Variables with fewer bins than others are padded with NaN: ``n_bins`` tells how many are real.

    Returns
    -------
    Dataset
        ``weights`` (component), ``factors`` (variable, bin, component), ``n_bins`` (variable). With a binning also
        ``edges`` (variable, edge), NaN of discrete variables; ``discrete`` (variable), 1 for these; and ``categories``
        (variable, bin), their values, of which ``factors`` are the probabilities.
    """
    model = factors.to_numpy()
    most = max(model.n_bins)
    padded = np.full((model.n_variables, most, model.rank), np.nan)
    for n, a in enumerate(model.factors):
        padded[n, : len(a)] = a
    contents: dict[str, Any] = {"weights": np.array(model.weights), "factors": padded, "n_bins": model.n_bins}
    names: Sequence[Hashable] = range(model.n_variables)
    attrs = {}
    if model.binning is not None:
        names = model.binning.variables
        attrs["binning_strategy"] = model.binning.strategy
        discrete = model.binning.discrete
        none = np.empty(0)
        edges = [none if n in discrete else each for n, each in enumerate(model.binning.edges)]
        contents["edges"] = padded_rows(edges, most + 1)
        contents["discrete"] = np.isin(np.arange(model.n_variables), list(discrete)).astype(np.int8)
        contents["categories"] = padded_rows([discrete.get(n, none) for n in range(model.n_variables)], most)
    dataset = with_results(xr.Dataset(), contents | dict(records or {}), {"variable": plain_coordinate(names)})
    return dataset.assign_attrs(attrs)


def factors_from_dataset(dataset: xr.Dataset, variables: Sequence[Hashable] | None = None) -> MixtureFactors:
    """Inverse of :func:`factors_to_dataset`.

    Parameters
    ----------
    dataset : Dataset
    variables : sequence of hashable, optional
        Names of the variables; by default those of the Dataset, which are all integers or all strings.

    Returns
    -------
    MixtureFactors
        Copies, in float64; with a binning if the Dataset has edges.

    Raises
    ------
    InvalidInputError
        A variable of the Dataset is missing, or its content is not a mixture.
    """
    missing = [name for name in ("weights", "factors", "n_bins") if name not in dataset]
    if missing:
        raise InvalidInputError(f"The Dataset lacks {missing}; expected one made by to_dataset() or fit.")
    padded = result_values(dataset, "factors")
    n_bins = dataset["n_bins"].values.tolist()
    if any(not 1 <= size <= padded.shape[1] for size in n_bins):
        raise InvalidInputError(f"n_bins are {n_bins}; expected 1 to {padded.shape[1]}, the length of dimension bin.")
    binning = None
    if "edges" in dataset:
        edges = result_values(dataset, "edges")
        names = dataset["variable"].values.tolist() if variables is None else variables
        strategy = str(dataset.attrs.get("binning_strategy", "given"))
        values: dict[Hashable, np.ndarray] = {}
        if "discrete" in dataset:
            categories = result_values(dataset, "categories")
            positions = np.flatnonzero(dataset["discrete"].values).tolist()
            values = {names[n]: categories[n, : n_bins[n]] for n in positions}
        rows = tuple(e[: i + 1] for e, i in zip(edges, n_bins, strict=True))
        binning = Binning(rows, tuple(names), strategy, values=values)
    columns = tuple(np.array(a[:i], order="C") for a, i in zip(padded, n_bins, strict=True))
    return MixtureFactors(np.array(dataset["weights"].values), columns, binning)


def padded_rows(rows: Sequence[np.ndarray], length: int | None = None) -> np.ndarray:
    """Rows of different lengths as one matrix, of the longest or this length, NaN after the end of each."""
    padded = np.full((len(rows), max(map(len, rows)) if length is None else length), np.nan)
    for place, row in zip(padded, rows, strict=True):
        place[: len(row)] = row
    return padded


def plain_coordinate(names: Sequence[Hashable]) -> np.ndarray:
    """Names as a coordinate that files can hold: integers if all are, else strings."""
    if all(is_integer(name) for name in names):
        return np.array([int(name) for name in names])  # type: ignore[call-overload]
    return np.array([str(name) for name in names])


@storable
@dataclass(repr=False, eq=False)
class CoupledSolution(CPTensor):
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
    A solution is a CPTensor of TensorLy's: all functions of ``tensorly.cp_tensor`` take it, and ``init=`` of
    decompositions does. It is unpacked as ``weights, factors = solution``, a vector and a list of matrices. These are
    copies: what a function overwrites does not change the attribute `factors`.

    Examples
    --------
    >>> import tensorly_smp as smp
    >>> data = smp.datasets.make_smooth_mixture("gaussian", 500, 4, 2, random_state=0)
    >>> codes = smp.encode_samples(data.X, smp.choose_binning(data.X, n_bins=5))
    >>> solution = smp.coupled_simplex_parafac(codes, rank=2, random_state=0)
    >>> (
    ...     solution.status.is_converged,
    ...     len(solution.trace.loss) == solution.trace.n_sweeps + 1,
    ... )
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

    # As a CPTensor: weights and factors that were unpacked last, and those that took the place of its own.
    _unpacked: Any = field(default=None, init=False)
    _replaced: Any = field(default=None, init=False)

    # Not those of a mapping, which TensorLy's tensors are.
    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def __iter__(self) -> Iterator[Any]:
        weights, factors = self._replaced or self.to_cp_tensor()
        self._unpacked = CPTensor((tl.copy(weights), [tl.copy(a) for a in factors]))
        return iter(self._unpacked)

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
        """Sizes of the modes as a CPTensor: the number of bins of every variable."""
        return (self._replaced or self.factors.to_cp_tensor()).shape

    @shape.setter
    def shape(self, shape: tuple[int, ...]) -> None:
        # What cp_mode_dot without copy=True does to the list that it has unpacked and changed, before it returns self.
        self._replaced = CPTensor(tuple(self._unpacked))

    def normalize(self, inplace: bool = False) -> CPTensor:
        """CPTensor with columns of unit 2-norm, as TensorLy's method of this name makes it; always a copy."""
        return super().normalize(inplace=False)

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
        """Weights, factors, edges and all starts as one labelled Dataset, from which `load` makes the solution again.

        Beside what the Dataset of a fit has, ``start_weights`` (start, component), ``start_factors`` (start, variable,
        bin, component), and ``start_change`` and ``start_seconds`` (start, start_sweep).
        """
        dataset = solution_to_dataset(self)
        if self.start_traces:
            of_starts = [factors_to_dataset(factors) for factors in self.start_factors]
            contents = {
                "start_weights": np.stack([each["weights"].values for each in of_starts]),
                "start_factors": np.stack([each["factors"].values for each in of_starts]),
                "start_change": padded_rows([start.change for start in self.start_traces]),
                "start_seconds": padded_rows([start.seconds for start in self.start_traces]),
            }
            dataset = with_results(dataset, contents)
        binning = self.factors.binning
        names = range(self.factors.n_variables) if binning is None else binning.variables
        is_all = self.triples is not None and "triples" not in dataset
        rest = dict(info=self.start_info, totals=self.totals, squared_norm=self.squared_norm, are_all_triples=is_all)
        return described(dataset, CoupledSolution, list(names), rest)

    @classmethod
    def _from_dataset(
        cls, dataset: xr.Dataset, names: Sequence[Hashable], parameters: dict[str, Any]
    ) -> CoupledSolution:
        """The solution of :meth:`to_dataset`; an error of any kind if there is none."""
        factors = factors_from_dataset(dataset, names)
        starts = [dataset.isel(start=s) for s in range(dataset.sizes["start"] if "start_trace" in dataset else 0)]
        n_kept = [int(start["start_seconds"].notnull().sum()) for start in starts]
        triples = dataset["triples"].values if "triples" in dataset else None
        if parameters["are_all_triples"]:
            triples = np.array(list(combinations(range(factors.n_variables), 3)))
        return cls(
            factors=factors,
            trace=SweepTrace(*(dataset[name].values for name in ("loss", "change", "seconds"))),
            status=StopReason[dataset.attrs["status"].upper()],
            start_losses=dataset["start_loss"].values,
            start_statuses=tuple(StopReason[name.upper()] for name in dataset["start_status"].values.tolist()),
            loss_name=dataset.attrs["loss_name"],
            best_start=dataset.attrs["best_start"],
            start_info=parameters["info"],
            start_factors=tuple(
                factors_from_dataset(
                    dataset.assign(weights=start["start_weights"], factors=start["start_factors"]), names
                )
                for start in starts
            ),
            start_traces=tuple(
                SweepTrace(*(start[name].values[:n] for name in ("start_trace", "start_change", "start_seconds")))
                for start, n in zip(starts, n_kept, strict=True)
            ),
            triples=triples,
            totals=parameters["totals"],
            squared_norm=parameters["squared_norm"],
        )

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


def solution_to_dataset(solution: CoupledSolution) -> xr.Dataset:
    """Factors and the record of the fit.

    Returns
    -------
    Dataset
        As of :func:`factors_to_dataset`, with ``loss``, ``change`` and ``seconds`` (sweep), ``start_loss`` and
        ``start_status`` (start), ``start_trace`` (start, start_sweep), NaN after the end of a start, and attributes of
        plain types: loss_name, status, status_explanation, n_sweeps, best_start and what the initializer reported.
    """
    traces = solution.start_traces or (solution.trace,)
    dataset = with_starts(
        solution.factors,
        solution.loss_name,
        traces,
        solution.start_statuses,
        solution.best_start if solution.start_traces else 0,
    )
    possible = comb(solution.factors.n_variables, 3)
    if solution.triples is not None and len(solution.triples) < possible:
        dataset = with_results(dataset, {"triples": np.array(solution.triples)})
    info = solution.start_info.items()
    return dataset.assign_attrs({name: np.array(value) if isinstance(value, list) else value for name, value in info})


def with_starts(
    factors: MixtureFactors, loss_name: str, traces: Sequence[SweepTrace], statuses: Sequence[StopReason], best: int
) -> xr.Dataset:
    """The Dataset of factors with the record of all starts, of which this one was the best."""
    trace = traces[best]
    status = statuses[best]
    losses = [start.loss for start in traces]
    contents = {
        "loss": trace.loss,
        "change": trace.change,
        "seconds": trace.seconds,
        "start_loss": [loss[-1] for loss in losses],
        "start_status": [each.name.lower() for each in statuses],
        "start_trace": padded_rows(losses),
    }
    return factors_to_dataset(factors, contents).assign_attrs(
        loss_name=loss_name,
        status=status.name.lower(),
        status_explanation=status.explanation,
        n_sweeps=trace.n_sweeps,
        best_start=best,
    )
