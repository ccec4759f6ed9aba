"""The file of a benchmark: one row per fit, appended as fits are done, so that a run that was stopped goes on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import tensorly_smp as smp

TEXTS = ["status", "warnings"]


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


def percent_right(labels: np.ndarray, found: np.ndarray) -> float:
    """Clustering accuracy in percent, so that differences are points."""
    return 100.0 * smp.metrics.clustering_accuracy(labels, found)
