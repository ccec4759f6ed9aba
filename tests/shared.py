"""Samples, fits and pictures as several tests need them."""

import warnings

import numpy as np
import pandas as pd

import tensorly_smp as smp

NAMES = ["length", "depth", "mass", "age"]
DATA = smp.datasets.make_smooth_mixture("gaussian", n_samples=500, n_variables=4, n_components=2, random_state=1)
X = DATA.X
X.setflags(write=False)
FRAME = pd.DataFrame(X, [f"s{m}" for m in range(len(X))], NAMES)
HOLES = np.where(np.random.default_rng(0).random(X.shape) < 0.3, np.nan, X)


def ambiguous_groups(n_samples):
    """Samples of three groups, two of which differ in the third variable only; and the groups."""
    groups = np.arange(n_samples) % 3
    centers = np.array([[0, 0, 0, 0, 0], [0, 0, 7, 0, 0], [6, 5, 3, 4, 5]])
    return np.random.default_rng(0).normal(size=(n_samples, 5)) + centers[groups], groups


def circle():
    """Samples of three variables, the first two of which depend on each other without being correlated."""
    rng = np.random.default_rng(0)
    samples, angle = rng.standard_normal((800, 3)), 2 * np.pi * rng.random(800)
    samples[:, :2] = np.stack([np.cos(angle), np.sin(angle)], axis=1) + 0.1 * samples[:, :2]
    return samples


def estimator(**parameters):
    """A small estimator of few bins and a single start."""
    return smp.SmoothProductMixture(**{"n_components": 2, "n_bins": 8, "n_init": 1, "random_state": 0, **parameters})


def fit_quietly(X, n_components, sample_weight=None, **parameters):
    """A fit whose warnings do not matter."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = smp.SmoothProductMixture(n_components, **{"random_state": 0, **parameters})
        return model.fit(X, sample_weight=sample_weight)


def overlap(things):
    """Whether any two of some boxes, or of the drawn things that have them, overlap."""
    boxes = [each if hasattr(each, "overlaps") else each.get_window_extent() for each in things]
    return any(a.overlaps(b) for m, a in enumerate(boxes) for b in boxes[:m])


def lines(ax):
    """Lines of a panel by their labels."""
    return {line.get_label(): line for line in ax.get_lines()}
