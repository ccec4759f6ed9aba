"""The bootstrap of a fitted mixture: replicates of weights, means, distribution functions and densities."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import xarray as xr
from scipy.optimize import linear_sum_assignment

from tensorly_smp._support.checks import (
    RandomState,
    checked_choice,
    checked_entries,
    checked_integer,
    checked_n_jobs,
    collected_warnings,
    spawn_generators,
    warn,
)
from tensorly_smp._support.iteration import StopReason
from tensorly_smp._support.parallel import allowed_threads, one_blas_thread, run_each
from tensorly_smp._support.representations import joined
from tensorly_smp._support.result_schema import result_values
from tensorly_smp.codes.encoding import encode_samples
from tensorly_smp.densities.conditionals import ConditionalDensities, DiscreteConditionals, GridConditionals
from tensorly_smp.densities.mixture_density import MixtureDensity
from tensorly_smp.densities.reconstruct import reconstruct_density
from tensorly_smp.densities.smooth import background_share, smooth_conditionals, spline_transforms, variable_bounds
from tensorly_smp.exceptions import ConvergenceWarning, IdentifiabilityWarning, InvalidInputError, SizeLimitError
from tensorly_smp.factors.blocks import LOSSES
from tensorly_smp.factors.mixture_factors import EMPTY_WEIGHT, MixtureFactors
from tensorly_smp.fitting.fit_samples import EM_SMOOTHING, in_memory
from tensorly_smp.fitting.stages import Decomposition
from tensorly_smp.likelihood.bins import samples_in_bins
from tensorly_smp.likelihood.cells import cells_along
from tensorly_smp.likelihood.comparison import adjusted_rand, contingency
from tensorly_smp.likelihood.em import run_em
from tensorly_smp.likelihood.steps import CellSamples, Mixture, log_floored
from tensorly_smp.splines.basis import spline_basis

#: Tails of a component beyond these quantiles have no points.
TAIL = 1e-3
#: Bytes of all replicates together, at most.
MAX_BYTES = 4 * 10**9
#: Of the random streams.
PURPOSE = 0xB007
#: Nats that EM may leave a replicate to gain: a displacement of 0.14 standard errors.
LEFT = 0.01
#: ... as if the samples had these shares of the information at least, the second where the likelihood is flat.
LEAST_INFORMATION, OF_FLAT = 0.02, 0.1
#: Figures of a fit: their dimensions, and what they are.
STATISTICS = {
    "weights": (("component",), "probability of the component"),
    "mean": (("variable", "component"), "mean of the variable in the component"),
    "cdf": (("variable", "point", "component"), "probability of values up to x in the component"),
    "density": (
        ("variable", "point", "component"),
        "density of the variable at x in the component, of a discrete variable the probability of x",
    ),
}


@dataclass(frozen=True, eq=False)
class Refit:
    """Fits a model again to other samples, from where the first fit ended: by EM, or by the coupled decomposition.

    EM is on the cells or bins of the first fit: splines keep their knots and coordinates. Penalties are chosen once
    more, within a factor of ten of the first ones.

    Attributes
    ----------
    assign_to_grid : callable
        Values (n_samples, n_variables) to CellSamples.
    mixture : Mixture
        The first fit.
    penalty : ndarray (n_smooth, rank)
        Of the first fit, per sample of the component.
    conditionals : callable
        The densities of a mixture that was fitted to samples of some total weight.
    options : dict
        ``criterion``, ``n_iter_max`` and ``tol`` (per sample) of EM.
    decompose : callable, optional
        Values and weights to the mixture and the status of a decomposition, in place of EM.
    """

    assign_to_grid: Callable[[np.ndarray], CellSamples]
    mixture: Mixture
    penalty: np.ndarray
    conditionals: Callable[[Mixture, float], Sequence[ConditionalDensities]]
    options: dict[str, Any]
    decompose: Callable[[np.ndarray, np.ndarray], tuple[Mixture, StopReason]] | None = None

    @classmethod
    def of_fit(
        cls, result: xr.Dataset, factors: MixtureFactors, values: np.ndarray, decomposition: Decomposition
    ) -> Refit:
        """Refit as the Dataset of the first fit says that this was made, given its samples (n_samples, n_variables)."""
        attrs = result.attrs
        options: dict[str, Any] = dict(
            n_iter_max=int(attrs["max_iter"]), tol=float(attrs["tol"]), criterion=str(attrs["penalty_criterion"])
        )
        if attrs["refine"] == "smooth":
            options["tol"] *= 10.0
            return cls.on_cells(result, factors, values, **options)
        if attrs["refine"] == "em":
            return cls.on_bins(factors, str(attrs["density"]), None, **options)
        decomposition = replace(
            decomposition,
            rank=factors.rank,
            triples=result["triples"].values if "triples" in result else "all",
            loss=str(attrs["loss_name"]) if attrs["loss_name"] in LOSSES else decomposition.loss,
            max_iter=options["n_iter_max"],
            tol=options["tol"],
            n_init=1,
            is_start=False,
            n_jobs=1,
            callback=None,
            warns=False,
        )
        return cls.on_bins(factors, str(attrs["density"]), decomposition, **options)

    @classmethod
    def on_cells(cls, dataset: xr.Dataset, factors: MixtureFactors, values: np.ndarray, **options: Any) -> Refit:
        """Refit of smoothed EM, from the Dataset of the first fit, and its samples (n_samples, n_variables)."""
        assert factors.binning is not None
        discrete = factors.binning.discrete
        smooth = [n for n in range(factors.n_variables) if n not in discrete]
        interval = np.nan_to_num(result_values(dataset, "interval"), nan=0.0)
        cells = cells_along(
            spline_basis(dataset.sizes["basis"], dataset.attrs.get("shape")),
            interval[:, 0],
            np.where(np.isin(np.arange(factors.n_variables), list(discrete)), 1.0, interval[:, 1]),
            tuple(spline_transforms(dataset)),
            discrete,
            values,
        )
        spline = result_values(dataset, "spline")[smooth]
        bounds = variable_bounds(dataset)

        def conditionals(mixture: Mixture, total: float) -> Sequence[ConditionalDensities]:
            return smooth_conditionals(cells, mixture, background_share(np.exp(mixture.log_weights) * total), bounds)

        return cls(
            lambda values: CellSamples.assign_to_grid(values, cells),
            _mixture(factors.weights, [factors.factors[n] for n in discrete], spline.transpose(1, 0, 2)),
            result_values(dataset, "penalty")[smooth],
            conditionals,
            options,
        )

    @classmethod
    def on_bins(
        cls, factors: MixtureFactors, density: str, decomposition: Decomposition | None, **options: Any
    ) -> Refit:
        """Refit of EM on bins, or of a decomposition, from the factors of the first fit."""
        binning = factors.binning
        assert binning is not None

        def conditionals(mixture: Mixture, total: float) -> Sequence[ConditionalDensities]:
            tables = np.split(np.exp(mixture.tables), np.cumsum(factors.n_bins)[:-1])
            model = MixtureFactors(np.exp(mixture.log_weights), tuple(tables), binning)
            return reconstruct_density(model, method=density, clip_warning=np.inf).conditionals

        def decompose(values: np.ndarray, weights: np.ndarray) -> tuple[Mixture, StopReason]:
            if (n_drawn := np.count_nonzero(weights)) < factors.rank:
                raise InvalidInputError(
                    f"A replicate has {n_drawn} different samples, too few for {factors.rank} components; "
                    'expected one for each. Use method="parametric", or a model of fewer components.'
                )
            assert decomposition is not None
            with collected_warnings():  # those of the fit say it all
                solution = replace(decomposition, init=factors).solution(in_memory(values, binning, weights))
            model = solution.factors.to_numpy()
            return _mixture(model.weights, model.factors), solution.status

        return cls(
            lambda values: samples_in_bins(encode_samples(values, binning), None, EM_SMOOTHING),
            _mixture(factors.weights, factors.factors),
            np.empty((0, factors.rank)),
            conditionals,
            options,
            None if decomposition is None else decompose,
        )

    def posterior(self, samples: CellSamples) -> np.ndarray:
        """Posteriors (n_samples, rank) under the first fit."""
        return samples.expect(self.mixture, np.zeros(self.penalty.size))[0].posterior

    def _penalty(self, samples: CellSamples, posterior: np.ndarray) -> np.ndarray:
        """Penalties (n_smooth * rank,), not per sample."""
        if not samples.cells.smooth:
            return np.empty(0)
        return self.penalty.ravel() * samples.shares(samples.counts_from_posterior(posterior).counts)[1]

    def flattest(self, samples: CellSamples, posterior: np.ndarray) -> FlattestDirection:
        """The direction in which samples determine the first fit least, by the likelihood."""
        return flattest_direction(samples, posterior, self.mixture, self._penalty(samples, posterior))

    def again(
        self,
        samples: CellSamples,
        values: np.ndarray,
        posterior: np.ndarray,
        flattest: FlattestDirection,
        rng: np.random.Generator,
    ) -> tuple[Mixture, np.ndarray, StopReason]:
        """The fit to other samples, also given as values (n_samples, n_variables), its posteriors, and its status.

        It starts from their posteriors (n_samples, rank) under the first fit, or, where that is flat, under a mixture
        that is as likely.
        """
        if self.decompose is not None:
            mixture, status = self.decompose(values, samples.sample_weight)
            return mixture, samples.expect(mixture, np.empty(0))[0].posterior, status
        if flattest.is_flat:
            posterior = samples.expect(flattest.start(rng), np.zeros(self.penalty.size))[0].posterior
        # With a share e of the information, passes after one that gains g gain g / 2e together. Where the likelihood
        # is flat, it is the starts that spread the replicates.
        left = 2.0 * LEFT * max(flattest.information, OF_FLAT if flattest.is_flat else LEAST_INFORMATION)
        tol = min(self.options["tol"] * samples.total_weight, left)
        warm_start = (self._penalty(samples, posterior), self.mixture)
        penalty, start = samples.choose(samples.counts_from_posterior(posterior), self.options["criterion"], warm_start)
        (reached,) = run_em(samples, [start], [penalty], tol=tol, n_iter_max=[self.options["n_iter_max"]])
        return reached.position, reached.detail.posterior, reached.status


def _mixture(weights: np.ndarray, tables: Sequence[np.ndarray], splines: np.ndarray | None = None) -> Mixture:
    """The mixture with these weights, tables of the variables without splines, and coefficients of the others."""
    rank = len(weights)
    return Mixture(
        log_floored(weights),
        np.ascontiguousarray(np.empty((1, 0, rank)) if splines is None else splines),
        log_floored(np.concatenate([np.empty((0, rank)), *tables])),
    )


def run_bootstrap(
    refit: Refit,
    density: MixtureDensity,
    values: np.ndarray,
    weights: np.ndarray,
    n_replicates: int,
    method: str,
    n_points: int,
    n_jobs: int | None,
    random_state: RandomState,
) -> xr.Dataset:
    """Draw replicates, fit each, match its components to those of the first fit, and keep the statistics.

    Parameters
    ----------
    refit : Refit
    density : MixtureDensity
        Of the first fit.
    values : ndarray (n_samples, n_variables)
        Samples of the first fit, NaN = missing.
    weights : ndarray (n_samples,)
        Numbers of samples.
    n_replicates, method, n_points, n_jobs, random_state
        As of :meth:`tensorly_smp.SmoothProductMixture.bootstrap`.

    Returns
    -------
    Dataset
        Without the names of the variables. After a keyboard interrupt, of the replicates that are complete.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        No sample has both entries and a weight; parameters that cannot be used.
    SizeLimitError
        Replicates, or the samples of one, would be too large.
    KeyboardInterrupt
        Before any replicate is complete.

    Warns
    -----
    ConvergenceWarning
        The keyboard interrupted.
    IdentifiabilityWarning
        The likelihood is next to flat: intervals may be too small.
    """
    is_parametric = checked_choice(method, "method", ("rows", "parametric")) == "parametric"
    n_replicates = checked_integer(n_replicates, "n_replicates", 1)
    n_points = checked_integer(n_points, "n_points", 2)
    n_threads = allowed_threads(checked_n_jobs(n_jobs))
    weights = np.where(np.isnan(values).all(axis=1), 0.0, weights)  # samples without entries say nothing
    _check_sizes(weights.sum(), density, n_replicates, n_points, is_parametric)
    n_drawn = max(round(float(weights.sum())), 1)
    grid = points_of(density, n_points)
    on_grid = refit.assign_to_grid(values).reweighted(weights)
    of_fit = refit.posterior(on_grid)
    flattest = refit.flattest(on_grid, of_fit)

    def one(rng: np.random.Generator, check: Callable[[], None]) -> tuple[dict[str, Any], StopReason]:
        """Statistics of a replicate, and its status."""
        check()
        counts = np.round(weights)
        if not is_parametric or not np.array_equal(counts, weights):
            counts = rng.multinomial(n_drawn, weights / weights.sum()).astype(np.float64)
        if not is_parametric:
            return _replicate(refit, on_grid.reweighted(counts), values, of_fit, flattest, grid, rng)
        missing = np.repeat(np.isnan(values), counts.astype(np.int64), axis=0)
        drawn = np.where(missing, np.nan, density.sample(len(missing), rng)[0])
        samples = refit.assign_to_grid(drawn)
        return _replicate(refit, samples, drawn, refit.posterior(samples), flattest, grid, rng)

    streams = spawn_generators(random_state, n_replicates, PURPOSE)
    with one_blas_thread():
        ends, _ = run_each(one, streams, n_threads, lambda end: end[1] is StopReason.INTERRUPTED)
    complete = [found for found, status in ends if status is not StopReason.INTERRUPTED]
    if not complete:
        raise KeyboardInterrupt
    if len(complete) < n_replicates:
        warn(
            f"The keyboard interrupted the bootstrap: the result holds {len(complete)} of {n_replicates} replicates.",
            ConvergenceWarning,
        )
    if flattest.is_flat:
        warn(flattest.warning())
    return _dataset(complete, figures(density.weights, density.conditionals, grid), grid)


def _replicate(
    refit: Refit,
    samples: CellSamples,
    values: np.ndarray,
    posterior: np.ndarray,
    flattest: FlattestDirection,
    grid: np.ndarray,
    rng: np.random.Generator,
) -> tuple[dict[str, Any], StopReason]:
    """Statistics of a fit to drawn samples, which have posteriors under the first fit, and its status.

    Components are in the order of those of the first fit that they share most samples with.
    """
    mixture, new, status = refit.again(samples, values, posterior, flattest, rng)
    order = linear_sum_assignment(-posterior.T @ (new * samples.sample_weight[:, None]))[1]
    table = contingency(posterior.argmax(axis=1), new.argmax(axis=1), len(order), samples.sample_weight)
    conditionals = refit.conditionals(mixture, samples.total_weight)
    found: dict[str, Any] = {
        name: value[..., order] for name, value in figures(np.exp(mixture.log_weights), conditionals, grid).items()
    }
    found["agreement"] = adjusted_rand(table)
    found["switched"] = np.int8(not np.array_equal(order, np.arange(len(order))))
    found["converged"] = np.int8(status.is_converged)
    return found, status


def _check_sizes(total: float, density: MixtureDensity, n_replicates: int, n_points: int, is_parametric: bool) -> None:
    """Refuse results too large, and numbers of samples that no replicate can have."""
    size = 16 * n_replicates * density.n_variables * n_points * density.rank
    if size > MAX_BYTES:
        raise SizeLimitError(
            f"Replicates would take {size / 1e9:.3g} GB; expected at most {MAX_BYTES / 1e9:g}: a smaller n_points."
        )
    if not total > 0:
        raise InvalidInputError(
            "All samples with a weight lack all entries (NaN); expected the samples of the fit, some with entries."
        )
    if is_parametric:
        checked_entries(round(total), density.n_variables, "The samples of a replicate")


def figures(
    weights: np.ndarray, conditionals: Sequence[ConditionalDensities], grid: np.ndarray
) -> dict[str, np.ndarray]:
    """`STATISTICS` of a fit at points (n_variables, n_points), NaN after the last of a variable."""
    cdf = np.full((*grid.shape, len(weights)), np.nan)
    density = cdf.copy()
    for n, (each, row) in enumerate(zip(conditionals, grid, strict=True)):
        points = row[~np.isnan(row)]
        cdf[n, : len(points)] = each.cdf(points)
        density[n, : len(points)] = each.pdf(points)
    return dict(weights=weights, mean=np.stack([each.mean() for each in conditionals]), cdf=cdf, density=density)


def points_of(density: MixtureDensity, n_points: int) -> np.ndarray:
    """Points (n_variables, n_points) at which densities are kept; of a discrete variable its values, NaN after these.

    Half of them are equally spaced from the first to the last quantile of any component, in the coordinate of its
    splines if it has one; the others are quantiles of the mixture. So they are dense where the density is.
    """
    grid = np.full((density.n_variables, n_points), np.nan)
    kept = np.flatnonzero(density.weights >= EMPTY_WEIGHT)
    n_even = (n_points + 1) // 2
    shares = (np.arange(n_points - n_even) + 0.5) / max(n_points - n_even, 1)
    for n, (each, name) in enumerate(zip(density.conditionals, density.variables, strict=True)):
        if isinstance(each, DiscreteConditionals):
            n_values = len(each.values)
            chosen = np.linspace(0, n_values - 1, min(n_points, n_values)).round().astype(int)
            grid[n, : len(chosen)] = each.values[chosen]
            continue
        ends = np.stack([each.quantile(np.array([TAIL, 1.0 - TAIL]), int(r)) for r in kept])
        low = float(ends[:, 0].min())
        high = float(ends[:, 1].max())
        even = np.linspace(low, high, n_even)
        if isinstance(each, GridConditionals):
            # Equally spaced by the cells that the densities are tabulated on; in the tails beyond them, by values.
            knots = each.origin + each.unit * each.knots
            numbers = np.arange(len(knots))
            start, end = np.interp([low, high], knots, numbers).tolist()
            even = np.interp(np.linspace(start, end, n_even), numbers, knots)
            even[[0, -1]] = low, high
        grid[n] = np.sort(np.concatenate([even, density.quantile_1d(shares, name)]))
    return grid


def _dataset(found: Sequence[dict[str, Any]], first: dict[str, np.ndarray], grid: np.ndarray) -> xr.Dataset:
    data: dict[str, Any] = {}
    for name, (dims, note) in STATISTICS.items():
        data[name] = (("replicate", *dims), np.stack([each[name] for each in found]), {"long_name": note})
        data[f"fit_{name}"] = (dims, first[name], {"long_name": f"{note}, of the fit itself"})
    data["x"] = (("variable", "point"), grid, {"long_name": "where cdf and density are, in the unit of the variable"})
    for name, note in (
        ("agreement", "adjusted Rand index of clusters with those of the fit"),
        ("switched", "whether components had changed places, and were put back"),
        ("converged", "whether the tolerance was met"),
    ):
        data[name] = ("replicate", np.array([each[name] for each in found]), {"long_name": note})
    coords = {
        "replicate": np.arange(len(found)),
        "component": np.arange(len(first["weights"])),
        "point": np.arange(grid.shape[1]),
    }
    return xr.Dataset(data, coords, {"n_switched": sum(int(each["switched"]) for each in found)})


# ---- the direction in which samples determine a mixture least, and how far models along it are as likely ----

#: A likelihood is flat if the standard error along its flattest direction is larger. For scale: 0.3 in the direction of
#: the weights is a standard error of 0.15 of a weight of one half. Largest and smallest of 20 to 25 data sets a case
#: (`benchmarks/bench_bootstrap.py flatness`): three or five informative 0/1 items .25 and .33 (200 samples, two and
#: three classes), Gaussian, Gamma, Laplace and bimodal mixtures .2; two informative items and one of noise above .8.
FLAT = 0.3
#: Posteriors are mixed with this share of the weights. Fits on the border of their parameters (probabilities of zero)
#: look determined, because only the way inside is open.
PULL = 0.1
#: Passes of EM from there, and iterations of the power method. After 10 passes a log-spline may still be on its way,
#: one Newton step a pass, and look flat: 5 of 20 Gamma mixtures; after 40 none of them.
N_PASSES, N_POWERS = 40, 30
#: Length of a step by which the EM map is differentiated.
STEP = 1e-3
#: Starts of replicates lie along a flat direction with at most this standard deviation.
MOST = 0.5
#: Components are named if they have this share of the squared length of a direction.
NAMED = 0.2


@dataclass(frozen=True, eq=False)
class FlattestDirection:
    """Direction in which samples determine a mixture least.

    Attributes
    ----------
    samples : CellSamples
    mixture : Mixture
        About as likely as the fit, and off the borders of the parameters.
    direction : ndarray (n_parameters,)
        In the coordinates of ``mixture.pack()``, of length one in the metric of Fisher's information of one sample
        whose component is known.
    information : float
        Share of that information which samples of unknown components have in this direction.
    """

    samples: CellSamples
    mixture: Mixture
    direction: np.ndarray
    information: float

    @property
    def deviation(self) -> float:
        """Standard error along the direction; the farthest distributions are pi apart."""
        return float((self.samples.total_weight * self.information) ** -0.5)

    @property
    def is_flat(self) -> bool:
        """True if models that differ much are about as likely."""
        return self.deviation > FLAT

    def start(self, rng: np.random.Generator) -> Mixture:
        """A mixture that is about as likely as the fit, drawn along the direction."""
        moved = self.mixture.pack() + min(self.deviation, MOST) * rng.standard_normal() * self.direction
        return self.samples.feasible(moved, self.mixture)

    def warning(self) -> IdentifiabilityWarning:
        """The warning of a bootstrap of such a fit, which names the components that change most."""
        lengths = _squared_lengths(self.samples, self.mixture, self.direction)
        components = np.flatnonzero(lengths >= NAMED * lengths.sum()).tolist()
        return IdentifiabilityWarning(
            "The likelihood is next to flat: samples hardly tell this model from others with other weights and "
            f"densities, mostly of component(s) {joined(list(map(str, components)))}, and intervals of the bootstrap "
            f"may be too small (standard error {self.deviation:.2g} along the flattest direction, trusted up to "
            f"{FLAT}). Ask for fewer components, or measure more variables in which the groups differ."
        )


def flattest_direction(
    samples: CellSamples, posterior: np.ndarray, mixture: Mixture, penalty: np.ndarray
) -> FlattestDirection:
    """Direction in which samples determine a mixture least, by the rate of EM.

    Along a direction EM leaves the share of an error that the missing components have of the information (Dempster,
    Laird and Rubin 1977): its slowest direction is that of least information, and the power method on the EM map finds
    it, at the cost of an E-step and an M-step an iteration.

    Parameters
    ----------
    samples : CellSamples
    posterior : ndarray (n_samples, rank)
        Of the fit.
    mixture : Mixture
        The fit.
    penalty : ndarray (n_smooth * rank,)
        Not per sample.

    Returns
    -------
    FlattestDirection
    """

    def pass_of_em(position: Mixture) -> Mixture:
        return samples.maximize(samples.expect(position, penalty)[0], position, penalty)

    pulled = (1.0 - PULL) * posterior + PULL * np.exp(mixture.log_weights)
    mixture = samples.maximize(samples.counts_from_posterior(pulled), mixture, penalty)
    for _ in range(N_PASSES):
        mixture = pass_of_em(mixture)
    here = mixture.pack()
    after = pass_of_em(mixture).pack()
    moved = np.random.default_rng(0).standard_normal(len(here))
    length = np.sqrt(_squared_lengths(samples, mixture, moved).sum())
    for _ in range(N_POWERS):
        direction = moved / max(length, 1e-300)
        moved = (pass_of_em(mixture.unpack(here + STEP * direction)).pack() - after) / STEP
        length = np.sqrt(_squared_lengths(samples, mixture, moved).sum())
    return FlattestDirection(samples, mixture, direction, max(1.0 - float(length), 1e-6))


def _squared_lengths(samples: CellSamples, mixture: Mixture, direction: np.ndarray) -> np.ndarray:
    """Squared length (rank,) of the part that every component has in a direction, in the metric of Fisher."""
    moved = mixture.unpack(mixture.pack() + STEP * direction)
    tables = samples.log_tables(mixture)
    of_tables = (np.exp(tables) * (samples.log_tables(moved) - tables) ** 2).sum(axis=0)
    of_weights = (moved.log_weights - mixture.log_weights) ** 2
    return np.asarray(np.exp(mixture.log_weights) * (of_weights + of_tables) / STEP**2)
