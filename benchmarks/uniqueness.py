"""Random models of all kinds: are the free directions right, and does "unique" ever meet a second model?

Generic models and special ones (equal columns in some variables, a column between two others, a component without
weight, constant variables, zeros, a factor that occurs twice), with all triples or some, whole samples or patterns of
missing entries. Free directions of the report, of singular values and of Gram matrices are compared with those of a
plain Jacobian, cell by cell. Where the verdict is "unique", least squares from random non-negative starts looks for
another model with the same distributions.

`python benchmarks/uniqueness.py --models 500 --starts 2` prints the counts; it takes some minutes.
"""

import sys
import time
from collections import Counter
from itertools import combinations, pairwise, permutations
from pathlib import Path

import numpy as np
from common import options_of
from scipy.optimize import least_squares

from tensorly_smp.factors.mixture_factors import MixtureFactors
from tensorly_smp.identifiability.bounds import KnownMarginals
from tensorly_smp.identifiability.jacobian import local_identifiability
from tensorly_smp.identifiability.report import check_identifiability

sys.path.append(str(Path(__file__).parents[1] / "tests"))
from oracles import plain_free_directions

KINDS = ("generic", "equal", "collinear", "empty", "constant", "zeros", "repeated")
#: Residual (2-norm) of a model that has the same distributions, and largest difference of the same model.
EXACT, SAME = 1e-9, 1e-3


def random_problem(rng):
    """A kind, weights, factors, and for triples and for samples what is known."""
    n_variables = int(rng.integers(3, 8))
    n_bins = rng.integers(2, 5 if n_variables < 5 else 4 if n_variables < 6 else 3, size=n_variables)
    rank = int(rng.integers(1, 6))
    weights = 0.5 * rng.dirichlet(np.ones(rank)) + 0.5 / rank
    factors = [rng.dirichlet(np.ones(size), size=rank).T for size in n_bins]
    kind = str(rng.choice(KINDS))
    some = rng.permutation(n_variables)[: rng.integers(0, n_variables + 1)]
    if kind == "empty" and rank > 1:
        weights = np.append(weights[1:] / weights[1:].sum(), 0.0)
    if kind == "repeated":
        first, second = rng.choice(n_variables, 2, replace=False)
        if n_bins[first] == n_bins[second]:
            factors[second] = factors[first].copy()
    for n in some:
        if kind == "equal" and rank > 1:
            factors[n][:, 1] = factors[n][:, 0]
        elif kind == "collinear" and rank > 2:
            factors[n][:, 2] = 0.5 * (factors[n][:, 0] + factors[n][:, 1])
        elif kind == "constant":
            factors[n][:] = factors[n][:, :1]
        elif kind == "zeros":
            factors[n] = np.eye(n_bins[n])[:, rng.permutation(np.arange(rank) % n_bins[n])]
    return kind, MixtureFactors(weights, factors), _some_triples(rng, n_variables), _some_patterns(rng, n_variables)


def _some_triples(rng, n_variables):
    """All triples, or some in which every variable occurs."""
    every = list(combinations(range(n_variables), 3))
    if rng.random() < 0.5:
        return None
    chosen = [triple for triple in every if rng.random() < 0.5]
    missing = set(range(n_variables)) - {n for triple in chosen for n in triple}
    chosen += [next(triple for triple in every if n in triple and triple not in chosen) for n in sorted(missing)]
    return sorted(set(chosen))


def _some_patterns(rng, n_variables):
    """Whole samples, or up to four patterns of at least three variables."""
    if rng.random() < 0.5:
        return None
    observed = rng.random((rng.integers(1, 5), n_variables)) < 0.7
    observed[0] |= ~observed.any(axis=0)
    observed[0, rng.permutation(n_variables)[:3]] = True
    return observed


def margins_of(known):
    """Sets of variables whose joint distributions are known."""
    return known.margins or tuple(combinations(range(known.n_variables), 3))


def distributions(weights, factors, margins):
    """All known probabilities in a row."""
    parts = []
    for margin in margins:
        product = factors[margin[0]]
        for n in margin[1:]:
            product = (product[:, None, :] * factors[n][None, :, :]).reshape(-1, len(weights))
        parts.append(product @ weights)
    return np.concatenate(parts)


def another_model(model, margins, n_starts, rng):
    """How many random starts end at an exact model, and at one that is not the given one."""
    sizes = [model.rank, *(size for size in model.n_bins for _ in range(model.rank))]
    ends = np.cumsum([0, *sizes])

    def unpacked(roots):
        # Squares of free numbers, divided by their sum: non-negative, and zeros are reached.
        columns = [roots[a:b] ** 2 / (roots[a:b] ** 2).sum() for a, b in pairwise(ends)]
        starts = np.cumsum([1, *(model.rank for _ in model.n_bins)])
        return columns[0], [np.stack(columns[s : s + model.rank], axis=1) for s in starts[:-1]]

    target = distributions(model.weights, model.factors, margins)
    exact = other = 0
    for _ in range(n_starts):
        found = least_squares(
            lambda roots: distributions(*unpacked(roots), margins) - target,
            rng.uniform(0.2, 1.0, ends[-1]),
            xtol=1e-15,
            ftol=1e-15,
            gtol=1e-15,
            max_nfev=150,
        )
        if np.linalg.norm(found.fun) < EXACT:
            exact += 1
            other += distance(*unpacked(found.x), model) > SAME
    return exact, other


def distance(weights, factors, model):
    """Largest difference of two models, over the best order of components."""
    return min(
        max(
            np.abs(weights[list(order)] - model.weights).max(),
            *(np.abs(a[:, list(order)] - b).max() for a, b in zip(factors, model.factors, strict=True)),
        )
        for order in permutations(range(model.rank))
    )


def check(model, known, options, n_starts, rng):
    """Verdict, free directions by report, Jacobian and oracle, and what a search found."""
    report = check_identifiability(model, **options)
    margins = margins_of(known)
    arguments = model.weights, model.factors
    found = {
        "jacobian": local_identifiability(*arguments, known=known).n_free_directions,
        "report": report.local.n_free_directions,
        "plain": plain_free_directions(*arguments, margins),
    }
    searched = another_model(model, margins, n_starts, rng) if report.verdict == "unique" else None
    return report, found, searched


def main():
    arguments = options_of(__doc__, models=500, starts=2, seed=0)
    rng = np.random.default_rng(arguments.seed)
    began = time.perf_counter()
    verdicts, wrong, starts, exact, other = Counter(), Counter(), Counter(), Counter(), Counter()
    for number in range(arguments.models):
        kind, model, triples, patterns = random_problem(rng)
        problems = {
            "triples": (KnownMarginals.of_triples(model.n_variables, None if triples is None else np.array(triples)),
                        {"known": "triples", "triples": triples}),
            "samples": (KnownMarginals.of_samples(model.n_variables, patterns),
                        {"known": "samples", "patterns": patterns}),
        }  # fmt: skip
        for name, (known, options) in problems.items():
            report, found, searched = check(model, known, options, arguments.starts, rng)
            verdicts[name, kind, report.verdict.split(":")[0]] += 1
            for way in ("jacobian", "report"):
                wrong[name, way] += found[way] != found["plain"]
            if report.verdict == "unique" and found["plain"]:
                wrong[name, "unique but not locally"] += 1
            if searched is not None:
                starts[name] += arguments.starts
                exact[name] += searched[0]
                other[name] += searched[1]
                if searched[1]:
                    print(f"model {number} ({kind}), {name}: another exact model")
    print(f"{arguments.models} models, {time.perf_counter() - began:.0f} s")
    for name in ("triples", "samples"):
        print(f"\nknown: {name}")
        for way in ("jacobian", "report"):
            print(f"  free directions ({way}) unlike those of the plain Jacobian: {wrong[name, way]}")
        print(f"  unique with free directions: {wrong[name, 'unique but not locally']}")
        print(f"  searches of unique models: {starts[name]}, exact {exact[name]}, another model {other[name]}")
        found = sorted({verdict for known, _, verdict in verdicts if known == name})
        print("  " + "kind".ljust(12) + "".join(verdict.rjust(30) for verdict in found))
        for kind in KINDS:
            print("  " + kind.ljust(12) + "".join(str(verdicts[name, kind, verdict]).rjust(30) for verdict in found))


if __name__ == "__main__":
    main()
