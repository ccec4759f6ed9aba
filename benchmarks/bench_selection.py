"""How often select_n_components finds the right number of components, on the paper's four cases.

Ten variables, five components, 5000 samples, all settings the defaults of SmoothProductMixture. Every table has the
information criteria and the singular values of the pair block; held-out samples cost five fits more for every number.

    python benchmarks/bench_selection.py                          two truths a case, candidates 3 to 7; three minutes
    python benchmarks/bench_selection.py --truths 10 --require 8  what is promised: in 8 of 10 truths of every case
    python benchmarks/bench_selection.py --criterion cv --truths 3
    python benchmarks/bench_selection.py --samples 1000 --truths 10
    python benchmarks/bench_selection.py --samples 1000 --truths 10 --rank 10 --candidates 7 8 9 10 11 12 13
    python benchmarks/bench_selection.py --cases gaussian --samples 6000 --rank 30 --candidates 28 29 30 31 32

Prints how often every number is chosen. "chosen" is by the library for `--criterion`, and by the
smallest value for the others. "margin" is by how much the right number is better than the best other one, at worst and
in the median; negative where it is worse.
"""

from __future__ import annotations

import warnings
from collections import Counter

import numpy as np
import pandas as pd
import xarray as xr
from common import KINDS, options_of

import tensorly_smp as smp


def decided(table: xr.Dataset, name: str, criterion: str, rank: int) -> tuple[int, float]:
    """The number chosen for one truth, and the margin of the right one."""
    if name == "singular values":
        return int(table.attrs["n_above_noise"]), np.nan
    aic = -2.0 * table["log_likelihood"] + 2.0 * table["n_parameters"]
    values = (aic if name == "aic" else table["heldout_gap" if name.startswith("cv") else name]).to_series()
    return int(table.attrs["best"] if name == criterion else values.idxmin()), values.drop(rank).min() - values[rank]


def main(arguments: list[str] | None = None) -> None:
    options = options_of(__doc__, arguments, truths=2, cases=KINDS, criterion="bic", candidates=(3, 4, 5, 6, 7),
                         samples=5000, rank=5, jobs=1, require=0)  # fmt: skip
    warnings.simplefilter("ignore", smp.exceptions.TensorlySmpWarning)  # the tables have their names
    names = [
        "bic",
        "icl",
        "aic3",
        "aic",
        *(["cv", "cv, lowest"] if options.criterion == "cv" else []),
        "singular values",
    ]
    lines = []
    for case in options.cases:
        tables = []
        for truth in range(options.truths):
            X = smp.datasets.make_smooth_mixture(case, options.samples, 10, options.rank, random_state=truth).X
            # Not the seed of the truth: starts would be drawn from the very stream that the mixture was.
            how = dict(n_jobs=options.jobs, random_state=500 + truth)
            tables.append(smp.select_n_components(X, options.candidates, options.criterion, **how))
            print(f"{case} truth {truth}: {tables[-1].attrs['best']} of {options.candidates}", flush=True)
        for name in names:
            choices, margins = zip(
                *(decided(one, name, options.criterion, options.rank) for one in tables), strict=True
            )
            counts = Counter(choices)
            lines.append(
                {
                    "case": case,
                    "by": name,
                    "right": counts[options.rank],
                    "within one": sum(counts[options.rank + step] for step in (-1, 0, 1)),
                    "of": len(choices),
                    "chosen": ", ".join(f"{number} ({counts[number]})" for number in sorted(counts)),
                    "margin, worst": np.min(margins),
                    "margin, median": np.median(margins),
                }
            )
    summary = pd.DataFrame(lines)
    print("\n" + summary.to_string(index=False))
    short = summary[(summary["by"] == options.criterion) & (summary["right"] < options.require)]
    if len(short):
        raise SystemExit(f"Fewer than {options.require} right choices: {', '.join(short['case'])}.")


if __name__ == "__main__":
    main()
