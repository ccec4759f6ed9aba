"""Log-concave densities: one peak in every component, through files, replicates and rivals."""

import numpy as np
import pytest

import tensorly_smp as smp
from tensorly_smp.splines.basis import spline_basis


def samples(n_samples=400):
    """Two groups that share variables of two peaks, and a discrete variable of two common values."""
    rng = np.random.default_rng(0)
    group = np.repeat([0.0, 1.0], n_samples // 2)
    signs = rng.choice([-1.0, 1.0], (n_samples, 3))
    smooth = 6.0 * group[:, None] + 1.5 * signs + 0.5 * rng.standard_normal((n_samples, 3))
    discrete = rng.choice(3, n_samples, p=[0.45, 0.1, 0.45])
    return np.column_stack([smooth, discrete]), group


def n_peaks(dataset, name="spline"):
    """Most peaks of any log-spline on its cells, and the largest second difference of its logarithm there."""
    columns = dataset[name].transpose("basis", ...).values.reshape(dataset.sizes["basis"], -1)
    logs = spline_basis(len(columns)).log_probabilities(columns[:, np.isfinite(columns[0])])
    rises = np.diff(logs, axis=0) > 0
    return int((rises[:-1] & ~rises[1:]).sum(axis=0).max()), np.diff(logs, 2, axis=0).max()


@pytest.fixture(scope="module")
def fitted():
    return smp.SmoothProductMixture(2, shape="log-concave", random_state=0).fit(samples()[0])


def test_every_density_has_one_peak(fitted):
    X, group = samples()
    free = smp.SmoothProductMixture(2, random_state=0).fit(X)
    assert n_peaks(free.result_)[0] == 2
    n_found, bend = n_peaks(fitted.result_)
    assert n_found <= 1
    assert bend < 1e-9
    assert smp.metrics.clustering_accuracy(group, fitted.labels_) > 0.99
    # The discrete variable is exempt.
    assert fitted.density_.pdf_1d([1.0], "x3") < 0.2 < fitted.density_.pdf_1d([0.0, 2.0], "x3").min()
    assert fitted.result_.attrs["n_parameters"] < free.result_.attrs["n_parameters"]


def test_replicates_are_log_concave(fitted):
    replicates = fitted.bootstrap(samples()[0], 3, n_points=200, random_state=0)
    assert np.isfinite(replicates.weights).all()
    logs = np.log(replicates.density.isel(variable=slice(3)).values)
    middle = replicates.density.isel(variable=slice(3)).values > 1e-3  # above the background
    rises = np.diff(logs, axis=2) > 1e-6
    falls = np.diff(logs, axis=2) < -1e-6
    has_fallen = np.maximum.accumulate(falls, axis=2)
    assert not (rises[:, :, 1:] & has_fallen[:, :, :-1] & middle[:, :, 2:]).any()
