"""Hostile calls of every public name.

Own errors only, finite results, nothing global changed, inputs untouched, no warning of NumPy or others.

120 calls here, 30 000 by ``make fuzz``. Call number 17 is repeated by TENSORLY_SMP_FUZZ_FIRST=17 and
TENSORLY_SMP_FUZZ_CALLS=1, whatever the number of all.
"""

import copy
import os
import pickle
import signal
import threading
import traceback
import warnings
from dataclasses import fields, is_dataclass

import hostile
import numpy as np
import pandas as pd
import pytest
import sklearn.exceptions
import tensorly
import xarray as xr

import tensorly_smp as smp
from tensorly_smp.exceptions import TensorlySmpError, TensorlySmpWarning

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("agg")

N_CALLS = int(os.environ.get("TENSORLY_SMP_FUZZ_CALLS", "120"))
FIRST = int(os.environ.get("TENSORLY_SMP_FUZZ_FIRST", "0"))
N_PARTS = min(N_CALLS, 6 if N_CALLS <= 300 else 100)
SECONDS = 60

#: Errors that a call may end with: the package's, of files, and scikit-learn's of what is not fitted.
ALLOWED = (TensorlySmpError, OSError, sklearn.exceptions.NotFittedError)
#: Results with NaN by their documentation: padding, figures of fits that failed, unknown traces.
WITH_NAN = (xr.Dataset, smp.SweepTrace, smp.CoupledSolution, smp.IdentifiabilityReport, smp.IndependenceReport)
ESTIMATORS = (smp.SmoothProductMixture, smp.UnmixedProductMixture)
#: Holders of parameters, which they show as they were given.
UNCHECKED = (*ESTIMATORS, smp.CoupledSimplexCP, smp.SolverOptions)
DATA = (np.ndarray, list, tuple, dict, pd.DataFrame, pd.Series, xr.DataArray, xr.Dataset)


#: Records without a method.
WITHOUT_CALLS = {"StopReason", "LikelihoodSolution"}


class Fault(Exception):
    """What a call must not do."""


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return hostile.Prepared(tmp_path_factory.mktemp("fuzz"))


def state():
    """What belongs to the whole process."""
    return {
        "warning filters": list(warnings.filters),
        "showwarning": warnings.showwarning,
        "errstate": np.geterr(),
        "print options": repr(np.get_printoptions()),
        "random state": pickle.dumps(np.random.get_state()),  # noqa: NPY002
        "backend": tensorly.get_backend(),
        "environment": dict(os.environ),
        "folder": os.getcwd(),
        "threads": threading.current_thread().name,
    }


def snapshot(arguments):
    """Copies of the arguments that are data."""
    kept = {}
    for name, value in arguments.items():
        if isinstance(value, DATA):
            try:
                kept[name] = copy.deepcopy(value)
            except Exception:  # a generator inside, for instance
                continue
    return kept


def are_same(first, second):
    """Whether two objects of the same kind have the same content."""
    if type(first) is not type(second):
        return False
    if isinstance(first, np.ma.MaskedArray):
        return are_same(np.ma.getmaskarray(first), np.ma.getmaskarray(second)) and are_same(first.data, second.data)
    if isinstance(first, np.ndarray):
        same = first.dtype == second.dtype and first.shape == second.shape
        return same and (repr(first.tolist()) == repr(second.tolist()))
    if isinstance(first, pd.DataFrame | pd.Series):
        return first.equals(second) and repr(first) == repr(second)
    if isinstance(first, xr.Dataset | xr.DataArray):
        return first.identical(second)
    if isinstance(first, list | tuple):
        return len(first) == len(second) and all(map(are_same, first, second))
    if isinstance(first, dict):
        return list(map(str, first)) == list(map(str, second)) and are_same([*first.values()], [*second.values()])
    return hostile_repr(first) == hostile_repr(second) or "object at 0x" in hostile_repr(first)


def require_untouched(arguments, kept):
    for name, value in kept.items():
        if not are_same(arguments[name], value):
            raise Fault(f"changed its argument {name}")


def hostile_repr(value):
    try:
        return repr(value)
    except Exception:
        return f"<{type(value).__name__}>"


def require_finite(result, path="result", depth=0):
    """Raise Fault where there is NaN or infinity in a result."""
    if depth > 3 or isinstance(result, WITH_NAN) or "make_smooth_mixture" in path or result is None:
        return
    if isinstance(result, tuple | list):
        for n, each in enumerate(result):
            require_finite(each, f"{path}[{n}]", depth + 1)
        return
    if isinstance(result, smp.MixtureDensity | smp.SolverOptions):
        return
    if is_dataclass(result) and not isinstance(result, type):
        for field in fields(result):
            require_finite(getattr(result, field.name), f"{path}.{field.name}", depth + 1)
        return
    if isinstance(result, np.ndarray | pd.DataFrame | pd.Series | xr.DataArray | float | np.floating):
        values = np.asarray(result)
        if values.dtype.kind == "f":
            # Documented: components of weight zero, and where the density of the truth is zero.
            may_be_zero = "log_joint" in path or "TrueMixture.logpdf" in path
            bad = ~np.isfinite(values) & ~(np.isneginf(values) & may_be_zero)
            if bad.any():
                raise Fault(f"{path} has {int(bad.sum())} entries that are not finite")


def use(model, X, made, rng):
    """What one does with a model: everything is finite, and what is saved is what is loaded."""
    path = os.path.join(made.folder, "used.nc")
    model.save(path)
    loaded = smp.load(path)
    for each in (model, loaded):
        for method in ("predict", "predict_proba", "score_samples", "impute"):
            require_finite(getattr(each, method)(X), method)
        require_finite(each.sample(20, 0), "sample")
        require_finite(each.density_.mean("all"), "mean")
        quantiles = [each.density_.quantile_1d([0.01, 0.5, 0.99], name) for name in each.density_.variables]
        require_finite(quantiles, "quantile_1d")
    first, second = (np.asarray(each.predict_proba(X)) for each in (model, loaded))
    if first.tobytes() != second.tobytes():
        raise Fault("the loaded model differs")


def one_call(number, made, known):
    """Make a call; returns what was wrong with it, or None."""
    rng = np.random.default_rng([20_000, number])
    name, function, arguments = hostile.drawn_call(rng, made, known)
    if function is None:
        return None
    kept, before = snapshot(arguments), state()
    caught, wrong = [], None

    def expired(*_):
        raise Fault(f"took more than {SECONDS} s")

    if threading.current_thread() is threading.main_thread() and hasattr(signal, "alarm"):
        signal.signal(signal.SIGALRM, expired)
        signal.alarm(SECONDS)
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            inside = list(warnings.filters)
            try:
                result = function(**arguments)
                if isinstance(result, ESTIMATORS) and hasattr(result, "density_"):
                    use(result, arguments.get("X"), made, rng)
                else:
                    require_finite(result, f"result of {name}")
                if not isinstance(
                    result, (*ESTIMATORS, smp.CoupledSimplexCP, smp.SolverOptions)
                ):  # whose parameters scikit-learn shows
                    repr(result)
            except ALLOWED as error:
                if isinstance(error, TensorlySmpError) and len(str(error)) > 3000:
                    raise Fault(f"a message of {len(str(error))} characters") from error
            if list(warnings.filters) != inside:
                new = [each for each in warnings.filters if each not in inside]
                raise Fault(f"changed the warning filters: {new or 'removed some'}")
        require_untouched(arguments, kept)
    except Fault as fault:
        wrong = str(fault)
    except AttributeError:
        if "partial_fit" not in name:
            wrong = traceback.format_exc(limit=-4)
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        wrong = traceback.format_exc(limit=-4)
    finally:
        if hasattr(signal, "alarm"):
            signal.alarm(0)
        matplotlib.pyplot.close("all")
    after = state()
    changed = [what for what in before if before[what] != after[what]]
    others = [each for each in caught if not issubclass(each.category, TensorlySmpWarning)]
    foreign = {f"{each.category.__name__}: {each.message} ({each.filename}:{each.lineno})" for each in others}
    if wrong is None and changed:
        wrong = f"changed {', '.join(changed)}"
    if wrong is None and foreign:
        wrong = "; ".join(sorted(foreign))
    if wrong is None:
        return None
    shown = ", ".join(f"{key}={hostile_repr(value)[:200]}" for key, value in arguments.items())
    return f"call {number}: {name}({shown}): {wrong}"


@pytest.mark.slow
@pytest.mark.parametrize("part", range(N_PARTS))
def test_hostile_calls(part, made, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # some strings are taken for paths, and files are written there
    import matplotlib.pyplot  # noqa: F401  # whatever it sets up is not the package's doing

    known = hostile.calls()
    numbers = range(FIRST + part, FIRST + N_CALLS, N_PARTS)
    faults = [fault for fault in (one_call(number, made, known) for number in numbers) if fault is not None]
    assert not faults, f"{len(faults)} of {len(numbers)} calls:\n\n" + "\n\n".join(faults)


def test_every_public_name_is_called():
    known = {name for name, *_ in hostile.calls()}
    for name in smp.__all__:
        value = getattr(smp, name)
        if callable(value):
            assert any(each == name or each.startswith(f"{name}.") for each in known) or name in WITHOUT_CALLS
    assert {"SmoothProductMixture.fit", "MixtureDensity.pdf_1d", "datasets.make_smooth_mixture"} <= known
    assert len(known) > 80
