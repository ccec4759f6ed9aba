"""
Samples that do not fit into memory: Dask
=========================================

A Dask array, a Dask DataFrame or a DataArray of Dask chunks is fitted chunk by chunk, on the threads of this machine or
on a cluster. The call is the same, and so is the result; answers for samples are lazy in their turn.
"""

import dask
import dask.array as da
import matplotlib.pyplot as plt
import numpy as np

import tensorly_smp as smp

# %%
# Samples in chunks
# -----------------
# Every chunk is made when it is needed, here by a simulation; usually it would be read from a file, as by
# ``xarray.open_dataset(..., chunks={})`` or ``dask.dataframe.read_parquet``. A tenth of the entries is missing.

N_CHUNKS, CHUNK = 10, 4000
truth = smp.datasets.make_smooth_mixture(
    "gamma", 10, n_variables=6, n_components=3, random_state=0
).mixture


def chunk(number):
    """The samples of one chunk, always the same."""
    X = truth.sample(CHUNK, random_state=number)[0]
    X[np.random.default_rng(number).random(X.shape) < 0.1] = np.nan
    return X


pieces = [
    da.from_delayed(dask.delayed(chunk)(number), (CHUNK, 6), float)
    for number in range(N_CHUNKS)
]
X = da.concatenate(pieces)
X

# %%
# The fit
# -------
# Two chunks at a time. With ``dask.distributed.Client`` the work goes to its workers instead; nothing else changes.

with dask.config.set(scheduler="threads", num_workers=2):
    model = smp.SmoothProductMixture(3, random_state=0).fit(X)
print("weights:", model.weights_.round(3))

# %%
# In memory it is the same:

same = smp.SmoothProductMixture(3, random_state=0).fit(X.compute())
difference = float(abs(same.result_.factors - model.result_.factors).max())
print(f"largest difference of a bin's probability: {difference:.1e}")

# %%
# Answers are lazy
# ----------------
# Posteriors of all samples would be as large as the samples. What comes back is a Dask array, and nothing is computed
# before it is asked for, here by a sum.

posterior = model.predict_proba(X)
print("expected samples of each component:", posterior.sum(axis=0).compute().round())
posterior

# %%
# Some questions are about chunks. If one of them were of another kind (a sensor that has drifted, a file in other
# units), its log densities would stand apart. Here two chunks are damaged on purpose: one is shifted, of one the first
# two columns are exchanged.

swapped = pieces[6][:, [1, 0, 2, 3, 4, 5]]
damaged = da.concatenate(
    [*pieces[:3], pieces[3] + 0.5, *pieces[4:6], swapped, *pieces[7:]]
)
scores = (
    model.score_samples(damaged)
    .map_blocks(lambda block: block.mean(keepdims=True), chunks=(1,))
    .compute()
)

figure, axes = plt.subplots(figsize=(7, 3.2), layout="constrained")
axes.plot(range(N_CHUNKS), scores, "o", color="#0072B2", markersize=8)
for number, text in ((3, "shifted"), (6, "two columns exchanged")):
    axes.annotate(
        text,
        (number, scores[number]),
        xytext=(8, 0),
        textcoords="offset points",
        va="center",
    )
axes.set(xlabel="chunk", ylabel="mean log density (nats)", xticks=range(N_CHUNKS))
axes.margins(y=0.15)
axes.spines[["top", "right"]].set_visible(False)

# %%
# Densities, with the samples of one chunk behind them:

panels = model.plot.conditionals(X[:CHUNK].compute())

# %%
# What is not seen here: speed. With samples that fit into memory Dask only adds work; it is for those that do not.
