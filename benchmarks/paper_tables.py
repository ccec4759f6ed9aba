"""Tables and verdicts of benchmarks/paper.py."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import xarray as xr

# ---- the figures to reach ----

SOURCE = (
    "figures of a prototype (GEVD and random starts, 15 EM passes each, the best two to 40 Frobenius sweeps, 1 % "
    "uniform, EM, smoothed EM with AIC), means of two truths that are not those drawn here"
)
# (rank, samples): for each case KL(true || learned) of the prototype; of the same log-spline fitted with the true
# posteriors; of scikit-learn's diagonal Gaussian mixture (n_init=5, three truths).
REFERENCE: dict[tuple[int, int], dict[str, tuple[str, str, str]]] = {
    (5, 1000): {
        "gaussian": ("0.17", "0.17", "0.06"),
        "gmm": ("0.25", "0.18", "2.36"),
        "gamma": ("0.25", "0.25", "0.75"),
        "laplace": ("0.41", "0.32", "0.71"),
    },
    (5, 5000): {
        "gaussian": ("0.020", "0.020", "0.013"),
        "gmm": ("0.064", "0.055", "2.32"),
        "gamma": ("0.080", "0.079", "0.70"),
        "laplace": ("0.094", "0.082", "0.66"),
    },
    (10, 1000): {
        "gaussian": ("0.29", "0.28", "0.12"),
        "gmm": ("0.68", "0.27", "1.83"),
        "gamma": ("0.44", "0.43", "0.82"),
        "laplace": ("0.90", "0.42", "0.76"),
    },
    (10, 5000): {
        "gaussian": ("0.039", "0.039", "0.021"),
        "gmm": ("0.12", "0.082", "1.73"),
        "gamma": ("0.12", "0.12", "0.72"),
        "laplace": ("0.15", "0.11", "0.63"),
    },
    (10, 10_000): {
        "gaussian": ("0.022", "0.022", "0.011"),
        "gmm": ("0.054", "0.039", "1.71"),
        "gamma": ("0.068", "0.067", "0.70"),
        "laplace": ("0.095", "0.071", "0.60"),
    },
}
# R's mixtools npEM at R = 5, M = 1000, two truths, its density floored at 1e-5.
NPEM_REFERENCE = {"gaussian": (0.72, 0.12), "gmm": (0.37, 0.20), "gamma": (0.42, 0.39), "laplace": (0.40, 0.42)}
# Points of accuracy that the mean may stay below the true model's.
ACCURACY_BOUNDS = {(5, 5000): 0.5, (10, 5000): 1.5, (10, 7000): 1.5, (10, 10_000): 1.5}
MASS_TOLERANCE = 1e-4


def bound(printed: str) -> float:
    """The largest number that would be printed like this."""
    decimals = len(printed.partition(".")[2])
    return float(printed) + 0.5 * 10.0**-decimals


# ---- means over the truths ----


def summarize(fits: pd.DataFrame, order: Mapping[str, Sequence[str]]) -> pd.DataFrame:
    """Means over the truths by (case, rank, samples, method), of the fits that succeeded.

    kl_se is the Monte Carlo error of the mean KL on the given truths, kl_sd the standard deviation between truths;
    below is points of accuracy below the true model's.
    """
    good = fits[fits["status"] == "ok"].copy()
    good["below"] = good["true_accuracy"] - good["accuracy"]
    for name, values in order.items():
        good[name] = pd.Categorical(good[name], values, ordered=True)
    grouped = good.groupby(["case", "rank", "samples", "method"], observed=True)
    table = grouped[["kl", "accuracy", "true_accuracy", "below"]].mean()
    table.insert(1, "kl_se", np.sqrt(grouped["kl_se"].agg(lambda errors: np.square(errors).sum())) / grouped.size())
    table.loc[table["kl"].isna(), "kl_se"] = np.nan
    table.insert(2, "kl_sd", grouped["kl"].std())
    table["seconds"], table["mass_error"] = grouped["seconds"].median(), grouped["mass_error"].max()
    table["truths"] = grouped.size()
    return table.reset_index().astype({"case": str, "method": str})


def by_method(summary: pd.DataFrame, case: str, column: str, order: Sequence[str]) -> pd.DataFrame:
    """Rows (rank, samples), one column per method that was fitted."""
    table = summary[summary["case"] == case].pivot(index=["rank", "samples"], columns="method", values=column)
    return table[[name for name in order if name in table and table[name].notna().any()]]


def tables(summary: pd.DataFrame, order: Mapping[str, Sequence[str]]) -> Iterator[str]:
    for case in [case for case in order["case"] if case in set(summary["case"])]:
        kl = by_method(summary, case, "kl", [name for name in order["method"] if name != "true model"]).map(
            lambda value: "-" if np.isnan(value) else f"{value:.3f}"
        )
        for column, name in enumerate(("prototype", "true posteriors", "its GMM diag")):
            kl[f"[{name}]"] = [REFERENCE.get(key, {}).get(case, ("-",) * 3)[column] for key in kl.index]
        truths = summary.loc[summary["case"] == case, "truths"]
        number = f"{truths.min()}" if truths.min() == truths.max() else f"{truths.min()} to {truths.max()}"
        caption = f"{case}: KL(true || learned) in nats, means; number of truths: {number}"
        yield f"{caption}\n{kl.reset_index().to_string(index=False)}"
        below = by_method(summary, case, "below", order["method"][:-1])
        of_case = summary[summary["case"] == case].groupby(["rank", "samples"])
        below[order["method"][-1]] = of_case["true_accuracy"].mean()
        yield (
            f"{case}: points of accuracy below the true model, and the true model's accuracy in percent\n"
            + below.reset_index().to_string(index=False, float_format="{:.2f}".format, na_rep="-")
        )
    seconds = summary[summary["method"] != "true model"].pivot_table(
        index=["rank", "samples"], columns="method", values="seconds", aggfunc="median"
    )
    seconds = seconds[[name for name in order["method"] if name in seconds]].reset_index()
    yield "seconds a fit, median over truths and cases, one thread\n" + seconds.to_string(
        index=False, float_format="{:.2f}".format, na_rep="-"
    )


# ---- verdicts ----


def verdicts(fits: pd.DataFrame, summary: pd.DataFrame, judged: str, peers: Sequence[str]) -> pd.DataFrame:
    """One row per cell and question: `judged` against the prototype, the true model's accuracy, and every peer."""
    ours = summary[summary["method"] == judged].set_index(["case", "rank", "samples"])
    rows = []
    for (case, rank, samples), row in ours.iterrows():
        cell = case, rank, samples
        if (rank, samples) in REFERENCE:
            printed = REFERENCE[rank, samples][case][0]
            rows.append((*cell, "KL, prototype", row["kl"], printed, verdict(row["kl"] <= bound(printed))))
        if (rank, samples) in ACCURACY_BOUNDS:
            allowed = ACCURACY_BOUNDS[rank, samples]
            rows.append((*cell, "points below", row["below"], f"{allowed}", verdict(row["below"] <= allowed)))
        rows += [(*cell, *line) for peer in peers for line in against(fits, cell, judged, peer)]
        if (rank, samples) == (5, 1000):
            printed_npem = NPEM_REFERENCE[case]
            mean, lower = np.mean(printed_npem), min(printed_npem)
            worst = fits[selection(fits, cell, judged)]["kl"].max()
            rows.append((*cell, "mean KL, npEM printed", row["kl"], f"{mean:.3f}", verdict(row["kl"] < mean)))
            rows.append((*cell, "worst KL, npEM's lower printed", worst, f"{lower}", verdict(worst < lower)))
    # The means are of the fits that succeeded, so that those that did not must not go unnoticed.
    failed = fits[(fits["method"] == judged) & (fits["status"] != "ok")].groupby(["case", "rank", "samples"]).size()
    rows += [(*cell, "failed fits", float(count), "0", verdict(False)) for cell, count in failed.items()]
    return pd.DataFrame(rows, columns=["case", "rank", "samples", "question", "ours", "bound", "verdict"])


def selection(fits: pd.DataFrame, cell: tuple[str, int, int], method: str) -> pd.Series:
    case, rank, samples = cell
    return (
        (fits["case"] == case)
        & (fits["rank"] == rank)
        & (fits["samples"] == samples)
        & (fits["method"] == method)
        & (fits["status"] == "ok")
    )


def against(fits: pd.DataFrame, cell: tuple[str, int, int], ours: str, peer: str) -> Iterator[tuple]:
    """KL, or accuracy where the peer has no density, on the truths that both were fitted to."""
    pair = [fits[selection(fits, cell, method)].set_index("truth") for method in (ours, peer)]
    column, sign = ("kl", 1.0) if len(pair[1]) and pair[1]["kl"].notna().any() else ("accuracy", -1.0)
    both = pd.DataFrame({"ours": pair[0][column], "peer": pair[1][column]}).dropna()
    if len(both):
        better = sign * both["ours"] < sign * both["peer"]
        mean_ours, mean_peer = both.mean()
        name = f"{'KL' if column == 'kl' else 'accuracy'}, {peer}"
        word = "ties" if mean_ours == mean_peer else "beats" if sign * mean_ours < sign * mean_peer else "LOSES"
        yield name, mean_ours, f"{mean_peer:.3f}", f"{word} {better.sum()}/{len(both)}"


def verdict(holds: bool) -> str:
    return "reached" if holds else "MISSED"


def verdict_lines(table: pd.DataFrame) -> Iterator[str]:
    """Verdicts with a column per question, those missed with their figures, and how many there are."""
    wide = table.pivot(index=["case", "rank", "samples"], columns="question", values="verdict")
    yield wide[table["question"].drop_duplicates().tolist()].reset_index().to_string(index=False, na_rep="-")
    missed = table["verdict"].str.startswith(("MISSED", "LOSES"))
    yield f"{(~missed).sum()} of {len(table)} reached or not lost" + ("; the others:" if missed.any() else ".")
    for row in table[missed].itertuples():
        yield f"  {row.case} R={row.rank} M={row.samples}, {row.question}: {row.ours:.3f} against {row.bound}"


def mass_line(fits: pd.DataFrame) -> str:
    worst = (
        fits[fits["status"] == "ok"].groupby("method")["mass_error"].max().dropna().drop("true model", errors="ignore")
    )
    loose = worst[worst > MASS_TOLERANCE]
    return (
        "Largest deviation from one of the numerical integral over the real line of any variable's learned density, by "
        "method: "
        + ", ".join(f"{name} {value:.0e}" for name, value in worst.items())
        + (f". NOT NORMALIZED: {', '.join(loose.index)}." if len(loose) else ".")
    )


def trouble_lines(fits: pd.DataFrame) -> Iterator[str]:
    for (method, status), rows in fits[fits["status"] != "ok"].groupby(["method", "status"]):
        yield f"{method}: {status} ({len(rows)} fits)"
    warned = fits[fits["warnings"] != ""].groupby(["method", "warnings"]).size()
    for (method, names), count in warned.items():
        yield f"{method}: {names} ({count} fits)"


# ---- files ----


def to_dataset(fits: pd.DataFrame, order: Mapping[str, Sequence[str]]) -> xr.Dataset:
    """The fits by case, rank, samples, truth and method; NaN and "" where there is none.

    A method is selected by ``sel({"method": name})``: as a keyword, xarray takes the word for something else.
    """
    dataset = fits.set_index(["case", "rank", "samples", "truth", "method"]).to_xarray()
    present = {name: [value for value in values if value in dataset[name]] for name, values in order.items()}
    dataset = dataset.sel(present)
    for name in ("status", "warnings"):
        dataset[name] = dataset[name].fillna("").astype(str)
    descriptions = {
        "kl": ("KL(true || learned) on new samples", "nat"),
        "kl_se": ("Monte Carlo standard error of kl", "nat"),
        "accuracy": ("clustering accuracy on new samples", "percent"),
        "true_accuracy": ("clustering accuracy of the true model on the same samples", "percent"),
        "seconds": ("duration of the fit, one thread", "s"),
        "mass_error": ("largest deviation of the integral of a variable's density from one", "1"),
    }
    for name, (text, unit) in descriptions.items():
        dataset[name].attrs.update(long_name=text, units=unit)
    dataset.attrs["description"] = (
        "Mixtures of ten variables, 2000 new samples; Kargas and Sidiropoulos 2019, section 5"
    )
    return dataset


def write(fits: pd.DataFrame, order: Mapping[str, Sequence[str]], ours: Sequence[str], folder: Path) -> None:
    """Print and write everything; the first of `ours` that was fitted is the one that is judged."""
    if not (fits["status"] == "ok").any():
        print("There are no fits to report on.")
        return
    summary = summarize(fits, order)
    fitted = [name for name in ours if name in set(fits["method"])]
    parts = list(tables(summary, order))
    if fitted:
        others = [name for name in order["method"] if name not in ours and name != "true model"]
        table = verdicts(fits, summary, fitted[0], [*fitted[1:], *others])
        table.to_csv(folder / "verdicts.csv", index=False)
        heading = (
            f"verdicts on {fitted[0]!r}: means over the truths, and on how many truths it is better. Prototype, and in "
            f"brackets above: {SOURCE}; npEM printed: two runs of it then"
        )
        parts.append("\n".join([heading, *verdict_lines(table)]))
    parts += [mass_line(fits), *trouble_lines(fits)]
    text = "\n\n".join(parts)
    print(text)
    (folder / "summary.txt").write_text(text + "\n", encoding="utf-8")
    summary.to_csv(folder / "summary.csv", index=False)
    to_dataset(fits, order).to_netcdf(folder / "fits.nc", engine="scipy")
