"""
Three models, three sets
========================

A product mixture with densities of any shape, one whose densities have one peak each, and one of unmixed variables:
every one of them is right for some samples. Here are three sets that show it, and what ``compare_models`` says of them;
real flowers or birds; and a case that nothing here can do anything about.
"""

import textwrap
import warnings

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.datasets import load_iris

import tensorly_smp as smp

try:
    from palmerpenguins import load_penguins
except ImportError:
    load_penguins = None

# %%
# Three sets
# ----------
# In the first, densities of a group have two peaks. In the second, a group is one heap of samples, and groups differ in
# one variable only. In the third, a large animal is large in all of its measurements, whatever its species.

rng = np.random.default_rng(0)
peaks = smp.datasets.make_smooth_mixture("gmm", 400, 5, 2, random_state=0)
heap = np.repeat([0, 1], 200)
heaps = np.column_stack(
    [
        rng.normal(size=400) + 5 * heap,
        rng.gamma(2.0, size=400),
        rng.logistic(size=400),
    ]
)
species = np.repeat([0, 1], 200)
size = rng.normal(size=(400, 1))
animals = size + 0.5 * rng.normal(size=(400, 4))
animals += 1.5 * np.outer(species, [1, -1, 1, -1])
sets = {
    "two peaks": (peaks.X, peaks.labels),
    "heaps": (heaps, heap),
    "animals": (animals, species),
}
figure, panels = plt.subplots(1, 3, figsize=(9.5, 3), layout="constrained")
for panel, (name, (X, labels)) in zip(panels, sets.items(), strict=True):
    panel.scatter(X[:, 0], X[:, 1], s=5, c=labels, cmap="coolwarm")
    panel.set(title=name, xlabel="x0", ylabel="x1")

# %%
# Accuracy of the three models, and what ``compare_models`` advises from the samples alone:

warnings.simplefilter("ignore", smp.exceptions.TensorlySmpWarning)
models = {
    "product": smp.SmoothProductMixture(2, random_state=0),
    "log-concave": smp.SmoothProductMixture(2, shape="log-concave", random_state=0),
    "unmixed": smp.UnmixedProductMixture(2, random_state=0),
}
rows = {}
advice = {}
for name, (X, labels) in sets.items():
    rows[name] = {
        kind: smp.metrics.clustering_accuracy(labels, model.fit(X).predict(X))
        for kind, model in models.items()
    }
    advice[name] = smp.compare_models(X, 2, n_folds=2, random_state=0).attrs
    rows[name]["for densities"] = advice[name]["for_densities"]
    rows[name]["for groups"] = advice[name]["for_groups"]
print(pd.DataFrame(rows).T.to_string(float_format="{:.2f}".format))
for name, each in advice.items():
    print(textwrap.fill(f"{name}: {each['advice']}", 80))

# %%
# Two peaks of a component are two heaps in the second set: a product mixture of any shape has no reason to give each a
# component of its own. And the unmixed model finds that the first two sets need no unmixing.
#
# Birds, or flowers
# -----------------
# Four measurements of penguins, or of iris flowers if the package ``palmerpenguins`` is not installed. The species are
# known, but are only used to judge the answer. A report tells which pairs of variables depend on each other within the
# components of a product mixture.

if load_penguins is None:
    X, species = load_iris(return_X_y=True, as_frame=True)
else:
    birds = load_penguins().dropna()
    X, species = birds.filter(regex="_mm|_g"), birds["species"]
product = smp.SmoothProductMixture(3, random_state=0).fit(X)
report = smp.check_independence(product, X, random_state=0)
report

# %%
# As a picture: rank correlations below the diagonal, the strength of any dependence above it, dependent pairs framed.

axes = smp.plotting.plot_independence(report)

# %%
# One linear map for all components: ``UnmixedProductMixture`` looks for linear combinations of the variables that are
# independent within them. Every source is a row of the map, and bears the name of the variable that it is nearest to.

unmixed = smp.UnmixedProductMixture(3, random_state=0).fit(X)
axes = unmixed.plot.unmixing()

# %%
# What is left of the dependence is that of the sources.

left = smp.check_independence(unmixed, X, random_state=0)
print(textwrap.fill(left.summary(), 80))
table = pd.DataFrame(
    {
        kind: {
            "accuracy": smp.metrics.clustering_accuracy(species, model.predict(X)),
            "BIC": model.bic(X),
        }
        for kind, model in (("product", product), ("unmixed", unmixed))
    }
).T
print(table.round(2).to_string())

# %%
# What no linear map can do
# -------------------------
# A banana: the second variable goes with the square of the first. The fit of the sources is dependent as before, and
# says so. More components describe the shape, piece by piece; which pieces belong together they do not tell.

bend = rng.normal(0.0, 1.5, 1500)
banana = np.column_stack(
    [bend, bend**2 + rng.normal(0.0, 0.7, 1500), rng.normal(size=1500)]
)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always", smp.exceptions.DependenceWarning)
    bent = smp.UnmixedProductMixture(1, random_state=0).fit(banana)
said = [
    each.message for each in caught if each.category is smp.exceptions.DependenceWarning
]
print(textwrap.fill(str(said[0]), 80))
print(textwrap.fill(said[0].advice, 80))

# %%
# The model thinks that the samples on the right are as likely as those on the left:

drawn, _ = bent.sample(1500, random_state=0)
figure, panels = plt.subplots(
    1, 2, figsize=(8, 3.5), sharex=True, sharey=True, layout="constrained"
)
for panel, points, title in zip(
    panels, (banana, drawn), ("the samples", "samples of the model"), strict=True
):
    panel.plot(points[:, 0], points[:, 1], ".", markersize=2)
    panel.set(xlabel="x0", title=title)
label = panels[0].set_ylabel("x1")
