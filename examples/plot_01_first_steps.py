"""
First steps, with real measurements
===================================

Samples of three kinds, measured in several ways, some entries missing: which samples belong together, and what do the
groups look like? The kinds are known, but are only used to judge the answer.
"""

import textwrap
import warnings

import numpy as np
from sklearn.cluster import KMeans
from sklearn.datasets import load_wine
from sklearn.mixture import GaussianMixture
from sklearn.preprocessing import StandardScaler

import tensorly_smp as smp

try:
    from palmerpenguins import load_penguins_raw
except ImportError:
    load_penguins_raw = None


# %%
# The data
# --------
# Penguins of three species if the package ``palmerpenguins`` is installed, else wines of three growers, which come with
# scikit-learn.


def load():
    """Measurements (a DataFrame, NaN for missing), and the kind of every sample."""
    if load_penguins_raw is None:
        wines = load_wine(as_frame=True)
        return wines.data, wines.target.map(lambda grower: f"grower {grower + 1}")
    raw = load_penguins_raw()
    columns = {
        "Culmen Length (mm)": "bill length (mm)",
        "Culmen Depth (mm)": "bill depth (mm)",
        "Flipper Length (mm)": "flipper length (mm)",
        "Body Mass (g)": "body mass (g)",
        "Delta 15 N (o/oo)": "delta 15 N (‰)",
        "Delta 13 C (o/oo)": "delta 13 C (‰)",
    }
    return raw[list(columns)].rename(columns=columns), raw["Species"].str.split().str[0]


X, kinds = load()
print(f"{len(X)} samples, {X.shape[1]} measurements")
print(f"{X.isna().values.sum()} entries missing")
print(kinds.value_counts().to_string())

# %%
# The fit
# -------
# Three components, everything else by default. Missing entries need no treatment. The fit warns of measurements that
# depend on each other within the groups; the last section comes back to that.

with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    model = smp.SmoothProductMixture(n_components=3, random_state=0).fit(X)
print("weights:", model.weights_.round(2))
for each in caught:
    said = str(each.message).partition(". ")[0]
    print(textwrap.fill(f"{each.category.__name__}: {said}.", 80))

# %%
# Every component has a density of every measurement. Nothing was assumed about its shape but that it is smooth; some
# have several peaks. Each curve integrates to one, whatever the weight of its component; dotted is the mixture of them
# all.

axes = model.plot.conditionals(X)

# %%
# How did the fit go? It starts several times, cuts the starts short on purpose, chooses one of them by the likelihood
# (ringed), and raises that until it does not rise any more.

axes = model.plot.loss()

# %%
# Which samples belong together
# -----------------------------

clusters = model.predict(X)  # a Series with the index of X
print(clusters.groupby([kinds, clusters]).size().unstack(fill_value=0).to_string())

# %%
# Other methods need complete samples, and a scale for every variable. On those that are complete:

complete = X.notna().all(axis=1)
gaussian = GaussianMixture(3, covariance_type="diag", n_init=5, random_state=0)
scaled = StandardScaler().fit_transform(X[complete])
found = {
    "smooth product mixture": clusters[complete],
    "diagonal Gaussian mixture": gaussian.fit_predict(scaled),
    "k-means": KMeans(3, n_init=5, random_state=0).fit_predict(scaled),
}
accuracy = {
    name: smp.metrics.clustering_accuracy(kinds[complete], labels)
    for name, labels in found.items()
}
print(f"all {len(X)} samples: {smp.metrics.clustering_accuracy(kinds, clusters):.3f}")
print(f"the {complete.sum()} complete ones:")
for name, value in accuracy.items():
    print(f"  {name}: {value:.3f}")

# %%
# Contours of the components over the samples, for the measurements that tell them apart best:

axes = model.plot.pairs(X)

# %%
# Questions to the density
# ------------------------
# How likely is a sample, which is the strangest, and what would a missing entry have been?

log_densities = model.score_samples(X)
print(X.loc[[log_densities.idxmin()]].T.to_string())

# %%

hidden = X.columns[0]
guessed = model.impute(X.assign(**{hidden: np.nan}))[hidden]
error = (guessed - X[hidden]).abs().mean()
print(f"{hidden} from the others: off by {error:.2f} on average;")
print(f"the overall mean is off by {(X[hidden].mean() - X[hidden]).abs().mean():.2f}")

# %%
# When not to use it
# ------------------
# Variables are taken for independent within a group. Measurements of a body are not: a large animal is large in all of
# them. The first four measurements of the penguins are of this kind, and from these alone k-means finds the species
# more often. The fit warns of that, and of other solutions that are as good (``RivalSolutionsWarning``). It names
# ``UnmixedProductMixture``, which does better: see :doc:`plot_12_dependent_variables`.

subsample = X.iloc[:, :4]
with warnings.catch_warnings():
    warnings.simplefilter("ignore", smp.exceptions.TensorlySmpWarning)
    body = smp.SmoothProductMixture(n_components=3, random_state=0).fit_predict(
        subsample
    )
whole = subsample.notna().all(axis=1)
means = KMeans(3, n_init=5, random_state=0).fit_predict(
    StandardScaler().fit_transform(subsample[whole])
)
print(f"smooth product mixture: {smp.metrics.clustering_accuracy(kinds, body):.3f}")
reached = smp.metrics.clustering_accuracy(kinds[whole], means)
print(f"k-means, complete samples: {reached:.3f}")

# sphinx_gallery_thumbnail_number = 3
