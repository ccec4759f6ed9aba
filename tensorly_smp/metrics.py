"""Distances of a learned mixture from the truth, whatever the order of its components."""

from __future__ import annotations

import inspect
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import ArrayLike
from scipy.optimize import linear_sum_assignment

from tensorly_smp._support.checks import RandomState, checked_integer, unmasked_rows
from tensorly_smp._support.representations import reason
from tensorly_smp.datasets import TrueMixture
from tensorly_smp.exceptions import InvalidInputError, InvalidTypeError, SizeLimitError
from tensorly_smp.factors.mixture_factors import MixtureFactors
from tensorly_smp.samples.labels import aligned

__all__ = ["KLEstimate", "clustering_accuracy", "factor_error", "kl_divergence_mc", "match_components"]

# Cells of the table of label pairs: more are a sign of values, not of labels.
_MAX_TABLE_CELLS = 25_000_000


def clustering_accuracy(labels_true: ArrayLike, labels_pred: ArrayLike) -> float:
    """Share of samples labelled correctly, under the best one-to-one renaming of the predicted clusters.

    Parameters
    ----------
    labels_true : array_like (n_samples,)
        Labels of any hashable kind.
    labels_pred : array_like (n_samples,)
        Labels of any hashable kind, not necessarily the same names nor the same number of them. Two Series are matched
        by their indexes. Clusters that find no partner count as wrong.

    Returns
    -------
    float
        From 0 to 1.

    Raises
    ------
    InvalidInputError
        No samples, different lengths, or a missing label (NaN, None, pandas NA, masked).
    InvalidTypeError
        Labels that are not hashable.
    SizeLimitError
        So many distinct labels that they must be values.

    Notes
    -----
    The renaming is found by the Hungarian method. Unlike the adjusted Rand index this is not corrected for chance: the
    share of the largest true cluster is reached without any knowledge.

    Examples
    --------
    >>> from tensorly_smp.metrics import clustering_accuracy
    >>> clustering_accuracy(["a", "a", "b", "b"], [1, 1, 0, 1])
    0.75
    """
    labels_true = aligned(labels_true, labels_pred, "labels_true", "labels_pred")
    if isinstance(labels_pred, xr.DataArray):  # of samples along several dimensions, too
        labels_pred = labels_pred.values.ravel()
    true, true_labels = label_codes(labels_true, "labels_true")
    predicted, predicted_labels = label_codes(labels_pred, "labels_pred")
    n_true = len(true_labels)
    n_predicted = len(predicted_labels)
    if len(true) != len(predicted):
        words = f"labels_true has {len(true)} and labels_pred {len(predicted)} labels"
        raise InvalidInputError(f"{words}; expected as many.")
    if n_true * n_predicted > _MAX_TABLE_CELLS:
        words = f"labels_true has {n_true} and labels_pred {n_predicted} distinct labels"
        raise SizeLimitError(f"{words}; expected two clusterings. Turn values such as posteriors into labels first.")
    pairs = np.bincount(true * n_predicted + predicted, minlength=n_true * n_predicted)
    table = pairs.reshape(n_true, n_predicted)
    matched = linear_sum_assignment(table, maximize=True)
    return float(table[matched].sum() / len(true))


def match_components(estimated: Any, true: Any) -> np.ndarray:
    """Order of the estimated components that agrees best with the true ones.

    Parameters
    ----------
    estimated : MixtureFactors, or a solution that has them as ``factors``
        What is to be reordered.
    true : MixtureFactors, a solution, or TrueMixture
        What it is compared with. A `TrueMixture` is discretized with the binning of `estimated`; either argument may
        be one, if the other knows its binning.

    Returns
    -------
    ndarray of int (true.rank,)
        ``permutation[r]`` is the estimated component that belongs to the true component r, so that
        ``estimated.weights[permutation]`` stands beside ``true.weights`` (``estimated.permute(permutation)`` reorders
        everything). With fewer estimated than true components, -1 marks those that stay without a partner; with more,
        those left over do not appear.

    Raises
    ------
    InvalidInputError
        Different variables or bins.
    InvalidTypeError
        Anything else than the kinds above, or no binning for a `TrueMixture`.

    Notes
    -----
    The pairs minimize the total of their distances, the squared difference of the weights plus, over all variables, of
    the columns, (w_r - w_s)^2 + sum_n ||A_n[:, r] - A_n[:, s]||^2, by the Hungarian method. This is the matching for
    which `factor_error` is smallest.

    Examples
    --------
    >>> import numpy as np
    >>> from tensorly_smp.factors.mixture_factors import MixtureFactors
    >>> from tensorly_smp.metrics import match_components
    >>> matrix = np.array([[0.7, 0.2], [0.3, 0.8]])
    >>> true = MixtureFactors(np.array([0.4, 0.6]), (matrix,) * 3)
    >>> estimated = MixtureFactors(np.array([0.6, 0.4]), (matrix[:, ::-1],) * 3)
    >>> match_components(estimated, true)
    array([1, 0])
    """
    pair = _factor_pair(estimated, true)
    distances = _component_distances(*pair)
    permutation = np.full(len(distances), -1)
    rows, columns = linear_sum_assignment(distances)
    permutation[rows] = columns
    return permutation


def factor_error(estimated: Any, true: Any) -> float:
    """Relative Frobenius error of weights and factors together, after matching the components.

    Parameters
    ----------
    estimated, true : MixtureFactors, a solution, or TrueMixture
        As in `match_components`, with the same number of components.

    Returns
    -------
    float
        sqrt( (||w^ - w||^2 + sum_n ||A^_n - A_n||^2) / (||w||^2 + sum_n ||A_n||^2) ), where the hats are estimates
        with their components in the order of `match_components`. 0 is exact.

    Raises
    ------
    InvalidInputError
        Different numbers of components, variables or bins.
    InvalidTypeError
        Anything else than the kinds above.

    Examples
    --------
    >>> import numpy as np
    >>> from tensorly_smp.factors.mixture_factors import MixtureFactors
    >>> from tensorly_smp.metrics import factor_error
    >>> matrix = np.array([[0.7, 0.2], [0.3, 0.8]])
    >>> true = MixtureFactors(np.array([0.4, 0.6]), (matrix,) * 3)
    >>> factor_error(MixtureFactors(np.array([0.6, 0.4]), (matrix[:, ::-1],) * 3), true)
    0.0
    """
    found, reference = _factor_pair(estimated, true)
    if len(found.weights) != len(reference.weights):
        words = f"estimated has {len(found.weights)} components and true has {len(reference.weights)}"
        raise InvalidInputError(f"{words}; expected as many. match_components pairs those that have a partner.")
    distances = _component_distances(found, reference)
    size = sum(float(np.sum(np.square(array))) for array in (reference.weights, *reference.factors))
    return float(np.sqrt(distances[linear_sum_assignment(distances)].sum() / size))


class KLEstimate(NamedTuple):
    """Monte Carlo estimate of a Kullback-Leibler divergence.

    Attributes
    ----------
    value : float
        The estimate, in nats per sample. May be slightly negative by chance, when the divergence is close to zero.
    standard_error : float
        Standard deviation of the estimate: the truth is within two of them in about 19 of 20 cases.
    n_samples : int
        Number of samples used.

    Examples
    --------
    >>> import tensorly_smp as smp
    >>> truth = smp.datasets.make_smooth_mixture(
    ...     "gaussian", 10, 3, 2, random_state=0
    ... ).mixture
    >>> estimate = smp.metrics.kl_divergence_mc(truth, truth, n_samples=100, random_state=0)
    >>> float(estimate.value), float(estimate.standard_error), estimate.n_samples
    (0.0, 0.0, 100)
    """

    value: float
    standard_error: float
    n_samples: int


def kl_divergence_mc(
    true: Any, learned: Any, n_samples: int = 10_000, *, X: Any = None, random_state: RandomState = None
) -> KLEstimate:
    """Kullback-Leibler divergence KL(true || learned), estimated on samples of the true density.

    Parameters
    ----------
    true, learned : densities
        Any objects with ``logpdf(X)`` or ``score_samples(X)``: `TrueMixture`, `MixtureDensity`,
        `SmoothProductMixture`, scikit-learn's mixtures and kernel densities, frozen multivariate distributions of
        SciPy. Both must be normalized, or the figure means nothing.
    n_samples : int
        Number of samples drawn from `true`, at least 2; not used when `X` is given.
    X : array_like (n_samples, n_variables), optional
        Samples of `true` to use instead: the same ones for several learned densities make the comparison sharper.
    random_state : None, int, Generator, RandomState or SeedSequence
        Handed to ``true.sample``, so that the samples are those of ``true.sample(n_samples, random_state)``. An object
        whose ``sample`` takes none, as scikit-learn's `GaussianMixture`, draws with its own.

    Returns
    -------
    KLEstimate
        Named tuple ``value, standard_error, n_samples``: mean of log p(x) - log q(x), and its standard error.

    Raises
    ------
    InvalidTypeError
        Not a density, or `true` cannot be sampled and `X` is not given.
    InvalidInputError
        Fewer than two samples, a log density that is NaN or infinite. Where the learned density is zero at a sample,
        the divergence is infinite, and the message says at how many.

    Examples
    --------
    Two Gaussians one standard deviation apart, for which the divergence is 1/2:

    >>> from scipy import stats
    >>> from tensorly_smp.metrics import kl_divergence_mc
    >>> p, q = stats.multivariate_normal([0, 0]), stats.multivariate_normal([1, 0])
    >>> estimate = kl_divergence_mc(p, q, n_samples=10_000, random_state=0)
    >>> abs(estimate.value - 0.5) < 4 * estimate.standard_error
    True
    """
    evaluations: list[Any] = []
    for name, density in (("true", true), ("learned", learned)):
        evaluations.append(getattr(density, "logpdf", None) or getattr(density, "score_samples", None))
        if not callable(evaluations[-1]):
            expected = "expected an object with logpdf or score_samples"
            raise InvalidTypeError(f"{name} is {type(density).__name__}; {expected}.")
    if X is None:
        X = _draw(true, n_samples, random_state)
    log_true, log_learned = (np.atleast_1d(np.asarray(evaluate(X), dtype=float)) for evaluate in evaluations)
    if log_true.shape != log_learned.shape or len(log_true) < 2:
        words = f"true and learned give log densities of shapes {log_true.shape} and {log_learned.shape}"
        raise InvalidInputError(f"{words}; expected one number for each of at least two samples.")
    for name, values in (("true", log_true), ("learned", log_learned)):
        if not np.isfinite(values).all():
            n_zero = np.isneginf(values).sum()
            raise InvalidInputError(
                f"The {name} density is zero at {n_zero} of {len(values)} samples, or its logarithm is no number; "
                "expected finite ones. A zero of the learned density makes the divergence infinite: add a background."
            )
    differences = log_true - log_learned
    n_used = len(differences)
    unit = max(float(np.abs(differences).max()), 1.0)
    error = unit * float((differences / unit).std(ddof=1)) / np.sqrt(n_used)  # squares in other units may overflow
    return KLEstimate(float(differences.mean()), float(error), n_used)


def label_codes(labels: Any, name: str) -> tuple[np.ndarray, list[Any]]:
    """Codes 0, 1, ... (n_samples,) of the labels, and the distinct labels."""
    # Lists go through objects: as an array of one dtype, 1 and "1" would become the same label.
    try:
        array = np.asarray(unmasked_rows(labels), dtype=None if hasattr(labels, "dtype") else object)
        if array.ndim != 1 or len(array) == 0:
            raise InvalidInputError(f"{name} has shape {array.shape}; expected one label for each sample.")
        codes, distinct = pd.factorize(array)
    except TypeError as error:
        raise InvalidTypeError(f"{name} has labels that are not hashable: {reason(error)}") from error
    except ValueError as error:
        raise InvalidInputError(f"{name} cannot be read as labels: {reason(error)}") from error
    if (codes < 0).any() or np.ma.is_masked(labels):
        raise InvalidInputError(f"{name} has missing labels; expected one for each sample.")
    return codes, list(distinct)


def _factor_pair(estimated: Any, true: Any) -> tuple[MixtureFactors, MixtureFactors]:
    """NumPy factors of both, checked to have the same variables and bins."""
    given = {"estimated": estimated, "true": true}
    known = {name: getattr(each, "factors", each) for name, each in given.items()}
    known |= {name: each for name, each in given.items() if isinstance(each, MixtureFactors)}
    binnings = [each.binning for each in known.values() if isinstance(each, MixtureFactors) and each.binning]
    for name, each in given.items():
        if isinstance(each, TrueMixture) and binnings:
            known[name] = each.factors(binnings[0])
        if not isinstance(known[name], MixtureFactors):
            raise InvalidTypeError(
                f"{name} is {type(each).__name__}; expected MixtureFactors (of a GevdStart its start), "
                "a solution that has them, or a TrueMixture beside factors that know their binning."
            )
    found, reference = (known[name].to_numpy() for name in given)
    sizes = [tuple(len(factor) for factor in side.factors) for side in (found, reference)]
    if sizes[0] != sizes[1]:
        words = f"estimated has numbers of bins {sizes[0]} and true {sizes[1]}"
        raise InvalidInputError(f"{words}; expected the same variables and bins.")
    return found, reference


def _component_distances(found: MixtureFactors, reference: MixtureFactors) -> np.ndarray:
    """Squared distances (reference rank, found rank) of weights and all columns."""
    distances = np.subtract.outer(reference.weights, found.weights) ** 2
    for ours, theirs in zip(found.factors, reference.factors, strict=True):
        # r reference component, s found component, i bin. Differences first: expanding the square would cancel near 0.
        distances += np.square(theirs.T[:, None, :] - ours.T[None, :, :]).sum(axis=2)
    return distances


def _draw(density: Any, n_samples: Any, random_state: RandomState) -> Any:
    """Samples of a density that has ``sample`` (this package, scikit-learn) or ``rvs`` (SciPy)."""
    n_samples = checked_integer(n_samples, "n_samples", 2)
    draw = getattr(density, "sample", None) or getattr(density, "rvs", None)
    if not callable(draw):
        raise InvalidTypeError(f"true is {type(density).__name__}, without a method sample; pass samples of it as X.")
    takes_state = "random_state" in inspect.signature(draw).parameters
    drawn = draw(n_samples, **({"random_state": random_state} if takes_state else {}))
    # Mixtures give the components too.
    return drawn[0] if isinstance(drawn, tuple) else drawn
