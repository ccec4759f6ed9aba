"""What holds of every refined model: densities that are densities, on easy and on difficult data."""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import tensorly_smp as smp
from tensorly_smp.densities.conditionals import DiscreteConditionals, GridConditionals
from tensorly_smp.exceptions import InvalidInputError, RepeatedValueWarning, TensorlySmpWarning
from tensorly_smp.likelihood.cells import choose_cells

DATA = smp.datasets.make_smooth_mixture("gmm", 400, 4, 2, random_state=0)
X = DATA.X
BEST = smp.metrics.clustering_accuracy(DATA.labels, DATA.mixture.predict(X))


def estimator(n_components=2, **parameters):
    return smp.SmoothProductMixture(n_components, **{"n_init": 1, "random_state": 0, **parameters})


def fit(values, n_components=2, sample_weight=None, **parameters):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TensorlySmpWarning)  # data of this file deserve some
        return estimator(n_components, **parameters).fit(values, sample_weight=sample_weight)


@pytest.fixture(scope="module")
def plain():
    return estimator().fit(X)  # where warnings are errors


def integral(conditionals):
    """Over the cells of the grid, by Gauss-Legendre with two points, and the tails from the distribution function."""
    knots = conditionals.origin + conditionals.unit * conditionals.knots
    nodes = knots[:-1, None] + np.diff(knots)[:, None] * (0.5 + np.array([-0.5, 0.5]) / np.sqrt(3))
    inside = (0.5 * np.diff(knots)[:, None] * conditionals.pdf(nodes).sum(axis=1)).sum(axis=0)
    return inside + conditionals.cdf(knots[:1])[0] + 1.0 - conditionals.cdf(knots[-1:])[0]


def check(model):
    density = model.density_
    for name, conditionals in zip(density.variables, density.conditionals, strict=True):
        if isinstance(conditionals, DiscreteConditionals):
            values = conditionals.values
            np.testing.assert_allclose(density.pdf_1d(values, name, "all").sum(axis=0), 1.0, atol=1e-12)
            np.testing.assert_allclose(np.cumsum(density.pdf_1d(values, name)), density.cdf_1d(values, name))
            assert (density.pdf_1d(values - 0.3, name) == 0.0).all()
            assert np.isfinite(density.logpdf_1d(values - 0.3, name, "all")).all()
            continue
        assert isinstance(conditionals, GridConditionals)
        np.testing.assert_allclose(integral(conditionals), 1.0, atol=1e-6)
        shares = np.array([1e-6, 1e-3, 0.1, 0.5, 0.9, 0.999, 1 - 1e-6])
        for r in range(density.rank):
            points = conditionals.quantile(shares, r)
            assert (np.diff(points) >= 0).all()
            np.testing.assert_array_equal(density.quantile_1d(shares, name, r), points)
            steps = np.spacing(np.abs(points)) * density.pdf_1d(points, name, r)  # far from zero, floats are far apart
            found = conditionals.cdf(points)[:, r]
            np.testing.assert_array_less(np.abs(found - shares), 1e-9 + 1e-6 * shares + steps)
        knots = conditionals.origin + conditionals.unit * conditionals.knots
        reach = knots[-1] - knots[0]
        grid = np.linspace(knots[0] - reach, knots[-1] + reach, 3001)
        assert (np.diff(density.cdf_1d(grid, name, "all"), axis=0) >= 0).all()
        assert (density.pdf_1d(grid, name, "all") >= 0).all()
        assert np.isfinite(density.logpdf_1d(grid, name, "all")).all()
    drawn, _ = density.sample(2000, random_state=1)
    for n, (name, conditionals) in enumerate(zip(density.variables, density.conditionals, strict=True)):
        if isinstance(conditionals, DiscreteConditionals):
            assert np.isin(drawn[:, n], conditionals.values).all()
            continue
        # Histograms have jumps in the density, none in the distribution function.
        p = stats.ks_1samp(drawn[:, n], lambda x, name=name: density.cdf_1d(x, name)).pvalue
        assert p > 1e-4, name
    assert np.isfinite(model.score_samples(drawn)).all()
    np.testing.assert_allclose(model.predict_proba(drawn).sum(axis=1), 1.0)


def ties():
    return np.round(X * 2) / 2


def half_equal():
    return np.where(np.random.default_rng(0).random(X.shape) < 0.5, 0.0, X)


def far_apart(distance):
    return X + distance * (DATA.labels[:, None] == 0)


DIFFICULT = {
    "ties": ties,
    "half equal": half_equal,
    "1e12 apart": lambda: far_apart(1e12),
    "scaled by 1e-12": lambda: 1e-12 * X,
    "scaled by 1e12": lambda: 1e12 * X,
    "1e-12 apart": lambda: 1e-12 * far_apart(1.0),
    "three far samples": lambda: np.vstack([X, 60.0 + np.random.default_rng(0).normal(size=(3, 4))]),
    "log-normal": lambda: np.exp(2.0 * X),
    "far values": lambda: np.where(np.random.default_rng(0).random(X.shape) < 0.05, 1e7 * X, X),
    "one far value": lambda: np.vstack([X, np.full((1, 4), 1e6)]),
    "constant": lambda: np.column_stack([X, np.full(len(X), 3.0)]),
    "discrete": lambda: np.column_stack([X[:, :3], DATA.labels, np.arange(len(X)) % 3]),
    "missing": lambda: np.where(np.random.default_rng(0).random(X.shape) < 0.4, np.nan, X),
    "20 samples": lambda: X[:20],
    "three variables": lambda: X[:, :3],
}


@pytest.mark.parametrize("values", DIFFICULT.values(), ids=DIFFICULT.keys())
def test_densities_are_densities(values):
    check(fit(values()))


def test_nothing_to_warn_of(plain):
    check(plain)
    check(fit(X, 4))


@pytest.mark.parametrize("refine", ["smooth", "em"])
def test_better_than_the_coupled_cpd(refine):
    data = smp.datasets.make_smooth_mixture("laplace", 1500, 5, 3, random_state=1)
    new, _ = data.mixture.sample(2000, random_state=2)
    before = fit(data.X, 3, refine=None).score(new)
    assert fit(data.X, 3, refine=refine).score(new) > before


def test_trace_of_the_likelihood_and_factors_are_those_of_the_fit(plain):
    smooth = plain.result_
    for number in np.unique(smooth["round"]):
        trace = smooth.log_likelihood.values[smooth["round"].values == number]
        assert (np.diff(trace) >= 0).all()
    assert smooth.attrs["refine"] == "smooth"
    binned = estimator(refine="em").fit(X).result_
    assert (np.diff(binned.log_likelihood) >= 0).all()
    assert binned.sizes["em_pass"] == binned.attrs["n_passes"] + 1
    # Factors are those of the density.
    for n, name in enumerate(plain.binning_.variables):
        inner = plain.binning_.edges[n][1:-1]
        expected = np.diff(plain.density_.cdf_1d(inner, name, "all"), axis=0, prepend=0.0, append=1.0)
        np.testing.assert_allclose(plain.factors_.factors[n], expected, atol=1e-9)


def test_far_values_and_long_tails_spoil_neither_clusters_nor_densities():
    """Of exponentials of samples a fit has the clusters and, a change of variables away, the densities of these."""
    data = smp.datasets.make_smooth_mixture("gaussian", 2000, 5, 3, random_state=3)
    new, labels = data.mixture.sample(2000, random_state=1)
    plain = smp.SmoothProductMixture(3, random_state=0).fit(data.X)
    skewed = smp.SmoothProductMixture(3, random_state=0).fit(np.exp(data.X))  # and no warning
    assert np.isfinite(skewed.result_["spline_scale"]).all()
    lost = plain.score(new) - new.sum(axis=1).mean() - skewed.score(np.exp(new))
    assert lost < 0.2
    best = smp.metrics.clustering_accuracy(labels, data.mixture.predict(new))
    assert smp.metrics.clustering_accuracy(labels, skewed.predict(np.exp(new))) > best - 0.02
    rng = np.random.default_rng(0)
    is_far = rng.random(data.X.shape) < 0.05
    spoiled = smp.SmoothProductMixture(3, random_state=0).fit(
        np.where(is_far, 1e6 * rng.normal(size=data.X.shape), data.X)
    )
    assert smp.metrics.clustering_accuracy(labels, spoiled.predict(new)) > best - 0.02


def test_a_laplace_mixture_is_closer_in_another_coordinate(monkeypatch):
    data = smp.datasets.make_smooth_mixture("laplace", 1000, 6, 3, random_state=3)
    new, _ = data.mixture.sample(4000, random_state=1)
    chosen = smp.SmoothProductMixture(3, random_state=0).fit(data.X)
    assert np.isfinite(chosen.result_["spline_scale"]).any()
    monkeypatch.setattr("tensorly_smp.fitting.stages.curved_cells", lambda *_: ())
    plain = smp.SmoothProductMixture(3, random_state=0).fit(data.X)
    assert np.isnan(plain.result_["spline_scale"]).all()
    divergence = [smp.metrics.kl_divergence_mc(data.mixture, model, X=new).value for model in (chosen, plain)]
    assert divergence[0] < 0.9 * divergence[1]


def test_values_that_many_samples_share_give_a_warning():
    values = np.where(np.random.default_rng(0).random(X.shape) < [0.0, 0.3, 0.0, 0.0], -999.0, X)
    with pytest.warns(RepeatedValueWarning, match=r"'x1' \(\d+ % are -999\)"):
        estimator().fit(values)


def test_bounds_hold():
    rng = np.random.default_rng(3)
    cluster = np.repeat([0, 1], 400)
    values = pd.DataFrame(
        {
            "price": rng.exponential(1.0 + 2.0 * cluster),
            "share": rng.random(800),
            "free": rng.normal(3.0 * cluster),
            "other": rng.normal(-3.0 * cluster),
        }
    )
    model = estimator(support={"price": (0, None), "share": (0, 1)}).fit(values)
    check(model)
    density = model.density_
    assert (density.cdf_1d([-1.0, 0.0], "price", "all") == 0).all()
    assert (density.cdf_1d([0.0], "share", "all") == 0).all()
    assert (density.cdf_1d([1.0, 2.0], "share", "all") == 1).all()
    assert density.pdf_1d(-0.1, "price").max() < 1e-300
    assert np.isfinite(density.logpdf_1d(-0.1, "price", "all")).all()
    np.testing.assert_allclose(density.pdf_1d([0.02, 0.5, 0.98], "share"), 1.0, atol=0.25)
    # The cliff stays one: half the height within a hundredth of the scale.
    assert density.pdf_1d(0.01, "price") > 0.7 * (0.5 + 0.5 / 3)
    drawn, _ = density.sample(5000, random_state=0)
    assert drawn[:, 0].min() >= 0
    assert 0 <= drawn[:, 1].min() < drawn[:, 1].max() <= 1
    free = estimator().fit(values)
    assert free.score(values) < model.score(values)


@pytest.mark.parametrize("bounds", [(1.0, 5.0), (1e6, 1e6 + 0.3)])
def test_values_at_the_bounds_have_a_density(bounds):
    low, high = bounds
    values = np.column_stack([low + (high - low) * np.random.default_rng(0).random(400), X[:, :2]])
    values[:2, 0] = bounds
    model = fit(values, support={"x0": bounds})
    logs = model.density_.logpdf_1d(np.array(bounds), "x0", "all")
    assert (logs > np.log(0.1 / (high - low))).all()
    assert (model.density_.logpdf_1d(np.array([np.nextafter(high, np.inf)]), "x0", "all") < -700).all()
    check(model)


def test_a_bound_far_away_changes_nothing():
    offset = 1e6
    new, _ = DATA.mixture.sample(500, random_state=3)
    free = estimator().fit(X + offset)
    bound = estimator(support={f"x{n}": (0, None) for n in range(4)}).fit(X + offset)
    np.testing.assert_allclose(bound.score_samples(new + offset), free.score_samples(new + offset), atol=1e-6)
    assert bound.density_.cdf_1d(-1.0, "x0") == 0


def test_bounds_of_discrete_and_constant_variables():
    values = np.column_stack([X, DATA.labels, np.full(len(X), 2.0)])
    model = fit(values, support={"x4": (0, 1), "x5": (0, None)})
    check(model)
    drawn, _ = model.sample(3000, random_state=0)
    assert drawn[:, 4].min() >= 0
    assert drawn[:, 4].max() <= 1
    assert drawn[:, 5].min() >= 0
    below, zero, one = model.density_.cdf_1d([-1e-3, 0.0, 1.0], "x4")
    assert (below, one) == (0.0, 1.0)
    assert zero == pytest.approx(np.mean(drawn[:, 4] == 0), abs=0.03)


@pytest.mark.parametrize("refine", ["smooth", "em"])
def test_a_stopped_fit_is_not_refined(refine):
    def interrupt(cp_tensor, loss):
        losses.append(loss)
        if len(losses) == 3:
            raise KeyboardInterrupt

    losses = []
    stopped = estimator(refine=refine, callback=lambda *_: True).fit(X)
    interrupted = estimator(refine=refine, callback=interrupt).fit(X)
    for model, status in ((stopped, "callback"), (interrupted, "interrupted")):
        assert model.result_.attrs["status"] == status
        # Of smoothed EM the callback sees the passes of all candidates in turn; with the others the sweeps before.
        assert model.result_.attrs["n_passes"] <= (2 if refine == "smooth" and status == "interrupted" else 0)
        assert not model.converged_
        assert np.isfinite(model.score_samples(X)).all()


def test_declared_discrete_variables_have_probabilities():
    model = fit(X, discrete=["x1"])
    assert model.density_.conditionals[1].values.tolist() == np.unique(X[:, 1]).tolist()
    assert model.result_.discrete.values.tolist() == [0, 1, 0, 0]
    assert np.isnan(model.result_.spline.sel(variable="x1")).all()
    check(model)
    categories = np.column_stack([X, DATA.labels])
    assert fit(categories).result_.discrete.values.tolist() == [0, 0, 0, 0, 1]
    assert fit(categories, discrete=[]).result_.discrete.values.tolist() == [0] * 5


UNEVEN = np.array([0.0, 100.0, 1000.0])
MIXED = np.column_stack([X[:, :2], DATA.labels, UNEVEN[(DATA.labels + np.arange(len(X)) % 2)], np.full(len(X), 0.7)])


def test_draws_of_discrete_variables_are_their_values():
    model = fit(MIXED)
    categories = model.result_.categories
    assert categories.dims == ("variable", "bin")
    assert categories.sel(variable="x3")[:3].values.tolist() == UNEVEN.tolist()
    assert np.isnan(categories[:2]).all()
    holes = np.where(np.random.default_rng(0).random(MIXED.shape) < 0.3, np.nan, MIXED)
    filled = model.impute(holes, method="draw", random_state=0)
    for drawn in (model.sample(2000, random_state=0)[0], filled):
        for n in (2, 3, 4):
            np.testing.assert_array_equal(np.unique(drawn[:, n]), np.unique(MIXED[:, n]))
        assert len(np.unique(drawn[:, 0])) == len(drawn)
    np.testing.assert_array_equal(filled[~np.isnan(holes)], MIXED[~np.isnan(holes)])
    drawn, _ = model.sample(20_000, random_state=0)
    for n in (2, 3):
        shares = [(drawn[:, n] == value).mean() - (MIXED[:, n] == value).mean() for value in np.unique(MIXED[:, n])]
        np.testing.assert_allclose(shares, 0.0, atol=0.02)
    imputed = model.impute(np.full((1, 5), np.nan))[0]
    np.testing.assert_allclose(imputed[2:], MIXED[:, 2:].mean(axis=0), rtol=0.02)


@pytest.mark.parametrize(("scale", "shift"), [(1e6, 0.0), (1e-6, 100.0)])
def test_units_do_not_matter(scale, shift, plain):
    moved = estimator().fit(scale * X + shift).score_samples(scale * X + shift) + 4 * np.log(scale)
    np.testing.assert_allclose(moved, plain.score_samples(X), atol=1e-3)


def test_log_splines_from_posteriors_and_from_factors():
    codes = smp.encode_samples(X, smp.choose_binning(X, 15))
    solution = smp.coupled_simplex_parafac(smp.count_marginals(codes), 2, random_state=0)
    new, _ = DATA.mixture.sample(2000, random_state=1)
    sinc = smp.reconstruct_density(solution, clip_warning=np.inf).logpdf(new).mean()
    from_samples = smp.reconstruct_density(solution, method="logspline", samples=X).logpdf(new).mean()
    truth = DATA.mixture.posterior(X)
    from_truth = smp.reconstruct_density(solution, method="logspline", samples=X, posterior=truth)
    assert from_samples > sinc
    assert from_truth.logpdf(new).mean() > sinc
    np.testing.assert_allclose(from_truth.weights, truth.mean(axis=0), atol=1e-9)
    alone = smp.reconstruct_density(solution, method="logspline")
    for each in alone.conditionals:
        np.testing.assert_allclose(integral(each), 1.0, atol=1e-6)


def test_refused_reconstructions():
    factors = smp.MixtureFactors([0.5, 0.5], [np.full((6, 2), 1 / 6)] * 4, smp.choose_binning(X, 6))
    halves = np.full((400, 2), 0.5)
    for options, match in (
        ({"posterior": halves}, "posterior without samples"),
        ({"samples": X, "posterior": np.ones((400, 3)) / 3}, "shape"),
        ({"samples": X, "posterior": 2 * halves}, "probabilities"),
        ({"samples": X, "penalty": "cv"}, "penalty"),
        ({"samples": X, "method": "sinc"}, "logspline"),
    ):
        with pytest.raises(InvalidInputError, match=match):
            smp.reconstruct_density(factors, **{"method": "logspline", **options})


@pytest.mark.parametrize("stage", ["choose_cells", "curved_cells", "Refinement.of_all"])
def test_an_interrupt_between_the_stages_keeps_what_there_is(monkeypatch, stage):
    name = f"tensorly_smp.fitting.stages.{stage}"
    monkeypatch.setattr(
        "tensorly_smp.fitting.fit_samples.FitSamples.is_complete", False
    )  # so that all stages are there
    reached = []

    def interrupted_once(*arguments):
        reached.append(stage)
        if len(reached) == 1:
            raise KeyboardInterrupt
        return choose_cells(*arguments)

    monkeypatch.setattr(name, interrupted_once)
    model = estimator().fit(X)
    assert reached
    assert model.result_.attrs["status"] == "interrupted"
    assert not model.converged_
    assert np.isfinite(model.score(X))
