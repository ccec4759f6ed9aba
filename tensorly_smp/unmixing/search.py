"""Search for an unmixing matrix: several starts, and alternation of densities and matrix from the best of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from scipy.special import entr, logsumexp

from tensorly_smp.unmixing.sources import Shrinkage, SourceFit, fit_sources, maximize_unmixing
from tensorly_smp.unmixing.starts import (
    copies,
    gaussian_mixture,
    independent_components,
    inverse_root,
    joint_diagonalizer,
    n_local_components,
    shrinkage_to_diagonal,
    some_rows,
    within_covariance,
)

#: Alternations after which all starts are compared, and, after these more, the best of them.
SCREENING_STEPS, MORE_STEPS, N_SCREENED = 2, 3, 3
#: Passes of EM in every alternation, and alternations with the coordinates of the first of them.
N_PASSES, KEPT_STEPS = 8, 8
#: Gain of an alternation, in nats of all samples, that is none; and alternations without one after which it ends:
#: penalties are chosen anew in each, so that the likelihood of few samples does not settle to the last digit.
LEAST_GAIN, PATIENCE = 0.1, 6
#: Parts of the samples that are held out in turn, and alternations without each.
N_FOLDS, FOLD_STEPS = 3, 10
#: Precision of the prior of the entries off the diagonal, when variables and sources have unit scale.
RIDGE = 1.0
#: Pseudo-samples for the diagonal are at most this many times the samples.
MOST_PSEUDO = 1.0


@dataclass(frozen=True, eq=False)
class MixedSamples:
    """Samples of which some variables are to be unmixed.

    Attributes
    ----------
    values : ndarray (n_samples, n)
        Variables to be unmixed: complete, centered, of unit variance.
    weights : ndarray (n_samples,)
    categories : ndarray (n_samples, n_discrete)
        Discrete variables, NaN where missing.
    category_values : sequence of ndarray (n_values,)
        Values of the discrete variables.
    criterion : {"reml", "aic", "bic"}
        Criterion by which the penalties of the densities are chosen.
    """

    values: np.ndarray
    weights: np.ndarray
    categories: np.ndarray
    category_values: Sequence[np.ndarray]
    criterion: str = "reml"

    @property
    def total_weight(self) -> float:
        """Sum of the weights."""
        return float(self.weights.sum())

    def rows(self, chosen: np.ndarray) -> MixedSamples:
        """Some of the samples."""
        return replace(
            self, values=self.values[chosen], weights=self.weights[chosen], categories=self.categories[chosen]
        )


@dataclass(frozen=True, eq=False)
class Candidate:
    """An unmixing matrix on its way.

    Attributes
    ----------
    name : str
        Name of the start.
    unmixing : ndarray (n, n)
    posterior : ndarray (n_samples, rank)
    criterion : float
        Log-likelihood less the effective number of parameters of the densities, in nats per sample; -inf before the
        first alternation.
    log_likelihood : float
        In nats per sample.
    trace : tuple of float
        Log-likelihood after every update of the densities.
    is_converged : bool
    log_densities : ndarray (n_samples,)
        Log-density of every sample.
    """

    name: str
    unmixing: np.ndarray
    posterior: np.ndarray
    criterion: float = -np.inf
    log_likelihood: float = -np.inf
    trace: tuple[float, ...] = ()
    is_converged: bool = False
    log_densities: np.ndarray = field(default_factory=lambda: np.empty(0))

    @property
    def entropy(self) -> float:
        """Mean entropy of the posteriors, in nats: how little clear the clusters are."""
        return float(entr(self.posterior).sum(axis=1).mean())


#: Fits a product mixture to sources (n_samples, n) and returns its posteriors (n_samples, rank).
ProductFit = Callable[[np.ndarray], np.ndarray]


def alternate(samples: MixedSamples, candidate: Candidate, n_steps: int, tol: float) -> Candidate:
    """Update densities and matrix in turn until the likelihood stops rising.

    Parameters
    ----------
    samples : MixedSamples
    candidate : Candidate
    n_steps : int
        Updates of each, at most.
    tol : float
        Gain, in nats per sample, of both updates together below which the search has converged.

    Returns
    -------
    Candidate
        The likeliest of all steps.
    """
    best, point, since = candidate, candidate, 0
    fit: SourceFit | None = None
    fit_of_best: SourceFit | None = None
    is_converged = False
    tol = max(tol, LEAST_GAIN / samples.total_weight)
    for step in range(n_steps):
        fit = _fit(samples, point, N_PASSES, fit if step % KEPT_STEPS else None)
        log_det = float(np.linalg.slogdet(point.unmixing)[1])
        reached = fit.log_likelihood / samples.total_weight + log_det
        criterion = (fit.log_likelihood - fit.n_parameters) / samples.total_weight + log_det
        gained = reached - point.log_likelihood
        point = replace(
            point, posterior=fit.posterior, log_likelihood=reached, criterion=criterion, trace=(*point.trace, reached)
        )
        since = 0 if point.criterion > best.criterion + tol else since + 1
        if point.criterion > best.criterion or not len(best.log_densities):
            best, fit_of_best = point, fit
        if step == n_steps - 1:
            break
        moved, gain = _moved(samples, point, fit)
        if (gain < tol and gained < tol) or since >= PATIENCE:
            is_converged = True
            break
        point = replace(point, unmixing=moved)
    log_densities = best.log_densities
    if fit_of_best is not None:
        joint = fit_of_best.log_joint(samples.values @ best.unmixing.T, samples.categories)
        log_densities = logsumexp(joint, axis=1) + np.linalg.slogdet(best.unmixing)[1]
    return replace(best, trace=point.trace, is_converged=is_converged, log_densities=log_densities)


def is_clearly_better(first: np.ndarray, second: np.ndarray, weights: np.ndarray, difference: float) -> bool:
    """Test whether samples prefer the first of two models that do not contain each other (Vuong 1989).

    Parameters
    ----------
    first, second : ndarray (n_samples,)
        Log-densities under the models.
    weights : ndarray (n_samples,)
    difference : float
        Difference of the criteria, log-likelihood less number of parameters, in nats summed over samples.

    Returns
    -------
    bool
        True if the first is better by more than two standard errors of the difference.

    References
    ----------
    Q. H. Vuong, "Likelihood ratio tests for model selection and non-nested hypotheses", Econometrica 57, 1989.
    """
    ratios = first - second
    mean = float(weights @ ratios / weights.sum())
    return difference > 2.0 * float(np.sqrt(weights @ (ratios - mean) ** 2))


def clearest(samples: MixedSamples, candidates: Sequence[Candidate]) -> Candidate:
    """Candidate with the clearest clusters among the best one and those that are not clearly worse.

    A source with two peaks describes two groups as well as two components do, whose posteriors then follow something
    else: the likelihood hardly tells, and the components are what a mixture is fitted for.
    """
    best = max(candidates, key=lambda each: each.criterion)
    total = samples.total_weight
    tied = [
        each
        for each in candidates
        if not is_clearly_better(
            best.log_densities, each.log_densities, samples.weights, total * (best.criterion - each.criterion)
        )
    ]
    return min(tied, key=lambda each: each.entropy)


def _fit(samples: MixedSamples, point: Candidate, n_passes: int, before: SourceFit | None = None) -> SourceFit:
    return fit_sources(
        samples.values @ point.unmixing.T,
        samples.categories,
        samples.category_values,
        point.posterior,
        samples.weights,
        samples.criterion,
        n_passes,
        before,
    )


def _moved(samples: MixedSamples, point: Candidate, fit: SourceFit) -> tuple[np.ndarray, float]:
    """The matrix after a search with the densities held, and the gain."""
    variances = np.diag(within_covariance(samples.values, point.posterior, samples.weights)).copy()
    variances = np.maximum(variances, np.finfo(float).eps)
    sources = samples.values @ point.unmixing.T
    within = np.maximum(np.diag(within_covariance(sources, point.posterior, samples.weights)), np.finfo(float).tiny)
    shrinkage = Shrinkage(variances, _pseudo_samples(samples, point.posterior), RIDGE)
    return maximize_unmixing(
        samples.values, samples.weights, point.unmixing, fit.log_weights, fit.densities, within, shrinkage, fit.other
    )


def _pseudo_samples(samples: MixedSamples, posterior: np.ndarray) -> float:
    """Samples of independent variables that shrink the correlations within components as they should be."""
    shares = posterior * samples.weights[:, None]
    totals = np.maximum(shares.sum(axis=0), np.finfo(float).tiny)
    means = posterior @ (shares.T @ samples.values / totals[:, None])
    share = shrinkage_to_diagonal(samples.values - means, samples.weights)
    return samples.total_weight * min(share / max(1.0 - share, 1e-3), MOST_PSEUDO)


def diagonalized(samples: MixedSamples, candidate: Candidate) -> Candidate:
    """A candidate whose matrix diagonalizes the covariances of its components: the best one for Gaussian sources."""
    sources = samples.values @ candidate.unmixing.T
    covariances = []
    totals = []
    for column in candidate.posterior.T:
        share = column * samples.weights
        total = max(float(share.sum()), np.finfo(float).tiny)
        centered = sources - share @ sources / total
        covariance = (centered * share[:, None]).T @ centered / total
        # A component of few samples has a singular covariance: some of its diagonal, as of `n + 1` samples.
        some = (len(covariance) + 1) / (total + len(covariance) + 1)
        covariances.append((1.0 - some) * covariance + some * np.diag(np.diag(covariance) + 1e-12))
        totals.append(total)
    found = joint_diagonalizer(np.stack(covariances), np.array(totals) / sum(totals))
    name = f"{candidate.name.removesuffix(', diagonalized')}, diagonalized"
    return Candidate(name, found @ candidate.unmixing, candidate.posterior)


def search_unmixing(
    samples: MixedSamples,
    rank: int,
    fit_product: ProductFit,
    rng: np.random.Generator,
    n_steps: int,
    tol: float,
    callback: Callable[[Candidate], None] | None = None,
) -> tuple[Candidate, Candidate, list[Candidate]]:
    """Find the unmixing matrix of highest likelihood among those that several starts lead to.

    Starts: the inverse root of the covariance within the components of a product mixture of the variables; independent
    components (FastICA); and the joint diagonalization of the local covariances of a full Gaussian mixture with more
    components than wanted, each of which is A D A' under the model. From each a product mixture is fitted to the
    sources; every matrix is also replaced by the one that diagonalizes the covariances of these components. Last, the
    joint diagonalization, and the posteriors, of a full Gaussian mixture with as many components as wanted.

    Parameters
    ----------
    samples : MixedSamples
    rank : int
    fit_product : callable
        See `ProductFit`; it is called three times.
    rng : Generator
    n_steps, tol
        As of :func:`alternate`.
    callback : callable, optional
        ``callback(candidate)`` after every start.

    Returns
    -------
    best : Candidate
    product : Candidate
        Without any mixing: the matrix is the identity.
    starts : list of Candidate
        Every start after its first alternations.
    """
    values = samples.values
    weights = samples.weights
    n = values.shape[1]
    covariance = within_covariance(values, np.ones((len(values), 1)), weights)
    share = shrinkage_to_diagonal(values, weights)
    whitener = inverse_root((1.0 - share) * covariance + share * np.diag(np.diag(covariance)))
    whitened = values @ whitener.T
    n_local = n_local_components(rank, samples.total_weight, n)
    shares, covariances, _ = gaussian_mixture(*some_rows(whitened, weights), n_local, rng)
    local = joint_diagonalizer(covariances, shares) @ whitener
    independent = independent_components(whitened, weights, rng) @ whitener
    product = alternate(samples, Candidate("product", np.eye(n), fit_product(values)), 1, tol)
    within = within_covariance(values, product.posterior, weights)
    pseudo = _pseudo_samples(samples, product.posterior) / samples.total_weight
    pooled = inverse_root((within + pseudo * np.diag(np.diag(within))) / (1.0 + pseudo))
    shares, covariances, found = gaussian_mixture(whitened, weights, rank, rng)
    gaussian = joint_diagonalizer(covariances, shares) @ whitener
    begun = [
        Candidate("local covariances", local, fit_product(values @ local.T)),
        Candidate("independent components", independent, fit_product(values @ independent.T)),
        Candidate("covariance within components", pooled, product.posterior),
    ]
    variants = [variant for each in begun for variant in (each, diagonalized(samples, each))]
    if found.shape[1] == rank:
        variants.append(Candidate("Gaussian components", gaussian, found))
    starts = []
    for candidate in variants:
        starts.append(alternate(samples, candidate, SCREENING_STEPS, tol))
        if callback is not None:
            callback(starts[-1])
    starts.sort(key=lambda each: -each.criterion)
    starts[:N_SCREENED] = [alternate(samples, each, MORE_STEPS, tol) for each in starts[:N_SCREENED]]
    best = max(starts, key=lambda each: each.criterion)
    clear = clearest(samples, starts)
    ends = [polished(samples, each, n_steps, tol) for each in ([best] if best is clear else [best, clear])]
    return clearest(samples, ends), product, starts


def polished(samples: MixedSamples, candidate: Candidate, n_steps: int, tol: float) -> Candidate:
    """A candidate after alternation to the end, and again from its diagonalization if that is better."""
    found = alternate(samples, candidate, n_steps, tol)
    other = alternate(samples, diagonalized(samples, found), MORE_STEPS, tol)
    if other.criterion > found.criterion + tol:
        begun = replace(other, name=found.name, trace=(*found.trace, *other.trace))
        found = alternate(samples, begun, n_steps, tol)
    return found


def held_out_gain(samples: MixedSamples, product: Candidate, best: Candidate, tol: float) -> tuple[float, float]:
    """Log-likelihood that a matrix gains over the product model on samples held out, in nats per sample.

    Both models are fitted again to each part of the samples but one, from where they have got to with all of them.

    Returns
    -------
    gain, error : float
        Mean over the parts, and its standard error.
    """
    folds = np.arange(len(samples.values)) % N_FOLDS
    gains = np.zeros(N_FOLDS)
    for fold in range(N_FOLDS):
        kept = samples.rows(folds != fold)
        out = samples.rows(folds == fold)
        if copies(kept.values):  # a matrix that hangs on a few samples
            return -np.inf, 0.0
        for sign, candidate, n_steps in ((-1.0, product, 1), (1.0, best, FOLD_STEPS)):
            begun = Candidate(candidate.name, candidate.unmixing, candidate.posterior[folds != fold])
            found = alternate(kept, begun, n_steps, tol)
            fit = _fit(kept, found, N_PASSES)
            joint = fit.log_joint(out.values @ found.unmixing.T, out.categories)
            log_density = logsumexp(joint, axis=1) + np.linalg.slogdet(found.unmixing)[1]
            gains[fold] += sign * float(out.weights @ log_density) / out.total_weight
    return float(gains.mean()), float(gains.std(ddof=1) / N_FOLDS**0.5)
