"""Fits and pictures as several tests need them."""

import warnings

import tensorly_smp as smp


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
