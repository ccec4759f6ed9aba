"""Content of the file of a fitted model: the Dataset of the fit, and its parameters as JSON; never pickle."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from tensorly_smp._support.checks import is_integer, is_real
from tensorly_smp._support.representations import listed, shown
from tensorly_smp.decomposition.solution import factors_from_dataset
from tensorly_smp.exceptions import FileFormatError, InvalidInputError
from tensorly_smp.identifiability.rivals import n_rivals, rival_dataset
from tensorly_smp.storage.probes import FORMAT

FORMAT_VERSION = 2

#: Attributes that the file has and ``result_`` has not.
_FILE_ATTRIBUTES = ("format", "format_version", "parameters", "variable_names", "sha256")

#: Dimensions and kind of dtype of what a model is made from; a Dataset may have more.
_REQUIRED = {
    "weights": (("component",), "f"),
    "factors": (("variable", "bin", "component"), "f"),
    "n_bins": (("variable",), "i"),
    "edges": (("variable", "edge"), "f"),
    "discrete": (("variable",), "i"),
    "categories": (("variable", "bin"), "f"),
    "loss": (("sweep",), "f"),
    "change": (("sweep",), "f"),
    "seconds": (("sweep",), "f"),
    "start_loss": (("start",), "f"),
    "start_status": (("start",), "U"),
}
_REQUIRED_OF_SPLINES = {
    "spline": (("variable", "basis", "component"), "f"),
    "penalty": (("variable", "component"), "f"),
    "background": (("component",), "f"),
    "interval": (("variable", "end"), "f"),
    "bounds": (("variable", "end"), "f"),
}
_REQUIRED_OF_UNMIXED = {
    "unmixing": (("source", "variable"), "f"),
    "mixing": (("variable", "source"), "f"),
    "mixed": (("variable",), "i"),
}
#: Not in files of before there was such a thing, which are read all the same.
_OPTIONAL = {
    "spline_center": (("variable",), "f"),
    "spline_scale": (("variable",), "f"),
    "start_trace": (("start", "start_sweep"), "f"),
}
_REQUIRED_OF_RIVALS = {
    "rival_criterion": (("rival",), "f"),
    "rival_deviation": (("rival",), "f"),
    "rival_agreement": (("rival",), "f"),
    "rival_candidate": (("rival",), "i"),
    "rival_overlap": (("rival", "component", "rival_component"), "f"),
    "rival_weights": (("rival", "component"), "f"),
    "rival_factors": (("rival", "variable", "bin", "component"), "f"),
}
#: Values of attributes; those that were not in files of before are read without.
_CHOICES = {"refine": ("smooth", "em", "none"), "penalty_criterion": ("reml", "aic", "bic")}
_CONTAINERS = ("array", "dataframe", "dataarray", "polars", "pyarrow")


def dataset_of_model(model: Any) -> xr.Dataset:
    """Dataset that is written to the file.

    Raises
    ------
    InvalidInputError
        A parameter, or the name of a variable, is something that a file cannot hold.
    """
    _refuse_additions(model)
    dataset = model.result_.copy().assign_attrs(
        format=FORMAT,
        format_version=FORMAT_VERSION,
        parameters=_to_json(_saved_parameters(model), "parameters"),
        variable_names=_to_json(model.binning_.variables, "names of the variables"),
    )
    dataset.attrs = _file_attributes(dataset.attrs, "result_")
    for name, variable in dataset.variables.items():
        variable.attrs = _file_attributes(variable.attrs, f"result_[{shown(name)}]")
    dataset.attrs["sha256"] = digest(dataset)
    return dataset


def _file_attributes(attrs: Mapping[Any, Any], owner: str) -> dict[str, Any]:
    """Attributes as files hold them: numbers, text, and arrays of numbers; others are refused by name."""
    held: dict[str, Any] = {}
    for name, value in attrs.items():
        if isinstance(value, bool | np.bool_):
            value = int(value)
        elif isinstance(value, list | tuple | np.ndarray):
            value = np.asarray(value) if _are_numbers(value) else None
        elif isinstance(value, str):
            value = value if _is_plain_text(value) else None
        elif not isinstance(value, int | float | np.integer | np.floating) or not _are_numbers([value]):
            value = None
        if value is None or not isinstance(name, str) or not name or not _is_plain_text(name):
            raise InvalidInputError(
                f"The model cannot be saved: {owner} has the attribute {shown(name)}, {type(attrs[name]).__name__}; "
                "files hold numbers, text and arrays of numbers, under names that are text. Convert it, for instance "
                "by json.dumps, or remove it."
            )
        held[name] = value
    return held


def _are_numbers(value: Any) -> bool:
    """True for a sequence of real numbers, in at most 64 bits."""
    try:
        return np.asarray(value).dtype.kind in "iuf"
    except (ValueError, TypeError, OverflowError):
        return False


def _is_plain_text(text: str) -> bool:
    try:
        return "\0" not in text and bool(text.encode() or True)
    except UnicodeError:
        return False


def _refuse_additions(model: Any) -> None:
    """Refuse what was added to the Dataset of a fit, by name; attributes may be added."""
    dataset = model.result_
    known = model._fitted_names
    added = [name for name in dataset.variables if name not in known]
    added += [dim for dim in dataset.dims if dim not in known and dim not in added]
    if added:
        raise InvalidInputError(
            f"The model cannot be saved: {listed(added)} was added to result_ after the fit. Drop it "
            "(result_.drop_vars, or squeeze for a dimension), or keep it as an attribute; or save result_ itself by "
            "its to_netcdf."
        )
    if taken := [name for name in _FILE_ATTRIBUTES if name in dataset.attrs]:
        raise InvalidInputError(
            f"The model cannot be saved: result_ has attribute(s) {listed(taken)}, names that the file needs for "
            "itself. Rename them."
        )


def model_of_dataset(dataset: xr.Dataset, source: str, estimators: Sequence[Any]) -> Any:
    """The fitted model, whole.

    Parameters
    ----------
    dataset : Dataset
        As it was read.
    source : str
        For messages.
    estimators : sequence of class
        The estimators whose models may be read.

    Raises
    ------
    FileFormatError
        The Dataset is of another version, not what was written, or no model.
    """
    version = dataset.attrs.get("format_version")
    if str(version) != str(FORMAT_VERSION):
        raise FileFormatError(
            f"{source} has format version {str(version)[:20]}; this release reads version {FORMAT_VERSION}. A file "
            "of a later release needs that release."
        )
    try:
        dataset = with_plain_attributes(dataset)
        if digest(dataset) != dataset.attrs["sha256"]:
            raise ValueError("its content is not what was written")
        _check_variables(dataset)
        parameters = _decoded(json.loads(dataset.attrs["parameters"]))
        names = _decoded(json.loads(dataset.attrs["variable_names"]))
        for name in _FILE_ATTRIBUTES:
            del dataset.attrs[name]
        with np.errstate(all="raise", under="ignore"):
            model = _unfitted(dataset, parameters, estimators)
            model._set_fitted(dataset, names)
            if not np.isfinite(model.density_.logpdf(_a_sample(model))).all():
                raise ValueError("its density is not finite")
            for k in range(n_rivals(dataset)):
                _check_rival(model, k)
        if getattr(model, "binning", None) == "given":
            model.set_params(binning=model.binning_)
        return model
    except Warning:  # of a program that turns them into errors
        raise
    except Exception as error:  # whatever it is: the content has caused it
        reason = str(error).rstrip(".")
        raise FileFormatError(f"{source} is damaged or was edited: {type(error).__name__}, {reason}.") from error


def _unfitted(dataset: xr.Dataset, parameters: dict[str, Any], estimators: Sequence[Any]) -> Any:
    """The estimator that the Dataset is of; `estimator` is among its attributes if it is not the usual one."""
    name = dataset.attrs.get("estimator")
    for estimator in estimators:
        if estimator._stored_name == name:
            return estimator._of_stored_parameters(parameters)
    expected = [estimator._stored_name for estimator in estimators]
    raise ValueError(f"it is of an estimator {str(name)[:40]!r}, expected one of {expected}")


def _check_variables(dataset: xr.Dataset) -> None:
    """Refuse what no fit makes, in words that say what it is."""
    required = _REQUIRED | (_REQUIRED_OF_SPLINES if dataset.attrs["density"] == "logspline" else {})
    required |= _REQUIRED_OF_UNMIXED if "estimator" in dataset.attrs else {}
    required |= _REQUIRED_OF_RIVALS if "rival" in dataset.dims else {}
    for name, (dims, kind) in (required | {name: _OPTIONAL[name] for name in _OPTIONAL if name in dataset}).items():
        if name not in dataset:
            raise ValueError(f"it lacks {name}")
        found = dataset[name]
        is_kind = found.dtype.kind == kind or (kind == "U" and found.dtype.kind in "OT")
        if found.dims != dims or not is_kind:
            raise ValueError(
                f"{name} has dimensions {found.dims} and dtype {found.dtype}, expected {dims}, {shown(kind)}"
            )
    _check_attributes(dataset.attrs)
    if 0 in dataset.sizes.values():
        raise ValueError(f"a dimension is empty: {dict(dataset.sizes)}")
    if dataset.attrs["container"] not in _CONTAINERS:
        raise ValueError(f"container is {shown(dataset.attrs['container'])}, expected one of {_CONTAINERS}")
    if "triples" in dataset:
        triples = dataset["triples"]
        n_variables = dataset.sizes["variable"]
        if triples.dims != ("triple", "mode") or triples.dtype.kind != "i" or triples.shape[1] != 3:
            raise ValueError(f"triples have dimensions {triples.dims} and dtype {triples.dtype}")
        if not (np.diff(triples.values, prepend=-1, append=n_variables) > 0).all():
            raise ValueError(f"triples are not all increasing numbers below {n_variables}")


def _check_attributes(attrs: Mapping[Any, Any]) -> None:
    """Refuse what a bootstrap of the model could not use, or would read as something else."""
    for name, choices in _CHOICES.items():
        if name in attrs and attrs[name] not in choices:
            raise ValueError(f"{name} is {shown(attrs[name])}, expected one of {list(choices)}")
    for name, least in (("n_samples", 1), ("max_iter", 0)):
        if name in attrs and (not is_integer(attrs[name]) or attrs[name] < least):
            raise ValueError(f"{name} is {shown(attrs[name])}, expected an integer of at least {least}")
    if "tol" in attrs and not (is_real(attrs["tol"]) and 0 <= attrs["tol"] < 1):
        raise ValueError(f"tol is {shown(attrs['tol'])}, expected a number from 0 to below 1")


def _check_rival(model: Any, k: int) -> None:
    """Refuse a rival that is no mixture; densities that are made of bins are not made here, as they may warn."""
    if "spline" not in model.result_:
        factors_from_dataset(rival_dataset(model.result_, k))
    elif not np.isfinite((rival := model.rivals(k)).density_.logpdf(_a_sample(rival))).all():
        raise ValueError("the density of a rival is not finite")


def _a_sample(model: Any) -> np.ndarray:
    """Middles of bins, at which any density is positive, as an array (1, n_variables)."""
    return np.array([[float(centers[len(centers) // 2]) for centers in model.binning_.centers]])


def with_plain_attributes(dataset: xr.Dataset) -> xr.Dataset:
    """Attributes as fit makes them: Python's numbers, strings, and arrays. Files return other kinds too."""
    return dataset.assign_attrs({name: _plain(value) for name, value in dataset.attrs.items()})


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return np.array(value)
    return value.item() if isinstance(value, np.generic) else value


def digest(dataset: xr.Dataset) -> str:
    """Checksum of everything in a Dataset: HDF5 and zarr guard their own structure, but neither numbers nor strings."""
    found = hashlib.sha256()
    for name, variable in sorted(dataset.variables.items(), key=lambda item: str(item[0])):
        values = variable.values
        if values.dtype.kind in "if":
            if values.dtype.kind == "f":  # there are many NaN, and files return the usual one
                values = np.where(np.isnan(values), np.nan, values)
            content = np.ascontiguousarray(values, dtype=values.dtype.newbyteorder("<")).tobytes()
        else:
            content = json.dumps([str(value) for value in values.ravel().tolist()]).encode()
        head = [str(name), [str(dim) for dim in variable.dims], list(values.shape), _attributes(variable.attrs)]
        found.update(json.dumps(head).encode() + content)
    rest = {name: value for name, value in dataset.attrs.items() if name != "sha256"}
    found.update(json.dumps(_attributes(rest)).encode())
    return found.hexdigest()


def _attributes(attrs: Mapping[Any, Any]) -> list[list[Any]]:
    """Attributes in an order of their own, as JSON can hold them; an array of one number is that number."""
    plain = []
    for name, value in sorted(attrs.items(), key=lambda item: str(item[0])):
        value = value.tolist() if isinstance(value, np.ndarray | np.generic) else value
        value = value[0] if isinstance(value, list) and len(value) == 1 else value
        plain.append([str(name), value if isinstance(value, list | int | float) else str(value)])
    return plain


def _saved_parameters(model: Any) -> dict[str, Any]:
    """Constructor parameters, without objects that only steer a fit."""
    parameters = model.get_params(deep=False)
    if not isinstance(parameters.get("binning", ""), str):
        parameters["binning"] = "given"
    if not isinstance(parameters.get("init", ""), str):
        del parameters["init"]
    if not isinstance(parameters["random_state"], int | np.integer | None):
        del parameters["random_state"]
    parameters.pop("callback", None)
    if parameters.get("mixture") is not None:
        parameters["mixture"] = _saved_parameters(parameters["mixture"])
    return parameters


def _to_json(value: Any, what: str) -> str:
    try:
        return json.dumps(_encoded(value))
    except TypeError as error:
        raise InvalidInputError(f"The model cannot be saved, because of its {what}: {error}.") from error


def _encoded(value: Any) -> Any:
    """Value in a form for JSON in which tuples stay tuples, and keys that are numbers stay numbers."""
    if isinstance(value, np.datetime64 | np.timedelta64) and not pd.isna(value):
        return {"time": [type(value).__name__, str(value.astype(np.int64)), np.datetime_data(value.dtype)[0]]}
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {"mapping": [[_encoded(key), _encoded(each)] for key, each in value.items()]}
    if isinstance(value, tuple):
        return {"tuple": [_encoded(each) for each in value]}
    if isinstance(value, list):
        return [_encoded(each) for each in value]
    if isinstance(value, dt.date | dt.timedelta | pd.Timedelta | pd.Period) and value is not pd.NaT:  # names of columns
        return {"time": [type(value).__name__, *_time_text(value)]}
    if value is None or isinstance(value, str | int | float):
        return value
    raise TypeError(f"{shown(value)} is of type {type(value).__name__}; expected strings or numbers")


def _decoded(value: Any) -> Any:
    """Inverse of `_encoded`."""
    if isinstance(value, list):
        return [_decoded(each) for each in value]
    if not isinstance(value, dict):
        return value
    if "tuple" in value:
        return tuple(_decoded(value["tuple"]))
    if "time" in value:
        return _time(*value["time"])
    return {_decoded(key): _decoded(each) for key, each in value["mapping"]}


def _time_text(value: Any) -> tuple[str, ...]:
    """Text of a time, from which `_time` makes it again."""
    if isinstance(value, pd.Timestamp):
        return value.isoformat(), str(value.unit)
    if isinstance(value, pd.Timedelta):
        return str(value.value), str(value.unit)
    if isinstance(value, pd.Period):
        return str(value), value.freqstr
    if isinstance(value, dt.timedelta):
        return str(value.days), str(value.seconds), str(value.microseconds)
    return (value.isoformat(),)


def _time(kind: str, text: str, *more: str) -> Any:
    """Inverse of `_time_text`."""
    if kind in ("datetime64", "timedelta64"):
        return getattr(np, kind)(int(text), *more)
    if kind == "Timestamp":
        return pd.Timestamp(text).as_unit(more[0])  # type: ignore[arg-type]
    if kind == "Timedelta":
        return pd.Timedelta(int(text), "ns").as_unit(more[0])  # type: ignore[arg-type]
    if kind == "Period":
        return pd.Period(text, more[0])
    if kind == "timedelta":
        return dt.timedelta(int(text), *map(int, more))
    if kind not in ("date", "datetime"):
        raise ValueError(f"{kind!r} is no kind of time")
    return getattr(dt, kind).fromisoformat(text)
