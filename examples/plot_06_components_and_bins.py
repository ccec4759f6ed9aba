"""
How many components, how many bins?
===================================

Two numbers have to be chosen. The number of components matters, and the samples can be asked for it. The number of bins
matters for the paper's algorithm; for the default, which goes on to the likelihood of the samples, it hardly does.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import tensorly_smp as smp

# Distinguishable with any kind of color vision.
COLORS = ["#0072B2", "#E69F00", "#009E73", "#CC79A7"]

X, labels, truth = smp.datasets.make_smooth_mixture(
    "gamma", 1000, n_variables=6, n_components=4, random_state=0
)
new_X = truth.sample(4000, random_state=1)[0]

# %%
# Components
# ----------
# ``select_n_components`` fits mixtures with several numbers of components and compares them, by default with BIC. Four
# is the truth here.

table = smp.select_n_components(X, range(2, 7), random_state=0)
print("chosen:", table.attrs["best"])
print(
    table[["bic", "icl", "n_parameters", "seconds"]].to_dataframe().round(1).to_string()
)

# %%
# A component too few costs far more than one too many, so the axis is logarithmic above ten. ICL is BIC with
# a penalty for components that overlap: it asks for clusters, BIC for a good description of the density.

axes = smp.plotting.plot_selection(table)

# %%
# A look before any fit: the singular values of the pair block, a matrix of joint histograms. As many stand out of the
# noise as there are components, or fewer if some are hard to tell apart. The noise is that of samples whose variables
# have been shuffled against each other.

print("components above the noise:", table.attrs["n_above_noise"])
print(
    table[["singular_values", "shuffled_singular_values"]]
    .to_dataframe()
    .round(3)
    .to_string()
)

# %%
# Bins
# ----
# How far is the density from the true one with few bins, and with many? ``refine=None`` is the paper's algorithm,
# coupled decomposition and sinc interpolation; "smooth" is the default. Where bins are far too wide, a
# ``ClippedMassWarning`` says so.

N_BINS = [4, 8, 15, 30]
true_log_density = truth.logpdf(new_X)


def fit(refine, n_bins):
    """Model, its divergence from the truth in nats, and the names of its warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = smp.SmoothProductMixture(
            4, refine=refine, n_bins=n_bins, n_init=2, random_state=0
        ).fit(X)
    divergence = np.mean(true_log_density - model.score_samples(new_X))
    return (
        model,
        divergence,
        " ".join(sorted({each.category.__name__ for each in caught})),
    )


paper, default = (
    {n: fit(None, n) for n in N_BINS},
    {n: fit("smooth", n) for n in N_BINS},
)
frame = pd.DataFrame(
    {
        "paper": [paper[n][1] for n in N_BINS],
        "default": [default[n][1] for n in N_BINS],
        "warnings of the former": [paper[n][2] for n in N_BINS],
    },
    index=pd.Index(N_BINS, name="bins"),
)
print("divergence in nats")
print(frame.round(3).to_string())

# %%
# What that looks like
# --------------------
# One variable, all four components. Gray: the true densities. Too few bins blur what is narrow, or ring where it is cut
# off; too many follow the noise.

VARIABLE = 1
shown = {
    f"paper, {N_BINS[0]} bins": paper[N_BINS[0]][0],
    f"paper, {N_BINS[2]} bins": paper[N_BINS[2]][0],
    f"paper, {N_BINS[-1]} bins": paper[N_BINS[-1]][0],
    f"default, {N_BINS[0]} bins": default[N_BINS[0]][0],
}
x = np.linspace(X[:, VARIABLE].min() - 1, X[:, VARIABLE].max() + 1, 500)
true = truth.pdf_1d(x, VARIABLE, component="all")
figure, panels = plt.subplots(
    1, len(shown), figsize=(12, 3.2), sharey=True, layout="constrained"
)
for panel, (name, model) in zip(panels, shown.items(), strict=True):
    found = model.density_.pdf_1d(x, f"x{VARIABLE}", component="all")
    order = smp.metrics.match_components(model.factors_, truth)
    for r, color in enumerate(COLORS):
        area = panel.fill_between(x, true[:, r], color="0.5", alpha=0.3, linewidth=0)
        panel.plot(x, found[:, order[r]], color=color, linewidth=1.5)
    panel.set(title=name, xlabel=f"x{VARIABLE}", yticks=[], ylim=(0, 1.2 * true.max()))
    panel.spines[["top", "right", "left"]].set_visible(False)
legend = panels[0].legend([area], ["true"], frameon=False)

# %%
# What is not seen here: data that are no such mixture. Then every number of components is an approximation, more
# samples ask for more of them, and the number chosen is not a number of groups.
