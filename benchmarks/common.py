"""What the benchmarks share: options of the command line, seconds, memory, and a table of fits that grows."""

from __future__ import annotations

import argparse
import resource
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

import tensorly_smp as smp

#: The paper's four cases.
KINDS = ("gaussian", "gmm", "gamma", "laplace")
TEXTS = ["status", "warnings"]
NOT_INSTALLED = "not installed"


def options_of(
    doc: str, arguments: Sequence[str] | None = None, words: Iterable[str] = (), **defaults: Any
) -> argparse.Namespace:
    """Options by name and default, whose type is that of the values; a tuple takes several, False is a flag.

    The first argument, `part`, is one of the words, by default the first of them.
    """
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    if words := list(words):
        parser.add_argument("part", nargs="?", choices=words, default=words[0])
    for name, default in defaults.items():
        if default is False:
            parser.add_argument(f"--{name}", action="store_true")
        elif isinstance(default, tuple):
            parser.add_argument(f"--{name}", nargs="+", type=type(default[0]), default=list(default))
        else:
            parser.add_argument(f"--{name}", type=str if default is None else type(default), default=default)
    return parser.parse_args(arguments)


def processor_time(work: Callable[[], Any]) -> tuple[Any, float]:
    """Result of a call and its seconds of the processor."""
    began = time.process_time()
    return work(), time.process_time() - began


def peak_megabytes() -> float:
    """Most memory that this process has held."""
    status = Path("/proc/self/status")
    if status.exists():  # the other figure begins with that of the parent process
        return int(status.read_text(encoding="utf-8").split("VmHWM:")[1].split()[0]) / 1e3
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 1e6 if sys.platform == "darwin" else peak / 1e3


def percent_right(labels: np.ndarray, predicted: np.ndarray) -> float:
    """Clustering accuracy in percent, so that differences are points."""
    return 100.0 * smp.metrics.clustering_accuracy(labels, predicted)


def largest_difference(one: smp.MixtureFactors, other: smp.MixtureFactors) -> float:
    """Largest difference of a weight or a factor entry."""
    pairs = zip((one.weights, *one.factors), (other.weights, *other.factors), strict=True)
    return max(float(np.abs(np.asarray(a, dtype=float) - np.asarray(b)).max()) for a, b in pairs)


# ---- one row per fit, appended as fits are done, so that a run that was stopped goes on ----


def read_fits(path: Path, keys: Sequence[str], figures: Sequence[str]) -> pd.DataFrame:
    """Fits of earlier runs; of two with the same keys the later one."""
    if not path.exists():
        empty = {name: pd.Series(dtype=float if name in figures else object) for name in (*keys, *TEXTS, *figures)}
        return pd.DataFrame(empty)
    rows = pd.read_csv(path, dtype=dict.fromkeys(TEXTS, str) | dict.fromkeys(figures, float))
    return rows.drop_duplicates(list(keys), keep="last").fillna({"warnings": ""}).reset_index(drop=True)


def append_fits(rows: list[dict[str, Any]], path: Path, keys: Sequence[str], figures: Sequence[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        table = pd.DataFrame(rows).reindex(columns=[*keys, *TEXTS, *figures])
        table.to_csv(file, header=file.tell() == 0, index=False)


def trouble_lines(fits: pd.DataFrame) -> list[str]:
    """Failures and warnings by method."""
    failed = fits[fits["status"] != "ok"].groupby(["method", "status"]).size()
    warned = fits[fits["warnings"] != ""].groupby(["method", "warnings"]).size()
    return [f"{method}: {what} ({count} fits)" for part in (failed, warned) for (method, what), count in part.items()]


def fit_all(
    tasks: Iterable[tuple],
    fit: Callable[..., dict[str, Any]],
    path: Path,
    keys: Sequence[str],
    figures: Sequence[str],
    jobs: int = 1,
    redo: bool = False,
) -> None:
    """Append the rows of the tasks, values of the keys, that the file does not have yet."""
    done = read_fits(path, keys, figures)
    finished = set() if redo else set(done[done["status"] != NOT_INSTALLED][keys].itertuples(index=False, name=None))
    tasks = [task for task in tasks if task not in finished]
    began = time.perf_counter()
    parallel = joblib.Parallel(n_jobs=jobs, return_as="generator_unordered")
    for number, row in enumerate(parallel(joblib.delayed(row_of)(fit, keys, task) for task in tasks), 1):
        append_fits([row], path, keys, figures)
        name = ", ".join(str(row[key]) for key in keys)
        shown = " ".join(f"{key} {row[key]:.3f}" for key in figures if key in row) or row["status"]
        print(f"[{number}/{len(tasks)}, {(time.perf_counter() - began) / 60:.1f} min] {name}: {shown}", flush=True)


def row_of(fit: Callable[..., dict[str, Any]], keys: Sequence[str], task: tuple) -> dict[str, Any]:
    """Keys, status, warnings and the figures of `fit(*task)`, on one thread; a failure gets a row that says so."""
    row: dict[str, Any] = dict(zip(keys, task, strict=True)) | {"status": "ok"}
    with threadpool_limits(1), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            row |= fit(*task)
        except ModuleNotFoundError:
            row["status"] = NOT_INSTALLED
        except Exception as error:
            row["status"] = f"failed: {type(error).__name__}: {error}"
    return row | {"warnings": " ".join(sorted({warning.category.__name__ for warning in caught}))}
