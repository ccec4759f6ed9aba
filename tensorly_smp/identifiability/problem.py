"""The problem: a model or sizes, and the distributions that are known."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import comb
from typing import Any

import numpy as np

from tensorly_smp._support.checks import checked_integer, checked_real, is_integer
from tensorly_smp._support.randomness import RandomState, as_generator
from tensorly_smp._support.representations import reason, shown
from tensorly_smp.decomposition.solution import CoupledSolution
from tensorly_smp.exceptions import InvalidInputError, InvalidTypeError, SizeLimitError, TensorlySmpError
from tensorly_smp.factors.mixture_factors import EMPTY_WEIGHT, MixtureFactors
from tensorly_smp.identifiability.alike import AlikePair, alike_pairs, separations
from tensorly_smp.identifiability.bounds import checked_sizes
from tensorly_smp.identifiability.issues import n_parameters, variable_names
from tensorly_smp.identifiability.known import KNOWN, Known
from tensorly_smp.identifiability.rivals import describe_rivals
from tensorly_smp.identifiability.stacked import TOLERANCE
from tensorly_smp.marginals.histograms import Marginals
from tensorly_smp.marginals.partition import Partition, as_partition
from tensorly_smp.marginals.triples import resolve_triples

# Fitted factors are never asked for independence to more digits than this, however many samples there are.
_FITTED_TOLERANCE = 1e-3
# Random factors for sizes without data: no more entries, and no more columns, than these.
_MAX_DRAWN_ENTRIES, _MAX_DRAWN_RANK = 5_000_000, 500
_MAX_SIZE = 2**31  # of the rank, and of all bins together: beyond, bounds overflow


@dataclass(frozen=True, eq=False)
class Problem:
    """Sizes, known distributions and, unless it is about almost every model, weights and factors.

    Attributes
    ----------
    n_bins : tuple of int
    rank : int
    names : tuple of hashable
        Of the variables.
    known : Known
        Sets of variables whose joint distribution is known.
    partition : Partition or None
        The given one.
    weights, factors : ndarray (rank,) and tuple of ndarray (n_bins[n], rank), or None
        None if only sizes are given.
    fine : tuple of ndarray (n_cells, rank) or None
        Probabilities of equally wide cells of fitted densities, where whole samples are known and some variable has
        more than its bins: factors of discrete variables are the probabilities of their values.
    n_samples : int or None
        Size of the sample that the factors were fitted to; None if they are exact, or of an unknown number of samples.
    alike : tuple of AlikePair
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
    known: Known
    partition: Partition | None
    weights: np.ndarray | None
    factors: tuple[np.ndarray, ...] | None
    fine: tuple[np.ndarray, ...] | None
    n_samples: int | None
    alike: tuple[AlikePair, ...]
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


def read_problem(
    subject: Any,
    sizes: tuple[Any, Any, Any],
    given: tuple[Any, Any, Any, Any],
    parallel_cosine: Any,
    max_parameters: Any,
    random_state: RandomState,
) -> Problem:
    """Problem from the arguments of check_identifiability, checked.

    Of these are `sizes` the numbers of variables, bins and components, and `given` known, partition, triples, patterns.
    """
    n_variables, n_bins, rank = sizes
    known, partition, triples, patterns = given
    if is_integer(subject):
        if n_variables is not None:
            raise InvalidInputError(f"n_variables is given twice, as {shown(subject)} and as {shown(n_variables)}.")
        n_variables = subject
        subject = None
    recorded = subject.triples if isinstance(subject, Marginals) else None
    factors = (
        None if subject is None or isinstance(subject, Marginals) else _read_model(subject, n_variables, n_bins, rank)
    )
    bins, components, names = _read_sizes(subject if factors is None else factors, n_variables, n_bins, rank)
    from tensorly_smp.densities.spline_dataset import fine_probabilities

    dataset = getattr(subject, "result_", subject)
    rng = as_generator(random_state)
    found = _read_known(known, triples, patterns, dataset, recorded, len(bins), rng)
    is_smooth = found.is_joint and "spline" in getattr(dataset, "data_vars", ())
    cells = fine_probabilities(dataset, factors) if is_smooth and factors is not None else None
    n_samples = getattr(dataset, "attrs", {}).get("n_samples")
    return Problem(
        n_bins=bins,
        rank=components,
        names=names,
        known=found,
        partition=None if partition is None else as_partition(partition, len(bins)),
        weights=None if factors is None else factors.weights,
        factors=None if factors is None else factors.factors,
        fine=None if cells is None or bool(dataset["discrete"].all()) else tuple(cells),
        n_samples=None if n_samples is None or factors is None else int(n_samples),
        alike=() if cells is None or factors is None else _alike(dataset, cells, factors.weights),
        rivals=_rivals(dataset, names),
        drawn=_draw(bins, components, rng),
        parallel_cosine=_checked_cosine(parallel_cosine),
        max_parameters=checked_integer(max_parameters, "max_parameters", 0),
    )


def _read_model(subject: Any, n_variables: Any, n_bins: Any, rank: Any) -> MixtureFactors:
    """Factors of a model, which leaves no sizes to be named."""
    sizes = {"n_variables": n_variables, "n_bins": n_bins, "rank": rank}
    named_sizes = [name for name, size in sizes.items() if size is not None]
    if named_sizes:
        raise InvalidInputError(
            f"Both a model and {named_sizes} are given; the model has its own sizes, leave them out."
        )
    return as_factors(subject)


def _read_sizes(
    subject: Marginals | MixtureFactors | None, n_variables: Any, n_bins: Any, rank: Any
) -> tuple[tuple[int, ...], int, tuple[Hashable, ...]]:
    """Numbers of bins, number of components and names of the variables: those of the subject, if it has them."""
    if isinstance(subject, MixtureFactors):
        bins, components = _checked_sizes(subject.n_variables, subject.n_bins, subject.rank)
        return bins, components, variable_names(subject)
    if isinstance(subject, Marginals):
        if n_variables is not None or n_bins is not None:
            raise InvalidInputError("Marginals have their own numbers of variables and bins; pass the rank alone.")
        bins, components = _checked_sizes(subject.n_variables, subject.n_bins, rank)
        return bins, components, subject.binning.variables
    bins, components = _checked_sizes(n_variables, n_bins, rank)
    return bins, components, tuple(f"x{n}" for n in range(len(bins)))


def _read_known(
    known: Any,
    triples: Any,
    patterns: Any,
    dataset: Any,
    recorded: np.ndarray | None,
    n_variables: int,
    rng: np.random.Generator,
) -> Known:
    """The known distributions: those that are given, else those that made the subject."""
    if known is not None and (not isinstance(known, str) or known not in KNOWN):
        raise InvalidInputError(f"known is {shown(known)}; expected one of {list(KNOWN)}.")
    if known is None and triples is None:
        refine = getattr(dataset, "attrs", {}).get("refine", "none")
        known = "samples" if patterns is not None or refine in ("em", "smooth") else "triples"
    elif known is None:
        known = "triples"
    if known == "triples":
        if patterns is not None:
            raise InvalidInputError('patterns are of whole samples; expected known="samples" with them.')
        if triples is None:
            triples = _recorded_triples(dataset) if recorded is None else recorded
        return Known.of_triples(n_variables, _checked_triples(triples, n_variables, rng))
    if triples is not None:
        raise InvalidInputError('triples are given and known="samples"; expected known="triples" with them.')
    if patterns is None and "patterns" in getattr(dataset, "data_vars", ()):
        patterns = dataset["patterns"].transpose("pattern", "variable").values
    if patterns is None:
        return Known.of_samples(n_variables)
    patterns = np.asarray(patterns)
    if patterns.ndim == 2 and patterns.shape[1] != n_variables:
        raise InvalidInputError(f"patterns has {patterns.shape[1]} columns; expected {n_variables}, one per variable.")
    found = Known.of_samples(n_variables, patterns)
    if max(map(len, found.patterns)) < 3:
        raise InvalidInputError("No sample has three observed variables; expected patterns of at least three.")
    return found


def _alike(dataset: Any, fine: Sequence[np.ndarray], weights: np.ndarray) -> tuple[AlikePair, ...]:
    """Pairs whose densities, but for those of two variables, would be one by Akaike's criterion."""
    if "n_samples" not in dataset.attrs or "n_parameters" not in dataset.attrs:
        return ()
    separation = separations(fine, weights, float(dataset.attrs["n_samples"]))
    n_mixed = 0 if "mixed" not in dataset or dataset.attrs["is_product"] else int(dataset["mixed"].sum())
    n_densities = float(dataset.attrs["n_parameters"]) - n_mixed * (n_mixed - 1)  # the rest are those of a matrix
    return tuple(alike_pairs(separation, weights, n_densities / len(weights)))


def _rivals(dataset: Any, names: Sequence[Hashable]) -> tuple[str, ...]:
    """Sentences about the rivals of a fit."""
    if "rival_criterion" not in getattr(dataset, "data_vars", ()):
        return ()
    return tuple(describe_rivals(dataset, names))


def _recorded_triples(subject: Any) -> Any:
    """Triples that a fit was made from, where the subject tells."""
    if isinstance(subject, CoupledSolution):
        return "all" if subject.triples is None else subject.triples
    return subject["triples"].values if "triples" in getattr(subject, "data_vars", ()) else "all"


def as_factors(subject: Any) -> MixtureFactors:
    """Factors in NumPy arrays, of a solution, of factors, or of a Dataset made of either."""
    if isinstance(subject, CoupledSolution):
        return subject.factors.to_numpy()
    if isinstance(subject, MixtureFactors):
        return subject.to_numpy()
    import xarray as xr

    from tensorly_smp.decomposition.solution import factors_from_dataset

    subject = getattr(subject, "result_", subject)
    if isinstance(subject, xr.Dataset):
        try:
            return factors_from_dataset(subject).to_numpy()
        except TensorlySmpError:
            raise
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise InvalidInputError(f"The Dataset is none that to_dataset() or fit made: {reason(error)}.") from error
    raise InvalidTypeError(
        f"subject is {type(subject).__name__}; expected a fitted SmoothProductMixture, a CoupledSolution, "
        "MixtureFactors, the Dataset of a fit or Marginals with a rank, or sizes: "
        "check_identifiability(n_variables=10, n_bins=15, rank=5), or check_identifiability(10, 15, 5)."
    )


def _draw(
    n_bins: Sequence[int], rank: int, rng: np.random.Generator
) -> tuple[np.ndarray, tuple[np.ndarray, ...]] | None:
    """Weights and factors that stand for almost every model; None if they would be too large."""
    if rank > _MAX_DRAWN_RANK or rank * sum(n_bins) > _MAX_DRAWN_ENTRIES:
        return None
    weights = 0.5 * rng.dirichlet(np.ones(rank)) + 0.5 / rank
    return weights, tuple(rng.dirichlet(np.ones(size), size=rank).T for size in n_bins)


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


def _checked_cosine(value: Any) -> float:
    return checked_real(value, "parallel_cosine", 0.0, 1.0, "()")


def _checked_triples(triples: Any, n_variables: int, rng: np.random.Generator) -> np.ndarray | None:
    """The known triples; None for all of them, which for a thousand variables are too many to list."""
    if isinstance(triples, str) and triples == "all":
        return None
    chosen = resolve_triples(triples, n_variables, rng)
    return None if len(chosen) == comb(n_variables, 3) else chosen
