"""Figures of benchmarks/paper.py: the paper's Figs. 3-10 (divergence and accuracy by M) and its toy Figs. 1-2."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import toy_sinc
from matplotlib.ticker import LogLocator

from tensorly_smp.densities.sinc import sinc_cdf, sinc_pdf

# Distinguishable with any kind of color vision (Okabe and Ito), and by marker and line besides.
BLUE, ORANGE, GREEN, PINK, SKY, RED, GRAY = "#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "0.45"
STYLES: dict[str, dict[str, Any]] = {
    "ours": dict(color=BLUE, marker="o", linewidth=2.4, zorder=4),
    "ours, EM": dict(color=SKY, marker="s", zorder=3),
    "ours, paper form (KL)": dict(color=GREEN, marker="^", zorder=3),
    "ours, paper form (Frobenius)": dict(color=GREEN, marker="v", linestyle="--", zorder=3),
    "GMM diag": dict(color=ORANGE, marker="D"),
    "GMM full": dict(color=ORANGE, marker="d", linestyle="--"),
    "k-means": dict(color=PINK, marker="P"),
    "EM Laplace": dict(color=RED, marker="X"),
    "npEM": dict(color=GRAY, marker="<", linestyle="none"),
    "npMSL": dict(color=GRAY, marker=">", linestyle="none"),
    "true model": dict(color="black", linestyle=":"),
}
TITLES = {
    "gaussian": "Gaussian",
    "gmm": "mixture of two Gaussians",
    "gamma": "shifted Gamma",
    "laplace": "Laplace",
}


def draw(fits: pd.DataFrame, order: Mapping[str, Sequence[str]], folder: Path) -> None:
    """Two figures per case, KL and accuracy, with a panel per number of components; and the two of the toy example."""
    good = fits[fits["status"] == "ok"]
    number = 3
    for column in ("kl", "accuracy"):
        for case in order["case"]:
            rows = good[(good["case"] == case) & good[column].notna()]
            if len(rows):
                draw_case(rows, case, column, order["method"], folder / f"fig{number:02d}_{column}_{case}.png")
            number += 1
    draw_toy_cdf(folder / "fig01_toy_cdf.png")
    draw_toy_pdf(folder / "fig02_toy_pdf.png")


def draw_case(rows: pd.DataFrame, case: str, column: str, methods: Sequence[str], path: Path) -> None:
    """Means over the truths against M; bars reach from the least to the largest of the truths."""
    ranks = sorted(rows["rank"].unique())
    figure, panels = plt.subplots(
        1, len(ranks), figsize=(5.2 * len(ranks) + 0.4, 4.6), sharey=True, squeeze=False, layout="constrained"
    )
    shown = [m for m in methods if m in set(rows["method"]) and not (m == "true model" and column == "kl")]
    for panel, rank in zip(panels[0], ranks, strict=True):
        for place, method in enumerate(shown):
            here = rows[(rows["rank"] == rank) & (rows["method"] == method)]
            by_samples = here.groupby("samples")[column]
            middle, least, most = by_samples.mean(), by_samples.min(), by_samples.max()
            style = {"linewidth": 1.6, "markersize": 6} | STYLES[method]
            if method == "true model":
                panel.plot(middle.index, middle, label=method, **style)
                continue
            # Shifted a little, in steps that are equal on the logarithmic axis, so that bars do not hide each other.
            x = middle.index * 1.012 ** (place - 0.5 * (len(shown) - 1))
            panel.vlines(x, least, most, color=style["color"], linewidth=1.0, alpha=0.6)
            panel.plot(x, middle, label=method, **style)
        ticks = sorted(rows["samples"].unique())
        panel.set_xscale("log")
        panel.set_xticks(ticks, [f"{tick:,}".replace(",", " ") for tick in ticks])
        panel.minorticks_off()
        panel.set(title=f"{rank} components", xlabel="samples M")
        panel.grid(axis="y", color="0.9")
        panel.set_axisbelow(True)
        panel.spines[["right", "top"]].set_visible(False)
    if column == "kl":
        panels[0, 0].set_yscale("log")
        panels[0, 0].yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        panels[0, 0].yaxis.set_major_formatter("{x:g}")
        panels[0, 0].set_ylabel("KL(true || learned), nats per sample")
    else:
        panels[0, 0].set_ylabel("clustering accuracy, %")
        # Not less than six points, or hundredths of a point look like something.
        low = panels[0, 0].get_ylim()[0]
        panels[0, 0].set_ylim(min(low, 95.0), None if low < 80.0 else 100.5)
    handles, labels = panels[0, -1].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
    truths = rows.groupby(["rank", "samples", "method"])["truth"].nunique().max()
    spread = f"means of {truths} mixtures, bars from the least to the largest" if truths > 1 else "one mixture"
    figure.suptitle(f"{TITLES.get(case, case)}: {spread}")
    figure.savefig(path, dpi=130)
    plt.close(figure)


# ---- the toy example ----


def toy_points() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Points to draw at, the ten intervals of the paper, and the probability of each."""
    edges = np.arange(-18.0, 23.0, 4.0)
    return np.linspace(-30.0, 34.0, 1281), edges, toy_sinc.bin_masses(edges)


def draw_toy_cdf(path: Path) -> None:
    x, edges, masses = toy_points()
    figure, panel = plt.subplots(figsize=(6.4, 4.2), layout="constrained")
    panel.plot(x, toy_sinc.cdf(x), color="black", linewidth=1.4, label="true distribution function")
    panel.plot(x, sinc_cdf(x, edges, masses), color=BLUE, linestyle="--", linewidth=2, label="sinc reconstruction")
    panel.plot(edges, np.r_[0.0, masses.cumsum()], "o", color=RED, label="samples at the eleven edges")
    panel.set(xlabel="x", ylabel="F(x)", title="Distribution function from its samples, 4 apart")
    _finish(figure, panel, path)


def draw_toy_pdf(path: Path) -> None:
    x, edges, masses = toy_points()
    wide = toy_sinc.edges_of_width(4.0)
    figure, panel = plt.subplots(figsize=(6.4, 4.2), layout="constrained")
    panel.plot(x, toy_sinc.pdf(x), color="black", linewidth=1.4, label="true density")
    centers, height = 0.5 * (edges[:-1] + edges[1:]), masses / np.diff(edges)
    panel.bar(centers, height, width=4.0, color="0.88", edgecolor="white", label="histogram, ten intervals")
    panel.plot(x, sinc_pdf(x, edges, masses), color=BLUE, linestyle="--", linewidth=2, label="sinc, these ten")
    all_masses = toy_sinc.bin_masses(wide)
    label = f"sinc, intervals of 4 from {wide[0]:g} to {wide[-1]:g}"
    panel.plot(x, sinc_pdf(x, wide, all_masses), color=ORANGE, linestyle=":", linewidth=2.4, label=label)
    panel.set(xlabel="x", ylabel="f(x)", title="Density: derivative of the reconstruction")
    panel.set_ylim(top=1.45 * toy_sinc.pdf(x).max())
    _finish(figure, panel, path)


def _finish(figure: Any, panel: Any, path: Path) -> None:
    panel.spines[["right", "top"]].set_visible(False)
    panel.legend(frameon=False, loc="upper left", fontsize=9)
    figure.savefig(path, dpi=130)
    plt.close(figure)
