"""The parameters that all histograms share: component weights and conditional bin probabilities."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorly as tl
from scipy.special import softmax
from tensorly.cp_tensor import CPTensor

from tensorly_smp._support.checks import checked_real, to_numpy
from tensorly_smp._support.representations import html_weights, listed, number_range, reason, shown
from tensorly_smp.codes.binning import Binning
from tensorly_smp.codes.encoding import Codes
from tensorly_smp.exceptions import EmptyComponentWarning, InvalidInputError, InvalidTypeError
from tensorly_smp.factors.backend import Tensor
from tensorly_smp.marginals.histograms import Marginals
from tensorly_smp.marginals.triples import resolve_triples

if TYPE_CHECKING:
    import pandas as pd

#: Departure of a sum from one that is taken for rounding, in single precision.
SUM_TOLERANCE = 1e-4


@dataclass(frozen=True, repr=False, eq=False)
class MixtureFactors:
    """Weights w and conditional probabilities A_n[i, r] = Pr(variable n in bin i | component r).

    Iterating gives the factors of the variables.

    Attributes
    ----------
    weights : tensor (rank,)
        Non-negative, sums to one. An array of the TensorLy backend that made it (NumPy, PyTorch, JAX).
    factors : tuple of tensor (n_bins[n], rank)
        Non-negative, every column sums to one.
    binning : Binning or None
        Names and edges, where known.

    Raises
    ------
    InvalidInputError
        Shapes that do not fit each other, entries that are negative or not finite, sums other than one.

    Examples
    --------
    >>> import numpy as np
    >>> import tensorly_smp as smp
    >>> factors = smp.MixtureFactors(np.array([0.25, 0.75]), [np.eye(2)] * 3)
    >>> factors
    MixtureFactors(rank 2, 3 variables, 2 bins, weights 0.25 0.75)
    >>> factors.permute([1, 0]).weights
    array([0.75, 0.25])
    """

    weights: Tensor
    factors: tuple[Tensor, ...]
    binning: Binning | None = None

    def __post_init__(self) -> None:
        try:
            object.__setattr__(self, "weights", _as_tensor(self.weights))
            object.__setattr__(self, "factors", tuple(_as_tensor(a) for a in self.factors))
            weights = to_numpy(self.weights)
            factors = [to_numpy(a) for a in self.factors]
        except (TypeError, ValueError, ArithmeticError) as error:
            raise InvalidTypeError(f"weights and factors must be arrays of numbers: {reason(error)}.") from error
        if weights.ndim != 1 or any(a.ndim != 2 or a.shape[1] != len(weights) for a in factors) or not len(factors):
            shapes = [a.shape for a in factors]
            raise InvalidInputError(
                f"Weights of shape {weights.shape} and factors of shapes {shapes}; expected (rank,) and (n_bins, rank)."
            )
        named = [("Factor " + str(n), "has", a) for n, a in enumerate(factors)]
        doubtful = [] if _are_distributions(factors) else named
        for name, verb, array in [("The weights", "have", weights[:, None]), *doubtful]:
            if not np.isfinite(array).all() or (array < 0).any():
                raise InvalidInputError(f"{name} {verb} entries that are negative or not finite.")
            if np.abs(array.sum(axis=0) - 1).max() > SUM_TOLERANCE:
                raise InvalidInputError(f"{name} {verb} columns that do not sum to one; see from_cp_tensor.")
        if not isinstance(self.binning, Binning | None):
            raise InvalidTypeError(f"binning is {type(self.binning).__name__}; expected a Binning, or None.")
        if self.binning is not None and self.binning.n_bins != self.n_bins:
            raise InvalidInputError(f"Factors with {self.n_bins} rows and a binning with {self.binning.n_bins} bins.")

    # Where TensorLy asks a CPTensor for its factors, it expects a list of matrices.
    def __len__(self) -> int:
        return len(self.factors)

    def __iter__(self) -> Iterator[Tensor]:
        return iter(self.factors)

    def __getitem__(self, n: int) -> Tensor:
        return self.factors[n]

    @property
    def rank(self) -> int:
        """Number of components."""
        return int(self.weights.shape[0])

    @property
    def n_variables(self) -> int:
        """Number of variables."""
        return len(self.factors)

    @property
    def n_bins(self) -> tuple[int, ...]:
        """Number of bins of every variable."""
        return tuple(int(a.shape[0]) for a in self.factors)

    def to_numpy(self) -> MixtureFactors:
        """Factors as float64 NumPy arrays with sums exact to rounding; the object itself if it has these."""
        is_numpy = all(isinstance(a, np.ndarray) and a.dtype == np.float64 for a in (self.weights, *self.factors))
        if is_numpy and _are_distributions([self.weights[:, None]], 1e-12) and _are_distributions(self.factors, 1e-12):
            return self
        weights = to_numpy(self.weights)
        factors = [to_numpy(a) for a in self.factors]
        return MixtureFactors(weights / weights.sum(), tuple(a / a.sum(axis=0) for a in factors), self.binning)

    def to_cp_tensor(self) -> CPTensor:
        """TensorLy's CPTensor (weights, factors); for many variables never call its ``to_tensor``."""
        return CPTensor((self.weights, list(self.factors)))

    def to_labelled_cp_tensor(self) -> tuple[np.ndarray, list[pd.DataFrame]]:
        """Weights and factors as data frames, the kind of CP tensor that tensorly-viz plots and compares with labels.

        Returns
        -------
        weights : ndarray (rank,)
        factors : list of DataFrame (n_bins[n], rank)
            A row per bin, under the bin's center in the unit of the variable, whose name is that of the index; a column
            per component. Without a binning, rows are bin numbers.

        Examples
        --------
        >>> import tensorly_smp as smp
        >>> factors = smp.MixtureFactors(
        ...     [0.5, 0.5], [[[0.9, 0.2], [0.1, 0.8]]], smp.Binning([[0, 10, 20]], ["age"])
        ... )
        >>> factors.to_labelled_cp_tensor()[1][0]
        component    0    1
        age
        5.0        0.9  0.2
        15.0       0.1  0.8
        """
        import pandas as pd

        model = self.to_numpy()
        binning = self.binning or Binning.from_n_bins(self.n_bins)
        centers = [(e[:-1] + e[1:]) / 2 if self.binning else np.arange(len(e) - 1) for e in binning.edges]
        columns = pd.RangeIndex(self.rank, name="component")
        frames = [
            pd.DataFrame(a, pd.Index(rows, name=name), columns)
            for a, rows, name in zip(model.factors, centers, binning.variables, strict=True)
        ]
        return model.weights, frames

    @classmethod
    def from_cp_tensor(cls, cp_tensor: Any, binning: Binning | None = None) -> MixtureFactors:
        """Factors of a non-negative CP tensor, the scale and sign of its columns moved into the weights.

        Parameters
        ----------
        cp_tensor : CPTensor or (weights, factors)
            Any scaling, also one whose product leaves the range of floats; ``weights`` may be None. A column may have
            either sign, but only one, and those of a component have to cancel.
        binning : Binning, optional
        """
        try:
            weights, factors = cp_tensor
            factors = [_as_tensor(a) for a in factors]
            shapes = [to_numpy(a).shape for a in factors]
            weights = None if weights is None else _as_tensor(weights)
            received = np.ones(1) if weights is None else to_numpy(weights)
        except (TypeError, ValueError, ArithmeticError) as error:
            raise InvalidTypeError(
                f"{type(cp_tensor).__name__} is not a CP tensor; expected CPTensor, (weights, factors) of numbers, or "
                "MixtureFactors, as gevd_start returns: the start itself, not the matrices in its .factors."
            ) from error
        if not shapes or any(len(shape) != 2 or shape[1] != shapes[0][1] for shape in shapes):
            raise InvalidInputError(f"The factors have shapes {shapes}; expected matrices (n_bins, rank).")
        if weights is None:
            weights = tl.ones(shapes[0][1], **tl.context(factors[0]))
        if tuple(weights.shape) != shapes[0][1:]:
            raise InvalidInputError(f"The weights are {weights}; expected {shapes[0][1]} of them.")
        for n, a in enumerate(factors):
            values = to_numpy(a)
            signs = np.where((values < 0).any(axis=0), -1.0, 1.0)
            received = received * signs
            if not np.isfinite(values).all() or (values * signs < 0).any() or not values.any(axis=0).all():
                what = f"Factor {n} has a column that is zero, not finite, or of mixed signs"
                raise InvalidInputError(f"{what}; expected none: np.abs(factor) or np.maximum(factor, 0) is a start.")
        if not (np.isfinite(received).all() and (received >= 0).all() and (received > 0).any()):
            what = f"The weights, with the signs of the columns, are {received}"
            raise InvalidInputError(f"{what}; expected {shapes[0][1]} that are non-negative and not all zero.")
        with np.errstate(divide="ignore"):  # the weight of an empty component
            log_weights = tl.log(tl.abs(weights))
        columns = []
        for a in map(tl.abs, factors):
            peak = tl.max(a, axis=0)
            a = a / peak  # its sum cannot overflow
            total = tl.sum(a, axis=0)
            columns.append(a / total)
            # Scales are added up as logarithms: the product of a few may leave the range of floats.
            log_weights = log_weights + tl.log(peak) + tl.log(total)
        weights = tl.exp(log_weights - tl.max(log_weights))
        return cls(weights / tl.sum(weights), tuple(columns), binning)

    def permute(self, order: Sequence[int] | np.ndarray) -> MixtureFactors:
        """Components in another order: component r of the result is ``order[r]`` of this."""
        try:
            index = np.asarray(order)
        except (TypeError, ValueError):
            index = np.empty(0)
        if index.dtype.kind not in "iu" or sorted(index.ravel().tolist()) != list(range(self.rank)):
            raise InvalidInputError(f"order is {shown(order)}; expected a permutation of 0 to {self.rank - 1}.")
        return replace(self, weights=self.weights[index], factors=tuple(a[:, index] for a in self.factors))

    def sort(self) -> MixtureFactors:
        """Components by decreasing weight."""
        return self.permute(np.argsort(-to_numpy(self.weights), kind="stable"))

    def smooth(self, share: float = 0.01, weight_share: float = 0.0) -> MixtureFactors:
        """Every column mixed with a share of the uniform one, so that updates that multiply can leave zeros.

        And the weights, with `weight_share`.
        """
        share = checked_real(share, "share", 0.0, 1.0, "[]")
        weight_share = checked_real(weight_share, "weight_share", 0.0, 1.0, "[]")
        columns = tuple((1 - share) * a + share / a.shape[0] for a in self.factors)
        return replace(self, weights=(1 - weight_share) * self.weights + weight_share / self.rank, factors=columns)

    def to_marginals(self, triples: str | int | Iterable[Sequence[int]] = "all") -> Marginals:
        """Exact histograms of this model (each sums to one), as if from infinitely many samples."""
        model = self.to_numpy()
        index = resolve_triples(triples, self.n_variables)
        # r component; i, j, k bins of the three variables
        counts = tuple(
            np.einsum("r,ir,jr,kr->ijk", model.weights, *(model.factors[n] for n in triple), optimize=True)
            for triple in index
        )
        return Marginals(counts, index, np.ones(len(index)), self.binning or Binning.from_n_bins(self.n_bins), 0)

    def log_joint(self, codes: Codes) -> np.ndarray:
        """log(w_r Pr(codes of a sample | r)) as an array (n_samples, rank); missing entries are summed out."""
        if not isinstance(codes, Codes):
            raise InvalidTypeError(
                f"codes is {type(codes).__name__}; expected Codes, as of encode_samples(X, binning). Of samples "
                "themselves, a density has posteriors: reconstruct_density(factors).posterior(X)."
            )
        if codes.n_bins != self.n_bins:
            raise InvalidInputError(f"Codes with {codes.n_bins} bins and factors with {self.n_bins} rows.")
        model = self.to_numpy()
        with np.errstate(divide="ignore"):
            result = np.tile(np.log(model.weights), (codes.n_samples, 1))
            for n, a in enumerate(model.factors):
                # One more row of zeros, at index -1: a missing entry has probability one.
                result += np.vstack([np.log(a), np.zeros(self.rank)])[codes.values[:, n]]
        return result

    def posterior(self, codes: Codes) -> np.ndarray:
        """Pr(r | codes of a sample) as an array (n_samples, rank), rows sum to one.

        A sample that is impossible in every component gets the weights.
        """
        return joint_to_posterior(self.log_joint(codes), to_numpy(self.weights))

    def info(self) -> dict[str, Any]:
        """Origin of the factors as plain values; empty but for algebraic starts."""
        return {}

    def __repr__(self) -> str:
        size = number_range(self.n_bins)
        head = " ".join(f"{w:.3g}" for w in to_numpy(self.weights)[:6])
        more = " ..." if self.rank > 6 else ""
        return (
            f"{type(self).__name__}(rank {self.rank}, {self.n_variables} variables, {size} bins, weights {head}{more})"
        )

    def _repr_html_(self) -> str:
        names = "" if self.binning is None else f": {listed(self.binning.variables)}"
        pairs = [("variables", f"{self.n_variables}{names}"), ("bins", number_range(self.n_bins)), ("rank", self.rank)]
        return html_weights(type(self).__name__, pairs, to_numpy(self.weights))


def joint_to_posterior(log_joint: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Posterior probabilities (n_samples, rank), from logarithms of joint ones (n_samples, rank) by Bayes' rule.

    Rows sum to one. A sample that is impossible in every component gets the weights (rank,).
    """
    with np.errstate(divide="ignore"):
        log_weights = np.log(weights)
    impossible = np.asarray(np.isneginf(log_joint).all(axis=1))
    if impossible.any():
        log_joint = np.where(impossible[:, None], log_weights, log_joint)
    return softmax(log_joint, axis=1)


def _are_distributions(factors: Sequence[np.ndarray], tolerance: float = SUM_TOLERANCE) -> bool:
    """True if no entry of the factors is negative, and all columns sum to one; all factors at once."""
    if not all(map(len, factors)):
        return False
    rows = np.concatenate(factors)
    sums = np.add.reduceat(rows, np.cumsum([0, *map(len, factors[:-1])]), axis=0)
    return bool((rows >= 0).all() and (np.abs(sums - 1) <= tolerance).all())


def _as_tensor(array: Any) -> Tensor:
    """Arrays of any backend as they are; lists and the like as float64 tensors of the active one."""
    return array if hasattr(array, "shape") else tl.tensor(np.asarray(array, dtype=np.float64))


#: A component with less weight than this has no columns to speak of.
EMPTY_WEIGHT = 1e-6


def empty_component_warning(weights: np.ndarray, advice: str) -> EmptyComponentWarning | None:
    """A warning of components of next to no weight, by their number, whatever their order; None if there are none.

    Parameters
    ----------
    weights : ndarray (rank,)
    advice : str
        What to try.
    """
    n_empty = int(np.count_nonzero(np.asarray(weights) < EMPTY_WEIGHT))
    if not n_empty:
        return None
    verb, whose = ("is", "its") if n_empty == 1 else ("are", "their")
    return EmptyComponentWarning(
        f"{n_empty} of {len(weights)} components {verb} empty (weight below {EMPTY_WEIGHT}), so {whose} densities are "
        f"arbitrary. {advice}"
    )
