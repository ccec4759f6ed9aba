"""What densities cost: KL(true || learned) in nats where the densities are all that is learned, from true posteriors.

    python benchmarks/densities.py sinc         shares of polygon and background, and masses clipped, of sinc densities
    python benchmarks/densities.py penalties    criteria of the penalty, numbers of basis functions, and backgrounds
    python benchmarks/densities.py coordinates  the variables themselves, and coordinates by choice (how many differ)
    python benchmarks/densities.py shapes       one component of a truth with one peak: free and log-concave densities
    python benchmarks/densities.py toy          the paper's toy example: largest error of the density over its peak
    python benchmarks/densities.py far          far values, long tails and repeated values: the cost for a default fit

The paper's four cases, ten variables, five components, means of `--truths 2` mixtures of `--samples` samples.
`shapes` fits one component to three variables of 1000 samples with the same law; the KL is that of one variable.
The toy example is 0.5 N(-6, 5^2) + 0.5 N(10, 5^2) with exact samples of its CDF, first edge at -58. `far` has three
overlapping Gaussian components (unit variances, means with standard deviation 1.6), five variables, 3000 samples. First
5 % of the entries of all variables are far: accuracy of the true posterior of the others, of the fit that knows which
they are (as NaN), and of the fit as they are. Then exponentials of the samples, against the fit of the samples
themselves, a change of variables away. Then entries are zero with probability 0.2, 0.4 and 0.6 in the components.
"""

from __future__ import annotations

import time
import warnings
from dataclasses import replace

import numpy as np
from common import KINDS, options_of, percent_right
from scipy.stats import gamma, laplace, logistic, lognorm, norm, t

import tensorly_smp as smp
from tensorly_smp.datasets import make_smooth_mixture
from tensorly_smp.densities import smooth
from tensorly_smp.densities.conditionals import BACKGROUND_SHARE
from tensorly_smp.densities.mixture_density import MixtureDensity
from tensorly_smp.densities.reconstruct import histogram_conditionals
from tensorly_smp.densities.sinc import POLYGON_SHARE, sinc_conditionals, sinc_step_derivative
from tensorly_smp.likelihood.cells import choose_cells, curved_cells
from tensorly_smp.likelihood.em import on_best_cells
from tensorly_smp.likelihood.steps import CellSamples
from tensorly_smp.splines.basis import SHAPES, spline_basis

N_VARIABLES = 10


def drawn(kind, rank, n_samples, seed, n_new=2000):
    """Samples, their true posteriors, and the KL of a density on new samples."""
    X, _, truth = make_smooth_mixture(kind, n_samples, N_VARIABLES, rank, random_state=seed)
    new, _ = truth.sample(n_new, random_state=seed + 1000)
    expected = truth.logpdf(new)
    return X, truth.posterior(X), lambda density: float(np.mean(expected - density.logpdf(new)))


# ---- sinc densities ----

#: Share of the polygon, None for a histogram, and share of the background.
SHARES = [(share, BACKGROUND_SHARE) for share in (0.0, 0.3, 0.5, POLYGON_SHARE, 0.9)]
SHARES += [(POLYGON_SHARE, share) for share in (0.001, 0.05)] + [(None, BACKGROUND_SHARE)]


def measured_shares(kind, n_samples, seed):
    """KL by SHARES, and the clipped masses (n_variables, rank), with 15 uniform bins over the range of the samples."""
    X, posterior, kl = drawn(kind, 5, n_samples, seed, 10_000)
    binning = smp.choose_binning(X, 15, "uniform")
    codes = smp.encode_samples(X, binning).values
    factors = [np.stack([np.bincount(code, column, 15) for column in posterior.T], axis=1) for code in codes.T]
    losses, clipped = [], None
    for polygon, background in SHARES:
        pairs = [(edges, counts / counts.sum(axis=0)) for edges, counts in zip(binning.edges, factors, strict=True)]
        if polygon is None:
            conditionals = [histogram_conditionals(*pair) for pair in pairs]
        else:
            conditionals, masses = zip(*(sinc_conditionals(*pair, polygon, background) for pair in pairs), strict=True)
            clipped = np.stack(masses) if polygon == POLYGON_SHARE else clipped
        losses.append(kl(MixtureDensity(posterior.mean(axis=0), tuple(conditionals), binning.variables)))
    return losses, clipped


def sinc(options):
    for n_samples in options.samples or [200, 1000, 5000, 50_000]:
        results = [[measured_shares(kind, n_samples, seed) for seed in range(options.truths)] for kind in KINDS]
        print(f"\n{n_samples} samples\npolygon background " + " ".join(f"{kind:>9}" for kind in KINDS))
        losses = np.mean([[loss for loss, _ in of_kind] for of_kind in results], axis=1).T
        for (polygon, background), row in zip(SHARES, losses, strict=True):
            label = "histogram" if polygon is None else f"{polygon:9.1f}"
            print(f"{label} {background:8.3f} " + " ".join(f"{value:9.3f}" for value in row))
        masses = [np.stack([clipped for _, clipped in of_kind]) for of_kind in results]
        for name, summary in (("mean", np.mean), ("95 %", lambda mass: np.quantile(mass, 0.95)), ("most", np.max)):
            print(f"clipped mass, {name} " + " ".join(f"{summary(mass):9.3f}" for mass in masses))


# ---- log-splines ----

#: Criterion and number of basis functions; None: as choose_cells chooses it.
SETTINGS = [("reml", None), ("aic", None), ("bic", None), ("reml", 40), ("reml", 80), ("reml", 160)]
#: Samples and spread of the background.
BACKGROUNDS = [(1e-4, 1.0), (0.5, 2.0), (0.5, 3.0), (1.0, 3.0), (2.0, 3.0)]


def spline_density(on_grid, posterior, criterion="reml"):
    """One M-step from the posteriors."""
    _, mixture = on_grid.choose(on_grid.counts_from_posterior(posterior), criterion)
    share = smooth.background_share(posterior.sum(axis=0))
    conditionals = smooth.smooth_conditionals(on_grid.cells, mixture, share)
    return MixtureDensity(np.exp(mixture.log_weights), conditionals, tuple(range(N_VARIABLES)))


def measured_settings(kind, n_samples, seed, settings):
    """KL and seconds by setting."""
    X, posterior, kl = drawn(kind, 5, n_samples, seed)
    cells, results = choose_cells(X, 5), []
    for criterion, n_basis in settings:
        chosen = cells if n_basis is None else replace(cells, basis=spline_basis(n_basis))
        began = time.perf_counter()
        density = spline_density(CellSamples.assign_to_grid(X, chosen), posterior, criterion)
        results.append((kl(density), time.perf_counter() - began))
    return results


def penalties(options):
    def means(settings):
        results = [[measured_settings(kind, n_samples, s, settings) for s in range(options.truths)] for kind in KINDS]
        return np.mean(results, axis=1)

    for n_samples in options.samples or [1000, 5000]:
        results = means(SETTINGS)
        print(f"\n{n_samples} samples\ncriterion  basis " + " ".join(f"{kind:>9}" for kind in KINDS) + "   seconds")
        for k, (criterion, n_basis) in enumerate(SETTINGS):
            columns = " ".join(f"{value:9.3f}" for value in results[:, k, 0])
            print(f"{criterion:9} {n_basis or 'chosen':>6} {columns} {results[:, k, 1].mean():9.2f}")
        print("background, samples x spread")
        usual = smooth.BACKGROUND_SAMPLES, smooth.BACKGROUND_SPREAD
        for smooth.BACKGROUND_SAMPLES, smooth.BACKGROUND_SPREAD in BACKGROUNDS:
            columns = " ".join(f"{value:9.4f}" for value in means(SETTINGS[:1])[:, 0, 0])
            print(f"{smooth.BACKGROUND_SAMPLES:8g} x {smooth.BACKGROUND_SPREAD:g}    {columns}")
        smooth.BACKGROUND_SAMPLES, smooth.BACKGROUND_SPREAD = usual


def measured_coordinates(kind, rank, n_samples, seed):
    """KL with the variables themselves and with the choice, and the number of other coordinates."""
    X, posterior, kl = drawn(kind, rank, n_samples, seed)
    cells = choose_cells(X, rank)
    plain = CellSamples.assign_to_grid(X, cells)

    def on_other(chosen):
        return CellSamples.assign_to_grid(X, chosen)

    best, _ = on_best_cells(plain, curved_cells(cells, X, rank), on_other, posterior, "reml")
    n_curved = sum(not transform.is_linear for transform in best.cells.transforms)
    return kl(spline_density(plain, posterior)), kl(spline_density(best, posterior)), n_curved


def coordinates(options):
    print("| components, samples | " + " | ".join(KINDS) + " |\n|" + "---|" * (1 + len(KINDS)))
    for rank in (5, 10):
        for n_samples in options.samples or [1000, 5000]:
            results = [
                np.mean([measured_coordinates(kind, rank, n_samples, s) for s in range(options.truths)], axis=0)
                for kind in KINDS
            ]
            row = " | ".join(f"{before:.3f}, {after:.3f} ({number:.1f})" for before, after, number in results)
            print(f"| {rank}, {n_samples} | {row} |", flush=True)


# ---- log-concave densities ----

#: Laws with one peak; the last three are not log-concave.
LAWS = {"Gaussian": norm(), "Laplace": laplace(), "Gamma(2)": gamma(2.0), "logistic": logistic(),
        "t(5)": t(5), "log-normal": lognorm(0.5), "Gamma(0.5)": gamma(0.5)}  # fmt: skip


def law_loss(model, law):
    """KL of one variable, mean of all, by midpoints of 20 000 equally likely intervals."""
    x = law.ppf((np.arange(20_000) + 0.5) / 20_000)
    densities = np.stack([model.density_.pdf_1d(x, name) for name in model.density_.variables])
    return float((law.logpdf(x) - np.log(densities)).mean())


def shapes(options):
    print("law         samples | KL: free, log-concave; their difference, and its standard error; lower in how many")
    for name, law in LAWS.items():
        for n_samples in options.samples or [1000]:
            found = []
            for seed in range(options.truths):
                X = law.rvs((n_samples, 3), random_state=np.random.default_rng(seed))
                models = [smp.SmoothProductMixture(1, shape=shape, random_state=0).fit(X) for shape in SHAPES]
                found.append([law_loss(model, law) for model in models])
            free, concave = np.transpose(found)
            gain = free - concave
            error = gain.std() / np.sqrt(max(len(gain) - 1, 1))
            print(f"{name:11s} {n_samples:7d} | {free.mean():.5f} {concave.mean():.5f}; {gain.mean():+.5f} ± "
                  f"{error:.5f}; {(gain > 0).sum()} of {len(gain)}", flush=True)  # fmt: skip


# ---- the toy example ----

POINTS = np.linspace(-40.0, 45.0, 4251)


def toy_cdf(x):
    return np.mean([norm.cdf(x, location, 5.0) for location in (-6.0, 10.0)], axis=0)


def edges_of_width(width):
    return -58.0 + width * np.arange(np.ceil(120.0 / width) + 1)


def toy_errors(edges):
    """Of the paper's formula with its infinite tail, of the proper density, and of the formula summed over the edges.

    Exact CDF at the edges; what lies outside them goes to the outermost bins. The last error is that on the range of
    the edges alone.
    """
    true = np.mean([norm.pdf(POINTS, location, 5.0) for location in (-6.0, 10.0)], axis=0)
    masses = np.diff(np.r_[0.0, toy_cdf(edges[1:-1]), 1.0])
    spacing = edges[1] - edges[0]
    raw = sinc_step_derivative((POINTS[:, None] - edges[1:]) / spacing) @ masses / spacing
    proper = sinc_conditionals(edges, masses[:, None])[0].pdf(POINTS)[:, 0]
    t = (POINTS[:, None] - edges) / spacing
    t[t == 0] = 1e-9
    finite = ((np.cos(np.pi * t) - np.sinc(t)) / t) @ toy_cdf(edges) / spacing
    inside = (edges[0] <= POINTS) & (edges[-1] >= POINTS)
    return tuple(np.abs(values - true)[where].max() / true.max() for values, where in
                 ((raw, slice(None)), (proper, slice(None)), (finite, inside)))  # fmt: skip


def toy(options):
    print("bins                       raw function   proper density   sum over the edges")
    for width in (5.0, 4.0, 3.0, 2.0):
        print("{:<23} {:15.1e} {:16.1e} {:20.1e}".format(f"of width {width:g}", *toy_errors(edges_of_width(width))))
    print("{:<23} {:15.1e} {:16.1e} {:20.1e}".format("ten of 4 on [-18, 22]", *toy_errors(np.arange(-18.0, 23.0, 4.0))))


# ---- far values ----


def far(options):
    truths = []
    for seed in range(options.truths):
        rng = np.random.default_rng(seed)
        means = 1.6 * rng.normal(size=(3, 5))
        labels, new_labels = rng.integers(3, size=(2, 3000))
        X, new = (means[z] + rng.normal(size=(3000, 5)) for z in (labels, new_labels))
        truths.append((X, labels, means, new, rng))

    def accuracy(labels, X, **options):
        return percent_right(labels, smp.SmoothProductMixture(3, random_state=0, **options).fit(X).predict(X))

    def spoiled(size, X, labels, means, _, rng):
        is_far = rng.random(X.shape) < 0.05
        known = np.where(is_far, np.nan, X)
        distances = np.stack([np.nansum((known - mean) ** 2, axis=1) for mean in means], axis=1)
        as_they_are = np.where(is_far, size * rng.normal(size=X.shape), X)
        best = percent_right(labels, distances.argmin(axis=1))
        return f"{best:.1f} / {accuracy(labels, known):.1f} / {accuracy(labels, as_they_are):.1f}"

    def skewed(sigma, X, labels, _, new, __):
        plain = smp.SmoothProductMixture(3, random_state=0).fit(X)
        model = smp.SmoothProductMixture(3, random_state=0).fit(np.exp(sigma * X))
        change = sigma * new.sum(axis=1).mean() + 5 * np.log(sigma)
        lost = plain.score(new) - change - model.score(np.exp(sigma * new))
        return f"{percent_right(labels, model.labels_):.1f} / {percent_right(labels, plain.labels_):.1f}, {lost:.3f}"

    def zeros(X, labels, _, __, rng):
        is_zero = rng.random(X.shape) < np.array([0.2, 0.4, 0.6])[labels][:, None]
        raw = np.where(is_zero, 0.0, X + 4.0)
        em = accuracy(labels, raw, refine="em", binning="quantile", density="histogram")
        split = accuracy(labels, np.hstack([np.where(is_zero, np.nan, raw), is_zero]))
        return f"{accuracy(labels, raw):.1f} / {em:.1f} / {split:.1f}"

    print("accuracy in %, one column per mixture\n5 % far values: best possible / known / as they are")
    for size in (50.0, 1e3, 1e6):
        print(f"  of size {size:<8g}" + "   ".join(spoiled(size, *truth) for truth in truths), flush=True)
    print("skewed: accuracy as it is / of the logarithm; nats per new sample lost against that")
    for sigma in (1.0, 2.0, 4.0):
        print(f"  exp({sigma:g} x)        " + "   ".join(skewed(sigma, *truth) for truth in truths), flush=True)
    print('many zeros: as they are / refine="em", quantiles / zeros as variables of their own')
    print("  20, 40, 60 %    " + "   ".join(zeros(*truth) for truth in truths))


if __name__ == "__main__":
    warnings.simplefilter("ignore", smp.exceptions.TensorlySmpWarning)
    PARTS = {"sinc": sinc, "penalties": penalties, "coordinates": coordinates, "shapes": shapes, "toy": toy, "far": far}
    options = options_of(__doc__, words=PARTS, truths=2, samples=(0,))
    options.samples = [size for size in options.samples if size]
    PARTS[options.part](options)
