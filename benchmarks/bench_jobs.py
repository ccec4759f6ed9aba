"""One table of what users wait for, beside other packages: seconds of the processor, and ratios of one run.

    OMP_NUM_THREADS=1 python benchmarks/bench_jobs.py [--quick] [--parts jobs cases shapes ...] [--repeats 3]

jobs    A fit, a selection among seven numbers of components, unmixing, the check of independence, a hundred bootstrap
        replicates, the report on identifiability, saving and loading, posteriors of a million rows (of the four cases,
        1000 samples of 10 variables, 5 components), and the decomposition of one tensor. Beside scikit-learn's diagonal
        and full Gaussian mixtures, npEM of R's mixtools where it is installed, TensorLy's non_negative_parafac_hals,
        and the fit itself.
cases   Five small tables: the fit beside the diagonal mixture, the selection beside the diagonal mixtures of the same
        numbers and beside fits of the largest, unmixing beside the full mixture and beside the fit.
shapes  Default fits of 1000 to 100 000 samples beside diagonal mixtures, one mixture a repeat, and the geometric mean
        of the ratios; of more variables than samples, and of a thousand variables.
stages  The default fit of 10 variables, 10 components and 10 000 samples, stage by stage, beside the whole.
paper   The coupled decomposition as in the paper: 10 variables, 15 bins, 5 components, 5000 samples, tolerance 1e-5,
        one random start, counting included.
solver  The coupled decomposition of 10 components and 10 000 samples, all triples, tolerance 1e-6, one mixture a
        repeat: default solvers from algebraic and random starts, 200 sweeps not extrapolated, ten of "mirror".
import  Seconds to import the package in a fresh process, beside the packages that it needs.

Gaussian mixtures have five starts and at most 500 iterations. Medians of the repeats. `--quick` takes one repeat, small
sizes and the parts jobs and import: a minute. Without --parts: jobs, cases and import; ten minutes.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np
from common import KINDS, options_of, processor_time
from peers import fit_mixtools, has_mixtools
from sklearn.mixture import GaussianMixture
from tensorly.decomposition import non_negative_parafac_hals
from threadpoolctl import threadpool_limits

import tensorly_smp as smp
from tensorly_smp.densities.smooth import spline_density
from tensorly_smp.fitting.fit_samples import in_memory
from tensorly_smp.search.coarse import SearchSamples
from tensorly_smp.search.search import search

#: Kind, variables, components, samples.
CASES = (("gmm", 4, 3, 400), ("laplace", 6, 3, 400), ("gaussian", 6, 3, 400), ("gmm", 10, 5, 1000),
         ("laplace", 10, 5, 1000))  # fmt: skip
NUMBERS = range(1, 8)
IMPORTS = {
    "import tensorly_smp": "import tensorly_smp",
    "its dependencies": "import tensorly, pandas, xarray, sklearn.base, joblib, threadpoolctl, "
    "scipy.sparse.linalg, scipy.interpolate, scipy.optimize",
    "tensorly": "import tensorly",
}


class Size(NamedTuple):
    """How often, and how much."""

    repeats: int = 3
    samples: int = 1000
    rows: int = 1_000_000


class Line(NamedTuple):
    """What was done, its seconds, and seconds of what it is compared with."""

    name: str
    seconds: float
    peers: dict[str, float] = {}  # noqa: RUF012
    note: str = ""

    def __str__(self) -> str:
        compared = [f"{name} {beside:.4g} (x {self.seconds / beside:.3g})" for name, beside in self.peers.items()]
        return f"{self.name:<52s} {self.seconds:9.4f}  {'; '.join([*compared, self.note])}".rstrip(" ;")


def seconds_of(works: dict[str, Callable[[], Any]], repeats: int) -> dict[str, float]:
    """Medians of the seconds, taken in turn, so that a busy minute hits all of them."""
    taken: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(repeats):
        for name, work in works.items():
            taken[name].append(processor_time(work)[1])
    return {name: median(values) for name, values in taken.items()}


def line_of(name: str, work: Callable[[], Any], repeats: int, **peers: Callable[[], Any]) -> Line:
    seconds = seconds_of({"": work, **peers}, repeats)
    return Line(name, seconds.pop(""), seconds)


def gaussian(rank: int, kind: str = "diag") -> GaussianMixture:
    return GaussianMixture(rank, covariance_type=kind, n_init=5, max_iter=500, random_state=0)


def fit(X: np.ndarray, rank: int) -> smp.SmoothProductMixture:
    return smp.SmoothProductMixture(rank, random_state=0).fit(X)


def saved_and_loaded(model: smp.SmoothProductMixture) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder, "model.nc"))
        return smp.load(Path(folder, "model.nc"))


# ---- jobs ----


def jobs(size: Size) -> Iterator[Line]:
    repeats = size.repeats
    for kind in KINDS if size.samples >= 1000 else KINDS[:1]:
        data = smp.datasets.make_smooth_mixture(kind, size.samples, 10, 5, random_state=0)
        X, rank = data.X, 5
        model, diagonal = fit(X, rank), gaussian(rank).fit(X)
        works = {"": partial(fit, X, rank), "diagonal": partial(gaussian(rank).fit, X)}
        works["full"] = partial(gaussian(rank, "full").fit, X)
        seconds = seconds_of(works, repeats)
        if has_mixtools():  # seconds of the clock, in a process of its own
            began = time.perf_counter()
            fit_mixtools("npEM", X, rank, 0)
            seconds["npEM"] = time.perf_counter() - began
        own = seconds.pop("")
        yield Line(f"{kind}: fit", own, dict(seconds))
        whole = {"fit": own}
        select = partial(smp.select_n_components, X, NUMBERS, random_state=0)
        all_diagonal = {"diagonal": lambda X=X: [gaussian(number).fit(X) for number in NUMBERS]}
        found = line_of(f"{kind}: selection among seven numbers", select, repeats, **all_diagonal)
        yield found._replace(peers=found.peers | whole)
        unmixed = smp.UnmixedProductMixture(rank, random_state=0)
        found = line_of(f"{kind}: unmixing", partial(unmixed.fit, X), repeats)
        yield found._replace(peers={"full": seconds["full"], **whole})
        rows = data.mixture.sample(size.rows, random_state=1)[0]
        for name, work in {
            "independence": partial(smp.check_independence, model, X, random_state=0),
            "bootstrap of 100": partial(model.bootstrap, X, 100, random_state=0),
            "report on identifiability": partial(smp.check_identifiability, model),
            "save and load": partial(saved_and_loaded, model),
        }.items():
            yield line_of(f"{kind}: {name}", work, repeats)._replace(peers=whole)
        posteriors = partial(diagonal.predict_proba, rows)
        yield line_of(f"{kind}: posteriors of {size.rows} rows", partial(model.predict_proba, rows), repeats,
                      diagonal=posteriors)  # fmt: skip
    rng = np.random.default_rng(0)
    truth = smp.MixtureFactors(rng.dirichlet(np.full(10, 5.0)), [rng.dirichlet(np.ones(60), 10).T for _ in range(3)])
    tensor = rng.poisson(1e6 * truth.to_cp_tensor().to_tensor()).astype(float)
    yield line_of("decomposition of 60 x 60 x 60 counts, rank 10",
                  partial(smp.coupled_simplex_parafac, tensor, 10, random_state=0), repeats,
                  HALS=partial(non_negative_parafac_hals, tensor, 10, n_iter_max=500, random_state=0))  # fmt: skip


def cases(size: Size) -> Iterator[Line]:
    for kind, n_variables, rank, n_samples in CASES:
        X = smp.datasets.make_smooth_mixture(kind, n_samples, n_variables, rank, random_state=1).X
        name = f"{kind}, {n_samples} x {n_variables}, {rank} components"
        found = line_of(f"{name}: fit", partial(fit, X, rank), size.repeats, diagonal=partial(gaussian(rank).fit, X))
        yield found
        peers = {"diagonal": lambda X=X: [gaussian(number).fit(X) for number in NUMBERS]}
        largest = {f"fit of {NUMBERS[-1]}": partial(fit, X, NUMBERS[-1])}
        select = partial(smp.select_n_components, X, NUMBERS, random_state=0)
        yield line_of(f"{name}: selection of seven", select, size.repeats, **peers, **largest)
        unmixed = partial(smp.UnmixedProductMixture(rank, random_state=0).fit, X)
        unmixing = line_of(f"{name}: unmixing", unmixed, size.repeats, full=partial(gaussian(rank, "full").fit, X))
        yield unmixing._replace(peers=unmixing.peers | {"fit": found.seconds})


def shapes(size: Size) -> Iterator[Line]:
    for n_samples in (size.samples, 10 * size.samples, 100 * size.samples):
        ratios = []
        for rank in (5, 10):
            for kind in KINDS:
                make = partial(smp.datasets.make_smooth_mixture, kind, n_samples, 10, rank)
                draws = (make(random_state=seed).X for seed in range(size.repeats))
                lines = [line_of("", partial(fit, X, rank), 1, diagonal=partial(gaussian(rank).fit, X)) for X in draws]
                ours, theirs = median(e.seconds for e in lines), median(e.peers["diagonal"] for e in lines)
                ratios.append(ours / theirs)
                yield Line(f"fit: {kind}, {n_samples} x 10, {rank} components", ours, {"diagonal": theirs})
        mean = float(np.exp(np.mean(np.log(ratios))))
        yield Line(f"geometric mean of the ratios, {n_samples} samples", mean)
    for n_samples, n_variables, rank in ((20, 1000, 2), (60, 1000, 3), (30, 200, 3), (10 * size.samples, 1000, 10)):
        X = smp.datasets.make_smooth_mixture("gaussian", n_samples, n_variables, rank, random_state=0).X
        repeats = size.repeats if n_samples < 100 else 1
        work, peer = partial(fit, X, rank), partial(gaussian(rank).fit, X)
        yield line_of(f"fit: {n_samples} x {n_variables}, {rank} components", work, repeats, diagonal=peer)


def stages(size: Size) -> Iterator[Line]:
    rank = 10
    X = smp.datasets.make_smooth_mixture("gmm", 10 * size.samples, 10, rank, random_state=0).X
    binning = smp.choose_binning(X)
    samples, model = in_memory(X, binning, None), fit(X, rank)
    works: dict[str, Callable[[], Any]] = {
        "bins and codes": lambda: smp.encode_samples(X, smp.choose_binning(X)),
        "search": lambda: search(SearchSamples(samples.values, None, (), rank), rank, "auto", 0, None, 0),
        "densities": lambda: spline_density(model.result_, model.factors_),
        "whole": partial(fit, X, rank),
    }
    seconds = seconds_of(works, size.repeats)
    whole = seconds.pop("whole")
    seconds["the rest: smoothed EM, rivals, checks"] = whole - sum(seconds.values())
    for name, each in seconds.items():
        yield Line(f"stage of a fit: {name}", each, {"whole": whole})


# ---- the coupled decomposition ----


def paper(size: Size) -> Iterator[Line]:
    X = smp.datasets.make_smooth_mixture("gaussian", 5 * size.samples, 10, 5, random_state=0).X
    codes = smp.encode_samples(X, smp.choose_binning(X, n_bins=15))

    def decompose(triples: Any, loss: str) -> Any:
        marginals = smp.count_marginals(codes, triples, random_state=0)
        return smp.coupled_simplex_parafac(marginals, 5, loss=loss, init="random", tol=1e-5, random_state=0)

    for triples in (24, "all"):
        for loss in ("kl", "frobenius"):
            solution = decompose(triples, loss)
            name = f"as in the paper, {triples} triples, {loss}"
            found = line_of(name, partial(decompose, triples, loss), size.repeats)
            yield found._replace(note=f"{solution.trace.n_sweeps} sweeps")


def solver(size: Size) -> Iterator[Line]:
    plain = dict(init="random", options=smp.SolverOptions(extrapolate=False), n_iter_max=200)
    of_paper = dict(init="random", options=smp.SolverOptions(solver="mirror"), n_iter_max=10)
    ways: dict[str, dict[str, Any]] = {"": {}, ", random start": dict(init="random")}
    ways |= {", not extrapolated": plain, ", mirror": of_paper}
    for kind in KINDS:
        make = partial(smp.datasets.make_smooth_mixture, kind, 10 * size.samples, 10, 10)
        X = [make(random_state=k).X for k in range(size.repeats)]
        beside = median(processor_time(partial(gaussian(10).fit, values))[1] for values in X)
        marginals = [smp.count_marginals(smp.encode_samples(v, smp.choose_binning(v, 15))) for v in X]
        for loss in ("kl", "frobenius"):
            for name, options in ways.items():
                decompose = partial(smp.coupled_simplex_parafac, rank=10, loss=loss, random_state=0, **options)
                runs = [processor_time(partial(decompose, known)) for known in marginals]
                n_sweeps = median(solution.trace.n_sweeps for solution, _ in runs)
                note = f"{n_sweeps:g} sweeps, loss {median(solution.loss for solution, _ in runs):.4g}"
                yield Line(f"{kind}, {loss}{name}", median(s for _, s in runs), {"diagonal": beside}, note)


# ---- import ----


def imports(size: Size) -> Iterator[Line]:
    """Modules are compiled to byte code by a first run that does not count, as those of an installed package are."""
    with tempfile.TemporaryDirectory() as folder:
        env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        env["PYTHONPYCACHEPREFIX"] = folder
        taken: dict[str, list[float]] = {name: [] for name in IMPORTS}
        for _ in range(2 * size.repeats + 2):
            for name, statement in IMPORTS.items():
                code = f"import time; before = time.process_time(); {statement}; print(time.process_time() - before)"
                command = [sys.executable, "-c", code]
                done = subprocess.run(command, capture_output=True, text=True, check=True, env=env)
                taken[name].append(float(done.stdout))
    own, *others = ((name, median(values[1:])) for name, values in taken.items())
    yield Line(own[0], own[1], dict(others))


PARTS: dict[str, Callable[[Size], Iterator[Line]]] = {
    **{part.__name__: part for part in (jobs, cases, shapes, stages, paper, solver)},
    "import": imports,
}


def main(arguments: list[str] | None = None) -> None:
    options = options_of(__doc__, arguments, parts=("",), repeats=3, samples=1000, quick=False)
    size = Size(1, 300, 100_000) if options.quick else Size(options.repeats, options.samples)
    usual = ["jobs", "import"] if options.quick else ["jobs", "cases", "import"]
    # What a fit may warn of is not the subject.
    warnings.simplefilter("ignore")
    print(f"{'':<52s} {'seconds':>9s}  beside: seconds (ratio)")
    with threadpool_limits(1):
        fit(smp.datasets.make_smooth_mixture("gmm", 300, 10, 5, random_state=9).X, 5)  # loads compiled kernels
        for part in [name for name in options.parts if name] or usual:
            for line in PARTS[part](size):
                print(line, flush=True)


if __name__ == "__main__":
    main()
