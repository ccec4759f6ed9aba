"""A fit of more samples than the worker of a cluster holds in memory."""

import os
import warnings

import numpy as np
import pytest

import tensorly_smp as smp
from tensorly_smp.samples import parts

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
distributed = pytest.importorskip("distributed")

pytestmark = pytest.mark.slow

#: Another worker would take as much again to overfill. One that has imported the package takes 220 MB; it begins to
#: spill at 70 % of its limit and is stopped at 95 %.
N_WORKERS, LIMIT = 1, 420_000_000
N_BLOCKS, SIZE, N_VARIABLES = 16, 25_000, 16
#: How many chunks of the samples every block is.
REPEATS = 7 + np.arange(N_BLOCKS) % 5
#: As few passes as there can be, each of which has all samples read from disk and written to it.
OPTIONS = dict(
    binning=smp.Binning((np.linspace(-12.0, 12.0, 16),) * N_VARIABLES),
    triples=10,
    refine=None,
    density="histogram",
    init="random",
    n_init=1,
    max_iter=4,
    random_state=0,
)


@pytest.fixture
def client(tmp_path, monkeypatch):
    monkeypatch.setenv("TENSORLY_SMP_FAST", "0")  # Numba alone would take as much as a few chunks
    with warnings.catch_warnings():
        # What a library of the cluster deprecates, and that a worker has little memory.
        warnings.simplefilter("ignore")
        options = dict(threads_per_worker=1, processes=True, dashboard_address=None, local_directory=tmp_path)
        cluster = distributed.LocalCluster(n_workers=N_WORKERS, memory_limit=LIMIT, **options)
        with cluster, distributed.Client(cluster) as client:
            yield client


def block(number):
    """Two clusters of different sizes, other ones in every block."""
    rng = np.random.default_rng(number)
    found = rng.standard_normal((SIZE, N_VARIABLES)) * (1.0 + 0.05 * number)
    found[: SIZE // 3] += np.linspace(2.0, 4.0, N_VARIABLES) + 0.1 * number
    return found


def chunked():
    """Every block as often as it is told to be there, each time drawn anew, in turns."""
    draw = dask.delayed(block, pure=False)
    numbers = sorted((turn / REPEATS[number], number) for number in range(N_BLOCKS) for turn in range(REPEATS[number]))
    return da.concatenate([da.from_delayed(draw(number), (SIZE, N_VARIABLES), float) for _, number in numbers])


def on_disk(dask_worker):
    return dask_worker.data.spilled_total.disk


@pytest.mark.filterwarnings("ignore::tensorly_smp.exceptions.ConvergenceWarning")
def test_samples_that_the_worker_has_no_memory_for(client, monkeypatch):
    """They are kept on the worker, which writes them to disk and does not die of them; the fit is that in memory.

    There, a block that is in the samples many times is there once, with that weight.
    """
    monkeypatch.setattr(parts, "PART_ENTRIES", SIZE * N_VARIABLES)
    X = chunked().persist()
    assert not distributed.wait(X, timeout=300).not_done
    limits = [worker["memory_limit"] for worker in client.scheduler_info(n_workers=-1)["workers"].values()]
    assert len(limits) == N_WORKERS
    assert X.nbytes > sum(limits) == N_WORKERS * LIMIT
    processes = client.run(os.getpid)
    model = smp.SmoothProductMixture(2, **OPTIONS).fit(X)
    # Nobody was stopped for having taken more than its limit. Beside what it has imported, little fits into it.
    assert client.run(os.getpid) == processes
    assert sum(client.run(on_disk).values()) > X.nbytes / 2
    blocks, weights = np.concatenate([block(number) for number in range(N_BLOCKS)]), np.repeat(REPEATS, SIZE)
    expected = smp.SmoothProductMixture(2, **OPTIONS).fit(blocks, sample_weight=weights)
    assert len(model.result_["loss"]) == len(expected.result_["loss"]) > 3
    for name in ("weights", "factors", "loss"):
        np.testing.assert_allclose(model.result_[name], expected.result_[name], rtol=1e-7, atol=1e-9)
