"""Small fitted models, one of each kind, fitted once."""

import numpy as np
import pandas as pd
import pytest
from shared import fit_quietly

import tensorly_smp as smp


@pytest.fixture(scope="session")
def data():
    return smp.datasets.make_smooth_mixture("gaussian", n_samples=400, n_variables=4, n_components=3, random_state=1)


@pytest.fixture(scope="session")
def model(data):
    """Refined by smoothed EM."""
    return fit_quietly(data.X, 3, n_bins=8, n_init=2)


@pytest.fixture(scope="session")
def em_model(data):
    return fit_quietly(data.X, 3, n_bins=8, n_init=2, refine="em")


@pytest.fixture(scope="session")
def plain_model(data):
    """The coupled decomposition alone."""
    return fit_quietly(data.X, 3, n_bins=8, n_init=2, refine=None)


@pytest.fixture(scope="session")
def mixed():
    """Discrete and continuous variables, a fifth of the entries missing, names and units."""
    rng = np.random.default_rng(3)
    labels = rng.choice(2, 500, p=[0.6, 0.4])
    frame = pd.DataFrame(
        {
            "children": rng.poisson(np.array([0.7, 4.0])[labels]),
            "smoker": rng.random(500) < np.array([0.1, 0.8])[labels],
            "age": rng.normal(np.array([30.0, 60.0])[labels], 8.0),
            "income": np.exp(rng.normal(np.array([0.0, 1.5])[labels], 0.4)),
        }
    ).astype(float)
    frame = frame.mask(rng.random(frame.shape) < 0.2)
    frame.attrs["units"] = {"age": "years", "income": "k€"}
    return frame


@pytest.fixture(scope="session")
def mixed_model(mixed):
    return fit_quietly(mixed, 2, n_init=2, discrete=["children", "smoker"])


@pytest.fixture(scope="session")
def skewed():
    """A long tail, codes of missing values, no moments; and a variable that is like most."""
    rng = np.random.default_rng(0)
    labels = rng.choice(2, 1000, p=[0.6, 0.4])
    return pd.DataFrame(
        {
            "log-normal": np.exp(2.0 * rng.normal(size=1000)),
            "coded": np.where(rng.random(1000) < 0.05, -999.0, rng.normal(3.0 * labels)),
            "Cauchy": rng.standard_cauchy(1000) + 3.0 * labels,
            "ordinary": rng.normal(4.0 * labels),
        }
    )


@pytest.fixture(scope="session")
def skewed_model(skewed):
    return fit_quietly(skewed, 2, n_init=2)


@pytest.fixture(scope="session")
def factors():
    """Random factors of thirty variables with long names, two components and 4 to 6 bins each."""
    rng = np.random.default_rng(0)
    sizes = rng.integers(4, 7, size=30)
    names = tuple(f"expenditure of the household in category {n:02d}, in prices of the year before" for n in range(30))
    binning = smp.Binning(tuple(np.arange(size + 1.0) for size in sizes), names)
    return smp.MixtureFactors(np.array([0.7, 0.3]), tuple(rng.dirichlet(np.ones(size), 2).T for size in sizes), binning)
