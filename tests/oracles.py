"""Slow, obvious twins of the fast kernels: plain loops, no cleverness."""

from itertools import combinations

import numpy as np


def count_triple(values, triple, n_bins, sample_weight=None):
    """Histogram of one triple, one sample at a time."""
    counts = np.zeros([n_bins[n] for n in triple])
    for m, row in enumerate(values):
        cell = tuple(row[n] for n in triple)
        if min(cell) >= 0:
            counts[cell] += 1 if sample_weight is None else sample_weight[m]
    return counts


def model_tensor(weights, a, b, c):
    """[[w; A, B, C]] by loops over components."""
    tensor = np.zeros((len(a), len(b), len(c)))
    for r, weight in enumerate(weights):
        tensor += weight * a[:, r, None, None] * b[None, :, r, None] * c[None, None, :, r]
    return tensor


def coupled_loss(tensors, modes, omega, weights, factors, loss):
    """Weighted sum over triples of the KL divergence or the squared Frobenius distance."""
    total = 0.0
    for tensor, mode, share in zip(tensors, modes, omega, strict=True):
        model = model_tensor(weights, *(factors[n] for n in mode))
        if loss == "frobenius":
            total += share * ((tensor - model) ** 2).sum()
        else:
            positive = tensor > 0
            total += share * (tensor[positive] * np.log(tensor[positive] / model[positive])).sum()
            total += share * (model.sum() - tensor.sum())
    return total


def mixture_expectation(values, weights, factors, sample_weight=None):
    """E-step one sample at a time: posteriors, weighted log-likelihood, expected counts per bin and per component."""
    posterior = np.zeros((len(values), len(weights)))
    counts = [np.zeros_like(factor) for factor in factors]
    component_counts = np.zeros(len(weights))
    log_likelihood = 0.0
    for m, row in enumerate(values):
        share = 1.0 if sample_weight is None else sample_weight[m]
        joint = np.array(weights, dtype=float)
        for n, code in enumerate(row):
            if code >= 0:
                joint *= factors[n][code]
        posterior[m] = joint / joint.sum()
        log_likelihood += share * np.log(joint.sum())
        component_counts += share * posterior[m]
        for n, code in enumerate(row):
            if code >= 0:
                counts[n][code] += share * posterior[m]
    return posterior, log_likelihood, counts, component_counts


def pair_sums(values, sample_weight, factors, n):
    """Linear part and Gram matrix of the Frobenius block of variable n, triple by triple and sample by sample.

    Not normalized, without the weights of the components: (n_bins[n], rank) and (rank, rank).
    """
    linear, gram = np.zeros(factors[n].shape), 0.0
    others = [k for k in range(len(factors)) if k != n]
    for k in others:
        for m in (m for m in others if m > k):
            for row, weight in zip(values, sample_weight, strict=True):
                if min(row[n], row[k], row[m]) >= 0:
                    linear[row[n]] += weight * factors[k][row[k]] * factors[m][row[m]]
                    gram = gram + weight * (factors[k].T @ factors[k]) * (factors[m].T @ factors[m])
    return linear, gram


def triple_sums(values, sample_weight, factors):
    """The same of the block of the component weights, (rank,) and (rank, rank); and the weight of all triples."""
    linear, gram, total = 0.0, 0.0, 0.0
    n_variables = len(factors)
    for j in range(n_variables):
        for k in range(j + 1, n_variables):
            for m in range(k + 1, n_variables):
                for row, weight in zip(values, sample_weight, strict=True):
                    if min(row[j], row[k], row[m]) >= 0:
                        linear = linear + weight * factors[j][row[j]] * factors[k][row[k]] * factors[m][row[m]]
                        grams = [factors[variable].T @ factors[variable] for variable in (j, k, m)]
                        gram = gram + weight * grams[0] * grams[1] * grams[2]
                        total += weight
    return linear, gram, total


def cell_shares(basis, values):
    """Shares (n_cells, 1) of values in [0, 1] in the cells of a spline basis."""
    cells = np.clip((np.asarray(values) * basis.n_cells).astype(int), 0, basis.n_cells - 1)
    return np.bincount(cells, minlength=basis.n_cells)[:, None] / len(cells)


def beta_shares(basis, seed, n_densities=3):
    """Shares (n_cells, n_densities) of Beta samples."""
    rng = np.random.default_rng(seed)
    return np.hstack([cell_shares(basis, rng.beta(*rng.uniform(1, 6, 2), 300)) for _ in range(n_densities)])


def rough_splines(basis, seed, rank=3, roughness=2.0):
    """Coefficients (n_basis, rank) of random log-densities, from nearly flat ones to some with deep valleys."""
    rng = np.random.default_rng(seed)
    return roughness * rng.random(rank) * rng.normal(size=(basis.n_basis, rank)).cumsum(axis=0)


def dense_curvature(basis, coefficients):
    """B'WB of one log-spline."""
    design = basis.at_cells.toarray()
    return design.T @ (np.exp(design @ coefficients)[:, None] * design)


def dense_penalty(basis):
    """D'D."""
    return (basis.differences.T @ basis.differences).toarray()


def joint_distribution(factors, margin, r):
    """Product over the variables of a margin of the columns of component r, as a tensor."""
    product = np.ones(())
    for n in margin:
        product = np.multiply.outer(product, factors[n][:, r])
    return product


def margins_of(known):
    """Sets of variables whose joint distribution is known: all triples where nothing else is said."""
    return known.margins or tuple(combinations(range(known.n_variables), 3))


def plain_jacobian(weights, factors, margins):
    """Derivatives of joint distributions, cell by cell, by plain coordinates of the simplices.

    The last weight, and the last entry of every column, give way to the others: (n_cells, n_parameters).
    """
    rank = len(weights)
    columns = []
    for r in range(rank - 1):
        parts = [joint_distribution(factors, m, r) - joint_distribution(factors, m, rank - 1) for m in margins]
        columns.append(np.concatenate([part.ravel() for part in parts]))
    for n, factor in enumerate(factors):
        for i in range(len(factor) - 1):
            for r in range(rank):
                moved = [f.copy() for f in factors]
                moved[n][:, r] = 0.0
                moved[n][i, r], moved[n][-1, r] = 1.0, -1.0
                parts = [weights[r] * (n in m) * joint_distribution(moved, m, r) for m in margins]
                columns.append(np.concatenate([part.ravel() for part in parts]))
    n_cells = sum(int(np.prod([len(factors[n]) for n in m])) for m in margins)
    return np.stack(columns, axis=1) if columns else np.zeros((n_cells, 0))


def plain_free_directions(weights, factors, margins, tolerance=1e-9):
    """Number of parameters less the rank of the plain Jacobian, columns scaled to unit length."""
    jacobian = plain_jacobian(weights, factors, margins)
    norms = np.linalg.norm(jacobian, axis=0)
    values = np.linalg.svd(jacobian / np.where(norms > 0, norms, 1.0), compute_uv=False)
    return jacobian.shape[1] - int((values > tolerance * max(1.0, values.max(initial=0.0))).sum())


def plain_latent_class(X, posterior, n_passes, prior=0.01):
    """EM of a latent class model without missing entries, class by class and item by item.

    Every item in every class gets `prior` of a sample, shared out as the values are among all samples. Returns the
    weights, a dict of probabilities by value for every item and class, and the log-likelihood.
    """
    n_samples, n_items = X.shape
    classes = range(posterior.shape[1])
    values = [sorted(set(X[:, n])) for n in range(n_items)]
    for _ in range(n_passes):
        weights = [posterior[:, r].mean() for r in classes]
        tables = [[{} for _ in classes] for _ in range(n_items)]
        for n in range(n_items):
            for r in classes:
                for value in values[n]:
                    count = posterior[X[:, n] == value, r].sum() + prior * (X[:, n] == value).mean()
                    tables[n][r][value] = count / (posterior[:, r].sum() + prior)
        joint = np.empty(posterior.shape)
        for m in range(n_samples):
            for r in classes:
                joint[m, r] = weights[r] * np.prod([tables[n][r][X[m, n]] for n in range(n_items)])
        posterior = joint / joint.sum(axis=1, keepdims=True)
    return np.array(weights), tables, float(np.log(joint.sum(axis=1)).sum())
