"""The closed forms of band-limited interpolation against sums of its terms, and the paper's toy example."""

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorly_smp.densities.conditionals import BACKGROUND_SHARE
from tensorly_smp.densities.sinc import (
    MARGIN_POINTS,
    POINTS_PER_BIN,
    POLYGON_SHARE,
    band_limited_basis,
    frequency_polygon,
    grid_points,
    project_above,
    sinc_conditionals,
    sinc_step,
    sinc_step_derivative,
    trapezoid_weights,
)

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
toy = importlib.import_module("densities")
EPS = np.finfo(np.float64).eps


def limit_of_alternating(terms):
    """Sum of alternating terms, far past the number given: the last partial sums, averaged over and over."""
    partial = np.cumsum(terms)[-40:]
    while len(partial) > 1:
        partial = (partial[1:] + partial[:-1]) / 2
    return partial[0]


def sinc_derivative_by_hand(t):
    return -(np.pi**2) * t / 3 if abs(t) < 1e-4 else (np.cos(np.pi * t) - np.sin(np.pi * t) / (np.pi * t)) / t


def paper_sum(x, edges, probabilities, kernel, n_terms=200):
    """The paper's sum as it is printed: CDF samples at d_0, d_0 + T, ..., one from the last edge on."""
    width = edges[1] - edges[0]
    samples = np.concatenate([[0.0], np.cumsum(probabilities), np.ones(n_terms)])
    return limit_of_alternating([F * kernel((x - edges[0]) / width - k) for k, F in enumerate(samples)])


def test_step_at_integers_and_far_away():
    assert np.abs(sinc_step(np.arange(-500.0, 0.0))).max() < 4 * EPS
    assert np.abs(sinc_step(np.arange(0.0, 500.0)) - 1).max() < 4 * EPS
    # S'(0) = sum over k >= 1 of -(-1)^k / k = log 2
    np.testing.assert_allclose(sinc_step_derivative([0.0, -1.0]), np.log(2), rtol=4 * EPS)
    u = np.array([1.5e8 + 0.25, -1.5e8 - 0.25, 1e300, -1e300])
    # To first order S(u) = sin(pi u)/(2 pi u) below zero.
    np.testing.assert_allclose(sinc_step(u), [1.0, 0.0, 1.0, 0.0], atol=1e-8)
    assert sinc_step(-1.5e8 - 0.25) == pytest.approx(-np.sin(np.pi * -0.25) / np.pi / 3e8, rel=1e-6)
    assert np.isfinite(sinc_step_derivative(u)).all()


@given(st.floats(-1e6, 1e6))
def test_step_is_symmetric_about_minus_one_half(u):
    mirrored = -1.0 - u
    assert sinc_step(u) + sinc_step(mirrored) == pytest.approx(1.0, abs=4 * EPS)
    assert sinc_step_derivative(u) == pytest.approx(sinc_step_derivative(mirrored), abs=1e-9)


@pytest.mark.parametrize("sign", [-1, 1])
def test_series_continues_the_closed_form(sign):
    # The two forms change over at 64: neighbors on both sides lie on the same smooth curve.
    u = sign * (64.0 + np.array([-2e-6, -1e-6, 1e-6, 2e-6])) - (sign > 0)
    step, slope = sinc_step(u), sinc_step_derivative(u)
    predicted = (step[1:] - step[:-1]) / np.diff(u)
    np.testing.assert_allclose(predicted, (slope[1:] + slope[:-1]) / 2, atol=1e-9)


@given(st.integers(1, 20), st.integers(0, 10**6), st.floats(-40, 60))
def test_raw_functions_are_the_papers_formula(n_bins, seed, x):
    rng = np.random.default_rng(seed)
    edges = rng.uniform(-3, 3) + rng.uniform(0.5, 3) * np.arange(n_bins + 1)
    probabilities = rng.dirichlet(np.full(n_bins, 0.5))
    width = edges[1] - edges[0]
    u = (x - edges[1:]) / width
    assert sinc_step(u) @ probabilities == pytest.approx(paper_sum(x, edges, probabilities, np.sinc), abs=1e-11)
    slope = paper_sum(x, edges, probabilities, sinc_derivative_by_hand) / width
    assert sinc_step_derivative(u) @ probabilities / width == pytest.approx(slope, abs=1e-9)


def test_toy_example():
    for width, error in ((5.0, 3.7e-3), (4.0, 2.9e-4), (3.0, 4.4e-7)):
        assert toy.toy_errors(toy.edges_of_width(width))[0] == pytest.approx(error, rel=0.02)
    assert toy.toy_errors(toy.edges_of_width(2.0))[0] < 1e-13
    # With its tails cut off.
    raw, _, finite = toy.toy_errors(np.arange(-18.0, 23.0, 4.0))
    assert raw == pytest.approx(3.5e-2, rel=0.02)
    assert finite > 1
    raw, proper, _ = toy.toy_errors(toy.edges_of_width(4.0))
    assert raw < proper < 0.01


# ---- proper densities near to them ----


@st.composite
def bin_probabilities(draw):
    """Columns (n_bins, rank), of rough ones to smooth ones."""
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    return rng.dirichlet(np.full(draw(st.integers(2, 25)), draw(st.sampled_from([0.05, 0.3, 5.0]))), 3).T


@pytest.mark.parametrize("n_bins", [2, 3, 15])
def test_basis_is_the_raw_density_of_every_bin(n_bins):
    points = grid_points(n_bins)
    assert points[0] == -MARGIN_POINTS / POINTS_PER_BIN
    assert points[-1] == n_bins + MARGIN_POINTS / POINTS_PER_BIN
    raw = sinc_step_derivative(points[:, None] - np.arange(1.0, n_bins + 1.0))
    np.testing.assert_allclose(band_limited_basis(n_bins), raw, atol=1e-13)


@given(bin_probabilities())
def test_frequency_polygon(probabilities):
    n_bins = len(probabilities)
    polygon, points = frequency_polygon(probabilities), grid_points(n_bins)
    centers = np.arange(-0.5, n_bins + 1)
    for r, column in enumerate(probabilities.T):
        np.testing.assert_allclose(polygon[:, r], np.interp(points, centers, [0, *column, 0]), atol=1e-15)
    np.testing.assert_allclose(trapezoid_weights(len(points)) @ polygon, 1.0)


def nearest_by_bisection(raw, floor, weights):
    """max(raw - xi, floor) with xi found by halving, one component."""
    low, high = raw.min() - 10, raw.max() + 10
    for _ in range(200):
        xi = (low + high) / 2
        low, high = (xi, high) if weights @ np.maximum(raw - xi, floor) > 1 else (low, xi)
    return np.maximum(raw - xi, floor)


@given(bin_probabilities(), st.sampled_from([0.0, 0.5, POLYGON_SHARE, 0.99]))
def test_projection(probabilities, share):
    raw, floor = band_limited_basis(len(probabilities)) @ probabilities, share * frequency_polygon(probabilities)
    weights = trapezoid_weights(len(raw))
    nearest = project_above(raw, floor)
    assert (nearest >= floor).all()
    np.testing.assert_allclose(weights @ nearest, 1.0, atol=1e-12)
    for r in range(raw.shape[1]):
        np.testing.assert_allclose(nearest[:, r], nearest_by_bisection(raw[:, r], floor[:, r], weights), atol=1e-11)


@settings(max_examples=8)
@given(bin_probabilities())
def test_clipped_mass_is_the_negative_part(probabilities):
    edges = -1.5 + 0.7 * np.arange(len(probabilities) + 1)
    _, clipped = sinc_conditionals(edges, probabilities)
    half = 0.5 * (edges[1] - edges[0])
    x = np.linspace(edges[0] - half, edges[-1] + half, 4001)
    raw = sinc_step_derivative((x[:, None] - edges[1:]) / (2.0 * half)) @ probabilities / (2.0 * half)
    expected = np.trapezoid(np.maximum(-raw, 0), x, axis=0)
    np.testing.assert_allclose(clipped, expected, atol=5e-3)


def test_smooth_density_is_close_to_the_raw_one():
    edges = np.linspace(-8, 8, 17)
    probabilities = np.exp(-0.5 * ((edges[:-1] + 0.5) / 1.5) ** 2)[:, None]
    probabilities /= probabilities.sum()
    conditionals, clipped = sinc_conditionals(edges, probabilities)
    x = np.linspace(-8, 8, 500)
    raw = sinc_step_derivative(x[:, None] - edges[1:]) @ probabilities
    assert clipped[0] < 1e-3
    assert np.abs(conditionals.pdf(x) - raw).max() < 1.5 * BACKGROUND_SHARE * raw.max()
