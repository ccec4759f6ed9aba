"""Joint histograms of variable triples: counted from codes, or third-order tensors of any TensorLy backend."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from math import comb
from typing import Any, NamedTuple

import numpy as np
import tensorly as tl

from tensorly_smp._support.checks import (
    RandomState,
    checked_integer,
    checked_real,
    checked_sample_weight,
    checked_triples,
    float_array,
    is_integer,
    to_numpy,
    warn,
)
from tensorly_smp._support.representations import html_summary, listed, number_range
from tensorly_smp.codes.binning import Binning
from tensorly_smp.codes.encoding import Codes
from tensorly_smp.exceptions import (
    ConstantVariableWarning,
    InvalidInputError,
    InvalidTypeError,
    SizeLimitError,
    SparseHistogramWarning,
)
from tensorly_smp.marginals.triples import resolve_triples, symmetric_sums


class ReadTensors(NamedTuple):
    """Third-order tensors of a user, checked, on their device.

    Attributes
    ----------
    counts : list of tensor
        Of floating-point numbers; of NumPy float64.
    triples : ndarray of int (n_tensors, 3)
        Variables along the modes.
    n_bins : tuple of int
        Of every variable.
    totals : ndarray (n_tensors,)
        Sums of the entries, positive.
    first : tensor
        The first as it was handed in, for its dtype and device.
    binning : Binning or None
        Names of the variables, where they have any.
    n_samples : int
        None are known.
    """

    counts: list[Any]
    triples: np.ndarray
    n_bins: tuple[int, ...]
    totals: np.ndarray
    first: Any
    binning: Binning | None
    n_samples: int = 0

    def to_marginals(self) -> Marginals:
        """Copies on the host, as if they were exact histograms; see :meth:`Marginals.from_tensors`."""
        if single := [n for n, size in enumerate(self.n_bins) if size < 2]:
            raise InvalidInputError(
                f"The tensors have a single entry along mode(s) {single}, as modes= numbers them, which tells no "
                'components apart; expected at least 2. An algebraic start needs as many: take init="random".'
            )
        summed: dict[tuple[int, ...], np.ndarray] = {}
        for array, modes in zip(self.counts, self.triples.tolist(), strict=True):
            triple = tuple(sorted(modes))
            summed[triple] = summed.get(triple, 0.0) + to_numpy(array).transpose([modes.index(n) for n in triple])
        index = sorted(summed)
        counts = tuple(summed[triple] for triple in index)
        totals = np.array([count.sum() for count in counts])
        return Marginals(counts, np.array(index), totals, self.binning or Binning.from_n_bins(self.n_bins), 0)


def read_tensors(
    data: Any, modes: Sequence[Sequence[Hashable]] | None, variables: Sequence[Hashable] | None = None
) -> ReadTensors:
    """Check one third-order tensor, or several that share variables; none of them leaves its device.

    Parameters
    ----------
    data : tensor or sequence of tensor
        Of the active backend, array_like, or DataArray.
    modes : sequence of (j, k, l), optional
        Variables along the three modes of each, numbered from 0 or by name; may be left out for a single tensor, and
        for DataArrays, whose dimensions they are then.
    variables : sequence of hashable, optional
        Names of the variables, in their order; by default in that in which `modes` names them.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        Data that cannot be used; the message names the tensor.
    """
    is_one = hasattr(data, "shape")
    if not is_one and (isinstance(data, str | bytes) or not isinstance(data, Sequence)):
        raise InvalidTypeError(
            f"data is {type(data).__name__}; expected Marginals, Codes, a third-order tensor, or a list with modes=."
        )
    tensors = [data] if is_one else list(data)
    dims = [tensor.dims for tensor in tensors if hasattr(tensor, "dims")]
    tensors = [tensor.values if hasattr(tensor, "dims") else tensor for tensor in tensors]
    arrays = [_checked_tensor(tensor, f"Tensor {position}") for position, tensor in enumerate(tensors)]
    if modes is None:
        if not arrays or len(arrays) not in (1, len(dims)):
            raise InvalidInputError(
                "A list of tensors needs modes=[(j, k, l), ...]: the variables along each one's modes."
            )
        modes = dims or [(0, 1, 2)]
    mode_array, variables = _checked_modes(modes, len(arrays), variables)
    sizes: dict[int, int] = {}
    for position, (array, mode) in enumerate(zip(arrays, mode_array.tolist(), strict=True)):
        for n, size in zip(mode, array.shape, strict=True):
            if sizes.setdefault(n, int(size)) != size:
                raise InvalidInputError(
                    f"Tensor {position} has {size} entries along variable {n}, an earlier one {sizes[n]}."
                )
    with np.errstate(over="ignore"):
        totals = np.array([float(array.sum()) for array in arrays])
        if not np.isfinite(totals.sum()):
            raise InvalidInputError("The tensors sum to more than the largest number; divide all by the same number.")
    if (totals <= 0).any():
        raise InvalidInputError(f"Tensor {int(np.argmin(totals))} is all zero; leave it out.")
    n_bins = tuple(sizes[n] for n in range(len(sizes)))
    binning = None if variables is None else Binning.from_n_bins(n_bins, variables)
    return ReadTensors(arrays, mode_array, n_bins, totals, tensors[0], binning)


def _checked_tensor(tensor: Any, name: str) -> Any:
    """The tensor in floating-point numbers, of NumPy in double precision."""
    if isinstance(tensor, np.ndarray | list | tuple):
        array = float_array(tensor, name)
    elif tl.is_tensor(tensor):  # of PyTorch or JAX, on its device, in single or double precision
        if "complex" in str(tensor.dtype):
            raise InvalidTypeError(f"{name} has values of type {tensor.dtype}; expected real numbers.")
        array = tensor.detach() if hasattr(tensor, "detach") else tensor
        if array.dtype not in (tl.backend.float32, tl.backend.float64):
            array = getattr(array, "to" if tl.get_backend() == "pytorch" else "astype")(tl.backend.float64)
    else:
        kind = f"{type(tensor).__module__}.{type(tensor).__name__}".removeprefix("builtins.")
        raise InvalidTypeError(
            f'{name} is {kind}; expected an array of NumPy, or of the active TensorLy backend "{tl.get_backend()}" '
            '(of others after tl.set_backend("pytorch") or tl.set_backend("jax")).'
        )
    if array.ndim != 3 or 0 in array.shape:
        raise InvalidInputError(f"{name} has shape {tuple(array.shape)}; expected three non-empty modes.")
    least = float(array.min())
    if least != least:
        raise InvalidInputError(
            f"{name} has NaN entries; expected none: take slices without them, or samples, for count_marginals."
        )
    if not (least >= 0 and float(array.max()) < np.inf):
        raise InvalidInputError(f"{name} has negative or infinite entries; expected counts or probabilities.")
    return array


def _checked_modes(
    modes: Any, n_tensors: int, variables: Sequence[Hashable] | None
) -> tuple[np.ndarray, Sequence[Hashable] | None]:
    """Numbers of the variables along the modes (n_tensors, 3), and their names, where they have any."""
    rows = modes
    try:
        names = [name for mode in modes if np.iterable(mode) for name in mode]
    except TypeError:  # no list of lists, which is refused below
        names = []
    if any(isinstance(name, str) for name in names):
        try:
            variables = list(dict.fromkeys(names) if variables is None else variables)
            rows = [[variables.index(name) for name in mode] for mode in modes]
        except (TypeError, ValueError) as error:
            raise InvalidInputError(f"modes must name three variables per tensor: {error}.") from error
    array = checked_triples(rows, "modes")
    if len(array) != n_tensors:
        raise InvalidInputError(f"modes has {len(array)} rows; expected one for each tensor: {n_tensors}.")
    used = np.unique(array).tolist()
    if used != list(range(len(used))):
        missing = sorted(set(range(len(used))) - set(used))
        raise InvalidInputError(
            f"modes name variables from {used[0]} to {used[-1]}; expected all from 0 to the largest, but {missing} are "
            "in no tensor. Number the variables without gaps."
        )
    return array, variables


#: Samples handled at a time: small enough that the index arrays stay in the processor's cache.
CHUNK_SIZE = 16_384

#: Size in bytes that histograms may have, unless another limit is given.
MAX_BYTES = 1e9

#: What a triple takes beside its cells: two array objects and its indices.
BYTES_PER_TRIPLE = 256


@dataclass(frozen=True, repr=False, eq=False)
class Marginals:
    """Counts of the samples that are complete in each of a set of variable triples.

    Marginals of disjoint samples add up: ``count_marginals(a) + count_marginals(b)`` equals the marginals of both.

    Attributes
    ----------
    counts : tuple of ndarray (n_bins[j], n_bins[k], n_bins[l])
        (Weighted) number of samples per cell, one array per triple.
    triples : ndarray of int (n_triples, 3)
        Variable indices j < k < l.
    totals : ndarray (n_triples,)
        Sum of each array: the (weighted) number of samples complete in the triple.
    binning : Binning
    n_samples : int
        Samples of positive weight with at least three entries; 0 for exact histograms.

    Examples
    --------
    >>> import tensorly_smp as smp
    >>> data = smp.datasets.make_smooth_mixture("gaussian", 500, 4, 2, random_state=0)
    >>> codes = smp.encode_samples(data.X, smp.choose_binning(data.X, n_bins=5))
    >>> marginals = smp.count_marginals(codes)
    >>> marginals.n_triples, marginals.counts[0].shape, float(marginals.totals[0])
    (4, (5, 5, 5), 500.0)
    """

    counts: tuple[np.ndarray, ...]
    triples: np.ndarray
    totals: np.ndarray
    binning: Binning
    n_samples: int

    @staticmethod
    def from_tensors(
        tensors: Any, modes: Sequence[Sequence[int]] | None = None, variables: Sequence[Hashable] | None = None
    ) -> Marginals:
        """Third-order tensors of counts or probabilities, as if they were exact histograms.

        Parameters
        ----------
        tensors : tensor or sequence of tensor
            Of the active TensorLy backend, array_like, or DataArray.
        modes : sequence of (j, k, l), optional
            Variables along the three modes of each, numbered from 0 or by name; may be left out for a single tensor,
            and for DataArrays, whose dimensions they are then. Tensors of the same three variables are added up.
        variables : sequence of hashable, optional
            Their names.

        Returns
        -------
        Marginals
            Of no samples, in NumPy; each tensor has its modes in the order of the variables.

        Raises
        ------
        InvalidInputError, InvalidTypeError
            Tensors, modes or names that cannot be used.

        Examples
        --------
        >>> import numpy as np
        >>> import tensorly_smp as smp
        >>> smp.Marginals.from_tensors(
        ...     [np.ones((2, 3, 4)), np.ones((5, 3, 2))], modes=[(0, 1, 2), (3, 1, 0)]
        ... )
        Marginals(2 triples of 4 variables, 2 to 5 bins, 0 samples)
        """
        return read_tensors(tensors, modes, variables).to_marginals()

    @property
    def n_triples(self) -> int:
        """Number of triples counted."""
        return len(self.triples)

    @property
    def n_variables(self) -> int:
        """Number of variables."""
        return self.binning.n_variables

    @property
    def n_bins(self) -> tuple[int, ...]:
        """Number of bins of every variable."""
        return self.binning.n_bins

    def histogram(self, position: int) -> np.ndarray:
        """Shares X_jkl of the triple at ``position`` (they sum to one), array (n_bins[j], n_bins[k], n_bins[l])."""
        position = checked_integer(position, "position")
        if not -self.n_triples <= position < self.n_triples:
            raise InvalidInputError(f"position is {position}; expected 0 to {self.n_triples - 1}.")
        total = self.totals[position]
        if total <= 0:
            names = [self.binning.variables[n] for n in self.triples[position]]
            raise InvalidInputError(f"No sample is complete in {names}, so this histogram is undefined.")
        return self.counts[position] / total

    def __add__(self, other: Marginals) -> Marginals:
        if not isinstance(other, Marginals):
            return NotImplemented
        if not np.array_equal(self.triples, other.triples):
            raise InvalidInputError("The two Marginals count different triples; count the same list in every chunk.")
        same_edges = self.n_bins == other.n_bins and all(
            np.array_equal(a, b) for a, b in zip(self.binning.edges, other.binning.edges, strict=True)
        )
        if not same_edges or self.binning.variables != other.binning.variables:
            raise InvalidInputError("The two Marginals use different binnings; encode every chunk with the same one.")
        counts = tuple(a + b for a, b in zip(self.counts, other.counts, strict=True))
        return replace(
            self, counts=counts, totals=self.totals + other.totals, n_samples=self.n_samples + other.n_samples
        )

    def __radd__(self, other: object) -> Marginals:
        # The builtin sum() begins with 0.
        return self if isinstance(other, int) and other == 0 else NotImplemented

    def _repr_html_(self) -> str:
        pairs = [
            ("triples", self.n_triples),
            ("variables", f"{self.n_variables}: {listed(self.binning.variables)}"),
            ("bins", number_range(self.n_bins)),
            ("samples", self.n_samples or "none: exact histograms"),
            ("samples in a histogram", f"{self.totals.min():.6g} to {self.totals.max():.6g}"),
        ]
        return html_summary("Marginals", pairs)

    def __repr__(self) -> str:
        size = f"{self.n_variables} variables, {number_range(self.n_bins)} bins"
        return f"Marginals({self.n_triples} triples of {size}, {self.n_samples} samples)"


def count_marginals(
    codes: Codes,
    triples: str | int | Iterable[Sequence[int]] = "all",
    sample_weight: np.ndarray | None = None,
    *,
    random_state: RandomState = None,
    max_bytes: float = MAX_BYTES,
) -> Marginals:
    """Count the joint histogram of every variable triple.

    X_jkl of the paper (Kargas & Sidiropoulos, AISTATS 2019, eq. 6) is ``counts / total`` of the triple. A sample
    counts in a triple when its three entries are present, so incomplete samples are used as far as they go.

    Parameters
    ----------
    codes : Codes
        From :func:`encode_samples`, or ``Codes.from_array`` for data that is integer already.
    triples : "all", int or list of (j, k, l), default "all"
        All C(n_variables, 3) triples, this many random ones that use every variable evenly, or these.
    sample_weight : array (n_samples,), optional
        Non-negative and finite; a sample of weight 2 counts twice.
    random_state : None, int, Generator or RandomState
        Used when ``triples`` is a number.
    max_bytes : float, default 1e9
        Size in bytes that the result may have; checked before anything is allocated. The solver needs about four times
        as much in addition.

    Returns
    -------
    Marginals

    Raises
    ------
    SizeLimitError
        The histograms would take more than ``max_bytes``.
    InvalidInputError
        Fewer than three variables, a triple list that is not usable.

    Warns
    -----
    SparseHistogramWarning
        A triple has no complete sample: it takes no part in the fit. Where that leaves a variable without any triple
        the solver raises, unless other chunks of samples have been added.
    ConstantVariableWarning
        All samples of a variable are in one bin.

    Examples
    --------
    >>> import numpy as np
    >>> import tensorly_smp as smp
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(500, 4))
    >>> marginals = smp.count_marginals(
    ...     smp.encode_samples(X, smp.choose_binning(X, n_bins=5))
    ... )
    >>> marginals
    Marginals(4 triples of 4 variables, 5 bins, 500 samples)
    >>> float(marginals.histogram(0).sum())
    1.0
    """
    if not isinstance(codes, Codes):
        raise InvalidTypeError(
            f"codes is {type(codes).__name__}; expected Codes: encode_samples(X, choose_binning(X))."
        )
    weights = checked_sample_weight(sample_weight, codes.n_samples)
    index = fitting_triples(triples, codes.n_bins, random_state, max_bytes)
    marginals = count_chunk(codes.values, codes.binning, index, weights)
    check_coverage(marginals)
    check_constant(codes)
    return marginals


def fitting_triples(
    triples: str | int | Iterable[Sequence[int]], n_bins: tuple[int, ...], random_state: RandomState, max_bytes: float
) -> np.ndarray:
    """Triples (n_triples, 3) that are asked for, as of :func:`resolve_triples`, if their histograms fit the limit."""
    max_bytes = checked_real(max_bytes, "max_bytes", 0.0, np.inf, "(]")
    n_variables = len(n_bins)

    def require_fit(n_bytes: float) -> None:
        if n_bytes > max_bytes:
            raise SizeLimitError(
                f"The histograms would take {n_bytes / 1e9:.3g} GB, over the limit of {max_bytes / 1e9:.3g} GB. Use "
                f"fewer bins, a number of triples (triples={max(n_variables, 10)} or more) or a larger max_bytes in "
                'count_marginals; for codes, loss="frobenius" with NumPy needs none.'
            )

    # First without listing any triple: a number of them takes at least what as many of the smallest variables would.
    if isinstance(triples, str):
        require_fit(bytes_of_histograms(n_bins))
    elif is_integer(triples):
        n_triples = min(int(triples), comb(n_variables, 3))  # that more are too many is said elsewhere
        require_fit(n_triples * (8 * float(np.prod(sorted(n_bins)[:3])) + BYTES_PER_TRIPLE))
    index = resolve_triples(triples, n_variables, random_state)
    n_cells = np.asarray(n_bins, dtype=float)[index].prod(axis=1).sum()
    require_fit(8 * float(n_cells) + BYTES_PER_TRIPLE * len(index))
    return index


def bytes_of_histograms(n_bins: tuple[int, ...]) -> float:
    """Size of the histograms of all triples."""
    return 8.0 * symmetric_sums(n_bins)[2] + BYTES_PER_TRIPLE * comb(len(n_bins), 3)


def count_chunk(
    values: np.ndarray, binning: Binning, triples: np.ndarray, sample_weight: np.ndarray | None
) -> Marginals:
    """Marginals of some of the samples, to be added to others: nothing is checked, nobody is warned.

    Parameters
    ----------
    values : ndarray of int (n_samples, n_variables)
        As in Codes; perhaps no sample at all.
    binning : Binning
    triples : ndarray of int (n_triples, 3)
        Each j < k < l, in lexicographic order.
    sample_weight : ndarray (n_samples,) or None
    """
    n_bins = binning.n_bins
    shapes = [(n_bins[j], n_bins[k], n_bins[m]) for j, k, m in triples]
    sizes = [a * b * c for a, b, c in shapes]
    counts = [np.zeros(size) for size in sizes]
    n_samples = 0
    for start in range(0, len(values), CHUNK_SIZE):
        chunk = np.ascontiguousarray(values[start : start + CHUNK_SIZE].T, dtype=np.int64)
        weights = None if sample_weight is None else sample_weight[start : start + CHUNK_SIZE]
        is_useful = np.count_nonzero(chunk >= 0, axis=0) >= 3
        n_samples += int(np.count_nonzero(is_useful if weights is None else is_useful & (weights > 0)))
        # Far enough below zero that no sum with valid codes comes back above zero.
        chunk[chunk < 0] = -max(sizes)
        incomplete = chunk.min() < 0
        pair = (-1, -1)
        pair_code = chunk[0]
        # One bincount per triple; a missing entry sends the sample to one extra, dropped cell.
        for position, (j, k, m) in enumerate(triples):
            if (j, k) != pair:  # lexicographic order: each pair is computed once
                pair = (j, k)
                pair_code = chunk[j] * n_bins[k] + chunk[k]
            cell = pair_code * n_bins[m] + chunk[m]
            if incomplete:
                cell[cell < 0] = sizes[position]
            counts[position] += np.bincount(cell, weights, minlength=sizes[position] + 1)[:-1]
    totals = np.array([count.sum() for count in counts])
    arrays = tuple(count.reshape(shape) for count, shape in zip(counts, shapes, strict=True))
    return Marginals(arrays, triples, totals, binning, n_samples)


def univariate_marginals(data: Marginals | Codes, sample_weight: np.ndarray | None = None) -> list[np.ndarray]:
    """Share of the samples in every bin of every variable, a list of arrays (n_bins[n],).

    Parameters
    ----------
    data : Marginals or Codes
        Of Marginals, over all triples that contain the variable.
    sample_weight : ndarray (n_samples,), optional
        Of Codes.

    Raises
    ------
    InvalidInputError
        A variable has no observed value, or is in no triple that has been counted.
    """
    counts = [np.zeros(size) for size in data.n_bins]
    if isinstance(data, Codes):
        for count, column in zip(counts, data.values.T, strict=True):
            present = column >= 0
            weights = None if sample_weight is None else sample_weight[present]
            count += np.bincount(column[present], weights, len(count))
    else:
        for triple, count in zip(data.triples.tolist(), data.counts, strict=True):
            for axis, n in enumerate(triple):
                counts[n] += count.sum(axis=tuple({0, 1, 2} - {axis}))
    unknown = [name for name, count in zip(data.binning.variables, counts, strict=True) if not count.sum() > 0]
    if unknown:
        raise InvalidInputError(f"Variables {listed(unknown, 5)} have no observed value, or are in no triple counted.")
    return [count / count.sum() for count in counts]


def check_coverage(marginals: Marginals) -> None:
    """Warn of triples without samples."""
    names = marginals.binning.variables
    empty = [tuple(names[n] for n in triple) for triple in marginals.triples[marginals.totals <= 0].tolist()]
    if empty:
        number = f"{len(empty)} of {marginals.n_triples} triples"
        message = f"{number} have no complete sample and take no part in the fit: {listed(empty, 5)}."
        warn(message, SparseHistogramWarning)


def check_constant(codes: Codes) -> None:
    """Warn of variables all of whose samples are in one bin."""
    constant = []
    for n, name in enumerate(codes.binning.variables):
        column = codes.values[:, n]
        present = column[column >= 0]
        if len(present) and present.min() == present.max() and name not in codes.binning.constant:
            constant.append(name)
    if constant:
        message = (
            f"All samples of {listed(constant)} are in one bin: constant, or one far outlier sets the range (then try "
            "choose_binning(..., coverage=0.99)). Such a variable does not separate components."
        )
        warn(ConstantVariableWarning(message, variables=constant))
