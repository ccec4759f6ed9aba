"""Figures of rival solutions: who is warned, whether the right answer is among them, and what they cost.

    python benchmarks/bench_rivals.py case                 # two of three groups differ in one variable; eight seeds
    python benchmarks/bench_rivals.py clear [--truths 10]  # the four densities, R = 5, M = 3000: none should warn
    python benchmarks/bench_rivals.py hard [--truths 10]   # the same, R = 10, M = 1000
    python benchmarks/bench_rivals.py pairs [--truths 6]   # the same, two groups alike in all but one variable

`pairs` keeps solutions up to three standard deviations of the difference (Vuong 1989) and shows, for limits in nats and
in standard deviations, how often a fit would warn and how often the right answer is the fit or among its rivals. The
right answer is that of the true mixture, adjusted Rand index 0.85 or more.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from common import KINDS, options_of
from sklearn.metrics import adjusted_rand_score

import tensorly_smp as smp
from tensorly_smp.datasets import TrueMixture
from tensorly_smp.exceptions import RivalSolutionsWarning
from tensorly_smp.likelihood import comparison

RIGHT = 0.85


def fitted(X: np.ndarray, rank: int, seed: int = 0) -> tuple[Any, bool, float]:
    """The model, whether it warned of rivals, and seconds."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        began = time.perf_counter()
        model = smp.SmoothProductMixture(rank, random_state=seed).fit(X)
        seconds = time.perf_counter() - began
    return model, any(issubclass(each.category, RivalSolutionsWarning) for each in caught), seconds


def others(model: Any) -> list[Any]:
    return [model.rivals(k) for k in range(model.result_.sizes.get("rival", 0))]


def case() -> None:
    """The example of the documentation."""
    rng, groups = np.random.default_rng(0), np.arange(600) % 3
    X = rng.normal(size=(600, 5)) + np.array([[0] * 5, [0, 0, 7, 0, 0], [6, 5, 3, 4, 5]])[groups]
    for seed in range(8):
        model, warned, seconds = fitted(X, 3, seed)
        solutions = [model, *others(model)]
        found = [smp.metrics.clustering_accuracy(groups, each.predict(X)) for each in solutions]
        of_rivals = ", ".join(f"{each:.2f}" for each in found[1:])
        print(f"seed {seed}: accuracy {found[0]:.2f}, warned {warned}; rivals {of_rivals}; {seconds:.2f} s")


def shares(rank: int, n_samples: int, n_truths: int) -> None:
    """Share of fits that warn, by the kind of density; fits two points below the true mixture apart."""
    for kind in KINDS:
        counts, seconds = np.zeros((2, 2), dtype=int), 0.0
        for seed in range(n_truths):
            data = smp.datasets.make_smooth_mixture(kind, n_samples, n_components=rank, random_state=seed)
            model, warned, taken = fitted(data.X, rank)
            best = smp.metrics.clustering_accuracy(data.labels, data.mixture.predict(data.X))
            is_good = smp.metrics.clustering_accuracy(data.labels, model.labels_) > best - 0.02
            counts[int(not is_good), int(warned)] += 1
            seconds += taken
        good, poor = counts
        print(
            f"{kind:9s} R = {rank}, M = {n_samples}: warned {good[1]} of {good.sum()} good fits and {poor[1]} of "
            f"{poor.sum()} others; {seconds / n_truths:.2f} s a fit",
            flush=True,
        )


def alike_but_one(kind: str, n_variables: int, rank: int, seed: int) -> TrueMixture:
    """One of the four densities, with the second component like the first in all variables but one, far apart there."""
    truth = smp.datasets.make_smooth_mixture(kind, 1, n_variables, rank, random_state=seed).mixture
    loc, scale = truth.loc.copy(), truth.scale.copy()
    loc[:, 1], scale[1:, 1] = loc[:, 0], scale[1:, 0]
    loc[0, 1] += 9.0
    return TrueMixture(np.full(rank, 1 / rank), truth.standard, loc, scale)


def of_pairs(n_truths: int) -> Iterator[tuple[bool, list[tuple[float, float, bool]]]]:
    """Whether a fit is right, and of every rival how far it is below, in nats and in deviations, and if it is right."""
    comparison.RIVAL_DEVIATIONS = 3.0
    comparison.find_rivals.__kwdefaults__["most"] = 20
    for n_variables, rank, n_samples in ((5, 3, 600), (6, 4, 1000)):
        for kind in KINDS:
            for seed in range(n_truths):
                truth = alike_but_one(kind, n_variables, rank, seed)
                X, _ = truth.sample(n_samples, random_state=seed)
                model, _, seconds = fitted(X, rank)
                right = truth.predict(X)
                result = model.result_
                is_right = adjusted_rand_score(right, model.predict(X)) >= RIGHT
                rivals = [
                    (
                        -float(result.rival_criterion[k]),
                        -float(result.rival_criterion[k]) / float(result.rival_deviation[k]),
                        bool(adjusted_rand_score(right, each.predict(X)) >= RIGHT),
                    )
                    for k, each in enumerate(others(model))
                ]
                shown = ", ".join(f"{nats:.1f} ({far:.2f}){' right' if good else ''}" for nats, far, good in rivals)
                print(f"{kind:9s} R = {rank}: right {is_right}, {seconds:.2f} s; rivals {shown}", flush=True)
                yield is_right, rivals


def pairs(n_truths: int) -> None:
    """Who is warned, and whether the right answer is among the rivals, by the limit."""
    rows = list(of_pairs(n_truths))
    for name, place, limits in (
        ("nats", 0, (1, 2, 3, 5, 8, 12, 16, 20)),
        ("deviations", 1, (0.5, 1, 1.28, 1.64, 1.96, 2.5, 3)),
    ):
        for limit in limits:
            warned = np.mean([any(rival[place] <= limit for rival in found) for _, found in rows])
            among = np.mean([ok or any(r[place] <= limit and r[2] for r in found) for ok, found in rows])
            number = np.mean([sum(rival[place] <= limit for rival in found) for _, found in rows])
            print(f"{limit:5} {name:10s}: warned {warned:.2f}, right among them {among:.2f}, rivals {number:.1f}")


if __name__ == "__main__":
    options = options_of(__doc__, words=("case", "clear", "hard", "pairs"), truths=0)
    if options.part == "clear":
        shares(5, 3000, options.truths or 10)
    elif options.part == "hard":
        shares(10, 1000, options.truths or 10)
    elif options.part == "pairs":
        pairs(options.truths or 6)
    else:
        case()
