"""How often select_n_components finds the right number of components, on the paper's four cases.

Ten variables, five components, 5000 samples, all settings the defaults of SmoothProductMixture. Every table has the
information criteria and the singular values of the pair block; held-out samples cost five fits more for every number.

    python benchmarks/bench_selection.py                          two truths a case, candidates 3 to 7; three minutes
    python benchmarks/bench_selection.py --truths 10 --require 8  what is promised: in 8 of 10 truths of every case
    python benchmarks/bench_selection.py --criterion cv --truths 3
    python benchmarks/bench_selection.py --samples 1000 --truths 10
    python benchmarks/bench_selection.py --samples 1000 --truths 10 --rank 10 --candidates 7 8 9 10 11 12 13
    python benchmarks/bench_selection.py --cases gaussian --samples 6000 --rank 30 --candidates 28 29 30 31 32

Appends one row per truth and candidate to fits.csv in output/selection as truths are done, so that a run that was
stopped goes on; prints how often every number is chosen. "chosen" is by the library for `--criterion`, and by the
smallest value for the others. "margin" is by how much the right number is better than the best other one, at worst and
in the median; negative where it is worse.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from common import KINDS, append_fits, options_of, read_fits

import tensorly_smp as smp
from tensorly_smp.selection import select_n_components

N_VARIABLES = 10
SETTING = ["case", "samples", "rank", "truth", "criterion", "candidates"]
KEYS = [*SETTING, "n_components"]
COPIED = ["log_likelihood", "n_parameters", "entropy", "bic", "icl", "aic3", "seconds"]
HELDOUT = ["heldout_mean", "heldout_gap", "heldout_gap_error"]
FIGURES = [*COPIED, *HELDOUT, "best", "n_above_noise"]


def main(arguments: list[str] | None = None) -> None:
    options = options_of(__doc__, arguments, truths=2, cases=KINDS, criterion="bic", candidates=(3, 4, 5, 6, 7),
                         samples=5000, rank=5, jobs=1, require=0, redo=False, output="output/selection")  # fmt: skip
    path = Path(options.output) / "fits.csv"
    run(options, path)
    rows = read_fits(path, KEYS, FIGURES)
    settings = [setting_of(case, truth, options) for case in options.cases for truth in range(options.truths)]
    rows = pd.concat([select(rows, setting) for setting in settings])
    summary = summarize(rows, options.criterion)
    print("\n" + summary.to_string(index=False))
    short = summary[(summary["by"] == options.criterion) & (summary["right"] < options.require)]
    if len(short):
        raise SystemExit(f"Fewer than {options.require} right choices: {', '.join(short['case'])}.")


# ---- fits ----


def run(options: argparse.Namespace, path: Path) -> None:
    """Truth after truth, so that a run that is stopped has all cases with fewer truths."""
    for truth in range(options.truths):
        for case in options.cases:
            setting = setting_of(case, truth, options)
            if not options.redo and len(select(read_fits(path, KEYS, FIGURES), setting)):
                continue
            start = time.perf_counter()
            rows = one_truth(setting, options)
            append_fits(rows, path, KEYS, FIGURES)
            print(
                f"{case} truth {truth}: {rows[0]['best']} of {options.candidates}, {rows[0]['n_above_noise']} singular "
                f"values, {time.perf_counter() - start:.0f} s",
                flush=True,
            )


def setting_of(case: str, truth: int, options: argparse.Namespace) -> dict[str, Any]:
    candidates = " ".join(map(str, sorted(options.candidates)))
    values = (case, options.samples, options.rank, truth, options.criterion, candidates)
    return dict(zip(SETTING, values, strict=True))


def select(rows: pd.DataFrame, setting: dict[str, Any]) -> pd.DataFrame:
    """Rows of one table, which are written all together."""
    for name, value in setting.items():
        rows = rows[rows[name].astype(str) == str(value)]
    return rows


def one_truth(setting: dict[str, Any], options: argparse.Namespace) -> list[dict[str, Any]]:
    """One row per candidate."""
    case, samples, rank, truth, criterion, _ = setting.values()
    X = smp.datasets.make_smooth_mixture(case, samples, N_VARIABLES, rank, random_state=truth).X
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", smp.exceptions.TensorlySmpWarning)  # the table has their names
        # Not the seed of the truth: starts would be drawn from the very stream that the mixture was.
        table = select_n_components(X, options.candidates, criterion, n_jobs=options.jobs, random_state=500 + truth)
    rows = []
    for number in table["n_components"].values.tolist():
        one = table.sel(n_components=number)
        row = setting | {name: table.attrs[name] for name in ("best", "n_above_noise")}
        row |= {"n_components": number, "status": str(one["failure"].item()) or "ok"}
        row |= {"warnings": str(one["warnings"].item())}
        rows.append(row | {name: one[name].item() for name in [*COPIED, *HELDOUT] if name in one})
    return rows


# ---- what was chosen ----


def summarize(rows: pd.DataFrame, criterion: str) -> pd.DataFrame:
    """How often each number is chosen, one line per case and criterion."""
    lines = []
    for case, part in rows.groupby("case", sort=False):
        for name in (
            "bic",
            "icl",
            "aic3",
            "aic",
            *(["cv", "cv, lowest"] if criterion == "cv" else []),
            "singular values",
        ):
            found = [decided(one, name, criterion) for _, one in part.groupby("truth")]
            counts = Counter(choice for choice, _ in found)
            margins = [margin for _, margin in found]
            rank = int(part["rank"].iloc[0])
            lines.append(
                {
                    "case": case,
                    "by": name,
                    "right": counts[rank],
                    "within one": sum(counts[rank + step] for step in (-1, 0, 1)),
                    "of": len(found),
                    "chosen": ", ".join(f"{number} ({counts[number]})" for number in sorted(counts)),
                    "margin, worst": np.min(margins),
                    "margin, median": np.median(margins),
                }
            )
    return pd.DataFrame(lines)


def decided(rows: pd.DataFrame, name: str, criterion: str) -> tuple[int, float]:
    """The number chosen for one truth, and the margin of the right one."""
    if name == "singular values":
        return int(rows["n_above_noise"].iloc[0]), np.nan
    rows = rows.assign(aic=-2.0 * rows["log_likelihood"] + 2.0 * rows["n_parameters"])
    values = rows.set_index("n_components")["heldout_gap" if name.startswith("cv") else name]
    margin = values.drop(rows["rank"].iloc[0]).min() - values[rows["rank"].iloc[0]]
    return int(rows["best"].iloc[0] if name == criterion else values.idxmin()), margin


if __name__ == "__main__":
    main()
