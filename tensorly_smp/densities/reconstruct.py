"""Reconstruction of the density of a mixture from its factors."""

from __future__ import annotations

from typing import Any

import numpy as np

from tensorly_smp._support.checks import checked_choice, checked_real, float_array, warn
from tensorly_smp._support.representations import joined, shown
from tensorly_smp.codes.binning import Binning
from tensorly_smp.codes.encoding import encode_samples
from tensorly_smp.densities.conditionals import (
    NO_BOUNDS,
    ConditionalDensities,
    DiscreteConditionals,
    GridConditionals,
    StudentBackground,
    bin_moments,
)
from tensorly_smp.densities.mixture_density import MixtureDensity
from tensorly_smp.densities.sinc import sinc_conditionals
from tensorly_smp.densities.smooth import background_share, log_spline_conditionals, smooth_conditionals
from tensorly_smp.exceptions import ClippedMassWarning, InvalidInputError, InvalidTypeError
from tensorly_smp.factors.mixture_factors import MixtureFactors
from tensorly_smp.likelihood.cells import choose_cells, curved_cells
from tensorly_smp.likelihood.em import on_best_cells
from tensorly_smp.likelihood.steps import CellSamples
from tensorly_smp.samples.reading import read_samples
from tensorly_smp.splines.basis import LINEAR
from tensorly_smp.splines.log_spline import CRITERIA, ungroup

# Of the paper's four cases (benchmarks/densities.py sinc: 5 components, 15 bins, 200 to 50 000 samples) 0.2 % to 6 % of
# the mass is clipped on average, and 95 % of the densities stay below 19 %. A component with four fifths of its mass in
# a single one of 15 bins loses 20 % to 78 %.
CLIP_WARNING = 0.2

# Samples that bin probabilities alone are taken to stand for.
EXACT_SAMPLES = 10_000.0

# Variables named in a warning.
_SHOWN = 5

# Bins narrower than this share of the mean width are measured in a smaller unit.
_NARROW = 1e-100
_FEWEST_UNITS = 1e140
# Bins narrower than this share of the range lose digits if they are measured from its end.
_LOST = 1e-6


def reconstruct_density(
    solution: Any,
    method: str = "sinc",
    *,
    binning: Binning | None = None,
    clip_warning: float = CLIP_WARNING,
    samples: Any = None,
    posterior: Any = None,
    penalty: str = "reml",
) -> MixtureDensity:
    """Continuous density of the mixture whose bin probabilities are known.

    Parameters
    ----------
    solution : MixtureFactors, or an object with such `factors`
        Weights (rank,) and bin probabilities (n_bins[n], rank) per variable. Discrete variables, of which the binning
        knows the values, keep the probabilities of these, whatever the method.
    method : {"sinc", "histogram", "logspline"}
        "sinc" (default): the paper's band-limited interpolation of the cumulative sums, with its infinite tail summed
        exactly; needs bins of equal width. It is close to a smooth density as soon as the bins are about as wide as the
        standard deviation of its narrowest peak. The paper's functions ring, hence are negative in places; these are
        proper densities close to them, see :func:`~tensorly_smp.densities.sinc.sinc_conditionals`. "histogram":
        constant in every bin, for bins of any widths. "logspline": the logarithm of every density is a penalized cubic
        spline, for bins of any widths; from `samples` much closer to a smooth density than the others, and from bin
        probabilities alone mostly as well. What ``SmoothProductMixture(refine="smooth")`` iterates.
    binning : Binning, optional
        Edges; those of the factors by default.
    clip_warning : float
        Warn if more than this mass was negative, and so was clipped, in some conditional density; infinity for never.
    samples : array_like, DataFrame, DataArray or Dataset (n_samples, n_variables), optional
        For "logspline": densities of these, each sample with the probabilities that the factors give it, or with
        `posterior`; weights are the means of these. Discrete are the variables of which the binning knows the values,
        and, if there are none, those that look discrete. Without samples the splines follow the bin probabilities.
    posterior : array_like (n_samples, rank), optional
        Probabilities of the components, of `samples`; rows sum to one.
    penalty : {"reml", "aic", "bic"}
        For "logspline": how the smoothness of every density is chosen.

    Returns
    -------
    MixtureDensity
        Every conditional density is positive and integrates to one, tails included; `clipped_mass` tells how far it is
        from the band-limited function.

    Raises
    ------
    NonUniformBinsError
        Sinc with bins of unequal width.
    InvalidInputError, InvalidTypeError
        No edges known, or of other numbers of bins than the factors; another kind of object.

    Warns
    -----
    ClippedMassWarning
        Names the variables and components.

    Notes
    -----
    Source: N. Kargas, N. D. Sidiropoulos, "Learning Mixtures of Smooth Product Distributions: Identifiability and
    Algorithm", AISTATS 2019.

    Examples
    --------
    >>> import numpy as np
    >>> from tensorly_smp.codes.binning import Binning
    >>> from tensorly_smp.densities.reconstruct import reconstruct_density
    >>> from tensorly_smp.factors.mixture_factors import MixtureFactors
    >>> bump = np.array([0.02, 0.14, 0.34, 0.34, 0.14, 0.02])
    >>> binning = Binning((np.linspace(-3.0, 3.0, 7),), ("height",))
    >>> factors = MixtureFactors(np.ones(1), (bump[:, None],), binning)
    >>> density = reconstruct_density(factors)
    >>> density.quantile_1d([0.16, 0.84], "height").round(1).tolist()
    [-1.0, 1.0]
    """
    factors, binning = _located_factors(solution, binning)
    checked_choice(method, "method", ("sinc", "histogram", "logspline"))
    clip_warning = min(checked_real(clip_warning, "clip_warning", ends="[]"), 1.0)  # there is no larger share
    if method == "logspline":
        return _log_spline_density(factors, binning, samples, posterior, penalty)
    if samples is not None or posterior is not None:
        raise InvalidInputError(f"method is {shown(method)}; expected 'logspline' with samples and posterior.")
    if method == "sinc":
        binning.require_uniform()
    discrete = binning.discrete
    conditionals: list[ConditionalDensities] = []
    clipped = np.zeros((len(factors.factors), len(factors.weights)))
    for n, (edges, factor) in enumerate(zip(binning.edges, factors.factors, strict=True)):
        if n in discrete:
            conditionals.append(DiscreteConditionals(discrete[n], factor))
        elif method == "histogram":
            conditionals.append(histogram_conditionals(edges, factor))
        else:
            proper, clipped[n] = sinc_conditionals(edges, factor)
            conditionals.append(proper)
    if method == "histogram":
        return MixtureDensity(factors.weights, tuple(conditionals), binning.variables)
    clipped.setflags(write=False)
    _warn_of_clipping(clipped, binning, clip_warning)
    return MixtureDensity(factors.weights, tuple(conditionals), binning.variables, clipped)


def histogram_conditionals(edges: np.ndarray, probabilities: np.ndarray) -> GridConditionals:
    """Piecewise constant densities of one variable, with the same small background as the smooth ones.

    Parameters
    ----------
    edges : ndarray (n_bins + 1,)
        Strictly increasing; widths may differ.
    probabilities : ndarray (n_bins, rank)
        Probability of every bin; columns sum to one.

    Returns
    -------
    GridConditionals

    Examples
    --------
    >>> import numpy as np
    >>> from tensorly_smp.densities.reconstruct import histogram_conditionals
    >>> conditionals = histogram_conditionals(np.array([0.0, 1.0, 4.0]), np.array([[0.7], [0.3]]))
    >>> conditionals.pdf(np.array([0.5, 2.0])).round(2).tolist()
    [[0.7], [0.1]]
    """
    # No two edges may coincide, however far apart the bins lie: between 0, 1 and -1e17 the edges 0.5 and 1.5 are the
    # same number of steps of 1e17 away from the first one. So the origin is at the narrowest bin, next to which
    # subtraction is exact, and the unit, a power of two, divides exactly.
    widths = np.diff(edges)
    n_bins = len(widths)
    narrowest = int(np.argmin(widths))
    mean = edges[-1] / n_bins - edges[0] / n_bins
    # Densities are per unit, and squares of the range are taken: neither must overflow.
    if widths[narrowest] < mean * _NARROW:
        mean = max(np.sqrt(mean) * np.sqrt(widths[narrowest]), mean / _FEWEST_UNITS)
    unit = float(2.0 ** np.floor(np.log2(mean)))
    origin = float(edges[0] if widths[narrowest] > _LOST * (edges[-1] - edges[0]) else edges[narrowest])
    if not (np.diff((edges - origin) / unit) > 0).all():
        origin = 0.0  # subtracts nothing: numbers that differ keep differing, at the cost of digits inside the bins
    knots = (edges - origin) / unit
    background = StudentBackground.matching(*bin_moments(knots, probabilities))
    return GridConditionals.from_cells(origin, unit, knots, probabilities, background)


def _log_spline_density(
    factors: MixtureFactors, binning: Binning, samples: Any, posterior: Any, penalty: Any
) -> MixtureDensity:
    checked_choice(penalty, "penalty", CRITERIA)
    if samples is None:
        if posterior is not None:
            raise InvalidInputError("posterior without samples; expected the samples that it belongs to.")
        n_samples = EXACT_SAMPLES * factors.weights
        share = background_share(n_samples)
        conditionals: list[ConditionalDensities] = []
        for name, edges, factor in zip(binning.variables, binning.edges, factors.factors, strict=True):
            if name in binning.values:
                conditionals.append(DiscreteConditionals(binning.values[name], factor))
            else:
                basis, splines, *ends = ungroup(edges, factor, n_samples, penalty)
                low, high = np.reshape(ends, (2, 1))
                conditionals += log_spline_conditionals(
                    basis, splines[:, None], low, high, share, [NO_BOUNDS], [LINEAR]
                )
        return MixtureDensity(factors.weights, tuple(conditionals), binning.variables)
    values = read_samples(samples, binning.variables).values
    if posterior is None:
        posterior = factors.posterior(encode_samples(values, binning))
    posterior = float_array(posterior, "posterior")
    shape = (len(values), factors.rank)
    if posterior.shape != shape:
        raise InvalidInputError(f"posterior has shape {posterior.shape}; expected {shape}: samples by components.")
    if not (posterior >= 0).all() or np.abs(posterior.sum(axis=1) - 1.0).max() > 1e-6:
        raise InvalidInputError("posterior has rows that are not probabilities; expected non-negative, sum one.")
    posterior = posterior / posterior.sum(axis=1, keepdims=True)
    cells = choose_cells(values, factors.rank, binning.discrete or None)
    on_grid, warm_start = on_best_cells(
        CellSamples.assign_to_grid(values, cells),
        curved_cells(cells, values, factors.rank),
        lambda other: CellSamples.assign_to_grid(values, other),
        posterior,
        penalty,
    )
    _, mixture = on_grid.choose(on_grid.counts_from_posterior(posterior), penalty, warm_start)
    weights = np.exp(mixture.log_weights)
    on_cells = smooth_conditionals(on_grid.cells, mixture, background_share(weights * on_grid.total_weight))
    return MixtureDensity(weights / weights.sum(), on_cells, binning.variables)


def _located_factors(solution: Any, binning: Binning | None) -> tuple[MixtureFactors, Binning]:
    """Factors as float64 NumPy arrays whose columns sum to one, and edges that fit them."""
    factors = solution if isinstance(solution, MixtureFactors) else getattr(solution, "factors", None)
    if not isinstance(factors, MixtureFactors):
        raise InvalidTypeError(
            f"solution is {type(solution).__name__}; expected MixtureFactors, or the result of coupled_simplex_parafac."
        )
    binning = factors.binning if binning is None else binning
    if not isinstance(binning, Binning | None):
        raise InvalidTypeError(f"binning is {type(binning).__name__}; expected Binning(edges, variables).")
    if binning is None:
        raise InvalidInputError("The factors know no bin edges; pass binning=Binning(edges, variables).")
    model = factors.to_numpy()
    # Sums that are one to the accuracy that MixtureFactors asks for, made one to rounding.
    columns = tuple(factor / factor.sum(axis=0) for factor in model.factors)
    return MixtureFactors(model.weights / model.weights.sum(), columns, binning), binning


def _warn_of_clipping(clipped: np.ndarray, binning: Binning, limit: float) -> None:
    """One warning that names the densities that lost more than `limit`, the worst first."""
    where = np.argwhere(clipped > limit)
    if not len(where):
        return
    worst = sorted(where.tolist(), key=lambda place: -clipped[tuple(place)])
    named = [f"variable {shown(binning.variables[n])} component {r} ({clipped[n, r]:.0%})" for n, r in worst]
    warn(
        f"Sinc reconstruction was negative, and was clipped, by more than {limit:.0%} of the mass in {len(worst)} of "
        f"{clipped.size} conditional densities: {joined(named, _SHOWN)}. Either the bins are too wide for so narrow a "
        "density (try more bins, or a narrower range), or they hold too few samples (try fewer); the method "
        '"histogram" does without.',
        ClippedMassWarning,
    )
