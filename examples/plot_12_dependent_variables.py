"""
Variables that depend on each other
===================================

A product mixture takes variables for independent once the group is known. A large animal is large in all of its
measurements, whatever its species: what does that do to a fit, how does one see it, and what can be done? And a case
that nothing here can do anything about.
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
# The data
# --------
# Four measurements of iris flowers, and four of penguins if the package ``palmerpenguins`` is installed. The species
# are known, but are only used to judge the answer.


def load():
    """Measurements (a DataFrame) and species of every set."""
    iris = load_iris(as_frame=True)
    sets = {"iris": (iris.data, iris.target)}
    if load_penguins is not None:
        birds = load_penguins().dropna()
        names = ["bill_length_mm", "bill_depth_mm", "flipper_length_mm", "body_mass_g"]
        sets["penguins"] = birds[names], birds["species"]
    return sets


sets = load()
# The reports below say more.
warnings.simplefilter("ignore", smp.exceptions.TensorlySmpWarning)
n_species = 3

# %%
# What a product mixture makes of them
# ------------------------------------
# The report tells which pairs of variables depend on each other within the components of the fit.

products = {
    name: smp.SmoothProductMixture(n_species, random_state=0).fit(X)
    for name, (X, _) in sets.items()
}
reports = {
    name: smp.check_independence(products[name], X, random_state=0)
    for name, (X, _) in sets.items()
}
reports["iris"]

# %%
# The penguins, or the iris again:

name = list(sets)[-1]
reports[name]

# %%
# As a picture: rank correlations below the diagonal, the strength of any dependence above it, dependent pairs framed.

axes = smp.plotting.plot_independence(reports[name])
title = axes.figure.suptitle(name)

# %%
# One linear map for all components
# ---------------------------------
# ``UnmixedProductMixture`` looks for linear combinations of the variables, the same for all components, that are
# independent within them.

unmixed = {
    name: smp.UnmixedProductMixture(n_species, random_state=0).fit(X)
    for name, (X, _) in sets.items()
}
rows = {
    name: {
        "accuracy, product": smp.metrics.clustering_accuracy(
            species, products[name].predict(X)
        ),
        "unmixed": smp.metrics.clustering_accuracy(species, unmixed[name].predict(X)),
        "BIC, product": products[name].bic(X),
        "unmixed ": unmixed[name].bic(X),
    }
    for name, (X, species) in sets.items()
}
table = pd.DataFrame(rows).T
print(table.round(2).to_string())

# %%
# The map itself: every source is a row, and bears the name of the variable that it is nearest to. What is left of the
# dependence is that of the sources.

axes = unmixed[name].plot.unmixing()
title = axes.set_title(name)
left = {
    name: smp.check_independence(unmixed[name], X, random_state=0)
    for name, (X, _) in sets.items()
}
for name, report in left.items():
    print(textwrap.fill(f"{name}: {report.summary()}", 80))

# %%
# What no linear map can do
# -------------------------
# A banana: the second variable goes with the square of the first. The fit of the sources is dependent as before, and
# says so. More components describe the shape, piece by piece; which pieces belong together they do not tell.

rng = np.random.default_rng(0)
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
