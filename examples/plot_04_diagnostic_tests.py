"""
Diagnostic tests without a gold standard
========================================

How good is a diagnostic test, if nobody knows for sure who is ill? If several tests were made, and their errors are
independent among the ill and among the healthy, their results alone tell: the prevalence of the disease, and the
sensitivity and specificity of every test. This is the problem with which Kargas and Sidiropoulos (AISTATS 2019)
introduce the method. Here the patients are simulated, so that the truth is known, and the answer can be checked.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.lines import Line2D
from scipy import stats
from sklearn.calibration import CalibrationDisplay
from sklearn.metrics import roc_auc_score

import tensorly_smp as smp

BLUE, ORANGE = "#0072B2", "#E69F00"  # distinguishable with any kind of color vision

# %%
# Patients
# --------
# Four tests say yes (1) or no (0); two markers are concentrations, skewed as such are. A fifth of all results is
# missing at random, and nobody's state is known to the method.

PREVALENCE, N_PATIENTS = 0.25, 2000
TESTS = pd.DataFrame(
    {"sensitivity": [0.90, 0.75, 0.60, 0.85], "specificity": [0.85, 0.95, 0.97, 0.70]},
    index=["antigen", "culture", "smear", "X-ray"],
)
MARKERS = {  # of the ill, of the healthy
    "CRP (mg/L)": (stats.gamma(4.0, scale=12.0), stats.gamma(2.0, scale=6.0)),
    "ferritin (µg/L)": (
        stats.lognorm(0.5, scale=270.0),
        stats.lognorm(0.6, scale=100.0),
    ),
}

rng = np.random.default_rng(0)
ill = rng.random(N_PATIENTS) < PREVALENCE
positive = np.where(
    ill[:, None], TESTS["sensitivity"].values, 1.0 - TESTS["specificity"].values
)
results = pd.DataFrame(
    (rng.random(positive.shape) < positive).astype(float), columns=TESTS.index
)
for name, (of_ill, of_healthy) in MARKERS.items():
    results[name] = np.where(
        ill, *(each.rvs(N_PATIENTS, random_state=rng) for each in (of_ill, of_healthy))
    )
results = results.mask(rng.random(results.shape) < 0.2)
print(results.head().round(1).to_string(na_rep="-"))
print(f"patients with all results: {results.notna().all(axis=1).mean():.0%}")

# %%
# The fit
# -------
# Two components. Yes-or-no tests are discrete: their values have probabilities; concentrations are not negative.

OPTIONS = dict(
    n_components=2,
    discrete=list(TESTS.index),
    support={name: (0, None) for name in MARKERS},
)
model = smp.SmoothProductMixture(random_state=0, **OPTIONS).fit(results)

# %%
# Which component is the disease? Nothing in the data says: swapping the two changes no probability ("label switching").
# One has to know something, and here it is that the antigen test is positive more often among the ill.


def estimates(fit):
    """Prevalence, and sensitivity and specificity of every test."""
    yes = pd.DataFrame(
        [1.0 - fit.density_.cdf_1d(0.5, name, component="all") for name in TESTS.index],
        TESTS.index,
    )
    disease = int(yes.loc["antigen"].argmax())
    accuracy = pd.DataFrame(
        {"sensitivity": yes[disease], "specificity": 1.0 - yes[1 - disease]}
    )
    return fit.weights_[disease], accuracy, disease


prevalence, found, disease = estimates(model)

# %%
# How sure is that?
# -----------------
# Bootstrap: patients are drawn anew with replacement, and everything is estimated again. Every fit starts from the
# factors of the first, which is quick, and a rule as above is needed each time, or the spread would mix ill and
# healthy.

again = [
    estimates(
        smp.SmoothProductMixture(
            init=model.factors_, n_init=1, random_state=0, **OPTIONS
        ).fit(
            results.sample(frac=1.0, replace=True, random_state=seed, ignore_index=True)
        )
    )
    for seed in range(30)
]
low, high = np.percentile([each.values for _, each, _ in again], [5, 95], axis=0)
print(pd.concat({"true": TESTS, "estimated": found.round(3)}, axis=1).to_string())
shares = np.percentile([each for each, _, _ in again], [5, 95])
print(f"prevalence: true {ill.mean():.3f}, estimated {prevalence:.3f}")
print(f"            bootstrap {shares[0]:.3f} to {shares[1]:.3f}")

# %%
# The intervals hold 90 % of the bootstrap estimates. They are of sampling noise only, and know nothing of a model that
# is wrong.

figure, panels = plt.subplots(1, 2, figsize=(9, 3.2), sharey=True, layout="constrained")
rows = np.arange(len(TESTS))
for column, (panel, color) in enumerate(zip(panels, (ORANGE, BLUE), strict=True)):
    name = TESTS.columns[column]
    panel.hlines(
        rows, low[:, column], high[:, column], color=color, linewidth=3, alpha=0.4
    )
    panel.plot(found[name], rows, "o", color=color, markersize=8, label="estimated")
    panel.plot(
        TESTS[name],
        rows,
        "|",
        color="black",
        markersize=22,
        markeredgewidth=2,
        label="true",
    )
    panel.set(
        xlabel=name,
        xlim=(0.5, 1.0),
        yticks=rows,
        yticklabels=TESTS.index,
        ylim=(len(TESTS) - 0.5, -0.5),
    )
    panel.spines[["top", "right"]].set_visible(False)
handles = [
    Line2D(
        [],
        [],
        color="0.3",
        marker="o",
        linewidth=3,
        label="estimated, bootstrap interval",
    ),
    Line2D(
        [],
        [],
        color="black",
        marker="|",
        markersize=14,
        markeredgewidth=2,
        linestyle="none",
        label="true",
    ),
]
figure.legend(handles=handles, loc="outside upper center", ncols=2, frameon=False)
covered = ((low <= TESTS) & (high >= TESTS)).values
print(f"{covered.sum()} of the {covered.size} intervals contain the truth")

# %%
# Markers need no cut-off
# -----------------------
# Concentrations are used as they are. Gray: all patients; colored lines: densities of the ill and of the healthy times
# their weights, learned without knowing who is who; dashed: the truth.

figure, panels = plt.subplots(1, 2, figsize=(9, 3.2), layout="constrained")
for panel, name in zip(panels, MARKERS, strict=True):
    x = np.linspace(0, np.nanquantile(results[name], 0.995), 400)
    parts = model.density_.pdf_1d(x, name, component="all") * model.weights_
    panel.hist(
        results[name].dropna(),
        bins=np.linspace(0, x[-1], 40),
        density=True,
        color="0.88",
    )
    for share, of_group in zip(
        (PREVALENCE, 1.0 - PREVALENCE), MARKERS[name], strict=True
    ):
        (truth,) = panel.plot(
            x,
            share * of_group.pdf(x),
            color="black",
            linestyle="--",
            linewidth=0.9,
            zorder=3,
        )
    truth.set_label("true")
    panel.plot(x, parts[:, disease], color=ORANGE, linewidth=2, label="ill")
    panel.plot(x, parts[:, 1 - disease], color=BLUE, linewidth=2, label="healthy")
    panel.set(xlabel=name, yticks=[], ylim=(0, None))
    panel.spines[["top", "right", "left"]].set_visible(False)
legend = panel.legend(frameon=False)

# %%
# Every patient gets a probability of being ill, from whatever results there are. Where it says 30 %, about 30 % should
# be:

probability = model.predict_proba(results).iloc[:, disease]
print(f"patients in the right group: {np.mean((probability > 0.5) == ill):.1%}")
print(f"area under the ROC curve: {roc_auc_score(ill, probability):.3f}")
display = CalibrationDisplay.from_predictions(ill, probability, n_bins=10, name="model")

# %%
# With yes-or-no tests alone
# --------------------------
# Fewer results tell less, and with two bins per test there is a hard limit on the number of groups that can be told
# apart. ``check_identifiability`` knows it from sizes, before any patient is tested.

reports = {
    (n_tests, rank): smp.check_identifiability(n_variables=n_tests, n_bins=2, rank=rank)
    for n_tests in (3, 4, 5, 6, 7)
    for rank in (2, 3, 4)
}
verdicts = pd.Series({key: report.verdict for key, report in reports.items()}).unstack()
print(
    verdicts.rename_axis(index="tests", columns="groups")
    .stack()
    .rename("verdict")
    .to_string()
)

# %%
# What is not seen here: tests that err together. If two of them react to the same interfering substance, they are not
# independent among the healthy, the method takes their agreement for disease, and both seem better than they are. No
# identifiability report can notice that. More groups than two ("ill", "healthy", "healthy, with the substance") may.

# sphinx_gallery_thumbnail_number = 2
