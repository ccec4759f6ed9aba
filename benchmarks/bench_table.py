"""One table of times, ratios and peak memory; all that a ratio compares is measured in the same run.

    OMP_NUM_THREADS=1 python benchmarks/bench_table.py [--repeats 3] [--parts stages whole shapes paper ...]

Seconds of the processor, medians of the repeats (taken in turn, so that a busy minute hits both sides of a ratio).

stages  The default fit of 10 variables, 10 components and 10 000 samples, stage by stage, as shares of the whole.
whole   The same beside scikit-learn's GaussianMixture(covariance_type="diag", n_init=5); aim: ratio 1.
shapes  Default fits of 1000 to 100 000 samples, five and ten components, beside the same, one mixture a repeat, and the
        geometric mean of the ratios; of digits, and of more variables than samples.
paper   The coupled CPD alone as the paper has it: 10 variables, 15 bins, 5 components, 5000 samples, relative tolerance
        1e-5, one random start, counting included; aim: 0.2 s with 24 of the triples, 1 s with all 120.
solver  The coupled CPD of 10 components and 10 000 samples, all triples, tolerance 1e-6, one mixture a repeat: default
        solvers from algebraic and random starts, 200 sweeps not extrapolated, ten of the paper's ("mirror").
limits  A sweep over all triples in the implicit form, and a pass of EM, beside a copy of the bytes that it has to go
        through: e1 and e2 once per variable; the indicator matrix and the posteriors. Aim: three times the copy with
        the extra `fast`. Counting all triples, beside a copy of the histograms.

Without --parts: stages, whole, paper and limits. Peak memory is what Python and NumPy have allocated at most
while it ran (tracemalloc), beyond the arguments. About four minutes on a quiet core.
"""

from __future__ import annotations

import time
import tracemalloc
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from math import inf
from statistics import median
from typing import Any, NamedTuple

import numpy as np
from common import KINDS, options_of, processor_time
from sklearn.datasets import load_digits
from sklearn.mixture import GaussianMixture
from threadpoolctl import threadpool_limits

import tensorly_smp as smp
from tensorly_smp._support import kernels
from tensorly_smp.codes.encoding import one_hot
from tensorly_smp.densities.smooth import spline_density
from tensorly_smp.factors.blocks import ProjectedGradient
from tensorly_smp.factors.implicit import ImplicitLoss, couple_codes
from tensorly_smp.fitting.fit_samples import in_memory
from tensorly_smp.likelihood.steps import expectation
from tensorly_smp.search.coarse import SearchSamples
from tensorly_smp.search.search import search

N_VARIABLES, RANK, N_SAMPLES, N_BINS = 10, 10, 10_000, 15

Work = Callable[[], Any]


class Line(NamedTuple):
    """What was done, its seconds, beside which seconds, and the peak memory in bytes."""

    name: str
    seconds: float
    beside: float | None = None
    memory: float | None = None
    note: str = ""

    def __str__(self) -> str:
        beside = "-" if self.beside is None else f"{self.beside:.4f}"
        ratio = "-" if self.beside is None else f"{self.seconds / self.beside:.2f}"
        memory = "-" if self.memory is None else f"{self.memory / 1e6:.1f}"
        return f"{self.name:<58s} {self.seconds:9.4f} {beside:>9s} {ratio:>7s} {memory:>8s}  {self.note}".rstrip()


def processor_seconds(*works: Work, repeats: int) -> list[float]:
    """Median of each, taken in turn, after one run of each that is not counted."""
    for work in works:
        work()
    seconds: list[list[float]] = [[] for _ in works]
    for _ in range(repeats):
        for values, work in zip(seconds, works, strict=True):
            # Short ones several times over, or the clock would be too coarse.
            before, runs = time.process_time(), 0
            while not runs or time.process_time() - before < 0.02:
                work()
                runs += 1
            values.append((time.process_time() - before) / runs)
    return [median(values) for values in seconds]


def peak_bytes(work: Work) -> int:
    """Largest amount of memory beyond what was there before."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def mixture_samples(
    kind: str, n_samples: int, n_variables: int = N_VARIABLES, rank: int = RANK
) -> smp.datasets.SmoothMixtureSample:
    return smp.datasets.make_smooth_mixture(kind, n_samples, n_variables, rank, random_state=0)


def default_fit(X: np.ndarray, rank: int = RANK, n_bins: int = N_BINS) -> smp.SmoothProductMixture:
    return smp.SmoothProductMixture(n_components=rank, n_bins=n_bins, random_state=0).fit(X)


# ---- stages and whole ----


def stages(repeats: int, n_samples: int) -> Iterator[Line]:
    """The refinement is all that the whole takes beyond the other stages."""
    X = mixture_samples("gmm", n_samples).X
    model = default_fit(X)
    samples = in_memory(X, smp.choose_binning(X, n_bins=N_BINS), None)
    works: dict[str, Work] = {
        "bins and codes": lambda: smp.encode_samples(X, smp.choose_binning(X, n_bins=N_BINS)),
        "search": lambda: search(SearchSamples(samples.values, None, (), RANK), RANK, "auto", 0, None, 0),
        "densities": lambda: spline_density(model.result_, model.factors_),
        "whole": lambda: default_fit(X),
    }
    found = dict(zip(works, processor_seconds(*works.values(), repeats=repeats), strict=True))
    whole = found["whole"]
    rest = whole - sum(seconds for name, seconds in found.items() if name != "whole")
    for name, seconds in found.items():
        if name == "densities":
            yield Line("stage: refinement (the rest)", rest, whole)
        yield Line(f"stage: {name}", seconds, whole, peak_bytes(works[name]))


def whole(repeats: int, n_samples: int) -> Iterator[Line]:
    """Default fits beside scikit-learn's; and, a line of its own, with kernels from the first sample on."""
    for kind in KINDS:
        X = mixture_samples(kind, n_samples).X
        works: list[Work] = [
            partial(default_fit, X),
            partial(diagonal(RANK).fit, X),
        ]
        if kernels.compiled(inf) is not None:
            works.append(kernels.used_from(0.0)(partial(default_fit, X)))
        ours, theirs, *fast = processor_seconds(*works, repeats=repeats)
        with threadpool_limits(1):
            yield Line(f"default fit, {kind}, beside scikit-learn", ours, theirs, peak_bytes(works[0]), "aim: 1")
            yield Line(f"scikit-learn's mixture, {kind}", theirs, None, peak_bytes(works[1]))
            if fast:
                yield Line(f"default fit, {kind}, compiled kernels throughout", fast[0], theirs, peak_bytes(works[2]))


# ---- other shapes ----


def diagonal(rank: int) -> GaussianMixture:
    return GaussianMixture(rank, covariance_type="diag", n_init=5, random_state=0)


def shapes(repeats: int, n_samples: int) -> Iterator[Line]:
    default_fit(mixture_samples("gmm", 300).X)  # compiled kernels are loaded before
    for size in (n_samples // 10, n_samples, 10 * n_samples):
        ratios = []
        for rank in (5, 10):
            for kind in KINDS:
                X = [smp.datasets.make_smooth_mixture(kind, size, 10, rank, random_state=k).X for k in range(repeats)]
                ours = median(processor_time(partial(default_fit, values, rank))[1] for values in X)
                theirs = median(processor_time(partial(diagonal(rank).fit, values))[1] for values in X)
                ratios.append(ours / theirs)
                yield Line(f"default fit, {kind}, {rank} components, {size} samples", ours, theirs)
        yield Line(f"geometric mean of the ratios, {size} samples", float(np.exp(np.mean(np.log(ratios)))))
    digits = load_digits().images.reshape(-1, 4, 2, 4, 2).mean(axis=(2, 4)).reshape(-1, 16)
    yield Line("default fit, digits 4 x 4, 10 components", processor_time(partial(default_fit, digits))[1])
    for size, n_variables, rank in ((20, 1000, 2), (60, 1000, 3), (30, 200, 2), (5500, 40, 11), (10_000, 1000, 10)):
        X = mixture_samples("gaussian", min(size, n_samples), n_variables, rank).X
        seconds = processor_time(partial(default_fit, X, rank))[1]
        yield Line(f"default fit, {len(X)} x {n_variables}, {rank} components", seconds)


# ---- the coupled decomposition ----


def solver(repeats: int, n_samples: int) -> Iterator[Line]:
    plain = dict(init="random", options=smp.SolverOptions(extrapolate=False), n_iter_max=200)
    of_paper = dict(init="random", options=smp.SolverOptions(solver="mirror"), n_iter_max=10)
    ways: dict[str, dict[str, Any]] = {"": {}, ", random start": dict(init="random")}
    ways |= {", not extrapolated": plain, ", mirror": of_paper}
    for kind in KINDS:
        X = [smp.datasets.make_smooth_mixture(kind, n_samples, 10, RANK, random_state=k).X for k in range(repeats)]
        beside = median(processor_time(partial(diagonal(RANK).fit, values))[1] for values in X)
        marginals = [smp.count_marginals(smp.encode_samples(v, smp.choose_binning(v, N_BINS))) for v in X]
        for loss in ("kl", "frobenius"):
            for name, options in ways.items():
                fit = partial(smp.coupled_simplex_parafac, rank=RANK, loss=loss, random_state=0, **options)
                runs = [processor_time(partial(fit, known)) for known in marginals]
                n_sweeps = median(solution.trace.n_sweeps for solution, _ in runs)
                note = f"{n_sweeps:g} sweeps, loss {median(solution.loss for solution, _ in runs):.4g}"
                yield Line(f"{kind}, {loss}{name}", median(s for _, s in runs), beside, note=note)


def paper(repeats: int, n_samples: int) -> Iterator[Line]:
    X = mixture_samples("gaussian", min(5000, n_samples), rank=5).X
    codes = smp.encode_samples(X, smp.choose_binning(X, n_bins=15))

    def fit(triples: Any, loss: str) -> Any:
        marginals = smp.count_marginals(codes, triples, random_state=0)
        return smp.coupled_simplex_parafac(marginals, 5, loss=loss, init="random", tol=1e-5, random_state=0)

    cases: list[tuple[Any, str, str]] = [
        (triples, loss, aim)
        for triples, aim in ((24, "aim: 0.2 s"), ("all", "aim: 1 s"))
        for loss in ("kl", "frobenius")
    ]
    works = [partial(fit, triples, loss) for triples, loss, _ in cases]
    for (triples, loss, aim), work, seconds in zip(
        cases, works, processor_seconds(*works, repeats=repeats), strict=True
    ):
        name = f"coupled CPD as in the paper, {triples} triples, {loss}"
        yield Line(name, seconds, None, peak_bytes(work), f"{aim}; {work().trace.n_sweeps} sweeps")


# ---- limits ----


def limits(repeats: int, n_samples: int) -> Iterator[Line]:
    sweep, moved = implicit_sweep(n_samples, 20 * N_VARIABLES)
    yield from beside_copy(f"implicit sweep, {20 * N_VARIABLES} variables", sweep, moved, repeats)
    step, moved = em_pass(10 * n_samples)
    yield from beside_copy(f"pass of EM, {10 * n_samples} samples", step, moved, repeats)
    codes = random_codes(10 * n_samples, N_VARIABLES, N_BINS)
    counts = smp.count_marginals(codes).counts
    count, copy = partial(smp.count_marginals, codes), partial(np.copy, np.stack(counts))
    yield from beside_copy(f"count of all triples, {10 * n_samples} samples", count, copy, repeats)


def beside_copy(name: str, work: Work, moved: Work, repeats: int) -> Iterator[Line]:
    seconds, copy = processor_seconds(work, moved, repeats=repeats)
    yield Line(f"{name}, beside a copy", seconds, copy, peak_bytes(work))


def implicit_sweep(n_samples: int, n_variables: int, rank: int = RANK, n_bins: int = N_BINS) -> tuple[Work, Work]:
    """One sweep over all triples of codes, sums and block solvers, and for every variable a copy of e1 and e2."""
    codes = random_codes(n_samples, n_variables, n_bins)
    coupled, solver = couple_codes(codes), ProjectedGradient()
    rng = np.random.default_rng(0)
    factors = [rng.dirichlet(np.ones(n_bins), rank).T for _ in range(n_variables)]
    losses: dict[bool, ImplicitLoss] = {}

    def sweep() -> list[np.ndarray]:
        # The sums of a loss are made at its first block, by kernels or not: one loss for each.
        is_compiled = kernels.compiled(n_samples * n_variables * rank) is not None
        loss = losses.setdefault(is_compiled, ImplicitLoss(coupled))
        weights = solver(loss.weight_block(factors), np.full((1, rank), 1.0 / rank), None)[0][0]
        moved = list(factors)
        for n in range(n_variables):
            moved[n] = solver(loss.factor_block(n, moved, weights), moved[n], None)[0]
        return moved

    source = np.random.default_rng(0).random((2, n_samples, rank))
    target = np.empty_like(source)

    def copy() -> None:
        for _ in range(n_variables):
            np.copyto(target, source)

    return sweep, copy


def em_pass(
    n_samples: int, n_variables: int = N_VARIABLES, rank: int = RANK, n_bins: int = N_BINS
) -> tuple[Work, Work]:
    """The E-step, which is all of a pass that goes through the samples, and a copy of what it reads and writes."""
    rng = np.random.default_rng(0)
    hot = one_hot(random_codes(n_samples, n_variables, n_bins))
    log_tables, log_weights = np.log(rng.random((hot.shape[1], rank))), np.full(rank, -np.log(rank))
    sources = [hot.indices, hot.data, hot.indptr, np.zeros((n_samples, rank))]
    targets = [np.empty_like(array) for array in sources]

    def copy() -> None:
        for target, source in zip(targets, sources, strict=True):
            np.copyto(target, source)

    return partial(expectation, hot, log_weights, log_tables), copy


def random_codes(n_samples: int, n_variables: int, n_bins: int) -> smp.Codes:
    values = np.random.default_rng(0).integers(n_bins, size=(n_samples, n_variables), dtype=np.int16)
    return smp.Codes.from_array(values, [n_bins] * n_variables)


PARTS: dict[str, Callable[[int, int], Iterator[Line]]] = {
    "stages": stages,
    "whole": whole,
    "shapes": shapes,
    "paper": paper,
    "solver": solver,
    "limits": limits,
}


def main() -> None:
    usual = ("stages", "whole", "paper", "limits")
    options = options_of(__doc__, repeats=3, parts=usual, samples=N_SAMPLES)
    # Runs are cut short on purpose, and what a fit may warn of is not the subject.
    warnings.simplefilter("ignore", smp.exceptions.TensorlySmpWarning)
    print(f"{'':<58s} {'seconds':>9s} {'beside':>9s} {'ratio':>7s} {'peak MB':>8s}")
    with threadpool_limits(1):
        for part in options.parts:
            for line in PARTS[part](options.repeats, options.samples):
                print(line, flush=True)


if __name__ == "__main__":
    main()
