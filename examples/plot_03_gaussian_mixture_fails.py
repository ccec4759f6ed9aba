"""
A Gaussian mixture fails, a smooth product mixture does not
===========================================================

Five groups, ten variables, and in every group every variable has two peaks. One Gaussian per group cannot describe
that, and more Gaussians describe the density somewhat better but do not find the groups. This is one of the four
synthetic cases of Kargas and Sidiropoulos (AISTATS 2019).
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from scipy import stats
from sklearn.mixture import GaussianMixture

import tensorly_smp as smp

COLORS = ["#0072B2", "#D55E00"]  # distinguishable with any kind of color vision

# %%
# Samples whose truth is known
# ----------------------------

N_COMPONENTS = 5
X, labels, truth = smp.datasets.make_smooth_mixture(
    "gmm", n_samples=2000, n_variables=10, random_state=0
)
new_X, new_labels = truth.sample(5000, random_state=1)

# %%
# Two ways to fit them
# --------------------
# Both are told that there are five components. The Gaussian mixtures get five starts; the smooth product mixture
# assumes nothing but that variables are independent within a group, and that densities are smooth.

model = smp.SmoothProductMixture(N_COMPONENTS, random_state=0).fit(X)
gaussian = {
    "diag": GaussianMixture(
        N_COMPONENTS, covariance_type="diag", n_init=5, random_state=0
    ).fit(X),
    "full": GaussianMixture(
        N_COMPONENTS, covariance_type="full", n_init=5, random_state=0
    ).fit(X),
}

# %%
# More components for the Gaussian mixture, as many as BIC asks for:

candidates = [10, 20, 40]
larger = [
    GaussianMixture(n, covariance_type="diag", n_init=2, random_state=0).fit(X)
    for n in candidates
]
most = min(larger, key=lambda mixture: mixture.bic(X))
print(
    "BIC of",
    {
        mixture.n_components: round(mixture.bic(X))
        for mixture in [gaussian["diag"], *larger]
    },
)

# %%
# New samples judge them
# ----------------------
# *Accuracy*: share of samples in the right group, after the best matching of groups and components. *Divergence*: how
# many nats per sample the density loses to the true one, KL(true || learned).

true_log_density = truth.logpdf(new_X)


def judge(predicted, log_density):
    accuracy = smp.metrics.clustering_accuracy(new_labels, predicted)
    return {"accuracy": accuracy, "divergence": np.mean(true_log_density - log_density)}


table = pd.DataFrame(
    {
        "the true mixture": judge(truth.predict(new_X), true_log_density),
        "smooth product mixture": judge(
            model.predict(new_X), model.score_samples(new_X)
        ),
        **{
            f"Gaussian mixture, {kind}": judge(
                mixture.predict(new_X), mixture.score_samples(new_X)
            )
            for kind, mixture in gaussian.items()
        },
        f"Gaussian mixture, diag, {most.n_components} components": judge(
            most.predict(new_X), most.score_samples(new_X)
        ),
    }
).T
print(table.round(3).to_string())

# %%
# What the components look like
# -----------------------------
# One of the ten variables, one column per group. Gray: its true density in that group; colored: the component that was
# matched to the group, of the smooth product mixture above and of the Gaussian mixture below.


def gaussian_truth(mixture):
    """A diagonal Gaussian mixture as exact densities, for matching its components."""
    loc, scale = mixture.means_.T[..., None], np.sqrt(mixture.covariances_.T)[..., None]
    return smp.datasets.TrueMixture(mixture.weights_, stats.norm(), loc, scale)


VARIABLE = 2
x = np.linspace(-11, 11, 500)
true = truth.pdf_1d(x, VARIABLE, component="all")
bells = gaussian_truth(gaussian["diag"])
found = {
    "smooth product\nmixture": (
        model.density_.pdf_1d(x, f"x{VARIABLE}", component="all"),
        smp.metrics.match_components(model.factors_, truth),
        COLORS[0],
    ),
    "Gaussian\nmixture": (
        bells.pdf_1d(x, VARIABLE, component="all"),
        smp.metrics.match_components(bells.factors(model.binning_), truth),
        COLORS[1],
    ),
}
figure, panels = plt.subplots(
    2, N_COMPONENTS, figsize=(11, 4.2), sharex=True, sharey=True, layout="constrained"
)
figure.supxlabel(f"x{VARIABLE}")
for row, (name, (densities, order, color)) in zip(panels, found.items(), strict=True):
    row[0].set_ylabel(name)
    for r, panel in enumerate(row):
        panel.fill_between(x, true[:, r], color="0.85")
        panel.plot(x, densities[:, order[r]], color=color, linewidth=2)
        panel.spines[["top", "right", "left"]].set_visible(False)
        panel.set(yticks=[], ylim=(0, 1.25 * true.max()))
for r, panel in enumerate(panels[0]):
    panel.set_title(f"group {r}, weight {truth.weights[r]:.2f}", fontsize=10)

# %%
# What is not seen here: where groups *are* Gaussian, a Gaussian mixture is as good or better and faster; and where
# variables depend on each other within a group, the smooth product mixture fails in its turn.
# :doc:`plot_01_first_steps` has samples of both kinds.
