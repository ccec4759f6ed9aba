"""Local identifiability: does every small change of weights and factors change some triple?

The map from (w, A_1, ..., A_N) to the histograms X_jkl = sum_r w_r A_j[:, r] o A_k[:, r] o A_l[:, r] has a Jacobian J.
If its columns are independent, the parameters are isolated: no other model nearby gives the same triples. The
parameters live on simplices, so only changes that keep the sums count: each column of A_n, and w, moves in an
orthonormal basis of the vectors that sum to zero. That choice makes the singular values the same whatever the order of
bins, components or variables.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import Any, Literal

import numpy as np

from tensorly_smp.exceptions import InvalidInputError, SizeLimitError
from tensorly_smp.marginals.triples import cells_of_all_triples
from tensorly_smp.representations import short_repr, shown

Method = Literal["auto", "svd", "gram"]

# Largest number of parameters: J'J is dense, 8000 x 8000 doubles are 0.5 GB.
_MAX_PARAMETERS = 8000
# "auto" takes the singular values of J itself up to this many operations.
_SVD_OPERATIONS = 5 * 10**8


@dataclass(frozen=True, eq=False)
class LocalIdentifiability:
    """Rank of the Jacobian of the map from weights and factors to triples.

    Attributes
    ----------
    singular_values : ndarray (n_parameters,)
        Of the Jacobian in simplex coordinates, largest first; zeros where there are fewer cells than parameters.
    tolerance : float
        Singular values at most this large count as zero.
    method : str
        "svd": singular values of the Jacobian, zero means below 1e-13 or so of the largest.
        "gram": square roots of the eigenvalues of J'J, which lose half of the digits: zero means below 1e-7 to 1e-6 of
        the largest, and smaller singular values are not told from zero.
    """

    singular_values: np.ndarray
    tolerance: float
    method: str

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
        """Directions in which the parameters can move without changing any triple, to first order."""
        return self.n_parameters - self.rank

    @property
    def smallest_singular_value(self) -> float:
        """How much the triples change, at least, per unit change of the parameters (2-norms); 1.0 if there are none."""
        return float(self.singular_values[-1]) if self.n_parameters else 1.0


def local_identifiability(
    weights: Any,
    factors: Sequence[Any],
    triples: Any = "all",
    method: Method = "auto",
) -> LocalIdentifiability:
    """Rank of the Jacobian of the map from weights and factors to triples, at one point.

    Parameters
    ----------
    weights : array_like (rank,)
        Component weights, summing to one. A component of weight zero leaves its columns free.
    factors : sequence of array_like (n_bins[n], rank)
        Conditional probabilities, columns summing to one.
    triples : "all" or array_like of int (n_triples, 3)
        Which triples are known; each of three different variables.
    method : {"auto", "svd", "gram"}
        "svd" forms J and takes its singular values. "gram" forms J'J block by block from the R x R Gram matrices of the
        factors, at a cost that does not grow with the number of cells: N = 10, I = 15, R = 10 (1409 parameters) takes
        about a second. "auto" takes "svd" where it is as cheap.

    Returns
    -------
    LocalIdentifiability

    Raises
    ------
    InvalidInputError
        If shapes do not agree, a value is not finite, or a triple is not of three different variables.
    SizeLimitError
        If there are more than 8000 parameters; pass fewer variables then: where they are identifiable, so is each other
        variable whose triples with them are known.

    Notes
    -----
    Full rank almost everywhere is necessary for uniqueness, and makes the model locally unique; it does not exclude a
    second model elsewhere. Full rank at one point proves it for almost every point of the same sizes; a lower one at a
    random point is, with probability one, that of almost every point. The zero tolerance is relative to the largest
    singular value, or to one, the size of probabilities, if that is larger: 10 max(shape) eps for "svd", sqrt(10
    n_parameters eps) for "gram".

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> factors = [rng.dirichlet(np.ones(3), size=4).T for _ in range(3)]
    >>> report = local_identifiability(np.full(4, 0.25), factors)
    >>> report.rank, report.n_parameters, report.n_free_directions
    (25, 27, 2)
    """
    weights, factors = _checked_model(weights, factors)
    n_bins = [len(factor) for factor in factors]
    rank = len(weights)
    n_parameters = rank - 1 + rank * sum(size - 1 for size in n_bins)
    if n_parameters > _MAX_PARAMETERS:
        raise SizeLimitError(
            f"The model has {n_parameters} free parameters; the Jacobian is looked at up to {_MAX_PARAMETERS}. "
            "Pass fewer variables or fewer bins."
        )
    chosen = None if isinstance(triples, str) and triples == "all" else _checked_triples(triples, len(factors))
    if method == "auto":
        # From the sizes: listing the triples of hundreds of variables would take longer than all the rest.
        n_cells = cells_of_all_triples(n_bins) if chosen is None else np.prod(np.array(n_bins)[chosen], axis=1).sum()
        method = "svd" if n_cells * n_parameters**2 <= _SVD_OPERATIONS else "gram"
    eps = np.finfo(float).eps
    if method == "svd":
        jacobian = dense_jacobian(weights, factors, chosen)
        values = np.zeros(n_parameters)
        found = np.linalg.svd(jacobian, compute_uv=False)[:n_parameters]
        values[: len(found)] = found
        relative = 10 * max(jacobian.shape, default=1) * eps
    elif method == "gram":
        eigenvalues = np.linalg.eigvalsh(jacobian_gram(weights, factors, chosen))[::-1]
        values = np.sqrt(np.maximum(eigenvalues, 0.0))
        relative = np.sqrt(10 * n_parameters * eps)
    else:
        raise InvalidInputError(f"method is {shown(method)}; expected 'auto', 'svd' or 'gram'.")
    return LocalIdentifiability(values, float(relative * values.max(initial=1.0)), method)


def jacobian_gram(weights: np.ndarray, factors: Sequence[np.ndarray], triples: np.ndarray | None = None) -> np.ndarray:
    """J'J of the map from weights and factors to triples, in simplex coordinates, without forming J.

    Parameters
    ----------
    weights : ndarray (rank,)
    factors : sequence of ndarray (n_bins[n], rank)
    triples : ndarray of int (n_triples, 3), optional
        Default: all.

    Returns
    -------
    ndarray (n_parameters, n_parameters)
        Order: weights, then A_1, A_2, ...; within a factor by basis vector, then by component.

    Notes
    -----
    With G_n = A_n'A_n, T_n = B_n'A_n the factor in the basis B_n of vectors that sum to zero, and sums over the chosen
    triples (for all of them, e2 and e3 are elementary symmetric polynomials of the G_n, entry by entry):

    - block (w, w): sum of G_j * G_k * G_l = e3
    - block (w, n): w_s T_n[b, r] E_n[r, s], E_n the sum of G_k * G_l over the partners of n = e2
    - block (n, n): identity times w_r w_s E_n[r, s]
    - block (n, m): w_r w_s T_n[b, s] T_m[c, r] P_nm[r, s], P_nm the sum of G_l over the third variables = e1
    """
    rank = len(weights)
    grams = np.stack([factor.T @ factor for factor in factors])
    third, pairs, singles = _gram_sums(grams, triples)
    tangents = [zero_sum_basis(len(factor)).T @ factor for factor in factors]
    weight_basis = zero_sum_basis(rank)
    offsets = np.cumsum([rank - 1] + [tangent.size for tangent in tangents])
    spans = [slice(0, rank - 1)] + [slice(a, b) for a, b in pairwise(offsets)]
    gram = np.zeros((offsets[-1], offsets[-1]))
    gram[spans[0], spans[0]] = weight_basis.T @ third @ weight_basis
    outer = np.outer(weights, weights)
    for n, tangent in enumerate(tangents):
        here = spans[n + 1]
        # r weight direction, (b, s) basis vector and component of the factor
        cross = np.einsum("br,rs,s->rbs", tangent, pairs[n], weights).reshape(rank, tangent.size)
        gram[spans[0], here] = weight_basis.T @ cross
        gram[here, spans[0]] = gram[spans[0], here].T
        gram[here, here] = np.kron(np.eye(len(tangent)), outer * pairs[n])
        for m in range(n):
            there = spans[m + 1]
            # (b, r) of factor n, (c, s) of factor m
            block = np.einsum("bs,cr,rs->brcs", tangent, tangents[m], outer * singles(n, m), optimize=True)
            gram[here, there] = block.reshape(tangent.size, tangents[m].size)
            gram[there, here] = gram[here, there].T
    return gram


def dense_jacobian(weights: np.ndarray, factors: Sequence[np.ndarray], triples: np.ndarray | None = None) -> np.ndarray:
    """The Jacobian itself, in the coordinates of :func:`jacobian_gram`; rows are the cells, triple by triple.

    Parameters
    ----------
    weights : ndarray (rank,)
    factors : sequence of ndarray (n_bins[n], rank)
    triples : ndarray of int (n_triples, 3), optional
        Default: all.

    Returns
    -------
    ndarray (n_cells, n_parameters)
    """
    rank = len(weights)
    bases = [zero_sum_basis(len(factor)) for factor in factors]
    offsets = np.cumsum([rank - 1] + [basis.shape[1] * rank for basis in bases])
    rows = []
    for triple in _listed(triples, len(factors)):
        j, k, l = triple
        cells = len(factors[j]) * len(factors[k]) * len(factors[l])
        block = np.zeros((cells, offsets[-1]))
        # a b c bins of the three variables, r component, d basis vector
        joint = np.einsum("ar,br,cr->abcr", factors[j], factors[k], factors[l])
        block[:, : rank - 1] = joint.reshape(cells, rank) @ zero_sum_basis(rank)
        for n, rule in zip(triple, ("ad,br,cr->abcdr", "ar,bd,cr->abcdr", "ar,br,cd->abcdr"), strict=True):
            parts = [bases[v] if v == n else factors[v] for v in triple]
            change = np.einsum(rule, *parts) * weights
            block[:, offsets[n] : offsets[n + 1]] = change.reshape(cells, bases[n].shape[1] * rank)
        rows.append(block)
    return np.concatenate(rows)


def zero_sum_basis(size: int) -> np.ndarray:
    """Orthonormal basis (size, size - 1) of the vectors that sum to zero (Helmert)."""
    basis = np.triu(np.ones((size, size - 1)))
    steps = np.arange(1, size)
    basis[steps, steps - 1] = -steps
    return basis / np.sqrt(steps * (steps + 1.0))


def _gram_sums(grams: np.ndarray, triples: np.ndarray | None) -> tuple[np.ndarray, np.ndarray, Any]:
    """Sums of Gram products: over triples, over the pairs that complete n, over the thirds that complete (n, m)."""
    n_variables = len(grams)
    if triples is None:
        # A running sum of non-negative terms, where Newton's identities would cancel digits.
        e1, e2, e3 = (np.zeros_like(grams[0]) for _ in range(3))
        for gram in grams:
            e3 = e3 + gram * e2
            e2 = e2 + gram * e1
            e1 = e1 + gram
        return e3, e2 - grams * (e1 - grams), lambda n, m: e1 - grams[n] - grams[m]
    total = np.zeros_like(grams[0])
    pairs = np.zeros_like(grams)
    singles = np.zeros((n_variables, *grams.shape))
    for j, k, l in triples:
        total += grams[j] * grams[k] * grams[l]
        for n, a, b in ((j, k, l), (k, j, l), (l, j, k)):
            pairs[n] += grams[a] * grams[b]
            singles[a, b] += grams[n]
            singles[b, a] += grams[n]
    return total, pairs, lambda n, m: singles[n, m]


def _listed(triples: np.ndarray | None, n_variables: int) -> Any:
    return combinations(range(n_variables), 3) if triples is None else triples


def _checked_model(weights: Any, factors: Sequence[Any]) -> tuple[np.ndarray, list[np.ndarray]]:
    weights = np.asarray(weights, dtype=np.float64)
    factors = [np.asarray(factor, dtype=np.float64) for factor in factors]
    if weights.ndim != 1 or len(weights) == 0:
        raise InvalidInputError(f"The weights have shape {weights.shape}; expected (rank,).")
    if len(factors) < 3:
        raise InvalidInputError(f"There are {len(factors)} factors; triples need at least three variables.")
    for n, factor in enumerate(factors):
        if factor.ndim != 2 or len(factor) == 0 or factor.shape[1] != len(weights):
            raise InvalidInputError(f"Factor {n} has shape {factor.shape}; expected (n_bins, {len(weights)}).")
    if not all(np.isfinite(array).all() for array in (weights, *factors)):
        raise InvalidInputError("Weights or factors hold NaN or infinity; expected finite numbers.")
    return weights, factors


def _checked_triples(triples: Any, n_variables: int) -> np.ndarray:
    array = np.asarray(triples)
    if array.ndim != 2 or array.shape[1] != 3 or len(array) == 0 or not np.issubdtype(array.dtype, np.integer):
        raise InvalidInputError(
            f"triples is an array of shape {array.shape}; expected 'all' or integers of shape (n_triples, 3)."
        )
    if array.min() < 0 or array.max() >= n_variables:
        raise InvalidInputError(f"triples name variables outside 0 to {n_variables - 1}.")
    if any(len(set(triple)) < 3 for triple in array.tolist()):
        raise InvalidInputError("A triple names a variable twice; expected three different variables.")
    return array
