"""Whatever can be drawn is read into the same mixture."""

import numpy as np
import pytest
import xarray as xr
from sklearn.exceptions import NotFittedError
from sklearn.mixture import GaussianMixture

import tensorly_smp as smp
from tensorly_smp.exceptions import InvalidInputError, InvalidTypeError
from tensorly_smp.plotting.subject import read_subject


@pytest.mark.parametrize("kind", ["model", "plain_model", "mixed_model"])
def test_model_dataset_and_file_are_the_same(kind, request, tmp_path):
    model = request.getfixturevalue(kind)
    model.save(tmp_path / "model.nc")
    with xr.open_dataset(tmp_path / "model.nc", engine="scipy") as opened:
        read = opened.load()
    subjects = [read_subject(each) for each in (model, model.result_, read)]
    X, _ = model.density_.sample(20, random_state=0)
    for subject in subjects:
        assert subject.names == model.binning_.variables
        np.testing.assert_array_equal(subject.density.logpdf(np.asarray(X)), model.density_.logpdf(np.asarray(X)))
        np.testing.assert_array_equal(subject.edges(0), model.binning_.edges[0])
        assert subject.discrete.tolist() == subjects[0].discrete.tolist()


def test_solution_factors_and_density(data, factors):
    codes = smp.encode_samples(data.X, smp.choose_binning(data.X, 5))
    solution = smp.coupled_simplex_parafac(codes, rank=2, n_iter_max=2, tol=0.5, random_state=0)
    assert read_subject(solution).names == ("x0", "x1", "x2", "x3")
    estimator = smp.CoupledSimplexCP(2, n_iter_max=2, tol=0.5, random_state=0).fit(codes)
    np.testing.assert_array_equal(read_subject(estimator).weights, solution.factors.weights)
    assert read_subject(factors).factors.n_bins == factors.n_bins
    density = smp.reconstruct_density(factors, method="histogram")
    subject = read_subject(density)
    assert subject.density is density
    assert subject.factors is None
    assert not subject.discrete.any()
    assert subject.edges(0) is None
    bare = read_subject(smp.MixtureFactors(np.array([0.5, 0.5]), (np.full((2, 2), 0.5),) * 3))
    assert bare.names == (0, 1, 2)
    with pytest.raises(InvalidInputError, match="need the bin edges"):
        _ = bare.density


def test_what_cannot_be_drawn():
    for wrong in (3, None, "model", np.ones(3), GaussianMixture):
        with pytest.raises(InvalidTypeError, match="expected a fitted model"):
            read_subject(wrong)
    with pytest.raises(InvalidInputError, match="lacks"):
        read_subject(xr.Dataset())
    with pytest.raises(NotFittedError):
        read_subject(smp.SmoothProductMixture())
    other = GaussianMixture(random_state=0).fit(np.arange(8.0)[:, None])
    with pytest.raises(InvalidTypeError, match="GaussianMixture has no densities of its variables"):
        read_subject(other)


def test_variables_by_name_of_any_kind(model):
    subject = read_subject(model)
    assert subject.positions(None) == [0, 1, 2, 3]
    assert subject.positions("x2") == [2]
    assert subject.positions(["x3", "x0"]) == subject.positions([3, "x0"]) == [3, 0]
    assert subject.positions(3) == [3]
    for wrong in (["x9"], 4, [["x0"]], [], ["x0"] * 2):
        with pytest.raises(InvalidInputError, match=r"unknown|at least one|twice"):
            subject.positions(wrong)
    # A tuple may be a name.
    matrix = np.array([[0.7, 0.2], [0.3, 0.8]])
    binning = smp.Binning((np.arange(3.0),) * 3, (("a", 1), ("a", 2), "b"))
    subject = read_subject(smp.MixtureFactors(np.array([0.5, 0.5]), (matrix,) * 3, binning))
    assert subject.positions(("a", 2)) == [1]
    assert subject.positions([("a", 2), "b"]) == [1, 2]
    assert subject.positions(("b", ("a", 1))) == [2, 0]


def test_units_of_the_samples_or_of_the_fit(mixed, mixed_model):
    subject = read_subject(mixed_model)
    recorded = ("", "", "years", "k€")
    assert subject.units(mixed) == subject.units(None) == subject.units(mixed.to_numpy()) == recorded
    assert read_subject(mixed_model.result_.drop_vars("units")).units(None) == ("",) * 4
    again = mixed.copy()
    again.attrs["units"] = {"age": "months"}
    assert subject.units(again) == ("", "", "months", "")
