"""Fits on a real cluster of two worker processes, one of which is killed."""

import os
import signal
import warnings

import numpy as np
import pytest

import tensorly_smp as smp
from tensorly_smp.fitting.fit_samples import ReadSamples
from tensorly_smp.likelihood.steps import CellSamples
from tensorly_smp.samples import values as thinning

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
distributed = pytest.importorskip("distributed")

pytestmark = pytest.mark.slow

N_CHUNKS, SIZE, MOST_ROWS = 6, 250, 1000


@pytest.fixture(scope="module", autouse=True)
def many_samples():
    """So that these are many: starts are compared on some, the passes over all are those of chunks."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(thinning, "MOST_ROWS", MOST_ROWS)
        yield


@pytest.fixture(scope="module")
def client():
    with warnings.catch_warnings():
        # What a library of the cluster deprecates is not ours to mend.
        warnings.simplefilter("ignore")
        cluster = distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, memory_limit="1GB", dashboard_address=None
        )
        with cluster, distributed.Client(cluster) as client:
            client.run(setattr, thinning, "MOST_ROWS", MOST_ROWS)
            yield client


@pytest.fixture(scope="module")
def truth():
    return smp.datasets.make_smooth_mixture("gaussian", 100, n_variables=5, n_components=3, random_state=0)[2]


@pytest.fixture(scope="module")
def expected(truth):
    X = np.concatenate([truth.sample(SIZE, random_state=seed)[0] for seed in range(N_CHUNKS)])
    return X, smp.SmoothProductMixture(3, random_state=0).fit(X)


def chunked(truth):
    """The same samples, made where they are needed."""
    draw = dask.delayed(lambda seed: truth.sample(SIZE, random_state=seed)[0])
    return da.concatenate([da.from_delayed(draw(seed), (SIZE, 5), float) for seed in range(N_CHUNKS)])


def assert_same(found, expected):
    assert found.result_.attrs["n_passes"] == expected.result_.attrs["n_passes"]
    for name in ("weights", "factors", "spline", "log_likelihood"):
        assert np.allclose(found.result_[name], expected.result_[name], atol=1e-6, equal_nan=True)


def test_fit_is_that_in_memory(client, truth, expected):
    X, model = expected
    found = smp.SmoothProductMixture(3, random_state=0).fit(chunked(truth))
    assert_same(found, model)
    assert np.array_equal(found.predict(chunked(truth)).compute(), model.predict(X))


def test_samples_kept_by_the_workers(client, truth, expected):
    """Chunks that are there already are read, not taken for their names; of unknown sizes too."""
    X = chunked(truth).persist()
    X = X[da.isfinite(X[:, 0])].persist()
    assert np.isnan(X.shape[0])
    assert_same(smp.SmoothProductMixture(3, random_state=0).fit(X), expected[1])


def test_weights_kept_by_the_workers_in_other_chunks_of_unknown_size(client, truth):
    weights = da.arange(1.0, N_CHUNKS * SIZE + 1.0, chunks=400)
    read = ReadSamples.of(chunked(truth), weights[weights > 0].persist())
    assert np.array_equal(np.concatenate([chunk.weights for chunk in read.parts.gather()]), weights.compute())


def test_worker_killed_in_the_middle_of_a_fit(client, truth, expected, monkeypatch):
    """What it held is computed anew on the others: the fit ends as if nothing had happened."""
    e_step, calls, killed = CellSamples.e_step, [], []

    def kill_at_the_second(self, *logs):
        calls.append(1)
        if len(calls) == 2:
            killed.append(next(iter(client.run(os.getpid).values())))
            os.kill(killed[0], signal.SIGKILL)
        return e_step(self, *logs)

    monkeypatch.setattr(CellSamples, "e_step", kill_at_the_second)
    found = smp.SmoothProductMixture(3, random_state=0).fit(chunked(truth))
    assert len(calls) > 2
    client.wait_for_workers(2, timeout=60)
    assert killed[0] not in client.run(os.getpid).values()
    assert_same(found, expected[1])
