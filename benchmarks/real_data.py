"""Labelled real data of continuous variables that ship inside Python packages: nothing is downloaded.

Every loader gives a frame with NaN where an entry is missing, the hidden classes, and a remark on what was done to the
data. A package that is not installed is skipped by name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pandas as pd
from sklearn import datasets


class Labelled(NamedTuple):
    """Samples of continuous variables and the class of each, 0 to n_classes - 1."""

    X: pd.DataFrame
    classes: np.ndarray
    remark: str = ""

    @property
    def n_classes(self) -> int:
        return int(self.classes.max()) + 1


def uniform_classes(response: np.ndarray, n_classes: int) -> np.ndarray:
    """Class of every value when the range of the values is cut into equal intervals."""
    share = (response - response.min()) / np.ptp(response)
    # The largest value belongs to the last interval.
    return np.minimum((share * n_classes).astype(int), n_classes - 1)


def dequantized(X: pd.DataFrame, step: float) -> pd.DataFrame:
    """Values on a lattice of this step as continuous ones: uniform noise of half a step to either side, seeded."""
    return X + step * np.random.default_rng(0).uniform(-0.5, 0.5, X.shape)


# ---- scikit-learn ----


def iris() -> Labelled:
    data = datasets.load_iris(as_frame=True)
    return Labelled(data.data, data.target.to_numpy())


def wine() -> Labelled:
    data = datasets.load_wine(as_frame=True)
    return Labelled(data.data, data.target.to_numpy())


def breast_cancer() -> Labelled:
    data = datasets.load_breast_cancer(as_frame=True)
    return Labelled(data.data, data.target.to_numpy())


def digits() -> Labelled:
    """Pixels are integers from 0 to 16, many of them 0 in nearly all images."""
    data = datasets.load_digits(as_frame=True)
    pixels = data.data
    varied = pixels.columns[(pixels != pixels.median()).mean() > 0.1]
    remark = (
        f"the {len(varied)} pixels that differ from their median in more than 10 % of the images; integers, made "
        "continuous by uniform noise of +-1/2"
    )
    return Labelled(dequantized(pixels[varied], 1.0), data.target.to_numpy(), remark)


def small_digits() -> Labelled:
    data = datasets.load_digits()
    means = data.images.reshape(-1, 4, 2, 4, 2).mean(axis=(2, 4)).reshape(-1, 16)
    frame = pd.DataFrame(means, columns=[f"block {row}{column}" for row in range(4) for column in range(4)])
    varied = frame.columns[(frame != frame.median()).mean() > 0.1]
    remark = (
        f"means of 2 x 2 pixels, the {len(varied)} that differ from their median in more than 10 % of the images; "
        "multiples of 1/4, made continuous by uniform noise of +-1/8"
    )
    return Labelled(dequantized(frame[varied], 0.25), data.target, remark)


def diabetes(n_classes: int) -> Labelled:
    data = datasets.load_diabetes(as_frame=True, scaled=False)
    remark = f"response cut into {n_classes} uniform intervals; sex, which is not continuous, left out"
    return Labelled(data.data.drop(columns="sex"), uniform_classes(data.target.to_numpy(), n_classes), remark)


# ---- other packages ----


def penguins(body_only: bool = False) -> Labelled:
    from palmerpenguins import load_penguins_raw

    raw = load_penguins_raw()
    columns = ["Culmen Length (mm)", "Culmen Depth (mm)", "Flipper Length (mm)", "Body Mass (g)"]
    if not body_only:
        columns += ["Delta 15 N (o/oo)", "Delta 13 C (o/oo)"]
    X = raw[columns].astype(float)
    missing = int(X.isna().any(axis=1).sum())
    return Labelled(X, pd.factorize(raw["Species"])[0], f"{missing} of {len(X)} rows have missing entries")


def indian_pines() -> Labelled:
    """Hyperspectral image of fields and woods; neighboring bands are nearly the same, so every tenth is taken."""
    from tensorly.datasets import load_indian_pines

    data = load_indian_pines()
    spectra = np.asarray(data["tensor"], dtype=float).reshape(-1, 200)
    cover = np.asarray(data["ticks"][0]).ravel()
    # 0 is ground without a label.
    names, counts = np.unique(cover[cover > 0], return_counts=True)
    common = names[np.argsort(counts)[-4:]]
    rows = np.flatnonzero(np.isin(cover, common))
    rows = np.random.default_rng(0).choice(rows, 2000, replace=False)
    X = pd.DataFrame(spectra[rows, ::10], columns=[f"band {band}" for band in range(0, 200, 10)])
    remark = "every tenth of 200 bands, the four most frequent classes, 2000 pixels drawn from them"
    return Labelled(X, np.searchsorted(np.sort(common), cover[rows]), remark)


def serology() -> Labelled:
    """Antibodies against the S and N proteins of SARS-CoV-2; the hidden class is whether the person was infected."""
    from tensorly.datasets import load_covid19_serology

    data = load_covid19_serology()
    groups, antigens, receptors = data["ticks"]
    values = np.asarray(data["tensor"], dtype=float)
    columns = [(antigen, receptor) for antigen in ("S", "N") for receptor in receptors]
    X = {f"{a} {r}": values[:, antigens.index(a), receptors.index(r)] for a, r in columns}
    infected = (np.asarray(groups) != "Negative").astype(int)
    return Labelled(pd.DataFrame(X), infected, "two of six antigens, eleven receptors; infected or not")


# name: loader
DATA: dict[str, Callable[[], Labelled]] = {
    "iris": iris,
    "wine": wine,
    "breast cancer": breast_cancer,
    "penguins": penguins,
    "penguins, body": lambda: penguins(body_only=True),
    "diabetes, 2": lambda: diabetes(2),
    "diabetes, 3": lambda: diabetes(3),
    "serology": serology,
    "Indian Pines": indian_pines,
    "digits, 4 x 4": small_digits,
    "digits": digits,
}
