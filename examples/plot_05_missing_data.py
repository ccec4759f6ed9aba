"""
Missing entries: fitting with them, filling them in
===================================================

Entries that are missing (NaN, None, pandas NA, masked) need no treatment before a fit: a sample counts in every
histogram for which it has all entries. A fitted model then tells what they might have been. They are taken to be
missing at random; what that means, and what happens where it is not so, is at the end.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.impute import KNNImputer

import tensorly_smp as smp

BLUE, ORANGE = "#0072B2", "#D55E00"  # distinguishable with any kind of color vision

# %%
# Fits with more and more entries missing
# ---------------------------------------
# Skewed densities, eight variables, four groups. The model is fitted to incomplete samples, and labels new ones that
# are as incomplete. The true mixture, which knows all densities, shows how much information is left at all.

SHARES = [0.0, 0.2, 0.4, 0.6]
rows = []
for share in SHARES:
    X, labels, truth = smp.datasets.make_smooth_mixture(
        "gamma", 2000, 8, 4, missing=share, random_state=3
    )
    model = smp.SmoothProductMixture(4, random_state=0).fit(X)
    rows.append(
        {
            "complete samples": np.mean(~np.isnan(X).any(axis=1)),
            "accuracy of the model": smp.metrics.clustering_accuracy(
                labels, model.predict(X)
            ),
            "of the true mixture": smp.metrics.clustering_accuracy(
                labels, truth.predict(X)
            ),
        }
    )
print(pd.DataFrame(rows, index=pd.Index(SHARES, name="missing")).round(3).to_string())

# %%
# Filling in
# ----------
# A third of the entries is removed, and the values that were there are kept for comparison. ``impute`` gives the mean
# of every missing entry given the others of its sample, the best guess for squared errors.

complete = smp.datasets.make_smooth_mixture("gamma", 2000, 8, 4, random_state=3).X
incomplete = smp.datasets.make_smooth_mixture(
    "gamma", 2000, 8, 4, missing=0.33, random_state=3
).X
names = [f"x{n}" for n in range(8)]
incomplete = pd.DataFrame(incomplete, columns=names)
missing = incomplete.isna().values

model = smp.SmoothProductMixture(4, random_state=0).fit(incomplete)
filled = model.impute(incomplete)  # a DataFrame again
draws = model.impute(incomplete, method="draw", random_state=0)

others = {
    "mean of the variable": incomplete.fillna(incomplete.mean()),
    "nearest neighbors": pd.DataFrame(
        KNNImputer(n_neighbors=10).fit_transform(incomplete), columns=names
    ),
}


def compare(candidate):
    """Error of the filled-in entries, and their spread over that of the true ones."""
    error = np.sqrt(np.mean((candidate.values - complete)[missing] ** 2))
    return {
        "error (RMS)": error,
        "spread / true spread": candidate.values[missing].std()
        / complete[missing].std(),
    }


results = {"model, mean": filled, "model, a draw": draws, **others}
print(
    pd.DataFrame({name: compare(each) for name, each in results.items()})
    .T.round(2)
    .to_string()
)

# %%
# A mean is a good guess of one value, but means are less spread than data. ``method="draw"`` draws a sample's missing
# entries together from their distribution given the others. One such draw is further off, but looks like data (and,
# like data, may lie far out, since densities have tails). Several draws, with other seeds, show what the missing
# entries leave open: multiple imputation.
#
# Two of the variables, for the samples that lack one of these or both:

ACROSS, UP = "x3", "x6"
lacks = incomplete[[ACROSS, UP]].isna().any(axis=1).values
shown = {"what was removed": pd.DataFrame(complete, columns=names), **results}
del shown["nearest neighbors"]
figure, panels = plt.subplots(
    1, len(shown), figsize=(12, 3.4), sharex=True, sharey=True, layout="constrained"
)
panels[0].set_ylabel(UP)
for panel, (name, values) in zip(panels, shown.items(), strict=True):
    panel.plot(incomplete[ACROSS], incomplete[UP], ".", color="0.85", markersize=3)
    color = BLUE if name == "what was removed" else ORANGE
    panel.plot(
        values[ACROSS][lacks],
        values[UP][lacks],
        ".",
        color=color,
        markersize=3,
        alpha=0.5,
    )
    panel.set(title=name, xlabel=ACROSS)
    panel.spines[["top", "right"]].set_visible(False)

# %%
# Missing at random, and not
# --------------------------
# What is missing may depend on what is *observed*: below, x0 is missing where x1 is large. The model knows x1 and is
# not misled. But if x0 is missing where x0 itself is large, nothing in the data shows it. The other variables repair
# some of the damage, not all.

rng = np.random.default_rng(0)


def without(where):
    """Three quarters of x0 removed where the condition holds."""
    X = pd.DataFrame(complete, columns=names)
    return X.mask(
        np.outer(where & (rng.random(len(X)) < 0.75), [name == "x0" for name in names])
    )


patterns = {
    "where x1 is large": without(complete[:, 1] > np.median(complete[:, 1])),
    "where x0 is large": without(complete[:, 0] > np.median(complete[:, 0])),
}
means = {
    "true": dict.fromkeys(patterns, complete[:, 0].mean()),
    "of what is there": {},
    "with the model": {},
}
for name, X in patterns.items():
    means["of what is there"][name] = X["x0"].mean()
    means["with the model"][name] = (
        smp.SmoothProductMixture(4, random_state=0).fit(X).impute(X)["x0"].mean()
    )
print(
    pd.DataFrame(means)
    .rename_axis(index="x0 is missing", columns="mean of x0")
    .round(2)
    .to_string()
)
