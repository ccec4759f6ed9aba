"""One EM of the densities of sources and the matrix to them: an E-step, an M-step of the densities, a step of W."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.sparse import csr_array
from scipy.special import logsumexp

from tensorly_smp._support.iteration import Coordinates, Iteration, MeanGain, SweepTrace, iterate
from tensorly_smp._support.parallel import OnePart
from tensorly_smp.exceptions import InvalidInputError
from tensorly_smp.likelihood.cells import Cells, choose_cells, curved_cells, prior_counts
from tensorly_smp.likelihood.comparison import Candidate
from tensorly_smp.likelihood.em import WarmStart, fits_of, on_best_cells
from tensorly_smp.likelihood.steps import CellPart, CellSamples, Expectation, Mixture, log_joint
from tensorly_smp.samples.values import nearest
from tensorly_smp.unmixing.starts import relative_step, shrinkage_to_diagonal, within_covariance

#: Nats that a sample loses for every cell by which a step moves it off the grid, farther than it was: all that is off
#: the grid shares its outermost cells, whose density must not be worth it.
OFF_GRID = 1.0
#: The same of new samples, which may be far out: exponential tails.
TAIL = 0.1
#: Shares of a step of W that are tried in turn; zero is a plain M-step.
STEP_SHARES = (1.0, 0.3, 0.1, 0.03, 0.0)
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
    shape : {None, "log-concave"}
        Shape of the densities.
    """

    values: np.ndarray
    weights: np.ndarray
    categories: np.ndarray
    category_values: Sequence[np.ndarray]
    criterion: str = "reml"
    shape: str | None = None

    @property
    def total_weight(self) -> float:
        """Sum of the weights."""
        return float(self.weights.sum())

    def rows(self, chosen: np.ndarray) -> MixedSamples:
        """Some of the samples."""
        return replace(
            self, values=self.values[chosen], weights=self.weights[chosen], categories=self.categories[chosen]
        )

    def sources(self, unmixing: np.ndarray) -> np.ndarray:
        """Sources, beside the discrete variables (n_samples, n + n_discrete)."""
        return np.concatenate([self.values @ unmixing.T, self.categories], axis=1)


@dataclass(eq=False)
class UnmixingCandidate(Candidate):
    """A candidate for the result of the search, with its matrix.

    `fit` is the SmoothFit of the sources; `criterion` includes log|det W|; `trace` has minus the penalized
    log-likelihood per sample after every pass so far, and a sweep is a pass.

    Attributes
    ----------
    unmixing : ndarray (n, n)
    """

    unmixing: np.ndarray = None  # type: ignore[assignment]

    @property
    def shape(self) -> str | None:
        """Shape of the densities of its fit."""
        return self.fit.cells.basis.shape  # type: ignore[no-any-return]


@dataclass(frozen=True, eq=False)
class Point:
    """Position of the iteration: the matrix (n, n) and the mixture of the sources."""

    unmixing: np.ndarray
    mixture: Mixture


@dataclass(frozen=True, eq=False)
class SourcesInCells:
    """Sources of samples in cells, every entry shared by the two nearest ones, so that logarithms are interpolated.

    Attributes
    ----------
    on_grid : CellSamples
    sources : ndarray (n_samples, n)
    rows : ndarray of int (n_samples, n)
        Row of the lower of the two cells in the table of all.
    rate : ndarray (n_samples, n)
        Cells per unit of the source.
    off_grid : ndarray (n_samples, n)
        Cells by which a source is off the grid, with its sign.
    """

    on_grid: CellSamples
    sources: np.ndarray
    rows: np.ndarray
    rate: np.ndarray
    off_grid: np.ndarray


class UnmixingEM:
    """EM on a grid, with penalties, of samples whose matrix moves.

    The objective is the penalized log-likelihood of the sources and log|det W|, per sample, and a prior: pseudo-samples
    whose variables are independent within components, as many as shrink the correlations within components as they
    should be.
    """

    def __init__(self, samples: MixedSamples, cells: Cells) -> None:
        self.samples = samples
        self.cells = cells
        self.n = samples.values.shape[1]
        self.penalty = np.empty(0)
        self.share = 0.0
        self.is_fixed = False
        self._pseudo_counts: np.ndarray | None = None
        self._was_off: np.ndarray | None = None
        self._last: tuple[np.ndarray, SourcesInCells] | None = None
        self._first_share = 0
        low, high = (
            np.array([own.forward(x) for own, x in zip(cells.transforms, ends, strict=True)])[: self.n]
            for ends in (cells.low, cells.high)
        )
        self._low = low
        self._per_unit = cells.basis.n_cells / (high - low)
        self._curved = [i for i, own in enumerate(cells.transforms[: self.n]) if not own.is_linear]
        n_columns = 2 * self.n + samples.categories.shape[1]
        self._columns = np.empty((len(samples.values), n_columns), dtype=np.int32)
        self._shares = np.empty(self._columns.shape)
        for column, (own, first) in enumerate(zip(cells.values, cells.offsets[self.n : -1].tolist(), strict=True)):
            category = samples.categories[:, column]
            self._columns[:, 2 * self.n + column] = nearest(own, np.nan_to_num(category)) + first
            self._shares[:, 2 * self.n + column] = ~np.isnan(category)

    def set_prior(self, unmixing: np.ndarray, posterior: np.ndarray) -> None:
        """Pseudo-samples with the variances within components."""
        samples = self.samples
        counts = posterior * samples.weights[:, None]
        means = counts.T @ samples.values / np.maximum(counts.sum(axis=0), 1e-300)[:, None]
        share = shrinkage_to_diagonal(samples.values - posterior @ means, samples.weights)
        within = within_covariance(samples.values, posterior, samples.weights)
        self.share = min(share / max(1.0 - share, 1e-3), MOST_PSEUDO)
        self.variances = self.share * np.maximum(np.diag(within), 1e-12)
        self.source_variances = np.maximum(np.diag(unmixing @ within @ unmixing.T), 1e-300)

    def at(self, unmixing: np.ndarray) -> SourcesInCells:
        """The samples in cells."""
        if self._last is not None and self._last[0] is unmixing:
            return self._last[1]
        sources = self.samples.values @ unmixing.T
        n_cells = self.cells.basis.n_cells
        place = sources.copy()
        rate = np.broadcast_to(self._per_unit, sources.shape).copy()
        for i in self._curved:
            transform = self.cells.transforms[i]
            place[:, i] = transform.forward(sources[:, i])
            rate[:, i] /= np.hypot(transform.scale, sources[:, i] - transform.center)
        place = (place - self._low) * self._per_unit - 0.5
        # NaN, of a step that overflows, is in the first cell here and in the volume there: the step is refused.
        inside = np.fmin(np.fmax(place, 0.0), n_cells - 1.0)
        off_grid = place - inside
        if self._was_off is None:
            self._was_off = np.abs(off_grid)
        off_grid = np.sign(off_grid) * np.maximum(np.abs(off_grid) - self._was_off, 0.0)
        rows = np.minimum(inside.astype(np.int32), n_cells - 2)
        upper = inside - rows
        rows += n_cells * np.arange(self.n, dtype=np.int32)
        columns = self._columns.copy()
        shares = self._shares.copy()
        columns[:, 0 : 2 * self.n : 2] = rows
        columns[:, 1 : 2 * self.n : 2] = rows + 1
        shares[:, 0 : 2 * self.n : 2] = 1.0 - upper
        shares[:, 1 : 2 * self.n : 2] = upper
        starts = np.arange(0, columns.size + 1, columns.shape[1], dtype=np.int32)
        membership = csr_array((shares.ravel(), columns.ravel(), starts), (len(sources), int(self.cells.offsets[-1])))
        weights = self.samples.weights
        overall = membership.T @ weights
        if self._pseudo_counts is None:
            self._pseudo_counts = prior_counts(self.cells, overall)
        volume = float(overall @ self.cells.log_widths) + OFF_GRID * float(weights @ np.abs(off_grid).sum(axis=1))
        part = OnePart(CellPart(membership, weights))
        on_grid = CellSamples(self.cells, self._pseudo_counts, volume, self.samples.total_weight, part)
        found = SourcesInCells(on_grid, sources, rows, rate, off_grid)
        self._last = (unmixing, found)
        return found

    def log_prior(self, unmixing: np.ndarray) -> float:
        """log|det W| of the samples and the pseudo-samples, and what else these add."""
        total = self.samples.total_weight
        log_det = float(np.linalg.slogdet(unmixing)[1])
        if not self.share:
            return total * log_det
        distance = float((unmixing**2 @ self.variances / self.source_variances).sum())
        return total * (log_det + self.share * log_det - 0.5 * distance)

    def evaluate(self, point: Point) -> tuple[Expectation, float]:
        """E-step, and the objective."""
        found = self.at(point.unmixing)
        expected, values = found.on_grid.expect(point.mixture, self.penalty)
        return expected, float(values[0]) - found.on_grid.log_volume + self.log_prior(point.unmixing)

    def expected_value(self, point: Point, expected: Expectation) -> float:
        """The objective with the posteriors held, but for their entropy; the counts are those at this matrix."""
        on_grid = self.at(point.unmixing).on_grid
        value = float(((expected.counts + on_grid.prior) * on_grid.log_tables(point.mixture)).sum())
        value -= 0.5 * float(self.penalty @ self.cells.basis.roughness(point.mixture.columns))
        value += float(expected.component_counts @ point.mixture.log_weights) - on_grid.log_volume
        return value + self.log_prior(point.unmixing)

    def advance(self, point: Point, expected: Expectation) -> Point:
        """M-step: a quasi-Newton step of W, shortened until the expected objective rises, then densities there."""
        step = np.zeros_like(point.unmixing) if self.is_fixed else self.relative_step(point, expected)
        value = self.expected_value(point, expected)
        # A share beyond the one that was taken last is tried again, one at a time.
        shares = STEP_SHARES[self._first_share :] if step.any() else (0.0,)
        for share in shares:
            unmixing = point.unmixing + share * step @ point.unmixing if share else point.unmixing
            on_grid = self.at(unmixing).on_grid
            counted = on_grid.counts_from_posterior(expected.posterior)
            moved = Point(unmixing, on_grid.maximize(counted, point.mixture, self.penalty))
            if not share or self.expected_value(moved, counted) >= value:
                break
        if step.any():
            self._first_share = max(STEP_SHARES.index(share) - 1, 0)
        return moved

    def relative_step(self, point: Point, expected: Expectation) -> np.ndarray:
        """Step E to (I + E) W, with the centers of the components moved along with the matrix.

        With slopes s_i of the log-densities, the gradient is E[s_i (z_j - mu_jr)] + I, and the curvature
        sum_r w_r E_r[s_i^2] Var_r(z_j): sources are independent within components. If the densities did not move with
        their centers, the curvature would have the distances of the components in place of their widths, and steps
        were many times shorter.
        """
        found = self.at(point.unmixing)
        tables = found.on_grid.log_tables(point.mixture) - self.cells.log_widths[:, None]
        counts = expected.posterior * self.samples.weights[:, None]
        totals = np.maximum(expected.component_counts, 1e-300)
        means = counts.T @ found.sources / totals[:, None]
        variances = np.maximum(counts.T @ found.sources**2 / totals[:, None] - means**2, 1e-12)
        # m sample, i source, r component
        slopes = np.diff(tables, axis=0)[found.rows]
        is_off = found.off_grid != 0
        slopes[is_off] = -OFF_GRID * np.sign(found.off_grid[is_off])[:, None]
        slopes *= found.rate[:, :, None]
        weighted = counts[:, None] * slopes
        gradient = (weighted @ np.ones(len(totals))).T @ found.sources - weighted.sum(axis=0) @ means
        information = np.einsum("mir,mir->ir", weighted, slopes) / totals
        # A density of this variance has at least the information of a Gaussian.
        information = np.maximum(information, 1.0 / variances.T)
        total = self.samples.total_weight
        gradient /= total
        curvature = information * (totals / total) @ variances
        if self.share:
            pull = (point.unmixing * self.variances) @ point.unmixing.T / self.source_variances[:, None]
            own = np.diag(pull) * self.source_variances / self.source_variances[:, None]
            gradient = (gradient - pull) / (1.0 + self.share)
            curvature = (curvature + own) / (1.0 + self.share)
        return relative_step(gradient, curvature)

    def run(self, start: Point, rule: MeanGain) -> Iteration[Point, Expectation]:
        """Passes until the rule says to stop, extrapolated where that pays."""
        on_grid = self.at(start.unmixing).on_grid
        size = start.unmixing.size
        return iterate(
            start,
            self.evaluate,
            self.advance,
            rule=rule,
            coordinates=Coordinates(
                lambda point: np.concatenate([point.unmixing.ravel(), point.mixture.pack()]),
                lambda vector, like: Point(
                    like.unmixing if self.is_fixed else vector[:size].reshape(like.unmixing.shape),
                    on_grid.feasible(vector[size:], like.mixture),
                ),
            ),
        )


def _em_on_cells(samples: MixedSamples, unmixing: np.ndarray, posterior: np.ndarray) -> tuple[UnmixingEM, WarmStart]:
    """EM on cells of the sources in the coordinates that suit each best, with penalties and a mixture there."""
    values = samples.sources(unmixing)
    n = len(unmixing)
    rank = posterior.shape[1]
    discrete = dict(enumerate(samples.category_values, n))
    cells = choose_cells(values, rank, discrete, None, samples.weights, shape=samples.shape)
    if any(i < n for i in cells.discrete):
        raise InvalidInputError(
            "A source has a single value, but for rounding: some variable has values too far from all others. Set "
            "them to NaN, or rescale them."
        )
    em = UnmixingEM(samples, cells)
    on_grid = em.at(unmixing).on_grid
    chosen, near = on_best_cells(
        on_grid,
        curved_cells(cells, values, rank, None, samples.weights),
        lambda other: UnmixingEM(samples, other).at(unmixing).on_grid,
        posterior,
        samples.criterion,
    )
    return em if chosen.cells is cells else UnmixingEM(samples, chosen.cells), near


def follow(
    samples: MixedSamples,
    candidate: UnmixingCandidate,
    n_passes: int,
    tol: float,
    *,
    n_rounds: int = 1,
    round_tol: float = 0.0,
    goes_on: bool = False,
    is_fixed: bool = False,
) -> UnmixingCandidate:
    """A candidate after passes of EM with one choice of grids, from its posteriors and matrix on.

    Parameters
    ----------
    samples : MixedSamples
    candidate : UnmixingCandidate
    n_passes : int
        Of a round, at most.
    tol : float
        Gain of a pass, in nats per sample, below which a round ends.
    n_rounds : int
        Penalties are chosen anew in every round; the best one is the result, or the candidate, if it has a fit that is
        better.
    round_tol : float
        Gain of a round, in nats per sample, below which no other follows.
    goes_on : bool
        Whether the grids are those of the fit of the candidate, and the densities too if they have the same shape.
    is_fixed : bool
        Whether the matrix stays.

    Returns
    -------
    UnmixingCandidate
    """
    total = samples.total_weight
    posterior = candidate.posterior
    unmixing = candidate.unmixing
    if goes_on:
        em = UnmixingEM(samples, candidate.fit.cells.of_shape(samples.shape))
        on_grid = em.at(unmixing).on_grid
        known = candidate.fit.total_penalty, candidate.fit.mixture
        is_same = samples.shape == candidate.shape
        near = known if is_same else on_grid.choose(on_grid.counts_from_posterior(posterior), samples.criterion)
        candidate = candidate if is_same else replace(candidate, fit=None)
    else:
        scale = np.sqrt(samples.weights @ (samples.values @ unmixing.T) ** 2 / total)
        unmixing = unmixing / scale[:, None]
        em, near = _em_on_cells(samples, unmixing, posterior)
    em.is_fixed = is_fixed
    best = candidate
    trace = candidate.trace
    for _ in range(n_rounds):
        em.penalty, mixture = near
        em.set_prior(unmixing, posterior)
        run = em.run(Point(unmixing, mixture), MeanGain(tol * total, n_passes))
        unmixing = run.position.unmixing
        on_grid = em.at(unmixing).on_grid
        reached = Iteration(run.position.mixture, run.detail, run.values, run.seconds, run.status)
        (fit,) = fits_of(on_grid, [[reached]], [em.penalty], [run.status])
        posterior = fit.posterior
        passed = SweepTrace(-run.values / total, np.full(len(run.values), np.nan), run.seconds)
        trace = passed if trace is None else trace.followed_by(passed)
        criterion = fit.akaike + total * float(np.linalg.slogdet(unmixing)[1])
        gain = np.inf if best.fit is None else criterion - best.criterion
        if gain > 0.0:
            best = replace(candidate, unmixing=unmixing, posterior=posterior, fit=fit, criterion=criterion)
        if gain <= round_tol * total:
            break
        near = on_grid.choose(on_grid.counts_from_posterior(posterior), samples.criterion, (em.penalty, fit.mixture))
    return replace(best, trace=trace, status=run.status)


def log_joint_of(samples: MixedSamples, candidate: UnmixingCandidate) -> np.ndarray:
    """Logarithm of w_r f(x | r), (n_samples, rank), of any samples."""
    em = UnmixingEM(samples, candidate.fit.cells)
    em._was_off = np.zeros((1, 1))
    found = em.at(candidate.unmixing)
    mixture = candidate.fit.mixture
    joint = log_joint(found.on_grid.membership, mixture.log_weights, found.on_grid.log_tables(mixture))
    volume = found.on_grid.membership @ em.cells.log_widths + TAIL * np.abs(found.off_grid).sum(axis=1)
    return np.asarray(joint - volume[:, None] + np.linalg.slogdet(candidate.unmixing)[1])


def log_densities_of(samples: MixedSamples, candidate: UnmixingCandidate) -> np.ndarray:
    """Log-density (n_samples,) of any samples."""
    return np.asarray(logsumexp(log_joint_of(samples, candidate), axis=1))
