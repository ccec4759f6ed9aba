import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorly_smp.likelihood.cells import BASIS_NUMBERS, SCALES, choose_cells, combined_cells, curved_cells
from tensorly_smp.likelihood.observed import FARTHEST, Observed
from tensorly_smp.splines.basis import LINEAR


def cells_of(columns, **options):
    values = np.column_stack(columns).astype(float)
    return choose_cells(values, 2, **options), values


@given(st.integers(0, 10**6))
@settings(max_examples=20)
def test_every_observed_entry_has_shares_of_one(seed):
    rng = np.random.default_rng(seed)
    n = 60
    columns = [rng.normal(size=n), np.round(rng.normal(size=n), 1), rng.integers(0, 3, n), np.full(n, 2.5)]
    cells, values = cells_of(columns)
    values[rng.random(values.shape) < 0.3] = np.nan
    membership = cells.membership(values)
    assert membership.shape == (n, cells.offsets[-1])
    order = (*cells.smooth, *cells.discrete)
    for position, variable in enumerate(order):
        first, last = cells.offsets[position : position + 2]
        np.testing.assert_allclose(membership[:, first:last].sum(axis=1), ~np.isnan(values[:, variable]), atol=1e-12)
    assert set(cells.discrete) == {2, 3}


def test_a_value_is_in_its_cell():
    cells, values = cells_of([np.linspace(0.0, 1.0, 101) ** 2])
    width = (cells.high[0] - cells.low[0]) / cells.basis.n_cells
    found = cells.membership(values).indices
    left = cells.low[0] + found * width
    assert ((left <= values[:, 0] + 1e-12) & (values[:, 0] <= left + width + 1e-12)).all()
    outside = cells.membership(np.array([[-1e9], [1e9], [np.nan]]))
    assert outside.indices.tolist() == [0, cells.basis.n_cells - 1]


def test_rounded_values_are_spread_over_their_step():
    rng = np.random.default_rng(0)
    cells, _ = cells_of([np.round(rng.uniform(0, 4, 500), 1)])
    assert cells.resolution[0] == pytest.approx(0.1)
    row = cells.membership(np.array([[2.0]])).toarray()[0]
    width = (cells.high[0] - cells.low[0]) / cells.basis.n_cells
    centers = cells.low[0] + (np.arange(len(row)) + 0.5) * width
    assert row @ centers == pytest.approx(2.0, abs=1e-9)
    assert row.max() == pytest.approx(width / 0.1)
    assert cells.resolution[0] * 0.99 < np.count_nonzero(row) * width < cells.resolution[0] + 2 * width


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (np.repeat([0.0, 1.0], 50), True),
        (np.tile([1.0, 2.0, 3.0, 4.0, 5.0], 20), True),
        (np.round(np.random.default_rng(0).normal(5.8, 0.8, 150), 1), False),  # like iris
        (np.arange(100.0), False),
        (np.array([1.0, 2.0, 3.0]), False),  # too few samples to say
        (np.tile(np.arange(15) + 0.5, 10), False),
        (np.tile(np.arange(15.0), 10), True),
    ],
)
def test_what_looks_discrete(values, expected):
    assert bool(Observed.of(values, None).looks_discrete) is expected


def test_declared_and_constant_variables():
    rng = np.random.default_rng(0)
    columns = [rng.integers(0, 3, 90), rng.normal(size=90), np.zeros(90)]
    assert cells_of(columns, discrete={1: np.unique(columns[1])})[0].discrete == (1, 2)
    assert cells_of(columns, discrete={})[0].discrete == (2,)
    assert cells_of(columns)[0].discrete == (0, 2)


def test_support_ends_the_cells_a_far_value_does_not_stretch_them_and_narrow_components_get_more_functions():
    rng = np.random.default_rng(0)
    values = rng.exponential(size=200)
    bounded, _ = cells_of([values], support=[(0.0, None)])
    assert bounded.low[0] == 0.0
    assert bounded.high[0] > values.max()
    assert cells_of([values])[0].low[0] < values.min()
    values = rng.normal(size=500)
    values[0] = 1e9
    cells, _ = cells_of([values])
    assert cells.high[0] < 3 * FARTHEST * 5
    assert cells.membership(np.array([[1e9]])).indices.tolist() == [cells.basis.n_cells - 1]
    narrow = np.concatenate([rng.normal(0, 1e-3, 500), rng.normal(1, 1e-3, 500)])
    assert cells_of([narrow])[0].basis.n_basis > cells_of([rng.normal(size=1000)])[0].basis.n_basis


def test_weights_are_repeated_samples():
    rng = np.random.default_rng(0)
    values = np.column_stack([rng.normal(size=80), np.round(rng.normal(size=80), 1), rng.integers(0, 4, 80)])
    weights = rng.integers(0, 4, 80)
    weighted = choose_cells(values, 3, sample_weight=weights.astype(float))
    repeated = choose_cells(np.repeat(values, weights, axis=0), 3)
    for name in ("low", "high", "resolution", "discrete"):
        np.testing.assert_array_equal(getattr(weighted, name), getattr(repeated, name))
    assert weighted.basis.n_basis == repeated.basis.n_basis


def long_tailed(n_samples=2000):
    """Log-normal values, and some with far errors among them."""
    rng = np.random.default_rng(0)
    spoiled = rng.normal(size=n_samples)
    spoiled[: n_samples // 50] = 1e6 * rng.normal(size=n_samples // 50)
    return np.exp(3.0 * rng.normal(size=n_samples)), spoiled


@pytest.mark.parametrize("column", [0, 1])
def test_long_tails_and_far_values_do_not_leave_a_few_cells_to_the_others(column):
    values = long_tailed()[column]
    cells, table = cells_of([values])
    transform = cells.transforms[0]
    first, last = Observed.of(values, None).narrowest(2)
    assert first <= transform.center <= last
    assert transform.scale == pytest.approx(last - first)
    filled = np.bincount(cells.membership(table).indices, minlength=cells.basis.n_cells)
    assert filled.max() < 0.08 * len(values)  # of equally wide cells, one would hold nearly all of them
    # The cells are where the widths say, and a value is in its own.
    edges = np.concatenate([[0.0], np.cumsum(np.exp(cells.log_widths))]) + cells.low[0]
    assert edges[-1] == pytest.approx(cells.high[0])
    inside = (values > cells.low[0]) & (values < cells.high[0])
    found = cells.positions(table)[inside, 0]
    tolerance = 1e-9 * (cells.high[0] - cells.low[0])
    assert (edges[found] <= values[inside] + tolerance).all()
    assert (values[inside] <= edges[found + 1] + tolerance).all()


def test_rounded_values_with_a_long_tail_are_spread_over_their_step():
    values = np.floor(np.exp(3.0 * np.random.default_rng(0).normal(size=3000) + 3.0))
    cells, _ = cells_of([values])
    assert not cells.transforms[0].is_linear
    assert cells.resolution[0] == 1.0
    edges = np.concatenate([[0.0], np.cumsum(np.exp(cells.log_widths))]) + cells.low[0]
    for value in (3.0, 40.0, 1e9):
        row = cells.membership(np.array([[value]])).toarray()[0]
        assert row.sum() == pytest.approx(1.0)
        (touched,) = np.nonzero(row)
        if value < cells.high[0]:
            assert edges[touched[0]] <= value - 0.5 + 1e-6
            assert edges[touched[-1] + 1] >= value + 0.5 - 1e-6


def test_values_that_span_all_floats_or_are_far_keep_their_coordinate_and_width():
    values = 8e307 * np.tanh(np.random.default_rng(0).normal(size=40))
    cells, table = cells_of([values])
    for each in (cells, *curved_cells(cells, table, 2)):
        assert each.transforms == (LINEAR,)
        assert np.isfinite(each.log_widths).all()
    # The middle of the only interval with two of five values is 5e299, from where the others are one number.
    values = np.random.default_rng(0).normal(size=(5, 3))
    values[0, 0] = 1e300
    cells = choose_cells(values, 2)
    for other in (cells, *curved_cells(cells, values, 2)):
        assert (other.low < other.high).all()
        assert np.isfinite(other.log_widths).all()


def test_the_variable_itself_where_another_coordinate_would_not_help():
    rng = np.random.default_rng(0)
    narrow = np.concatenate([rng.normal(0, 1e-3, 500), rng.normal(1, 1e-3, 500)])  # one of them would lose
    heaped = np.where(rng.random(1000) < 0.4, 0.0, rng.normal(5, 1, 1000))  # a value is no narrow component
    for values in (narrow, heaped, rng.normal(size=1000)):
        assert cells_of([values])[0].transforms == (LINEAR,)
    assert cells_of([narrow])[0].basis.n_basis == BASIS_NUMBERS[-1]


@pytest.mark.parametrize("scale", [1e-200, 1e12])
def test_scale_changes_nothing(scale):
    values = np.random.default_rng(0).normal(size=100)
    cells, _ = cells_of([values])
    scaled, moved = cells_of([scale * values])
    np.testing.assert_allclose(scaled.low, scale * cells.low, rtol=1e-9)
    same = cells.membership(values[:, None]).indices == scaled.membership(moved).indices
    assert same.mean() > 0.97
    np.testing.assert_allclose(scaled.log_widths, cells.log_widths + np.log(scale), atol=1e-6)


def test_positions_are_the_columns_of_the_membership():
    rng = np.random.default_rng(0)
    values = np.stack([rng.normal(size=200), rng.integers(3, size=200), rng.gamma(2, size=200)], axis=1)
    values[rng.random(values.shape) < 0.2] = np.nan
    cells, _ = cells_of(values.T)
    assert cells.discrete == (1,)
    found = cells.positions(values)
    assert found.dtype == np.int16
    assert np.array_equal(found < 0, np.isnan(values[:, [0, 2, 1]]))
    expected = cells.membership(values)
    assert np.array_equal((found + cells.offsets[:-1])[found >= 0], expected.indices)
    assert (expected.data == 1.0).all()
    assert cells.positions(values[:0]).shape == (0, 3)


def test_values_of_discrete_variables():
    values = np.column_stack([np.repeat([0.0, 1.0, 7.0], 40), np.arange(120) % 12, np.linspace(0, 1, 120)])
    weights = np.ones(120)
    weights[values[:, 0] == 7] = 0.0
    cells = choose_cells(values, 2, sample_weight=weights)
    assert [each.tolist() for each in cells.values] == [[0, 1], list(range(12))]
    assert (cells.log_widths[cells.first_value :] == 0.0).all()
    given = choose_cells(values, 2, {0: np.array([0.0, 1.0, 3.0, 7.0])})
    assert given.discrete == (0,)  # and no other
    membership = given.membership(values[:, :1].repeat(3, axis=1))
    assert membership[:, given.first_value :].sum(axis=0).tolist() == [40, 40, 0, 40]


def test_other_cells_for_the_same_samples():
    values = np.column_stack([np.random.default_rng(0).laplace(size=(500, 2)), np.arange(500) % 3])
    cells = choose_cells(values, 2, support=[(None, None), (-50.0, None), (None, None)])
    others = curved_cells(cells, values, 2, [(None, None), (-50.0, None), (None, None)])
    assert len(others) == len(SCALES)
    for other, scale in zip(others, SCALES, strict=True):
        assert other.discrete == cells.discrete == (2,)
        assert other.transforms[2] is LINEAR
        for n in (0, 1):
            first, last = Observed.of(values[:, n], None).narrowest(2)
            assert other.transforms[n].scale == pytest.approx(scale * (last - first))
            assert other.low[n] < values[:, n].min()
            assert np.exp(other.log_widths[: other.basis.n_cells]).sum() == pytest.approx(other.high[0] - other.low[0])
    mixed = combined_cells([cells, *others], {0: 2, 1: 0})
    assert mixed.transforms == (others[1].transforms[0], LINEAR, LINEAR)
    assert mixed.low.tolist() == [others[1].low[0], cells.low[1], cells.low[2]]
    assert (mixed.basis, mixed.discrete) == (cells.basis, cells.discrete)
