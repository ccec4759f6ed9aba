"""Hostile arguments for every public name: what tests/test_fuzz.py calls the package with."""

import datetime as dt
import decimal
import fractions
import inspect
import os
import warnings
from dataclasses import is_dataclass

import numpy as np
import pandas as pd
import scipy.sparse
import xarray as xr

import tensorly_smp as smp

FAR = [1e6, -1e17, 1e17, 3.4e38, float(np.iinfo(np.int64).min), 1e150, -1e200, 1e300, 1.7e308, -1.7e308, 5e-324, 1e-310]

#: Wrong in place of nearly anything; what a call could use up or change is made anew.
WRONG = [
    *(None, ..., NotImplemented, int, pd.NA, pd.NaT, np.ma.masked, smp.StopReason.CONVERGED),
    *("x" * 200_000, b"bytes", range(3), 10**400, 10**5000, 1 + 2j, (), [(0, 1), (2,), (3,)]),
    *(np.float16(2), np.int8(3), np.longdouble(1e300), fractions.Fraction(1, 3)),
    *(decimal.Decimal("NaN"), decimal.Decimal("1.5"), dt.datetime(2024, 1, 1), pd.Timestamp("2024-01-01")),
    *(np.datetime64("2024-01-01"), np.timedelta64(3, "s"), smp.Binning.from_n_bins([3, 3, 3, 3])),
]
WRONG_MADE = [
    lambda rng: rng.choice([np.nan, np.inf, -np.inf, -1.0, 0.5, 2.0, 1e300, 5e-324]).item(),
    lambda rng: int(rng.choice([-1, 0, 1, 2, 3, 10**9, -(2**63)])),
    lambda rng: bool(rng.integers(2)),
    lambda rng: str(rng.choice(["", "all", "auto", "x0", "kl", "a\0b", "ü" * 50])),
    lambda rng: [[], {}, set(), {1, 2, 3}, {"x0": 3, 1: None}, object()][rng.integers(6)],
    lambda rng: [[1, "a", None], [[1.0, 2.0], [3.0]], [[0, 1, 2]], ["x0", "x1"], [10**400, 1]][rng.integers(5)],
    lambda rng: (n for n in range(3)),
    lambda rng: lambda *arguments: None,
    lambda rng: np.array([3, "kl", None, [], [np.nan] * 3, ["a", "b"], [1 + 2j]][rng.integers(7)]),
    lambda rng: np.array([None, "a", 1.0], dtype=object),
    lambda rng: [np.arange(4), np.zeros((0, 3)), np.ones((2, 2)), np.ones((3, 3, 3))][rng.integers(4)],
    lambda rng: np.array([True, False, True]),
    lambda rng: np.ma.masked_array([1.0, 2.0, 3.0], [True, False, False]),
    lambda rng: pd.Series([1.0, None, 3.0]),
    lambda rng: pd.DataFrame({"a": ["x", "y"], "b": [1, 2]}),
    lambda rng: xr.DataArray([1.0, 2.0], dims="q"),
    lambda rng: xr.Dataset({"weights": ("component", [1.0])}),
    lambda rng: scipy.sparse.eye(3),
]


def wrong(rng):
    number = rng.integers(len(WRONG) + 2 * len(WRONG_MADE))
    return WRONG[number] if number < len(WRONG) else WRONG_MADE[number % len(WRONG_MADE)](rng)


# ---- samples ----


def matrix(rng, n_variables=4):
    """Samples of two groups, and up to three things that are odd about them."""
    n_samples = int(rng.choice([1, 2, 5, 12, 40, 100], p=[0.03, 0.03, 0.06, 0.13, 0.35, 0.4]))
    X = rng.normal(size=(n_samples, n_variables)) + 3.0 * rng.integers(2, size=(n_samples, 1))
    for _ in range(rng.integers(4)):
        n = int(rng.integers(n_variables))
        ODD[rng.integers(len(ODD))](rng, X, n)
    return X


def _missing(rng, X, n):
    X[rng.random(X.shape) < rng.choice([0.05, 0.4, 0.9])] = np.nan


def _same(rng, X, n):
    X[:] = X[rng.integers(len(X), size=len(X))]


def _copy(rng, X, n):
    X[:, n] = X[:, (n + 1) % X.shape[1]]


def _column(made):
    """Something odd about a single column, made of it."""

    def odd(rng, X, n):
        X[:, n] = made(rng, X[:, n])

    return odd


def _at_one(rng, x):
    return np.arange(len(x)) == rng.integers(len(x))


TWO_VALUES = [[0.0, 1.0], [0.0, 5e-324], [-1e300, 1e300], [1e15, 1e15 + 1], [0.0, 1e-310]]
ODD = [
    *(_missing, _same, _copy),
    _column(lambda rng, x: np.where(_at_one(rng, x), rng.choice(FAR), x)),
    _column(lambda rng, x: np.where(_at_one(rng, x), rng.choice([np.inf, -np.inf]), x)),
    _column(lambda rng, x: np.where(rng.random(len(x)) < 0.1, rng.choice(FAR), x)),
    _column(lambda rng, x: np.where(rng.random(len(x)) < 0.1, rng.choice([998.0, 999.0, -9.0]), x)),
    _column(lambda rng, x: np.full(len(x), np.nan)),
    _column(lambda rng, x: np.full(len(x), rng.choice([0.0, 3.0, -1e300, 1e15, 5e-324]))),
    _column(lambda rng, x: np.round(x)),
    _column(lambda rng, x: rng.choice(TWO_VALUES)[rng.integers(2, size=len(x))]),
    _column(lambda rng, x: x * rng.choice([1e-300, 1e-12, 1e12, 1e300])),
    _column(lambda rng, x: x + rng.choice([1e6, 1e15, -1e300])),
    _column(lambda rng, x: np.exp(5.0 * np.clip(x, -50, 50))),
]
NAMES = [
    ["x0", "x1", "x2", "x3"],
    ["a", "b", "c", "d"],
    [0, 1, 2, 3],
    [None, "b", 2.5, ("t", 0)],
    ["a", "a", "b", "c"],
    ["component", "sample", "bin", "variable"],
    [np.nan, "b", "c", "d"],
    ["x3", "x2", "x1", "x0"],
]


def samples(rng, n_variables=4):
    """The same as one of many kinds of objects."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        X = matrix(rng, n_variables)
        kind = rng.integers(14)
        names = NAMES[rng.integers(len(NAMES))][:n_variables]
        if kind < 4:
            return X
        if kind == 4:
            return X.tolist()
        if kind == 5:
            return np.ma.masked_array(X, rng.random(X.shape) < 0.1)
        if kind == 6:
            return X.astype(np.float32)
        if kind == 7:
            return np.asfortranarray(X)[::-1]
        if kind == 8:
            objects = X.astype(object)
            objects[rng.random(X.shape) < 0.05] = rng.choice([None, pd.NA, decimal.Decimal(1), "a", np.ma.masked])
            return objects
        if kind in (9, 10):
            return pd.DataFrame(X, columns=pd.Index(names, dtype=object, tupleize_cols=False))
        if kind == 11:
            return xr.DataArray(X, {"variable": [str(name) for name in names]}, ("sample", "variable"))
        if kind == 12:
            return xr.Dataset({str(name): ("time", X[:, n], {"units": "mm"}) for n, name in enumerate(names)})
        polars = _polars()
        return X if polars is None else polars.DataFrame({f"c{n}": X[:, n] for n in range(n_variables)})


def _polars():
    try:
        import polars
    except ImportError:
        return None
    return polars


# ---- arguments that are as they should be ----


class Prepared:
    """Objects of the package, made once, that functions take and methods belong to."""

    def __init__(self, folder):
        self.folder = str(folder)
        data = smp.datasets.make_smooth_mixture("gaussian", 80, 4, 2, random_state=0)
        self.X, self.labels, self.truth = data
        self.binning = smp.choose_binning(self.X, 5)
        self.codes = smp.encode_samples(self.X, self.binning)
        self.marginals = smp.count_marginals(self.codes)
        self.solution = smp.coupled_simplex_parafac(self.marginals, 2, random_state=0, n_iter_max=3000)
        self.factors = self.solution.factors
        self.start = smp.gevd_start(self.marginals, 2, random_state=0)
        self.likelihood = smp.refine_em(self.factors, self.codes)
        self.densities = [
            smp.reconstruct_density(self.factors, method, clip_warning=np.inf) for method in ("sinc", "histogram")
        ]
        self.densities.append(smp.reconstruct_density(self.factors, "logspline", samples=self.X))
        mixed = self.X.copy()
        mixed[:, 1] = np.round(mixed[:, 1] / 3)
        mixed[::9, 2] = np.nan
        options = dict(random_state=0, n_init=1)
        self.models = [
            smp.SmoothProductMixture(2, **options).fit(self.X),
            smp.SmoothProductMixture(2, **options).fit(pd.DataFrame(mixed, columns=list("abcd"))),
            smp.SmoothProductMixture(2, n_bins=5, refine="em", density="histogram", **options).fit(mixed),
        ]
        self.unmixed = smp.UnmixedProductMixture(2, random_state=0).fit(self.X)
        self.independence = smp.check_independence(self.models[0], self.X, random_state=0, n_replicates=20)
        self.report = smp.check_identifiability(self.solution)
        self.partition = smp.default_partition(4)
        self.table = smp.select_n_components(self.X, [1, 2], random_state=0, n_init=1)
        self.path = os.path.join(self.folder, "model.nc")
        self.models[0].save(self.path)
        self.cp = smp.gevd_parafac(np.random.default_rng(0).random((4, 4, 3)), 2, random_state=0)

    def receiver(self, rng, cls):
        """An object of a class, whose methods can be called; None if there is none."""
        known = [value for value in vars(self).values() if type(value) is cls]
        known += [each for many in (self.densities, self.models) for each in many if type(each) is cls]
        known += [self.solution.trace] if cls is smp.SweepTrace else []
        return known[rng.integers(len(known))] if known else None

    def argument(self, rng, name, function):
        """An argument that a parameter of this name may have; a wrong one if none is known."""
        return (valid(name, function) or (lambda rng, made: wrong(rng)))(rng, self)


def one_of(*values):
    return lambda rng, made: values[rng.integers(len(values))]


def _samples(rng, made):
    return samples(rng) if rng.random() < 0.8 else made.X


def _subject(rng, made):
    choices = [
        *made.models,
        made.unmixed,
        *made.densities,
        made.solution,
        made.factors,
        made.models[0].result_,
        made.truth,
    ]
    return choices[rng.integers(len(choices))]


def _weights(rng, made):
    n = int(rng.choice([80, 100, 40]))
    return [rng.random(n), np.ones(n), rng.integers(0, 3, n), 1e-5 * np.ones(n), 20 * rng.random(n), None, None][
        rng.integers(7)
    ]


def _points(rng, made):
    return [0.5, [0.1, 0.9], np.linspace(0.01, 0.99, 5), [[0.2]], rng.normal(size=4), [1e300, -1e300], [np.nan]][
        rng.integers(7)
    ]


#: Arguments that are left at None for one function, and have other values for others.
NONE = [
    *(("from_n_bins", "variables"), ("Codes", "samples"), ("MixtureFactors", "binning"), "variables"),
    *(("coupled_simplex_parafac", "codes"), ("CoupledSimplexCP", "codes"), ("check_identifiability", "n_bins")),
    *(("check_identifiability", "n_variables"), ("check_identifiability", "rank")),
]
#: Arguments that are as they should be, by parameter or by function and parameter; others are left at their defaults.
VALID = {
    **dict.fromkeys(NONE, one_of(None)),
    **dict.fromkeys(["scale", "catch_tails", "extrapolate", "warn", "deep"], one_of(True, False)),
    "X": _samples,
    "data": lambda rng, made: [made.marginals, made.codes, [rng.random((3, 3, 3))] * 1][rng.integers(3)],
    "codes": lambda rng, made: made.codes,
    "marginals": lambda rng, made: made.marginals,
    **dict.fromkeys(["factors", "estimated", "found"], lambda rng, made: made.factors),
    ("MixtureFactors", "factors"): lambda rng, made: [np.full((3, 2), 1 / 3)] * 3,
    "weights": one_of("count", "uniform"),
    ("MixtureFactors", "weights"): one_of(np.array([0.5, 0.5]), [0.2, 0.8]),
    "solution": lambda rng, made: [made.solution, made.factors, made.likelihood][rng.integers(3)],
    "subject": _subject,
    "model": _subject,
    "density": lambda rng, made: made.densities[rng.integers(3)],
    "report": lambda rng, made: [made.report, made.independence][rng.integers(2)],
    "options": lambda rng, made: [None, smp.SolverOptions(n_jobs=1), smp.SolverOptions(warn=False)][rng.integers(3)],
    "known": one_of("triples", "samples"),
    "patterns": one_of(None, None, [[True, True, True, False], [False, True, True, True]]),
    "level": one_of(0.05, 0.5),
    "n_replicates": one_of(0, 5),
    "n_pairs": one_of(0, 1, 100),
    "constant": one_of((), frozenset()),
    "position": one_of(0, 1),
    "probabilities": lambda rng, made: made.models[0].predict_proba(made.X),
    "model_or_dataset": lambda rng, made: [*made.models, made.unmixed, made.models[0].result_][rng.integers(5)],
    "parameters": one_of({}, {"n_bins": 5}),
    "later": lambda rng, made: made.solution.trace,
    "tensors": lambda rng, made: [rng.random((3, 3, 3))],
    "table": lambda rng, made: made.table,
    "dataset": lambda rng, made: [made.table, made.models[0].result_][rng.integers(2)],
    "cp_tensor": lambda rng, made: made.factors.to_cp_tensor(),
    "tensor": lambda rng, made: rng.random((4, 4, 3)),
    "matrix": lambda rng, made: rng.normal(size=(4, 4)),
    "binning": lambda rng, made: made.binning,
    ("SmoothProductMixture", "binning"): one_of("uniform", "quantile"),
    "partition": lambda rng, made: [None, made.partition, ((0,), (1,), (2, 3))][rng.integers(3)],
    "rank": one_of(1, 2, 3),
    "n_components": one_of(1, 2, 3),
    ("select_n_components", "n_components"): one_of(2, [1, 2], range(2, 4)),
    "n_variables": one_of(3, 4, 7),
    "n_bins": one_of(3, 5, 15, [4, 5, 6, 7]),
    ("max_identifiable_rank", "n_bins"): one_of(3, 15),
    ("gevd_start", "n_bins"): one_of(None, 3),
    "n_samples": one_of(1, 20, 100),
    "n_init": one_of(1, 2, "auto"),
    ("coupled_simplex_parafac", "n_init"): one_of(1, 2),
    **dict.fromkeys(["max_iter", "n_iter_max"], one_of(0, 1, 30, 200)),
    "tol": one_of(0.0, 1e-6, 1e-3),
    "n_jobs": one_of(None, 1, 2),
    **dict.fromkeys([("select_n_components", "n_jobs"), ("compare_models", "n_jobs")], one_of(None, 1)),
    "random_state": one_of(0, 1, None),
    "sample_weight": _weights,
    "support": one_of(None, None, {"x0": (None, 1e6)}),
    "discrete": one_of(None, None, ["x1"]),
    "coverage": one_of(None, 0.9, 0.99),
    "triples": one_of("all", 3, [(0, 1, 2), (1, 2, 3)]),
    "loss": one_of("auto", "kl", "frobenius"),
    ("coupled_simplex_parafac", "loss"): one_of("kl", "frobenius"),
    "init": one_of("gevd", "random"),
    "refine": one_of("smooth", "smooth", "em", None),
    "penalty": one_of("reml", "aic", "bic"),
    "shape": one_of(None, "log-concave"),
    "solver": one_of("auto", "mirror"),
    "n_screen": one_of(20, None, 1),
    "n_inner": one_of(None, 1),
    "dtype": one_of(None, "float64"),
    "strategy": one_of("uniform", "quantile"),
    ("Binning", "strategy"): one_of("given"),
    "range": one_of(None, (-5, 5)),
    "edges": one_of(([0, 1, 2], [0, 0.5, 10]), [[0.0, 1.0, 5.0]]),
    ("Binning", "variables"): one_of((), ("a", "b")),
    ("marginal", "variables"): lambda rng, made: [["x0"], "x1", ["x2", "x0"], "a"][rng.integers(4)],
    "variable": one_of("x0", "x3", "a", "b"),
    "out_of_range": one_of("clip", "missing"),
    "criterion": one_of("gevd", "kruskal", "generic"),
    ("select_n_components", "criterion"): one_of("bic", "icl", "cv"),
    "n_folds": one_of(2, 3),
    "method": one_of("sinc", "histogram", "logspline"),
    ("impute", "method"): one_of("mean", "draw"),
    "clip_warning": one_of(0.2, np.inf),
    "values": lambda rng, made: rng.integers(0, 3, size=(20, 3)),
    ("Codes", "values"): lambda rng, made: made.codes.values,
    ("Codes", "binning"): lambda rng, made: made.binning,
    **dict.fromkeys(["x", "q"], _points),
    "given": one_of({"x0": 1.0}, {"a": 0.0}, {"x0": 1.0, "x1": 2.0}),
    "component": one_of(None, 0, 1, "all"),
    "order": one_of([1, 0], [0, 1]),
    "share": one_of(0.01, 0.5),
    "weight_share": one_of(0.0, 0.5),
    ("load", "source"): lambda rng, made: [made.path, made.folder, made.models[1].to_dataset()][rng.integers(3)],
    ("save", "path"): lambda rng, made: os.path.join(made.folder, str(rng.choice(["a.nc", "b", "no/c.nc"]))),
    "kind": one_of("gaussian", "gmm", "gamma", "laplace"),
    "missing": one_of(0.0, 0.3),
    "smoothing": one_of(0.0, 0.1),
    "mixing": one_of(0.01, 0.0),
    "max_combinations": one_of(50_000, 10),
    "pencil_mode": one_of(0, 1, 2),
    "first": one_of((0,)),
    "second": one_of((1,)),
    "third": one_of((2, 3)),
    "index": one_of(0, 1, 3),
    "triple": one_of((0, 1, 2), (1, 2, 3), 0),
    **dict.fromkeys(["labels", "labels_true"], lambda rng, made: made.labels),
    "labels_pred": lambda rng, made: made.models[0].predict(made.X),
    "reference": lambda rng, made: [made.factors, made.truth][rng.integers(2)],
    "estimate": lambda rng, made: [made.factors, made.densities[0], made.models[0]][rng.integers(3)],
    "true": lambda rng, made: made.truth,
    "learned": lambda rng, made: made.densities[rng.integers(3)],
}


def valid(name, function):
    """What makes an argument for a parameter of this name, or None."""
    return VALID.get((getattr(function, "__name__", ""), name)) or VALID.get(name)


def calls():
    """Every public name that can be called: (name, function, class of the receiver or None).

    Found in ``__all__``, so that names that are new are called too.
    """
    found, records = [], []
    for name in smp.__all__:
        value = getattr(smp, name)
        if inspect.ismodule(value):
            if name != "exceptions":
                members = [(f"{name}.{each}", getattr(value, each)) for each in value.__all__]
                found += [(each, member, None) for each, member in members if not hasattr(member, "_fields")]
        else:
            is_record = is_dataclass(value) and "__post_init__" not in dir(value)
            if not is_record:  # what functions return, and nobody makes
                found.append((name, value, None))
            else:
                records.append((name, value))
    made_by_functions = {value for _, value in records}
    for name, value in [*((name, value) for name, value, _ in found), *records]:
        if inspect.isclass(value) and not issubclass(value, BaseException):
            for each, member in inspect.getmembers(value):
                # Methods of scikit-learn, TensorLy or Python are inherited.
                is_own = str(getattr(member, "__module__", None)).startswith("tensorly_smp")
                if is_own and not each.startswith("_") and callable(getattr(value, each, None)):
                    is_bound = inspect.ismethod(getattr(value, each))
                    if is_bound and value in made_by_functions:
                        continue
                    found.append((f"{name}.{each}", member, None if is_bound else value))
    return [call for call in found if callable(call[1]) and not isinstance(call[1], type(smp.StopReason))]


def estimator(rng, made, share):
    """An estimator with some parameters of its own."""
    parameters = {}
    for name in inspect.signature(smp.SmoothProductMixture).parameters:
        if rng.random() < 0.3:
            is_wrong = rng.random() < 0.3 * share
            if is_wrong or valid(name, smp.SmoothProductMixture):
                parameters[name] = wrong(rng) if is_wrong else made.argument(rng, name, smp.SmoothProductMixture)
    if callable(parameters.get("callback")):  # whose own errors are its own
        parameters["callback"] = lambda *arguments: None
    return smp.SmoothProductMixture(**{"n_init": 1, "random_state": 0, **parameters})


def drawn_call(rng, made, known):
    """A call: its name, the function, arguments by name. A sixth of the arguments is wrong, or none is."""
    name, function, cls = known[rng.integers(len(known))]
    share = rng.choice([0.0, 0.15, 0.5])
    is_fit = name.endswith(("fit", "fit_predict"))
    receiver = None if cls is None else made.receiver(rng, cls)
    if is_fit and cls is smp.SmoothProductMixture:
        receiver = estimator(rng, made, share)
    elif is_fit and cls is smp.UnmixedProductMixture:
        receiver = smp.UnmixedProductMixture(int(rng.integers(1, 4)), random_state=0)
    if is_fit and "partial" in name:
        receiver.set_params(refine=None, density="histogram", support=None, discrete=None)
    if cls is not None and receiver is None:
        return name, None, {}
    bound = function if cls is None else getattr(receiver, name.rpartition(".")[2], None)
    if bound is None:  # a method that only some of them have
        return name, None, {}
    arguments = {}
    try:
        parameters = inspect.signature(bound).parameters.values()
    except ValueError:
        return name, None, {}
    for parameter in parameters:
        if parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL):
            continue
        is_optional = parameter.default is not parameter.empty
        # By default ten numbers of components are compared in five folds: sixty fits.
        if is_optional and rng.random() < 0.5 and parameter.name not in ("n_components", "n_folds"):
            continue
        is_wrong = rng.random() < share
        key = function if cls is None else bound
        if is_wrong or not is_optional or valid(parameter.name, key):
            arguments[parameter.name] = wrong(rng) if is_wrong else made.argument(rng, parameter.name, key)
    return name, bound, arguments
