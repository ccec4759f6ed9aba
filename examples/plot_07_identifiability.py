"""
How many groups can a study tell apart?
=======================================

Before any data are collected: how many variables, of how many distinct values, does it take to tell R groups apart? If
two different mixtures have the same histograms, no number of samples decides between them. What can be decided depends
on sizes alone, for almost every mixture, and is known in advance.
"""

import textwrap

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from scipy import stats

import tensorly_smp as smp

# %%
# The most components that sizes allow
# ------------------------------------
# By algebra ("gevd": then a start by generalized eigenvalues can find them), for numbers of variables and of bins:

N_VARIABLES, N_BINS = [3, 4, 5, 6, 8, 10, 15, 20], [2, 3, 4, 6, 8, 10, 15, 20]
ranks = np.array(
    [[smp.max_identifiable_rank(n, bins) for bins in N_BINS] for n in N_VARIABLES]
)

figure, axes = plt.subplots(figsize=(7, 5), layout="constrained")
picture = axes.imshow(np.log(ranks), cmap="cividis", origin="lower")
for (row, column), rank in np.ndenumerate(ranks):
    color = "white" if picture.norm(np.log(rank)) < 0.6 else "black"
    axes.text(column, row, str(rank), ha="center", va="center", color=color)
axes.set(
    xlabel="bins per variable",
    ylabel="variables",
    title="most components that are told apart",
)
axes.set_xticks(range(len(N_BINS)), N_BINS)
axes.set_yticks(range(len(N_VARIABLES)), N_VARIABLES)
axes.spines[:].set_visible(False)
axes.tick_params(length=0)

# %%
# Continuous variables can be cut into as many bins as the samples fill, so that they hardly limit anything. Answers
# such as yes or no have two, and then it takes many of them. The other way round, bins that twenty components need:

needed = pd.Series(
    {n: smp.min_bins_for_rank(n, rank=20) for n in N_VARIABLES},
    name="bins for 20 components",
)
print(needed.rename_axis("variables").to_frame().T.to_string())

# %%
# Other criteria may prove more, without an algebraic start. The paper's formulas part the variables in a way that is
# not the best, and overlook that probabilities sum to one; so their figures are too low, or too high (ten variables of
# two bins). :doc:`/identifiability` derives the bounds.

criteria = ["gevd", "kruskal", "generic", "paper-gevd", "paper-generic"]
bounds = {
    f"{n} variables, {bins} bins": {
        name: smp.max_identifiable_rank(n, bins, name) for name in criteria
    }
    for n, bins in [(5, 2), (7, 4), (10, 2), (10, 15)]
}
print(pd.DataFrame(bounds).T.to_string())

# %%
# A design
# --------
# A questionnaire with five yes-or-no questions, and two measurements that will be cut into six bins. Are four groups
# too many? And if the measurements are left out?

design = smp.check_identifiability(n_bins=[2, 2, 2, 2, 2, 6, 6], rank=4)
design

# %%

questions = smp.check_identifiability(n_bins=[2, 2, 2, 2, 2], rank=4)
questions

# %%
# "Not guaranteed" is not "impossible": no theorem covers it, but the Jacobian has full rank, so that no other mixture
# *nearby* has the same histograms. And this is about histograms of three questions at a time. A fit to whole samples,
# which is the default, knows which five answers came from one person, and that is enough:

report = smp.check_identifiability(n_bins=[2, 2, 2, 2, 2], rank=4, known="samples")
print(textwrap.fill(report.summary(), 80))

# %%
# The most groups that whole samples of yes-or-no questions determine:

most = {n: smp.max_identifiable_rank(n, 2, "joint") for n in range(3, 11)}
print(pd.Series(most, name="groups").rename_axis("questions").to_frame().T.to_string())

# %%
# Groups that are alike
# ---------------------
# Sizes speak of almost every mixture. The one of the study may be among the others. If there is an idea of what the
# groups will look like, it can be checked too: here three groups, of which the last two differ in the first two of six
# variables only, and then in a third one.

WEIGHTS = [0.5, 0.3, 0.2]
binning = smp.Binning(
    (np.linspace(-4.0, 8.0, 9),) * 6, ("age", "dose", "score", "pulse", "weight", "pH")
)


def three_groups(n_different):
    """Gaussians at 0, 2 and, in the first variables, 4."""
    loc = np.tile([0.0, 2.0, 2.0], (6, 1))
    loc[:n_different, 2] = 4.0
    truth = smp.datasets.TrueMixture(
        WEIGHTS, stats.norm(), loc[:, :, None], np.ones((6, 3, 1))
    )
    return smp.check_identifiability(truth.factors(binning))


reports = {n_different: three_groups(n_different) for n_different in (2, 3)}
for n_different, report in reports.items():
    print(f"different in {n_different} variables: {report.verdict}")
print(*(textwrap.fill(note, 80) for note in reports[2].notes), sep="\n")

# %%
# Two variables can always be explained in more than one way, as a matrix can be factorized in many; a third pins the
# groups down. In the Jacobian that shows as singular values of zero: directions in which the mixture can move while no
# histogram changes.

axes = smp.plotting.plot_identifiability(reports[2])

# %%
# What is not seen here: noise. All of this is about exact histograms, and a small singular value is a warning that very
# many samples will be needed. How many, a simulation tells: ``truth.sample``, and a fit.
