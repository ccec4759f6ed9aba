"""Local identifiability: does every small change of weights and factors change what is known?

The map from (w, A_1, ..., A_N) to known joint distributions X_S = sum_r w_r (o_{n in S} A_n[:, r]), S the triples or
the whole samples, has a Jacobian J. If its columns are independent, the parameters are isolated: no other model nearby
gives the same distributions.

Coordinates are chosen so that rounding decides as little as possible. The parameters live on simplices: a column of A_n
moves in an orthonormal basis of the vectors that sum to zero. A weight moves along its whole component, and the sum of
all weights stays one. Columns of J are divided by their weight, which a component of positive weight cannot become free
by, and scaled to unit length, which leaves the rank as it is. The singular values are then the same whatever the order
of bins, components or variables, and whatever the weights.

J'J comes first: its blocks are made of the Gram matrices of the factors, at a cost that does not grow with the number
of cells. Its small eigenvalues have lost half of the digits, or all of them, and are computed again as singular values
of J times their eigenvectors. The change of a distribution in these directions is built up variable by variable, with a
QR decomposition after each variable: columns keep their lengths and angles while their number of rows stays within that
of the columns, so that there are never prod I_n rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from math import comb

import numpy as np
from scipy.linalg import eigh

from tensorly_smp._support.representations import short_repr
from tensorly_smp.factors.mixture_factors import EMPTY_WEIGHT
from tensorly_smp.identifiability.bounds import KnownMarginals
from tensorly_smp.marginals.triples import symmetric_sums

#: Largest number of parameters: J'J is dense, 8000 x 8000 doubles are 0.5 GB.
MAX_PARAMETERS = 8000
# Small singular values are computed again from J up to this many operations.
_AGAIN_OPERATIONS = 2 * 10**11
# Singular values that count as zero, relative to the largest. Zeros come out below 1e-12, as eigenvectors of J'J are
# off by eps / 1e-6 or so, and have singular values of at most 1e-3 there; below 4e-12 where the logarithms of 900
# cosines have added up their rounding.
_ZERO = float(np.finfo(float).eps ** (2 / 3))
# Eigenvalues of J'J, relative to the largest, that rounding may have made.
_SUSPECT = 1e-6
# Blocks of rows are gathered until there are so many times more rows than columns.
_GATHERED = 3
# Histograms of triples are swept one by one up to this number, and all at once beyond.
_LISTED_TRIPLES = 2000


@dataclass(frozen=True, eq=False)
class LocalIdentifiability:
    """Rank of the Jacobian of the map from weights and factors to known distributions.

    Attributes
    ----------
    singular_values : ndarray (n_parameters,)
        Those of the Jacobian with columns of unit length, largest first; zeros where there are fewer cells than
        parameters.
    tolerance : float
        Singular values at most this large count as zero.
    is_decided : bool
        False if small singular values could not be computed to full precision at a bearable cost, or are within the
        uncertainty of the samples of a fit; the model may then be locally unique although some are below the tolerance.
    """

    singular_values: np.ndarray
    tolerance: float
    is_decided: bool = True

    __repr__ = short_repr

    @property
    def n_parameters(self) -> int:
        """Free parameters: R - 1 weights and R (I_n - 1) probabilities per variable."""
        return len(self.singular_values)

    @property
    def rank(self) -> int:
        """Independent directions: singular values above the tolerance."""
        return int((self.singular_values > self.tolerance).sum())

    @property
    def n_free_directions(self) -> int:
        """Directions in which the parameters can move without changing what is known, to first order."""
        return self.n_parameters - self.rank


def local_identifiability(
    weights: np.ndarray, factors: Sequence[np.ndarray], known: KnownMarginals
) -> LocalIdentifiability:
    """Rank of the Jacobian of the map from weights and factors to known distributions, at one point.

    Parameters
    ----------
    weights : ndarray (rank,)
        Component weights, summing to one. A component of less than 1e-6 counts as
        empty, and leaves its columns free.
    factors : sequence of ndarray (n_bins[n], rank)
        Conditional probabilities, columns summing to one.
    known : KnownMarginals
        The known distributions.

    Returns
    -------
    LocalIdentifiability

    Notes
    -----
    Full rank almost everywhere is necessary for uniqueness, and makes the model locally unique; it does not exclude a
    second model elsewhere. Full rank at one point proves it for almost every point of the same sizes; a lower one at a
    random point is, with probability one, that of almost every point. Singular values of at most 3.7e-11 of the largest
    count as zero.

    The joint distribution of all N variables needs no more memory than that of three: the Gram matrix of products is
    the entrywise product of Gram matrices. N = 10, I = 15, R = 10 (1409 parameters) takes about a second.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> factors = [rng.dirichlet(np.ones(3), size=4).T for _ in range(3)]
    >>> report = local_identifiability(np.full(4, 0.25), factors, KnownMarginals.of_triples(3))
    >>> report.rank, report.n_parameters, report.n_free_directions
    (25, 27, 2)
    """
    jacobian = ScaledJacobian(weights, factors, known)
    n_parameters = jacobian.n_parameters
    gram = jacobian.gram()
    values = np.sqrt(np.maximum(np.linalg.eigvalsh(gram)[::-1], 0.0))
    largest = float(values.max(initial=1.0))
    suspect = int((values < np.sqrt(_SUSPECT) * largest).sum())
    if not suspect:
        return LocalIdentifiability(values, _ZERO * largest)
    if jacobian.operations(suspect) > _AGAIN_OPERATIONS:
        lost = np.sqrt(10 * n_parameters * np.finfo(float).eps)
        return LocalIdentifiability(values, float(lost * largest), is_decided=False)
    _, vectors = eigh(gram, subset_by_index=[0, suspect - 1], driver="evr")
    again = np.zeros(suspect)
    computed = np.linalg.svd(jacobian.change(vectors), compute_uv=False)
    again[: len(computed)] = computed
    values = np.sort(np.concatenate([values[: n_parameters - suspect], again]))[::-1]
    return LocalIdentifiability(values, _ZERO * largest)


class ScaledJacobian:
    """The Jacobian at one model, columns scaled to unit length, as J'J or times some directions.

    Columns: rank - 1 directions of the weights, then A_1, A_2, ..., within a factor by basis vector, then by component.

    Parameters
    ----------
    weights : ndarray (rank,)
    factors : sequence of ndarray (n_bins[n], rank)
    known : KnownMarginals
    """

    def __init__(self, weights: np.ndarray, factors: Sequence[np.ndarray], known: KnownMarginals) -> None:
        # All triples, too, unless they are too many.
        self.margins = known.margins
        if known.margins is None and comb(len(factors), 3) <= _LISTED_TRIPLES:
            self.margins = tuple(combinations(range(len(factors)), 3))
        self.rank = len(weights)
        self.bases = [orthogonal_basis(np.ones(len(factor))) for factor in factors]  # of vectors that sum to zero
        norms = [np.linalg.norm(factor, axis=0) for factor in factors]
        self._sums: TripleSums | MarginSums
        if known.margins is None:
            # Left-out variables count as one, so that the columns have to keep their sums.
            self.factors = list(factors)
            self._sums = TripleSums(factors)
            self._levels = np.zeros((1, self.rank))
        else:
            # A joint distribution of many variables has lengths like 1e-300: unit columns, and logarithms of lengths.
            self.factors = [factor / norm for factor, norm in zip(factors, norms, strict=True)]
            lengths = np.log(np.stack(norms))
            levels = np.array([lengths[list(margin)].sum(axis=0) for margin in known.margins])
            self._levels = levels - levels.max(axis=1, keepdims=True)
            self._sums = MarginSums(self.factors, known.margins, self._levels)
        self.total = self._sums.without()
        self.pairs = [self._sums.without(n) for n in range(len(factors))]
        live = weights >= EMPTY_WEIGHT
        self.sizes = np.sqrt(np.diag(self.total))
        # (n_variables, rank); infinite where a column of J is zero: nothing is known, or the component is empty
        self.scales = np.array([np.sqrt(np.diag(pair)) for pair in self.pairs])
        self.scales[:, ~live] = np.inf
        self.scales[self.scales == 0] = np.inf
        # The probabilities of all cells of a component sum to one, and those of its scaled column to this.
        longer = np.log(self.sizes)
        if known.margins is not None:
            # Every margin sums to one: sizes are relative to the largest component of each, so the first decides.
            sums = np.log(np.array([self.factors[n].sum(axis=0) for n in known.margins[0]])).sum(axis=0)
            longer = longer - self._levels[0] - sums
        self.weight_basis = orthogonal_basis(np.exp(longer.min() - longer))
        counts = [self.rank - 1] + [basis.shape[1] * self.rank for basis in self.bases]
        self.spans = [slice(a, b) for a, b in pairwise(np.cumsum([0, *counts]).tolist())]
        self.n_parameters = self.spans[-1].stop

    def change(self, directions: np.ndarray) -> np.ndarray:
        """J times some directions (n_parameters, n_directions), up to a rotation of its rows."""
        n_directions = directions.shape[1]
        start = self.weight_basis @ directions[self.spans[0]] / self.sizes[:, None]
        changes = []
        for basis, scale, span in zip(self.bases, self.scales, self.spans[1:], strict=True):
            parts = directions[span].reshape(basis.shape[1], self.rank, n_directions)
            changes.append(np.einsum("ib,brq->irq", basis, parts / scale[:, None]))
        margins = self.margins
        if margins is None:
            return triples_change(self.factors, changes, start)
        blocks: list[np.ndarray] = []
        for margin, level in zip(margins, np.broadcast_to(self._levels, (len(margins), self.rank)), strict=True):
            inside = [self.factors[n] for n in margin]
            moved = [changes[n] for n in margin]
            inside[0] = inside[0] * np.exp(level)
            moved[0] = moved[0] * np.exp(level)[:, None]
            blocks.append(joint_change(inside, moved, start))
            if sum(map(len, blocks)) > _GATHERED * max(n_directions, 64):
                blocks = [compressed(np.concatenate(blocks))]
        return compressed(np.concatenate(blocks))

    def gram(self) -> np.ndarray:
        """J'J, ndarray (n_parameters, n_parameters), without J.

        With A_n the factors, T_n = B_n'A_n in the basis B_n of vectors that sum to zero, and sums over the known
        distributions, before the columns are scaled:

        - block (w, w): the sum of products of all Gram matrices of a distribution
        - block (w, n): T_n[b, r] E_n[r, s], E_n the sum of those without that of n
        - block (n, n): identity times E_n[r, s]
        - block (n, m): T_n[b, s] T_m[c, r] P_nm[r, s], P_nm the sum of those without n and m
        """
        gram = np.zeros((self.n_parameters, self.n_parameters))
        tangents = [basis.T @ factor for basis, factor in zip(self.bases, self.factors, strict=True)]
        first = self.spans[0]
        scaled = self.total / np.outer(self.sizes, self.sizes)
        gram[first, first] = self.weight_basis.T @ scaled @ self.weight_basis
        for n, (tangent, scale) in enumerate(zip(tangents, self.scales, strict=True)):
            here = self.spans[n + 1]
            # r weight direction, (b, s) basis vector and component of the factor
            cross = np.einsum("br,rs->rbs", tangent, self.pairs[n] / self.sizes[:, None] / scale)
            gram[first, here] = self.weight_basis.T @ cross.reshape(self.rank, tangent.size)
            gram[here, first] = gram[first, here].T
            gram[here, here] = np.kron(np.eye(len(tangent)), self.pairs[n] / scale[:, None] / scale)
            for m in range(n):
                there = self.spans[m + 1]
                products = self._sums.without(n, m) / scale[:, None] / self.scales[m]
                # (b, r) of factor n, (c, s) of factor m
                block = np.einsum("bs,cr,rs->brcs", tangent, tangents[m], products, optimize=True)
                gram[here, there] = block.reshape(tangent.size, tangents[m].size)
                gram[there, here] = gram[here, there].T
        return gram

    def operations(self, n_directions: int) -> float:
        """Multiplications that :meth:`change` takes, roughly."""
        sizes = [len(basis) for basis in self.bases]
        columns = self.rank * (1 + n_directions)
        if self.margins is None:
            return sum(6.0 * size * columns**3 for size in sizes)
        total = 0.0
        for margin in self.margins:
            rows = 1
            for n in margin:
                rows *= sizes[n]
                total += 4.0 * rows * columns
                if rows > columns and n != margin[-1]:
                    total += 2.0 * rows * columns**2
                    rows = columns
            total += 4.0 * rows * n_directions**2
        return total


class TripleSums:
    """Sums over all triples: elementary symmetric polynomials of the Gram matrices, entry by entry."""

    def __init__(self, factors: Sequence[np.ndarray]) -> None:
        self.grams = np.stack([factor.T @ factor for factor in factors])
        # A running sum of non-negative terms, where Newton's identities would cancel digits.
        self.e1, self.e2, self.e3 = symmetric_sums(self.grams)

    def without(self, *left_out: int) -> np.ndarray:
        """Products over the triples that contain these variables, none, one or two, without them."""
        if not left_out:
            return self.e3
        rest = self.e1 - self.grams[list(left_out)].sum(axis=0)
        return rest if len(left_out) == 2 else self.e2 - self.grams[left_out[0]] * rest


class MarginSums:
    """Sums over listed distributions, in logarithms: products of many cosines underflow, and zeros are counted apart.

    Parameters
    ----------
    units : sequence of ndarray (n_bins[n], rank)
        Factors with columns of unit length.
    margins : sequence of tuple of int
    levels : ndarray (n_margins, rank)
        Logarithms of the length of every component in every distribution.
    """

    def __init__(self, units: Sequence[np.ndarray], margins: Sequence[tuple[int, ...]], levels: np.ndarray) -> None:
        # Factors are non-negative, and so are their cosines; rounding makes no negative ones.
        cosines = np.stack([np.minimum(unit.T @ unit, 1.0) for unit in units])
        self.zeros = cosines <= 0
        self.logs = np.log(np.where(self.zeros, 1.0, cosines))
        self.members = np.zeros((len(margins), len(units)), dtype=bool)
        for i, margin in enumerate(margins):
            self.members[i, list(margin)] = True
        # m margin, r s components
        self.margin_logs = np.stack([self.logs[list(margin)].sum(axis=0) for margin in margins])
        self.margin_zeros = np.stack([self.zeros[list(margin)].sum(axis=0) for margin in margins])
        self.margin_logs += levels[:, :, None] + levels[:, None, :]

    def without(self, *left_out: int) -> np.ndarray:
        """Products over the distributions that contain these variables, none, one or two, without them."""
        chosen = self.members[:, list(left_out)].all(axis=1)
        logs = self.margin_logs[chosen] - self.logs[list(left_out)].sum(axis=0)
        zeros = self.margin_zeros[chosen] - self.zeros[list(left_out)].sum(axis=0)
        summed: np.ndarray = np.where(zeros == 0, np.exp(logs), 0.0).sum(axis=0)
        return summed


def orthogonal_basis(vector: np.ndarray) -> np.ndarray:
    """Orthonormal basis (size, size - 1) of the vectors that are orthogonal to one that is not zero (Householder)."""
    unit = vector / np.linalg.norm(vector)
    mirror = unit.copy()
    mirror[-1] += np.copysign(1.0, unit[-1])
    mirror /= np.linalg.norm(mirror)
    return (np.eye(len(unit)) - 2 * np.outer(mirror, mirror))[:, :-1]


def compressed(matrix: np.ndarray) -> np.ndarray:
    """The matrix, or its triangular factor if that has fewer rows."""
    if len(matrix) <= matrix.shape[1] or not matrix.size:
        return matrix
    triangle: np.ndarray = np.linalg.qr(matrix, mode="r")  # type: ignore[assignment]
    return triangle


def joint_change(factors: Sequence[np.ndarray], changes: Sequence[np.ndarray], starts: np.ndarray) -> np.ndarray:
    """First-order changes of one joint distribution when weights and all factors change at once, in few rows.

    Parameters
    ----------
    factors : sequence of ndarray (n_bins[n], rank)
    changes : sequence of ndarray (n_bins[n], rank, n_changes)
    starts : ndarray (rank, n_changes)
        Changes of the weights.

    Returns
    -------
    ndarray (n_rows, n_changes)
    """
    joint = np.ones((1, factors[0].shape[1]))
    moved = np.zeros((1, *changes[0].shape[1:]))
    for factor, change in zip(factors[:-1], changes[:-1], strict=True):
        joint, moved = _compress(*_chosen(joint, moved, factor, change))
    # Components are added up before the last rotation, which is then that of a few columns only.
    joint, moved = _chosen(joint, moved, factors[-1], changes[-1])
    return compressed(joint @ starts + moved.sum(axis=1))


def triples_change(factors: Sequence[np.ndarray], changes: Sequence[np.ndarray], starts: np.ndarray) -> np.ndarray:
    """First-order changes of the histograms of all triples: every variable is chosen or left out.

    Parameters and return value are those of :func:`joint_change`. Columns of the factors sum to one and changes to
    zero, so that a variable that is left out changes nothing.
    """
    # rows of the histograms of so many of the variables so far
    n_columns = (1, *changes[0].shape[1:])
    levels = [(np.ones((1, factors[0].shape[1])), np.zeros(n_columns))]
    levels += [(np.zeros((0, factors[0].shape[1])), np.zeros((0, *n_columns[1:])))] * 3
    for factor, change in zip(factors, changes, strict=True):
        for level in (3, 2, 1):
            left_out = levels[level]
            chosen = _chosen(*levels[level - 1], factor, change)
            levels[level] = _compress(*(np.concatenate(pair) for pair in zip(left_out, chosen, strict=True)))
    joint, moved = levels[3]
    return compressed(joint @ starts + moved.sum(axis=1))


def _chosen(
    joint: np.ndarray, moved: np.ndarray, factor: np.ndarray, change: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """One more variable in the distribution: the product rule."""
    # i row so far, b bin, r component, q change
    product = moved[:, None, :, :] * factor[None, :, :, None] + joint[:, None, :, None] * change[None, :, :, :]
    rows, bins, rank, n_changes = product.shape
    return (joint[:, None, :] * factor).reshape(-1, rank), product.reshape(rows * bins, rank, n_changes)


def _compress(joint: np.ndarray, moved: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Both arrays with their rows merged, and rotated together if there are more rows than columns."""
    rank, n_changes = moved.shape[-2:]
    joint = joint.reshape(-1, rank)
    moved = moved.reshape(len(joint), rank * n_changes)
    if len(joint) > rank * (1 + n_changes):
        both = compressed(np.hstack([joint, moved]))
        joint = both[:, :rank]
        moved = both[:, rank:]
    return joint, moved.reshape(len(joint), rank, n_changes)
