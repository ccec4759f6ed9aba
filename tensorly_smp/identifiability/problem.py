"""The problem: a model or sizes, and the known part of the distribution, read from the arguments of the report."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, islice
from math import comb, prod
from typing import Any, Literal

import numpy as np
import xarray as xr

from tensorly_smp._support.checks import RandomState, as_generator, checked_integer, checked_real, is_integer
from tensorly_smp._support.representations import number_range, reason, shown
from tensorly_smp._support.result_schema import result_values
from tensorly_smp.decomposition.solution import CoupledSolution, factors_from_dataset
from tensorly_smp.densities.smooth import fine_probabilities
from tensorly_smp.exceptions import InvalidInputError, InvalidTypeError, SizeLimitError, TensorlySmpError
from tensorly_smp.factors.mixture_factors import EMPTY_WEIGHT, MixtureFactors
from tensorly_smp.identifiability.bounds import checked_sizes
from tensorly_smp.identifiability.likeness import TOLERANCE, ComponentPair, alike_pairs, separations
from tensorly_smp.marginals.block_tensor import Partition, as_partition
from tensorly_smp.marginals.histograms import Marginals, resolve_triples

KnownName = Literal["triples", "samples"]
#: Values of the argument `known`.
KNOWN: tuple[KnownName, ...] = ("triples", "samples")

# Triples inside the patterns are listed up to this number; beyond, the patterns alone are used.
_MOST_TRIPLES = 20_000
# Intersections of this many patterns are added and subtracted when their cells are counted.
_MOST_COUNTED_PATTERNS = 12
# Fitted factors are never asked for independence to more digits than this, however many samples there are.
_FITTED_TOLERANCE = 1e-3
# Random factors for sizes without data: no more entries, and no more columns, than these.
_MAX_DRAWN_ENTRIES, _MAX_DRAWN_RANK = 5_000_000, 500
_MAX_SIZE = 2**31  # of the rank, and of all bins together: beyond, bounds overflow


@dataclass(frozen=True, eq=False)
class KnownMarginals:
    """Sets of variables whose joint distribution is known exactly.

    Attributes
    ----------
    name : {"triples", "samples"}
    n_variables : int
    triples : ndarray of int (n_triples, 3) or None
        The known triples, those inside a pattern of whole samples included; None if all are known, which for a
        thousand variables are too many to list.
    patterns : tuple of tuple of int
        For "samples", the variables that are observed together, each set in increasing order and none inside another.
        Empty for "triples".
    """

    name: KnownName
    n_variables: int
    triples: np.ndarray | None = None
    patterns: tuple[tuple[int, ...], ...] = ()

    @classmethod
    def of_triples(cls, n_variables: int, triples: np.ndarray | None = None) -> KnownMarginals:
        """Histograms of triples, by default all of them."""
        if triples is not None and len(triples) == comb(n_variables, 3):
            triples = None
        return cls("triples", n_variables, triples)

    @classmethod
    def of_samples(cls, n_variables: int, observed: np.ndarray | None = None) -> KnownMarginals:
        """Whole samples, or the patterns of observed variables (n_patterns, n_variables) in them."""
        full = (tuple(range(n_variables)),)
        patterns: tuple[tuple[int, ...], ...] = full
        if observed is not None:
            patterns = tuple(tuple(np.flatnonzero(pattern).tolist()) for pattern in maximal_patterns(observed))
        if patterns == full:
            return cls("samples", n_variables, None, full)
        # Up to a limit: a part of what is known proves no less truly.
        found: dict[tuple[int, ...], None] = {}
        for pattern in patterns:
            room = max(_MOST_TRIPLES - len(found), 1)
            found |= dict.fromkeys(islice((t for t in combinations(pattern, 3) if t not in found), room))
        return cls("samples", n_variables, np.array(sorted(found), dtype=np.intp).reshape(-1, 3), patterns)

    @property
    def is_joint(self) -> bool:
        """True if whole samples are known."""
        return self.name == "samples"

    @property
    def n_triples(self) -> int:
        """Number of known triples; those inside many patterns are counted up to a limit."""
        return comb(self.n_variables, 3) if self.triples is None else len(self.triples)

    @cached_property
    def margins(self) -> tuple[tuple[int, ...], ...] | None:
        """Sets of variables whose joint distributions are the data; None for all triples."""
        if self.is_joint:
            return self.patterns
        return None if self.triples is None else tuple(tuple(triple) for triple in self.triples.tolist())

    def describe(self) -> str:
        """The known distributions in a few words, such as "all 10 triples known"."""
        if not self.is_joint:
            possible = comb(self.n_variables, 3)
            if self.n_triples == possible:
                return "the triple known" if possible == 1 else f"all {possible} triples known"
            return f"{self.n_triples} of {possible} triples known"
        if self.patterns == (tuple(range(self.n_variables)),):
            return "whole samples known"
        n_patterns = len(self.patterns)
        span = number_range(map(len, self.patterns))
        return f"samples known in {n_patterns} pattern{'s' * (n_patterns > 1)} of {span} variables"

    def n_independent_cells(self, n_bins: Sequence[int]) -> int:
        """Free probabilities of the known distributions, or an upper bound if there are many patterns.

        The distribution of a set of variables is made of one interaction for each of its subsets T, of dimension
        prod (I_n - 1) over T. Distributions of two sets share those of the common subsets: triples the pair, or the
        variable, in which they overlap.

        Parameters
        ----------
        n_bins : sequence of int
        """
        gains = [int(size) - 1 for size in n_bins]
        if not self.is_joint and self.triples is None:
            return int(sum(symmetric_sums(gains)))
        if self.triples is not None and not self.is_joint:
            subsets = {
                some for triple in self.triples.tolist() for size in (1, 2, 3) for some in combinations(triple, size)
            }
            return sum(prod(gains[n] for n in some) for some in subsets)
        sizes = [prod(int(n_bins[n]) for n in pattern) - 1 for pattern in self.patterns]
        if len(self.patterns) > _MOST_COUNTED_PATTERNS:
            return min(sum(sizes), prod(int(size) for size in n_bins) - 1)
        total = 0
        for count in range(1, len(self.patterns) + 1):
            for some in combinations(self.patterns, count):
                shared = set(some[0]).intersection(*some[1:])
                total -= (-1) ** count * (prod(int(n_bins[n]) for n in shared) - 1)
        return total


def symmetric_sums(values: Iterable[Any]) -> tuple[Any, Any, Any]:
    """Elementary symmetric polynomials: sums of the values, of products of two, of products of three."""
    e1: Any = 0
    e2: Any = 0
    e3: Any = 0
    for value in values:
        e3 = e3 + value * e2
        e2 = e2 + value * e1
        e1 = e1 + value
    return e1, e2, e3


def maximal_patterns(observed: Any) -> np.ndarray:
    """Patterns of observed variables that lie in no other one: these determine what all of them determine.

    Parameters
    ----------
    observed : array_like of bool (n_patterns, n_variables)
        Which variables are observed together; rows may repeat.

    Returns
    -------
    ndarray of bool (n_maximal, n_variables)
        Those with most variables first.

    Raises
    ------
    InvalidInputError
        If the array is not two-dimensional, or a variable is in no pattern.
    InvalidTypeError
        If it does not hold booleans.

    Examples
    --------
    >>> maximal_patterns([[True, True, False], [True, False, False], [False, True, True]]).astype(int).tolist()
    [[0, 1, 1], [1, 1, 0]]
    """
    array = np.asarray(observed)
    if array.ndim != 2 or array.size == 0:
        raise InvalidInputError(f"patterns has shape {array.shape}; expected (n_patterns, n_variables).")
    if array.dtype != bool and not np.isin(array, (0, 1)).all():
        raise InvalidTypeError(f"patterns is of type {array.dtype}; expected booleans, True where a variable is seen.")
    array = np.unique(array.astype(bool), axis=0)
    if not array.any(axis=0).all():
        raise InvalidInputError(f"Variables {np.flatnonzero(~array.any(axis=0)).tolist()} are in no pattern.")
    array = array[np.argsort(-array.sum(axis=1), kind="stable")]
    kept = np.zeros((0, array.shape[1]), dtype=bool)
    for pattern in array:
        if not (kept | ~pattern).all(axis=1).any():
            kept = np.vstack([kept, pattern])
    return kept


def observed_patterns(observed: np.ndarray, most: int = 200) -> np.ndarray | None:
    """Patterns of observed variables that a report on samples with missing entries is about.

    Parameters
    ----------
    observed : ndarray of bool (n_samples, n_variables)
    most : int
        No more patterns than this are taken, those with most variables first, and one more for every variable that is
        in none of them. Fewer patterns prove less, and nothing that is not so.

    Returns
    -------
    ndarray of bool (n_patterns, n_variables) or None
        None if some sample is complete: whole samples are then known.

    Examples
    --------
    >>> observed_patterns(np.array([[True, True, False], [False, True, True], [False, True, False]])).shape
    (2, 3)
    """
    if observed.all(axis=1).any() or not observed.any(axis=0).all():
        return None
    patterns = np.unique(observed, axis=0)
    patterns = patterns[np.argsort(-patterns.sum(axis=1), kind="stable")]
    uncovered = np.flatnonzero(~patterns[:most].any(axis=0))
    chosen = [*range(min(most, len(patterns))), *(int(np.argmax(patterns[:, n])) for n in uncovered)]
    return maximal_patterns(patterns[chosen])


@dataclass(frozen=True, eq=False)
class IdentifiabilityProblem:
    """Sizes, known distributions and, unless it is about almost every model, weights and factors.

    Attributes
    ----------
    n_bins : tuple of int
    rank : int
    names : tuple of hashable
        Of the variables.
    known : KnownMarginals
        Sets of variables whose joint distribution is known.
    partition : Partition or None
        The given one.
    weights, factors : ndarray (rank,) and tuple of ndarray (n_bins[n], rank), or None
        None if only sizes are given.
    fine : tuple of ndarray (n_cells, rank) or None
        Probabilities of equally wide cells of fitted densities, where whole samples are known and some variable has
        more than its bins: factors of discrete variables are the probabilities of their values.
    n_samples : float or None
        Sum of the weights of the samples that the factors were fitted to; None if they are exact, or that is unknown.
    alike : tuple of ComponentPair
        Pairs of components that samples tell apart in at most two variables, where densities were fitted to some.
    rivals : tuple of str
        Sentences about the other solutions of a fit that may be as good.
    drawn : weights and factors, or None
        A random model of the same sizes, which stands for almost every one; None if it would be too large.
    parallel_cosine : float
    max_parameters : int
    """

    n_bins: tuple[int, ...]
    rank: int
    names: tuple[Hashable, ...]
    known: KnownMarginals
    partition: Partition | None
    weights: np.ndarray | None
    factors: tuple[np.ndarray, ...] | None
    fine: tuple[np.ndarray, ...] | None
    n_samples: float | None
    alike: tuple[ComponentPair, ...]
    rivals: tuple[str, ...]
    drawn: tuple[np.ndarray, tuple[np.ndarray, ...]] | None
    parallel_cosine: float
    max_parameters: int

    @property
    def is_generic(self) -> bool:
        """True if only sizes are given."""
        return self.factors is None

    @cached_property
    def n_parameters(self) -> int:
        """Free parameters of the model."""
        return n_parameters(self.n_bins, self.rank)

    @cached_property
    def empty(self) -> np.ndarray:
        """Components of next to no weight."""
        if self.weights is None:
            return np.zeros(0, dtype=int)
        return np.flatnonzero(self.weights < EMPTY_WEIGHT)

    @property
    def tolerance(self) -> float:
        """Singular values of unit columns that count as zero: rounding, or the uncertainty of the samples of a fit."""
        if self.n_samples is None:
            return TOLERANCE if self.fine is None else _FITTED_TOLERANCE
        return max(_FITTED_TOLERANCE, max(self.n_samples, 1) ** -0.5)


def n_parameters(n_bins: Sequence[int], rank: int) -> int:
    """Free parameters of the model: R - 1 weights and I_n - 1 probabilities per column."""
    return rank - 1 + rank * sum(int(size) - 1 for size in n_bins)


def variable_names(factors: MixtureFactors) -> tuple[Hashable, ...]:
    """Names of the binning, or x0, x1, ..."""
    if factors.binning is not None:
        return factors.binning.variables
    return tuple(f"x{n}" for n in range(factors.n_variables))


def read_problem(
    subject: Any,
    sizes: tuple[Any, Any, Any],
    given: tuple[Any, Any, Any, Any],
    parallel_cosine: Any,
    max_parameters: Any,
    random_state: RandomState,
) -> IdentifiabilityProblem:
    """Problem from the arguments of check_identifiability, checked.

    Of these are `sizes` the numbers of variables, bins and components, and `given` known, partition, triples, patterns.
    """
    n_variables, n_bins, rank = sizes
    if is_integer(subject):
        if n_variables is not None:
            raise InvalidInputError(f"n_variables is given twice, as {shown(subject)} and as {shown(n_variables)}.")
        n_variables = subject
        subject = None
    bins, components, names, factors = _read_subject(subject, n_variables, n_bins, rank)
    dataset = getattr(subject, "result_", subject)
    recorded = getattr(dataset, "data_vars", ())
    rng = as_generator(random_state)
    known = _read_known(given, dataset, len(bins), rng)
    is_smooth = known.is_joint and "spline" in recorded
    cells = fine_probabilities(dataset, factors) if is_smooth and factors is not None else None
    attrs = {} if factors is None else getattr(dataset, "attrs", {})
    n_samples = attrs.get("total_weight", attrs.get("n_samples"))
    drawn = None
    if components <= _MAX_DRAWN_RANK and components * sum(bins) <= _MAX_DRAWN_ENTRIES:
        # Weights and factors that stand for almost every model.
        weights = 0.5 * rng.dirichlet(np.ones(components)) + 0.5 / components
        drawn = weights, tuple(rng.dirichlet(np.ones(size), size=components).T for size in bins)
    return IdentifiabilityProblem(
        n_bins=bins,
        rank=components,
        names=names,
        known=known,
        partition=None if given[1] is None else as_partition(given[1], len(bins)),
        weights=None if factors is None else factors.weights,
        factors=None if factors is None else factors.factors,
        fine=None if cells is None or bool(dataset["discrete"].all()) else tuple(cells),
        n_samples=None if n_samples is None else float(n_samples),
        alike=() if cells is None or factors is None else _alike(dataset, cells, factors.weights, n_samples),
        rivals=tuple(dataset["rival_description"].values.tolist()) if "rival_description" in recorded else (),
        drawn=drawn,
        parallel_cosine=checked_real(parallel_cosine, "parallel_cosine", 0.0, 1.0, "()"),
        max_parameters=checked_integer(max_parameters, "max_parameters", 0),
    )


def _read_subject(
    subject: Any, n_variables: Any, n_bins: Any, rank: Any
) -> tuple[tuple[int, ...], int, tuple[Hashable, ...], MixtureFactors | None]:
    """Numbers of bins, number of components, names of the variables, and factors if the subject has them."""
    factors = None
    if subject is None:
        bins, components = _checked_sizes(n_variables, n_bins, rank)
        names: tuple[Hashable, ...] = tuple(f"x{n}" for n in range(len(bins)))
    elif isinstance(subject, Marginals):
        if n_variables is not None or n_bins is not None:
            raise InvalidInputError("Marginals have their own numbers of variables and bins; pass the rank alone.")
        bins, components = _checked_sizes(subject.n_variables, subject.n_bins, rank)
        names = subject.binning.variables
    else:
        sizes_by_name = {"n_variables": n_variables, "n_bins": n_bins, "rank": rank}
        if named := [name for name, size in sizes_by_name.items() if size is not None]:
            raise InvalidInputError(f"Both a model and {named} are given; the model has its own sizes, leave them out.")
        dataset = getattr(subject, "result_", subject)
        if isinstance(subject, CoupledSolution):
            factors = subject.factors.to_numpy()
        elif isinstance(subject, MixtureFactors):
            factors = subject.to_numpy()
        elif isinstance(dataset, xr.Dataset):
            try:
                factors = factors_from_dataset(dataset).to_numpy()
            except TensorlySmpError:
                raise
            except (KeyError, IndexError, TypeError, ValueError) as error:
                raise InvalidInputError(
                    f"The Dataset is none that to_dataset() or fit made: {reason(error)}."
                ) from error
        else:
            raise InvalidTypeError(
                f"subject is {type(subject).__name__}; expected a fitted SmoothProductMixture, a CoupledSolution, "
                "MixtureFactors, the Dataset of a fit or Marginals with a rank, or sizes: "
                "check_identifiability(n_variables=10, n_bins=15, rank=5), or check_identifiability(10, 15, 5)."
            )
        bins, components = _checked_sizes(factors.n_variables, factors.n_bins, factors.rank)
        names = variable_names(factors)
    return bins, components, names, factors


def _read_known(
    given: tuple[Any, Any, Any, Any], dataset: Any, n_variables: int, rng: np.random.Generator
) -> KnownMarginals:
    """The known distributions: those that are given, else those that made the subject, where it tells."""
    known, _, triples, patterns = given
    if known is not None and (not isinstance(known, str) or known not in KNOWN):
        raise InvalidInputError(f"known is {shown(known)}; expected one of {list(KNOWN)}.")
    recorded = getattr(dataset, "data_vars", ())
    if known is None and triples is None:
        refine = getattr(dataset, "attrs", {}).get("refine", "none")
        known = "samples" if patterns is not None or refine in ("em", "smooth") else "triples"
    if known != "samples":
        if patterns is not None:
            raise InvalidInputError('patterns are of whole samples; expected known="samples" with them.')
        if triples is None:
            triples = getattr(dataset, "triples", None) if isinstance(dataset, CoupledSolution | Marginals) else None
            triples = dataset["triples"].values if "triples" in recorded else triples
        if triples is None or (isinstance(triples, str) and triples == "all"):
            return KnownMarginals.of_triples(n_variables)
        return KnownMarginals.of_triples(n_variables, resolve_triples(triples, n_variables, rng))
    if triples is not None:
        raise InvalidInputError('triples are given and known="samples"; expected known="triples" with them.')
    if patterns is None and "patterns" in recorded:
        patterns = result_values(dataset, "patterns")
    if patterns is None:
        return KnownMarginals.of_samples(n_variables)
    patterns = np.asarray(patterns)
    if patterns.ndim == 2 and patterns.shape[1] != n_variables:
        raise InvalidInputError(f"patterns has {patterns.shape[1]} columns; expected {n_variables}, one per variable.")
    found = KnownMarginals.of_samples(n_variables, patterns)
    if max(map(len, found.patterns)) < 3:
        raise InvalidInputError("No sample has three observed variables; expected patterns of at least three.")
    return found


def _alike(
    dataset: Any, fine: Sequence[np.ndarray], weights: np.ndarray, n_samples: float | None
) -> tuple[ComponentPair, ...]:
    """Pairs whose densities, but for those of two variables, would be one by Akaike's criterion."""
    if n_samples is None or "n_parameters" not in dataset.attrs:
        return ()
    separation = separations(fine, weights, float(n_samples))
    n_mixed = 0 if "mixed" not in dataset or dataset.attrs["is_product"] else int(dataset["mixed"].sum())
    n_densities = float(dataset.attrs["n_parameters"]) - n_mixed * (n_mixed - 1)  # the rest are those of a matrix
    return tuple(alike_pairs(separation, weights, n_densities / len(weights)))


def _checked_sizes(n_variables: Any, n_bins: Any, rank: Any) -> tuple[tuple[int, ...], int]:
    if n_bins is None or rank is None:
        raise InvalidInputError(
            "Expected a model, or n_variables, n_bins and rank. For the highest rank that sizes allow see "
            "max_identifiable_rank, for the number of bins min_bins_for_rank."
        )
    if n_variables is None and is_integer(n_bins):
        raise InvalidInputError(f"n_bins is {n_bins} and n_variables is not given; pass n_variables too.")
    checked = tuple(checked_sizes(n_variables, n_bins))
    rank = checked_integer(rank, "rank", 1)
    if max(sum(checked), rank) > _MAX_SIZE:
        raise SizeLimitError(f"{sum(checked)} bins and rank {rank}; expected at most {_MAX_SIZE} of each.")
    return checked, rank
