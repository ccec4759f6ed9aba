"""What messages call things: components, not ranks, where nobody has spoken of a rank."""

import warnings

import numpy as np
import pytest

import tensorly_smp as smp
from tensorly_smp.cli.parser import main
from tensorly_smp.exceptions import InvalidInputError, InvalidTypeError, TensorlySmpError, TensorlySmpWarning

X = smp.datasets.make_smooth_mixture("gaussian", 100, 4, 2, random_state=0).X


def said_by(action):
    """Texts of the error and of the warnings of an action."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            action()
        except TensorlySmpError as error:
            return [str(error), *(str(each.message) for each in caught)]
    return [str(each.message) for each in caught]


FITS = {
    "more components than samples": lambda: smp.SmoothProductMixture(200).fit(X),
    "more than are identifiable": lambda: smp.SmoothProductMixture(
        9, n_bins=2, refine="em", density="histogram", random_state=0
    ).fit(X[:, :3]),
    "no algebra": lambda: smp.SmoothProductMixture(8, n_bins=3, refine=None, n_init=1, random_state=0).fit(X[:, :3]),
    "too few sweeps": lambda: smp.SmoothProductMixture(2, max_iter=1, refine=None, random_state=0).fit(X),
    "one sample": lambda: smp.SmoothProductMixture(1).fit(X[:1]),
    "far values": lambda: smp.SmoothProductMixture(2, refine="em", density="histogram", random_state=0).fit(
        np.vstack([X, np.full((1, 4), 1e6)])
    ),
    "a start of other components": lambda: smp.SmoothProductMixture(
        2, init=smp.MixtureFactors(np.ones(1), [np.full((15, 1), 1 / 15)] * 4)
    ).fit(X),
}


@pytest.mark.parametrize("name", FITS)
def test_the_estimator_speaks_of_components_and_of_no_range(name):
    said = said_by(FITS[name])
    assert said
    for text in said:
        words = text.replace("sub-rank", "").replace("rank correlation", "").lower().split()
        assert "rank" not in [word.strip(".,;:()") for word in words], text
        assert "a range" not in text


def test_the_command_line_too(tmp_path, capsys):
    np.savetxt(tmp_path / "data.csv", X[:10], delimiter=",", header="a,b,c,d", comments="")
    assert main(["fit", str(tmp_path / "data.csv"), "--components", "11"]) == 2
    assert " rank" not in capsys.readouterr().err


CELL = "x" * 2_000_000
LONG = {
    "a cell": lambda: smp.SmoothProductMixture(2).fit([[CELL, 1.0, 2.0], [1.0, 2.0, 3.0]]),
    "a cell among numbers": lambda: smp.choose_binning(np.array([[1.0, CELL], [2.0, 3.0]], dtype=object)),
    "a name": lambda: smp.Binning(([0, 1, 1],), (CELL,)),
    "a word": lambda: smp.SmoothProductMixture(2, loss=CELL).fit(X),
    "a start": lambda: smp.SmoothProductMixture(2, init=CELL).fit(X),
    "weights of tensors": lambda: smp.coupled_simplex_parafac([np.ones((2, 2, 2))], 1, weights=CELL),
    "a strategy": lambda: smp.choose_binning(X, strategy=CELL),
    "a variable": lambda: smp.SmoothProductMixture(2, discrete=[CELL]).fit(X),
    "a mapping": lambda: smp.choose_binning(X, dict.fromkeys(range(100_000), 5)),
    "a number": lambda: smp.SmoothProductMixture(10**5000).fit(X),
    "an array for a word": lambda: smp.choose_binning(X, strategy=np.arange(10**6)),
}


@pytest.mark.parametrize("name", LONG)
def test_messages_are_short(name):
    with pytest.raises((InvalidInputError, InvalidTypeError)) as caught:
        LONG[name]()
    assert len(str(caught.value)) < 1000


@pytest.mark.filterwarnings("ignore::tensorly_smp.exceptions.DependenceWarning")
def test_warnings_name_all_variables_in_an_attribute():
    wide = np.random.default_rng(0).normal(size=(200, 30))
    wide[:50] = 99.0
    with pytest.warns(TensorlySmpWarning, match="and 25 more") as record:
        smp.SmoothProductMixture(1, n_init=1, random_state=0).fit(wide)
    assert record[0].message.variables == tuple(f"x{n}" for n in range(30))
    with pytest.warns(TensorlySmpWarning) as record:
        smp.choose_binning(np.ones((10, 30)))
    assert len(record[0].message.variables) == 30
