"""
With xarray: select, plot, save, load, compare
==============================================

Labels go in and come out: a Dataset or DataArray of samples gives posteriors with the coordinates of the samples, and
everything that was learned is one ``xarray.Dataset``, with names, units and a record of the fit. Made-up weather of two
years serves as an example.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import xarray as xr

import tensorly_smp as smp

COLORS = ["#0072B2", "#E69F00", "#009E73"]  # as in the pictures of the package

# %%
# Two years of days
# -----------------
# Five quantities and three kinds of weather, each more frequent in its season. In the second year it is warmer by two
# degrees, the first kind of weather is rarer, and sensors fail now and then.

UNITS = {
    "temperature": "°C",
    "humidity": "%",
    "pressure": "hPa",
    "wind": "m/s",
    "radiation": "W/m²",
}
MEANS = np.array(
    [
        [22.0, 45.0, 1021.0, 2.5, 230.0],
        [12.0, 85.0, 1002.0, 7.0, 60.0],
        [1.0, 70.0, 1013.0, 4.0, 90.0],
    ]
)
SPREADS = np.array(
    [[3.0, 8.0, 4.0, 0.8, 40.0], [3.0, 6.0, 6.0, 1.8, 20.0], [3.5, 9.0, 7.0, 1.5, 25.0]]
)


def simulate(year, shares, warmer, missing, seed):
    """Days as a Dataset, one data variable for each quantity, with its unit."""
    rng = np.random.default_rng(seed)
    days = pd.date_range(f"{year}-01-01", f"{year}-12-31", name="day")
    season = (
        2.0
        * np.pi
        * (days.day_of_year.values[:, None] / 366.0 - np.array([0.55, 0.85, 0.05]))
    )
    weights = np.array(shares) * (1.0 + 0.8 * np.cos(season))
    kind = (
        rng.random((len(days), 1))
        > np.cumsum(weights / weights.sum(axis=1, keepdims=True), axis=1)
    ).sum(axis=1)
    values = MEANS[kind] + SPREADS[kind] * rng.standard_normal((len(days), len(UNITS)))
    values[:, 0] += warmer
    values[rng.random(values.shape) < missing] = np.nan
    columns = zip(UNITS.items(), values.T, strict=True)
    return xr.Dataset(
        {name: ("day", column, {"units": unit}) for (name, unit), column in columns},
        {"day": days},
    )


first = simulate(2023, [0.45, 0.35, 0.20], warmer=0.0, missing=0.0, seed=0)
second = simulate(2024, [0.25, 0.45, 0.30], warmer=2.0, missing=0.1, seed=1)
print(first)

# %%
# Fit
# ---
# Every data variable is a variable of the model; the days are its samples.

model = smp.SmoothProductMixture(3, sample_dim="day", random_state=0).fit(first)
print(model.result_)

# %%
# Select
# ------
# ``result_`` is a Dataset like any other. Here the wind that blows in each kind of weather, first as probabilities of
# its bins, then as quantiles of its density:

wind = model.result_.sel(variable="wind")
print(
    wind.factors.to_pandas()
    .set_axis(wind.edges.values[:-1].round(1), axis=0)
    .rename_axis("m/s from")
    .round(3)
)

# %%

quantiles = [0.05, 0.5, 0.95]
speeds = xr.DataArray(
    model.density_.quantile_1d(quantiles, "wind", component="all"),
    {"quantile": quantiles, "component": model.result_.component},
    attrs={"units": "m/s"},
)
print(speeds.to_pandas().round(1).to_string())

# %%
# Plot
# ----
# Names and units of the axes are those of the Dataset.

panels = model.plot.conditionals(first)

# %%
# What comes out for samples has their coordinates, so that the seasons are one ``groupby`` away:

by_month = model.predict_proba(first).groupby("day.month").mean()
figure, axes = plt.subplots(figsize=(7, 3.2), layout="constrained")
bottom = np.zeros(12)
for component in by_month.component.values:
    share = by_month.sel(component=component).values
    axes.bar(
        by_month.month,
        share,
        bottom=bottom,
        color=COLORS[component],
        label=f"component {component}",
    )
    bottom += share
axes.set(xlabel="month", ylabel="share of the days", xticks=by_month.month, ylim=(0, 1))
figure.legend(loc="outside right upper", frameon=False)
axes.spines[["top", "right"]].set_visible(False)

# %%
# Save and load
# -------------
# The file is netCDF, and any program that reads netCDF reads it. A model that was loaded predicts the same to the last
# bit.

with TemporaryDirectory() as folder:
    path = Path(folder) / "weather.nc"
    model.save(path)
    again = smp.load(path)
    print(f"{path.name}: {path.stat().st_size / 1000:.0f} kB")
print(
    "equal predictions:", again.predict_proba(first).equals(model.predict_proba(first))
)

# %%
# Compare two fits
# ----------------
# The second year, with entries missing, is fitted by itself. It gets the bins of the first, so that factors compare,
# and its components, which come in an order of their own, are matched to those of the first.

other = smp.SmoothProductMixture(
    3, binning=model.binning_, sample_dim="day", random_state=0
).fit(second)
order = smp.metrics.match_components(other.factors_, model.factors_)
results = [
    model.result_,
    other.result_.isel(component=order).assign_coords(
        component=model.result_.component
    ),
]
years = xr.concat(
    [result[["weights", "factors"]] for result in results],
    pd.Index([2023, 2024], name="year"),
    join="exact",
)
print(years.weights.to_pandas().round(2).to_string())
moved = abs(years.factors.diff("year").squeeze("year")).sum("bin") / 2
print("\nprobability that has moved to other bins:")
print(moved.to_pandas().round(2).to_string())

# %%
# The temperature in each kind of weather, in both years (solid: the first), and how far its mean has moved. The model
# was not told that it became warmer in all of them alike.

x = np.linspace(-12.0, 36.0, 400)
figure, axes = plt.subplots(figsize=(7, 3.5), layout="constrained")
means = [density.mean("all") for density in (model.density_, other.density_)]
temperature = [mean.sel(variable="temperature").values for mean in means]
warmer = temperature[1][order] - temperature[0]
for component, color in enumerate(COLORS):
    densities = [
        model.density_.pdf_1d(x, "temperature", component),
        other.density_.pdf_1d(x, "temperature", int(order[component])),
    ]
    axes.plot(
        x,
        densities[0],
        color=color,
        linewidth=2,
        label=f"component {component}: {warmer[component]:+.1f} °C",
    )
    axes.plot(x, densities[1], color=color, linewidth=2, linestyle="--")
axes.set(xlabel="temperature (°C)", ylabel="density", ylim=(0, None))
figure.legend(loc="outside right upper", frameon=False)
axes.spines[["top", "right"]].set_visible(False)

# %%
# What is not seen here: whether a difference between two fits is more than chance. A bootstrap tells, as in
# :doc:`plot_04_diagnostic_tests`. And days follow each other, which the model, for which samples are independent, does
# not know.

# sphinx_gallery_thumbnail_number = 2
