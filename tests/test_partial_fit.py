import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tensorly_smp as smp
from tensorly_smp.exceptions import InvalidInputError, NonUniformBinsError

BINNING = smp.Binning((np.linspace(-15, 15, 9),) * 4)


def samples(n=1200, seed=0):
    X = smp.datasets.make_smooth_mixture("gaussian", n, n_variables=4, n_components=2, random_state=seed).X
    X[np.random.default_rng(seed).random(X.shape) < 0.05] = np.nan
    return X


def model(**options):
    return smp.SmoothProductMixture(2, **dict(refine=None, density="histogram", random_state=0, n_init=1) | options)


def same_counts(a, b):
    return a.n_samples == b.n_samples and all(map(np.array_equal, a.counts, b.counts))


@given(order=st.permutations(range(4)), cuts=st.lists(st.integers(100, 1100), min_size=3, max_size=3, unique=True))
@settings(max_examples=3)
def test_chunks_in_any_order_give_the_same_marginals_and_the_same_model(order, cuts):
    X = samples()
    chunks = np.split(X, sorted(cuts))
    streamed = model(binning=BINNING)
    for position in order:
        streamed.partial_fit(chunks[position])
    assert same_counts(streamed.marginals_, smp.count_marginals(smp.encode_samples(X, BINNING)))
    whole = model(binning=BINNING, init="gevd").fit(X)  # without samples there is no search
    assert all(map(np.array_equal, streamed.factors_.factors, whole.factors_.factors))
    assert streamed.score(X) == whole.score(X)


def test_weights_count_and_chunks_may_be_chunked():
    da = pytest.importorskip("dask.array")
    X, weights = samples(400), np.random.default_rng(0).integers(0, 3, 400).astype(float)
    streamed = model(binning=BINNING).partial_fit(da.from_array(X[:150], chunks=(60, 4)), sample_weight=weights[:150])
    streamed.partial_fit(X[150:], sample_weight=weights[150:])
    assert same_counts(streamed.marginals_, smp.count_marginals(smp.encode_samples(X, BINNING), sample_weight=weights))


def test_first_chunk_decides_on_bins_variables_and_triples():
    X = samples()
    frame = pd.DataFrame(X, columns=list("abcd"))
    streamed = model(triples=3).partial_fit(frame[:600])
    assert streamed.binning_ == smp.choose_binning(frame[:600])
    first = streamed.marginals_.triples
    streamed.partial_fit(100 * frame[600:][["d", "c", "b", "a"]])  # other ranges, another order of the columns
    assert streamed.binning_ == smp.choose_binning(frame[:600])
    assert np.array_equal(streamed.marginals_.triples, first)
    expected = smp.encode_samples(np.vstack([X[:600], 100 * X[600:]]), streamed.binning_)
    assert same_counts(streamed.marginals_, smp.count_marginals(expected, first.tolist()))
    assert streamed.result_.attrs["n_samples"] == streamed.marginals_.n_samples
    with pytest.raises(InvalidInputError, match="missing 'd'"):
        streamed.partial_fit(frame[["a", "b", "c"]])


def test_values_of_discrete_variables_are_those_of_the_bins():
    X = samples()
    X[:, 1] = X[:, 1] > 0
    with pytest.raises(InvalidInputError, match=r"discrete names 'x1'.*expected Binning"):
        model(binning=BINNING, discrete=["x1"]).partial_fit(X[:600])
    edges = (*BINNING.edges[:1], None, *BINNING.edges[2:])
    listed = smp.Binning(edges, values={"x1": [0, 1]})
    streamed = model(binning=listed, discrete=["x1"]).partial_fit(X[:600]).partial_fit(X[600:])
    assert streamed.factors_.n_bins == (8, 2, 8, 8)
    assert same_counts(streamed.marginals_, smp.count_marginals(smp.encode_samples(X, listed)))


def test_fit_ends_a_stream_and_small_chunks_count():
    X = samples(600)
    one = model(binning=BINNING).partial_fit(X)
    assert not hasattr(one, "labels_")
    one.fit(X)
    assert not hasattr(one, "marginals_")
    assert len(one.labels_) == 600
    one.partial_fit(X[:300])
    assert one.marginals_.n_samples <= 300
    assert not hasattr(one, "labels_")
    # Chunk that is too small for a fit counts all the same.
    X = samples(300)
    streamed = model(binning=BINNING)
    with pytest.raises(InvalidInputError, match="components with 1 samples"):
        streamed.partial_fit(np.nan_to_num(X[:1]))
    streamed.partial_fit(X[1:])
    assert streamed.marginals_.n_samples == smp.count_marginals(smp.encode_samples(X[1:], BINNING)).n_samples + 1


def test_what_cannot_be_streamed_is_refused():
    X = samples(200)
    for refine in ("em", "smooth"):
        # In scikit-learn's way: the model has no such method, and the cause says why.
        assert not hasattr(model(refine=refine), "partial_fit")
        with pytest.raises(AttributeError, match="partial_fit") as caught:
            model(refine=refine).partial_fit(X)
        assert isinstance(caught.value.__cause__, InvalidInputError)
        assert "expected refine=None" in str(caught.value.__cause__)
    with pytest.raises(NonUniformBinsError):
        model(binning="quantile", density="sinc").partial_fit(X)
    with pytest.raises(InvalidInputError, match="three"):
        model().partial_fit(X[:, :2])
