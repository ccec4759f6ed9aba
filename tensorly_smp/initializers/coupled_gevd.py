"""Algebraic start for all variables: the block tensor of a partition, decomposed by generalized eigenvalues.

The first two modes, stacked over many variables, are compressed to ``rank`` by the leading singular vectors of the pair
block Y12 (the sum of Y over the bins of one variable of the third mode), each cell divided by the square root of its
probability, as in correspondence analysis: that evens out the sampling noise. What is left is one rank x rank slice per
bin of the third mode, which :func:`decompose_core` diagonalizes together. Samples are decomposed at fewer, fuller bins.
From codes neither the block tensor nor the pair block is formed when they are large: the products with one-hot codes
are sums over samples.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse
from scipy.sparse.linalg import ArpackError, LinearOperator, svds

from tensorly_smp._support.checks import RandomState, as_generator, checked_integer, checked_sample_weight
from tensorly_smp.codes.binning import Binning, binning_of_values
from tensorly_smp.codes.encoding import Codes, encode_samples, indicator_matrix
from tensorly_smp.exceptions import AlgebraicStartError, InvalidInputError
from tensorly_smp.factors.mixture_factors import MixtureFactors
from tensorly_smp.initializers.joint_diagonalization import GevdDiagnostics, decompose_core, require_rank
from tensorly_smp.marginals.block_tensor import (
    Partition,
    as_marginals,
    as_partition,
    counted_partition,
    default_partition,
    pencil_partition,
    stack_blocks,
)
from tensorly_smp.marginals.histograms import Marginals, univariate_marginals
from tensorly_smp.samples.values import drop_zero_weight

#: Above this size of the pair block only its leading singular vectors are computed.
DENSE_PAIR = 600
#: Bins per variable of the start where samples, not exact histograms, are decomposed.
START_BINS = 6
#: Share of the overall histogram in every column of a start from samples, in place of the zeros of clipping.
SMOOTHING = 0.02
#: Relative decrease of the sum of squares below which its last steps end. Sampling noise is most of that sum, spread
#: over a thousand entries: a ten-thousandth of it is less than what one parameter more would fit of the noise.
EXACT_TOL = 1e-8
SAMPLED_TOL = 1e-4


@dataclass(frozen=True, repr=False, eq=False)
class GevdStart(MixtureFactors):
    """MixtureFactors found by algebra, with what they rest on.

    Attributes
    ----------
    diagnostics : GevdDiagnostics
    partition : Partition
    start_bins : tuple of int
        Bins per variable that were decomposed; fewer than those of the factors where bins were merged.

    Examples
    --------
    >>> import tensorly_smp as smp
    >>> data = smp.datasets.make_smooth_mixture("gaussian", 500, 4, 2, random_state=0)
    >>> codes = smp.encode_samples(data.X, smp.choose_binning(data.X, n_bins=5))
    >>> start = smp.gevd_start(codes, rank=2, random_state=0)
    >>> start.partition.sets[2], start.diagnostics.eigenvalue_gap > 0.01
    ((3,), True)
    """

    diagnostics: GevdDiagnostics | None = None
    partition: Partition | None = None
    start_bins: tuple[int, ...] = ()

    def info(self) -> dict[str, Any]:
        """Diagnostics as plain numbers and strings, for the attributes of a result."""
        d = self.diagnostics
        if d is None or self.partition is None:
            return {}
        return {
            "gevd_singular_values": d.singular_values[0][: self.rank + 3].tolist(),
            "gevd_eigenvalue_gap": float(d.eigenvalue_gap),
            "gevd_eigenvector_condition": float(d.eigenvector_condition),
            "gevd_complex_pair": int(d.complex_pair),
            "gevd_partition": "; ".join(" ".join(str(n) for n in group) for group in self.partition),
            "gevd_bins": list(self.start_bins),
        }


def gevd_start(
    data: Marginals | Codes | Any,
    rank: int,
    partition: Partition | Sequence[Any] | None = None,
    *,
    modes: Sequence[Sequence[int]] | None = None,
    n_bins: int | None = None,
    sample_weight: Any = None,
    random_state: RandomState = None,
) -> GevdStart:
    """Factors of all variables by algebra: exact on exact histograms, a good start on samples.

    Parameters
    ----------
    data : Marginals, Codes, tensor or sequence of tensor
        Codes need no histograms and no block tensor, so that a thousand variables are possible. Tensors are taken for
        exact histograms, see :meth:`Marginals.from_tensors`.
    rank : int
        At most the smaller of the effective sizes of the first two sets, see ``max_identifiable_rank``.
    partition : Partition or three collections of variable indices, optional
        By default the one that allows the highest rank for exact histograms
        (``max_identifiable_rank(..., "gevd")``), and for samples a random one (:func:`start_partition`). Where not all
        of its blocks have been counted, another one whose blocks have, if need be of fewer variables: factors of the
        others then follow by least squares from histograms that have two variables whose factors are known.
    modes : sequence of (j, k, l), optional
        For tensors: the variables along the three modes of each.
    n_bins : int, optional
        Merge the bins of every variable into about this many with equally many samples before the algebra, and spread
        the result over the bins afterwards, unless the rank needs all bins. By default 6 for data from samples (fewer,
        fuller bins are less noisy), and no merging for exact histograms (``Marginals`` of no samples).
    sample_weight : array_like (n_samples,), optional
        For codes: non-negative, a sample of weight 2 counts twice (``count_marginals`` has its own).
    random_state : None, int, Generator or RandomState

    Returns
    -------
    GevdStart
        MixtureFactors at the bins of the data, with diagnostics.

    Raises
    ------
    AlgebraicStartError
        The rank is above the bound of the partition, or a condition failed: singular values, eigenvalue gap, complex
        pair; the message names it.
    InvalidInputError
        A block of the partition has not been counted; the partition leaves out a variable whose factor does not follow
        from the others; weights that cannot be used, or that are not of codes.

    Notes
    -----
    Kargas & Sidiropoulos, AISTATS 2019, section 3, after S. E. Leurgans, R. T. Ross, R. B. Abel, "A decomposition for
    three-way arrays", 1993. See ``benchmarks/starts.py diagonalize`` for how the diagonalization was chosen and
    ``benchmarks/starts.py optimum`` for how often the start leads to the optimum.

    Examples
    --------
    >>> import numpy as np
    >>> import tensorly_smp as smp
    >>> rng = np.random.default_rng(0)
    >>> truth = smp.MixtureFactors(
    ...     [0.2, 0.3, 0.5], [rng.dirichlet(np.ones(4), 3).T for _ in range(5)]
    ... )
    >>> start = smp.gevd_start(truth.to_marginals(), rank=3, random_state=0)
    >>> bool(smp.metrics.factor_error(start, truth) < 1e-8)
    True
    """
    rank = checked_integer(rank, "rank", 1)
    n_bins = None if n_bins is None else checked_integer(n_bins, "n_bins", 2)
    weights = None
    if not isinstance(data, Codes):
        data = as_marginals(data, modes)
        if sample_weight is not None:
            raise InvalidInputError("data is Marginals; sample_weight is for Codes, and for count_marginals.")
    elif modes is not None:
        raise InvalidInputError("data is Codes; give modes with tensors only.")
    elif sample_weight is not None:
        values, weights = drop_zero_weight(data.values, checked_sample_weight(sample_weight, data.n_samples))
        assert weights is not None  # those that are all zero have been refused
        # Near one, so that no sum overflows; by a power of two, so that sums of integers stay exact.
        weights = np.ldexp(weights, -int(np.frexp(weights.max())[1]))
        data = Codes(values, data.binning)
    rng = as_generator(random_state)
    is_exact = isinstance(data, Marginals) and data.n_samples == 0
    shares = univariate_marginals(data, weights)
    unmerged = [np.arange(size) for size in data.n_bins]
    groups = unmerged if is_exact and n_bins is None else [coarse_bins(s, n_bins or START_BINS) for s in shares]
    sizes = [int(group.max()) + 1 for group in groups]
    if partition is not None:
        parts = as_partition(partition, data.n_variables)
    else:
        parts = pencil_partition(data.n_bins) if is_exact else start_partition(sizes, rank, rng)
        if isinstance(data, Marginals):
            parts = counted_partition(data, parts, rank, rng)
    if min(parts.effective_sizes(sizes)[:2]) < rank:
        groups = unmerged
    coarse = data if groups is unmerged else coarsen(data, groups)
    try:
        component_weights, factors, diagnostics = _decompose(coarse, parts, rank, is_exact, weights, rng)
    except (np.linalg.LinAlgError, ArpackError) as error:
        raise AlgebraicStartError(f"Linear algebra failed: {error}. Take other bins or another partition.") from error
    if not is_exact:
        coarse_shares = map(sum_groups, shares, groups)
        factors = [(1 - SMOOTHING) * a + SMOOTHING * s[:, None] for a, s in zip(factors, coarse_shares, strict=True)]
        component_weights = 0.9 * component_weights + 0.1 / rank
    factors = list(map(refine, factors, shares, groups))
    return GevdStart(component_weights, tuple(factors), data.binning, diagnostics, parts, coarse.n_bins)


def start_partition(n_bins: Sequence[int], rank: int, random_state: RandomState = None) -> Partition:
    """Random partition for a start from samples.

    The third set, the pencil, holds a fifth of the variables as far as the first two can spare them: more slices to
    diagonalize at once make the start better (``benchmarks/starts.py optimum``). Variables of a single bin tell no
    components apart, so that none may be alone in a set: they join the pencil.

    Parameters
    ----------
    n_bins : sequence of int
        Of every variable, at least three.
    rank : int
    random_state : None, int, Generator or RandomState

    Returns
    -------
    Partition
    """
    sizes = np.asarray(n_bins)
    default_partition(len(sizes))  # an error with fewer than three
    dealt = np.flatnonzero(sizes > 1) if np.count_nonzero(sizes > 1) > 2 else np.arange(len(sizes))
    order = as_generator(random_state).permutation(dealt).tolist()
    for n_third in range(max(1, len(order) // 5), 0, -1):
        n_first = (len(order) - n_third) // 2
        if (sizes[order[:n_first]] - 1).sum() + 1 >= rank:
            break
    middle = len(order) - n_third
    rest = sorted(set(range(len(sizes))) - set(order))
    return Partition(tuple(order[:n_first]), tuple(order[n_first:middle]), (*order[middle:], *rest))


def _decompose(
    data: Marginals | Codes,
    partition: Partition,
    rank: int,
    is_exact: bool,
    sample_weight: np.ndarray | None,
    rng: np.random.Generator,
) -> tuple[np.ndarray, list[np.ndarray], GevdDiagnostics]:
    """Weights and columns of all variables on the simplex, at the bins of the data, and diagnostics."""
    if rank > (most := min(partition.effective_sizes(data.n_bins)[:2])):
        raise AlgebraicStartError(
            f"{rank} components; the first two sets of the partition allow at most {most}: take fewer, more bins or a "
            "more even partition, or start at random."
        )
    if isinstance(data, Codes):
        bases, values, slices = compress_codes(data, partition, rank, sample_weight)
    else:
        bases, values, slices = compress_marginals(data, partition, rank)
    require_rank(values, rank, " of the pair block", "The data show fewer components for this partition.")
    if rank == 1:
        left = right = np.ones((1, 1))
        third = slices[:, :, 0]
        diagnostics = GevdDiagnostics((), 1.0, 1.0, False, 0.0)
    else:
        base = np.zeros(len(slices))
        base[: data.n_bins[partition.third[0]]] = 1.0
        tol = EXACT_TOL if is_exact else SAMPLED_TOL
        (left, right, third), diagnostics = decompose_core(slices, base, tol, keeps_complex=True, random_state=rng)
    columns: dict[int, np.ndarray] = {}
    weights = np.ones(rank)
    for factor, group in zip((bases[0] @ left, bases[1] @ right, third), partition, strict=True):
        # Every block of a stacked column has the same sum, so the mean over blocks is the scale, sign included.
        scale = factor.sum(axis=0) / len(group)
        weights = weights * scale
        blocks = np.split(factor / np.where(scale == 0, 1.0, scale), np.cumsum([data.n_bins[n] for n in group])[:-1])
        columns.update(zip(group, map(_on_simplex, blocks), strict=True))
    weights = np.maximum(weights, 0.0)
    if not weights.sum() > 0:
        weights = np.ones_like(weights)
    weights = weights / weights.sum()
    _extend(data, weights, columns)
    return weights, [columns[n] for n in range(data.n_variables)], replace(diagnostics, singular_values=(values,))


def _on_simplex(block: np.ndarray) -> np.ndarray:
    """Columns without their negative parts, of sum one; uniform ones where nothing is left."""
    block = np.maximum(block, 0.0)
    total = block.sum(axis=0)
    return np.where(total > 0, block / np.where(total > 0, total, 1.0), 1.0 / len(block))


def _extend(data: Marginals | Codes, weights: np.ndarray, columns: dict[int, np.ndarray]) -> None:
    """Add the columns of the other variables: least squares, from the histograms that have two known variables."""
    while left := sorted(set(range(data.n_variables)) - set(columns)):
        systems: dict[int, list[tuple[np.ndarray, np.ndarray]]] = {}
        if isinstance(data, Marginals):
            for t, triple in enumerate(data.triples.tolist()):
                unknown = [n for n in triple if n not in columns]
                if len(unknown) == 1 and data.totals[t] > 0:
                    j, k = (n for n in triple if n in columns)
                    design = (weights * columns[j][:, None] * columns[k]).reshape(-1, len(weights))
                    unfolded = np.moveaxis(data.histogram(t), triple.index(unknown[0]), 2).reshape(len(design), -1)
                    systems.setdefault(unknown[0], []).append((design, unfolded))
        if not systems:
            message = f"The partition leaves variables {left} out, and no histogram has one of them with two others"
            raise InvalidInputError(f"{message} that have factors; expected a partition of all, or more triples.")
        for n, parts in systems.items():
            designs, targets = (np.concatenate(side) for side in zip(*parts, strict=True))
            solution, _, _, values = np.linalg.lstsq(designs, targets)
            require_rank(values, len(weights), f" for variable {n}", "Count more triples, or take more bins.")
            columns[n] = _on_simplex(solution.T)


def coarse_bins(share: np.ndarray, n_bins: int) -> np.ndarray:
    """Merged bin of every bin: consecutive bins, about equally many samples each; empty bins join a neighbor."""
    target = min(n_bins, int(np.count_nonzero(share)))
    # Bins that hold more than an equal part count as one part, so that the others share what they leave.
    descending = np.sort(share)[::-1]
    rest = np.cumsum(descending[::-1])[::-1]
    for k in range(target):
        part = rest[k] / (target - k)
        if descending[k] <= part:
            break
    held = np.minimum(share, part)
    group = np.minimum(((np.cumsum(held) - held / 2) / part).astype(int), target - 1)
    # Numbers without gaps: a part may hold the middle of no bin.
    return np.unique(group, return_inverse=True)[1]


def sum_groups(values: np.ndarray, group: np.ndarray) -> np.ndarray:
    """Sums over the bins of every merged bin."""
    return np.bincount(group, values, minlength=int(group.max()) + 1)


def refine(column: np.ndarray, share: np.ndarray, group: np.ndarray) -> np.ndarray:
    """Merged bins back to bins, in proportion to the overall histogram."""
    total = sum_groups(share, group)
    within = share / np.where(total == 0, 1.0, total)[group] + 1e-6  # not zero where by chance no sample fell
    within /= sum_groups(within, group)[group]
    return column[group] * within[:, None]


def coarsen(data: Marginals | Codes, groups: list[np.ndarray]) -> Marginals | Codes:
    """The data at merged bins; ``groups`` has the merged bin of every bin of each variable."""
    sizes = [int(group.max()) + 1 for group in groups]
    binning = Binning.from_n_bins(sizes, data.binning.variables)
    if isinstance(data, Codes):
        values = np.stack([np.append(g, -1)[c] for g, c in zip(groups, data.values.T, strict=True)], axis=1)
        return Codes(values, binning)
    # Merged bins are runs of bins, which begin here.
    firsts = [np.searchsorted(group, np.arange(size)) for size, group in zip(sizes, groups, strict=True)]
    merged = []
    for triple, count in zip(data.triples.tolist(), data.counts, strict=True):
        for axis, n in enumerate(triple):
            count = np.add.reduceat(count, firsts[n], axis=axis)
        merged.append(count)
    return replace(data, counts=tuple(merged), binning=binning)


#: Bases of the first two modes (two ndarrays (n_rows, rank)), that compressed slices are brought back with, singular
#: values of the pair block, and slices (n_slices, rank, rank), one per bin of the third mode.
Compressed: TypeAlias = tuple[tuple[np.ndarray, np.ndarray], np.ndarray, np.ndarray]


def compress_marginals(marginals: Marginals, partition: Partition, rank: int) -> Compressed:
    """Leading singular vectors of the scaled pair block, and slices compressed by them, from histograms."""
    tensor = stack_blocks(marginals, partition)
    first_bins = marginals.n_bins[partition.third[0]]
    pair = tensor[:, :, :first_bins].sum(axis=2)
    left_scale = _cell_scale(pair.sum(axis=1) / len(partition.second))
    right_scale = _cell_scale(pair.sum(axis=0) / len(partition.first))
    left, values, right = np.linalg.svd(left_scale[:, None] * pair * right_scale, full_matrices=False)
    left = left[:, :rank]
    right = right[:rank].T
    # i j cells of the first two modes, k third mode, a b compressed
    slices = np.einsum(
        "ijk,ia,jb->kab", tensor, left_scale[:, None] * left, right_scale[:, None] * right, optimize=True
    )
    return (left / left_scale[:, None], right / right_scale[:, None]), values, slices


def compress_codes(codes: Codes, partition: Partition, rank: int, weights: np.ndarray | None = None) -> Compressed:
    """Singular vectors and slices of `compress_marginals`, from codes; no large tensor or pair block is formed.

    Weights (n_samples,) say how often a sample counts; by default once.
    """
    n_samples = codes.n_samples if weights is None else float(weights.sum())
    observed = (codes.values >= 0).mean(axis=0) if weights is None else weights @ (codes.values >= 0) / n_samples
    scaled: list[Any] = []
    scales: list[np.ndarray] = []
    for group in partition.sets[:2]:
        chosen = list(group)
        sizes = [codes.n_bins[n] for n in chosen]
        # Sparse (n_samples, stacked bins); missing entries are zero, and observed ones weighted up for them.
        hot = indicator_matrix(codes.values[:, chosen], sizes)
        hot = hot @ scipy.sparse.diags_array(np.repeat(1.0 / observed[chosen], sizes))
        sums = np.asarray(hot.sum(axis=0) if weights is None else weights @ hot).ravel()
        scales.append(_cell_scale(sums / n_samples))
        scaled.append(hot @ scipy.sparse.diags_array(scales[-1]))
    first, second = scaled
    if weights is not None:  # all that follows is sums over samples of one times the other
        second = scipy.sparse.diags_array(weights) @ second
    shape = (first.shape[1], second.shape[1])
    n_values = min(rank + 3, min(shape) - 1)  # the iterative method cannot find them all
    if max(shape) <= DENSE_PAIR or n_values < rank:
        left, values, right = np.linalg.svd((first.T @ second).toarray() / n_samples, full_matrices=False)
    else:
        operator = LinearOperator(
            shape,
            matvec=lambda v: first.T @ (second @ v) / n_samples,
            rmatvec=lambda v: second.T @ (first @ v) / n_samples,
            matmat=lambda v: first.T @ (second @ v) / n_samples,
            dtype=float,
        )
        start = np.random.default_rng(0).standard_normal(min(shape))
        # The noise of the samples is far above this tolerance; to rounding would take twice as long.
        left, values, right = svds(operator, k=n_values, v0=start, tol=1e-2)
        order = np.argsort(-values)
        left = left[:, order]
        values = values[order]
        right = right[order]
    left = left[:, :rank]
    right = right[:rank].T
    first_scores = first @ left
    second_scores = second @ right
    slices = []
    n_bins = codes.n_bins
    for n in partition.third:
        column = codes.values[:, n]
        for i in range(n_bins[n]):
            chosen = column == i
            slices.append(first_scores[chosen].T @ second_scores[chosen] / (n_samples * observed[n]))
    return (left / scales[0][:, None], right / scales[1][:, None]), values, np.stack(slices)


def _cell_scale(probability: np.ndarray) -> np.ndarray:
    """Reciprocal root of every cell's probability; 1 for cells that are empty."""
    return 1.0 / np.sqrt(np.where(probability > 0, probability, 1.0))


#: How often samples are shuffled: 19 times, so that chance exceeds all of them in one case of twenty; once where only
#: the leading singular values are computed, since those of a large block hardly vary.
N_SHUFFLES = 19
N_SHUFFLES_LARGE = 1
#: Bins per variable, of about equally many samples: the fewer, the less noise in the singular values.
PAIR_BINS = 6


def pair_singular_values(values: np.ndarray, n_values: int) -> tuple[np.ndarray, np.ndarray]:
    """Leading singular values of the pair block of the default partition, of samples and of shuffled samples.

    The pair block holds the probabilities of all pairs of a bin of the first set of variables and one of the second,
    divided by the root of the product of the probabilities of the two, as in correspondence analysis. Given the
    component the two sets are independent, so that without noise it has at most as many positive singular values as
    there are components; the first is the root of the product of the numbers of variables, whatever the data. If the
    second set is taken from other samples than the first, only that one is left, and noise.

    Parameters
    ----------
    values : ndarray (n_samples, n_variables)
        NaN = missing. Samples are put in six bins a variable, or as many as so many singular values need.
    n_values : int
        As many as there are at most.

    Returns
    -------
    found : ndarray (n_values,)
        Of the samples, decreasing.
    shuffled : ndarray (n_shuffles, n_values)

    Raises
    ------
    InvalidInputError
        Fewer than three variables, or samples that cannot be put in bins.

    Notes
    -----
    Shuffling is parallel analysis: J. L. Horn, "A rationale and test for the number of factors in factor analysis",
    Psychometrika 30, 1965.

    Examples
    --------
    >>> import tensorly_smp as smp
    >>> from tensorly_smp.initializers.coupled_gevd import n_above_noise, pair_singular_values
    >>> X = smp.datasets.make_smooth_mixture("gaussian", 1000, 6, 3, random_state=0).X
    >>> n_above_noise(*pair_singular_values(X, 5))
    3
    """
    n_values = checked_integer(n_values, "n_values", 1)
    partition = default_partition(values.shape[1])
    # n stacked variables of I bins have rank n (I - 1) + 1.
    n_bins = max(PAIR_BINS, -(-n_values // len(partition.first)) + 1)
    binning, _ = binning_of_values(values, range(values.shape[1]), n_bins, "quantile")
    codes = encode_samples(values, binning)
    sizes = partition.stacked_sizes(codes.n_bins)[:2]
    n_values = min(n_values, *sizes)
    shuffled = []
    for seed in range(N_SHUFFLES if max(sizes) <= DENSE_PAIR else N_SHUFFLES_LARGE):
        mixed = codes.values.copy()
        order = np.random.default_rng(seed).permutation(len(mixed))
        mixed[:, partition.second] = mixed[order][:, partition.second]
        shuffled.append(compress_codes(Codes(mixed, codes.binning), partition, n_values)[1][:n_values])
    return compress_codes(codes, partition, n_values)[1][:n_values], np.stack(shuffled)


def n_above_noise(found: np.ndarray, shuffled: np.ndarray) -> int:
    """Singular values above the second of shuffled samples; at least the trivial one, 0 if they are not known.

    The same level for all orders: beyond those of the components noise is a little lower than that, as shuffling
    makes noise of the components' variance, too, so that the number is rather too small than too large.
    """
    noise = shuffled[:, 1].max() if shuffled.shape[1] > 1 else np.inf
    return 0 if np.isnan(found).any() else max(int((found > noise).sum()), 1)
