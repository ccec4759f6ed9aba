"""Slow, obvious twins of the fast kernels: plain loops, no cleverness."""

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
