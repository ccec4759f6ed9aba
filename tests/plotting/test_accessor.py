"""``model.plot``: the same pictures as methods; and no picture without matplotlib."""

import inspect
import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

import tensorly_smp as smp
from tensorly_smp.exceptions import MissingDependencyError


def test_every_picture_of_a_model_is_a_method_with_its_arguments(model):
    functions = {name.removeprefix("plot_") for name in smp.plotting.__all__}
    methods = {name for name, _ in inspect.getmembers(type(model.plot), inspect.isfunction) if name[0] != "_"}
    assert methods == functions - {"selection", "unmixing"}  # of a table, and of an unmixed model
    assert all(name in repr(model.plot) for name in methods)
    # Arguments are those of the functions.
    assert inspect.signature(model.plot) == inspect.signature(model.plot.conditionals)
    assert [ax.get_xlabel() for ax in model.plot(variables=["x1", "x2"])] == ["x1", "x2"]
    for name in ("conditionals", "factors", "loss", "pairs"):
        method = list(inspect.signature(getattr(model.plot, name)).parameters.values())
        function = list(inspect.signature(getattr(smp.plotting, f"plot_{name}")).parameters.values())
        assert [(p.name, p.default) for p in method] == [(p.name, p.default) for p in function[1:]]
    # Not before the fit.
    with pytest.raises(NotFittedError):
        _ = smp.SmoothProductMixture().plot


def test_without_matplotlib(model, data, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    calls = [
        lambda: model.plot.conditionals(),
        lambda: model.plot.factors(),
        lambda: model.plot.loss(),
        lambda: model.plot.pairs(),
        lambda: model.plot.identifiability(),
        lambda: smp.plotting.plot_selection(smp.select_n_components(data.X, [3], random_state=0)),
    ]
    for call in calls:
        with pytest.raises(MissingDependencyError, match=r"tensorly_smp\[plot\]"):
            call()


def test_nothing_of_the_caller_is_changed(mixed, mixed_model):
    before, dataset = mixed.copy(), mixed_model.result_.copy(deep=True)
    mixed_model.plot.conditionals(mixed)
    mixed_model.plot.pairs(mixed)
    mixed_model.plot.loss()
    assert mixed.equals(before)
    assert mixed_model.result_.identical(dataset)
    assert np.isfinite(mixed_model.weights_).all()


def test_sources_beside_text():
    rng = np.random.default_rng(0)
    z = rng.integers(2, size=300)
    table = pd.DataFrame(rng.normal(size=(300, 2)) + 3 * z[:, None], columns=["a", "b"]).iloc[:150]
    table["s"] = np.where(rng.random(150) < 0.2 + 0.6 * z[:150], "yes", "no")
    model = smp.UnmixedProductMixture(2, random_state=0).fit(table)
    for X in (None, table):
        assert [tick.get_text() for tick in model.plot.conditionals(X)[2].get_xticklabels()] == ["no", "yes"]
        assert model.plot.pairs(X).shape == (3, 3)
