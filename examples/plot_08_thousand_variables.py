"""
A thousand variables
====================

A thousand variables have very many triples, whose histograms would fill terabytes. The default fit counts none: its
search and its passes go over the samples, in a time that grows with samples × variables × components. The call is the
same as ever.
"""

import time
from math import comb

import matplotlib.pyplot as plt
import numpy as np
from scipy import stats

import tensorly_smp as smp

# Distinguishable with any kind of color vision.
COLORS = ["#0072B2", "#E69F00", "#009E73"]

# %%
# Many variables, each of little use
# ----------------------------------
# Three groups. A variable's means in the groups differ by a fraction of its standard deviation, so that no histogram of
# a single one shows any groups.

N_VARIABLES, N_SAMPLES, SPREAD = 1000, 1000, 0.2
rng = np.random.default_rng(0)
truth = smp.datasets.TrueMixture(
    weights=[0.5, 0.3, 0.2],
    standard=stats.norm(),
    loc=rng.normal(0.0, SPREAD, (N_VARIABLES, 3, 1)),
    scale=np.ones((N_VARIABLES, 3, 1)),
)
X, labels = truth.sample(N_SAMPLES, random_state=1)
n_bytes = 8 * comb(N_VARIABLES, 3) * 15**3
print(f"{comb(N_VARIABLES, 3):,} triples")
print(f"Histograms of 15 bins would take {n_bytes / 1e12:.1f} TB.")

# %%
# The fit
# -------

start = time.perf_counter()
model = smp.SmoothProductMixture(3, random_state=0).fit(X)
print(f"fitted in {time.perf_counter() - start:.0f} s, after {model.n_iter_} passes")
print("weights:", model.weights_.round(3), "true:", truth.weights)

# %%
# Together they tell
# ------------------
# New samples, of which only the first one, three, ten ... variables are looked at. With few variables even the true
# mixture guesses; with all of them both know.

new_X, new_labels = truth.sample(1000, random_state=2)
numbers = [1, 3, 10, 30, 100, 300, 1000]
learned, best = [], []
for n in numbers:
    some = model.density_.marginal(model.density_.variables[:n])
    learned.append(
        smp.metrics.clustering_accuracy(
            new_labels, some.posterior(new_X[:, :n]).argmax(axis=1)
        )
    )
    hidden = np.where(np.arange(N_VARIABLES) < n, new_X, np.nan)
    best.append(smp.metrics.clustering_accuracy(new_labels, truth.predict(hidden)))
print("variables:        ", *(f"{n:>6}" for n in numbers))
print("model, accuracy:  ", *(f"{value:6.3f}" for value in learned))
print("true mixture:     ", *(f"{value:6.3f}" for value in best))

# %%
# Left: the variable whose means differ most, all samples (gray) and the three components times their weights.

variable = int(np.ptp(truth.loc[:, :, 0], axis=1).argmax())
x = np.linspace(-4.0, 4.0, 300)
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
left.hist(X[:, variable], bins=30, density=True, color="0.88")
parts = model.density_.pdf_1d(x, f"x{variable}", component="all") * model.weights_
for r, color in enumerate(COLORS):
    left.plot(
        x,
        parts[:, r],
        color=color,
        linewidth=2,
        label=f"component {r}, weight {model.weights_[r]:.2f}",
    )
left.set(xlabel=f"x{variable}", yticks=[], ylim=(0, 1.35 * left.get_ylim()[1]))
left.legend(frameon=False, fontsize="small", loc="upper left")
left.spines[["top", "right", "left"]].set_visible(False)
right.plot(numbers, best, color="0.5", marker="s", label="true mixture")
right.plot(numbers, learned, color=COLORS[0], marker="o", label="model")
right.axhline(max(truth.weights), color="0.5", linestyle="--", linewidth=0.8)
right.text(
    1000,
    max(truth.weights) - 0.01,
    "always the largest group",
    ha="right",
    va="top",
    color="0.4",
)
right.set(
    xscale="log", xlabel="variables looked at", ylabel="accuracy", ylim=(0.35, 1.02)
)
right.legend(frameon=False)
right.spines[["top", "right"]].set_visible(False)

# %%
# What is not seen here: dependence. The model takes variables for independent within a group. In a thousand measured
# variables many will depend on each other, and what they share may come out as components.
