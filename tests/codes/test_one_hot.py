import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import tensorly_smp as smp
from tensorly_smp.codes.one_hot import one_hot


@given(st.integers(0, 2**32 - 1))
def test_products_gather_and_add_up(seed):
    rng = np.random.default_rng(seed)
    n_bins = rng.integers(2, 5, size=rng.integers(1, 5))
    values = np.stack([rng.integers(-1, size, size=7) for size in n_bins], axis=1)
    codes = smp.Codes.from_array(values, n_bins.tolist())
    tables = [rng.random((size, 3)) for size in n_bins]
    added = rng.random((7, 3))
    gathered = np.zeros((7, 3))
    sums = [np.zeros((size, 3)) for size in n_bins]
    for m, row in enumerate(values):
        for n, code in enumerate(row):
            if code >= 0:
                gathered[m] += tables[n][code]
                sums[n][code] += added[m]
    matrix = one_hot(codes)
    np.testing.assert_allclose(matrix @ np.concatenate(tables), gathered)
    np.testing.assert_allclose(matrix.T @ added, np.concatenate(sums), atol=1e-12)
