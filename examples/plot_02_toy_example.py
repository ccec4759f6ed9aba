"""
A density from a few values of its distribution function
=========================================================

The step from bins to densities, by itself: the toy example of Kargas and Sidiropoulos (AISTATS 2019). Nothing is
estimated here. The bin probabilities are exact, and the question is how wide bins may be.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy import stats

import tensorly_smp as smp

# Distinguishable with any kind of color vision.
BLUE, ORANGE, GREEN = "#0072B2", "#E69F00", "#009E73"


# %%
# Half of the mass is in each of two Gaussians. A :class:`~tensorly_smp.datasets.TrueMixture` knows its densities, its
# distribution functions, and the exact probability of every bin.

truth = smp.datasets.TrueMixture(
    weights=[1.0],
    standard=stats.norm(),
    loc=np.array([[[-6.0, 10.0]]]),
    scale=np.array([[[5.0, 5.0]]]),
)


def bins_of_width(width):
    """From -58, as in the paper, to beyond 62."""
    return smp.Binning((-58.0 + width * np.arange(np.ceil(120.0 / width) + 1),), ("x",))


# %%
# What is kept, and what comes back
# ---------------------------------
# A histogram keeps nothing but the distribution function at the edges of its bins (dots). Between them it is
# interpolated by shifted copies of sinc(u) = sin(πu)/(πu), and the derivative of that is the density.

binning = bins_of_width(5.0)
density = smp.reconstruct_density(truth.factors(binning), method="sinc")
histogram = smp.reconstruct_density(truth.factors(binning), method="histogram")

x = np.linspace(-30.0, 35.0, 1301)
edges = binning.edges[0][(binning.edges[0] >= x[0]) & (binning.edges[0] <= x[-1])]
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
left.plot(x, density.cdf_1d(x, "x"), color=BLUE, label="interpolated")
left.plot(
    edges,
    truth.cdf_1d(edges, 0),
    "o",
    color="black",
    markersize=5,
    label="at the edges of bins",
)
left.set(xlabel="x", title="distribution function")
right.stairs(
    histogram.pdf_1d(edges[:-1] + 2.5, "x"),
    edges,
    fill=True,
    color="0.88",
    label="histogram",
)
right.plot(x, truth.pdf_1d(x, 0), color="black", linewidth=3, label="true density")
right.plot(
    x,
    density.pdf_1d(x, "x"),
    color=ORANGE,
    linestyle="--",
    linewidth=2,
    label="from the bins",
)
right.set(xlabel="x", title="density", ylim=(0, None))
left.legend(frameon=False, loc="upper left")
right.legend(frameon=False, loc="upper right")
for axes in (left, right):
    axes.spines[["top", "right"]].set_visible(False)

# %%
# How wide may the bins be?
# -------------------------
# By the sampling theorem, a function without frequencies above π/T is given exactly by its values T apart. A Gaussian
# has all frequencies, but hardly any far above the inverse of its standard deviation (5 here), so the error falls
# steeply as bins get narrower, and then there is nothing more to gain. That of the histogram falls much more slowly.

widths = np.array([10.0, 8.0, 6.0, 5.0, 4.0, 3.0, 2.5])
peak = truth.pdf_1d(x, 0).max()


def largest_error(width, **options):
    """Of the density, over its peak."""
    found = smp.reconstruct_density(
        truth.factors(bins_of_width(width)), clip_warning=np.inf, **options
    )
    return np.abs(found.pdf_1d(x, "x") - truth.pdf_1d(x, 0)).max() / peak


errors = {
    "histogram": [largest_error(width, method="histogram") for width in widths],
    "sinc": [largest_error(width) for width in widths],
}
for name, values in errors.items():
    print(
        f"{name:<9}",
        "  ".join(
            f"{width:g}: {value:.0e}"
            for width, value in zip(widths, values, strict=True)
        ),
    )

# %%

figure, axes = plt.subplots(figsize=(6.5, 4), layout="constrained")
for (name, values), color, marker in zip(
    errors.items(), ("0.5", BLUE), "s^", strict=True
):
    axes.plot(widths / 5.0, values, color=color, marker=marker, label=name)
axes.set(
    yscale="log",
    xlabel="bin width / standard deviation of a peak",
    ylabel="largest error / peak of the density",
)
axes.legend(frameon=False)
axes.spines[["top", "right"]].set_visible(False)

# %%
# The figure of the paper shows the series as it is printed, which is negative in places: it is no density then, and no
# likelihood can be taken of it. What is drawn here is the clipped density, positive everywhere and of integral one.
# That is why its error levels off, where that of the series falls on to rounding (``benchmarks/densities.py toy``):

found = smp.reconstruct_density(
    truth.factors(bins_of_width(8.0)), clip_warning=np.inf
).pdf_1d(x, "x")
print(f"least value with bins 8 wide: {found.min():.1e}")
print(f"error of the density, narrowest bins: {errors['sinc'][-1]:.1%} of the peak")

# %%
# What is not seen here: bin probabilities that are estimated have noise, which narrow bins have more of. Real fits
# therefore go on from the bins to the samples themselves; see :doc:`plot_06_components_and_bins`.
