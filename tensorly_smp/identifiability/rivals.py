"""Rivals in the Dataset of a fit: other solutions that may be as good, put in, taken out and described."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from scipy.optimize import linear_sum_assignment

from tensorly_smp._support.checks import checked_integer
from tensorly_smp.exceptions import InvalidInputError, RivalSolutionsWarning
from tensorly_smp.identifiability.issues import clip_names
from tensorly_smp.likelihood.comparison import adjusted_rand, contingency

#: What a solution has of its own in a Dataset, as far as it has it; a rival's is called "rival_" and the name.
OWN_VARIABLES = (
    *("weights", "factors", "spline", "penalty", "background", "interval", "spline_center", "spline_scale"),
)
OWN_ATTRIBUTES = ("total_log_likelihood", "n_parameters", "n_passes", "n_sweeps", "status")
#: Records of the solution that was chosen, which its rivals have not.
_OF_BEST = ("log_likelihood", "round", "em_pass", "candidate_agreement")
#: A cluster lies in another one if this share of it does, and is a part of it if it has this share of that one.
_INSIDE, _PART = 0.7, 0.01
#: Of the variables in which two components differ, those are named that have this share of the largest difference.
_NAMED = 0.25
_DESCRIBED = 2


@dataclass(frozen=True, eq=False)
class Solution:
    """A solution beside the one that was chosen.

    Attributes
    ----------
    dataset : Dataset
        As if this one had been chosen.
    labels : ndarray of int (n_samples,)
        Most probable component of every sample.
    criterion : float
        Less that of the chosen one, in nats.
    deviation : float
        Standard deviation of that difference.
    candidate : int
        Its number among the candidates.
    """

    dataset: xr.Dataset
    labels: np.ndarray
    criterion: float
    deviation: float
    candidate: int


def with_rivals(
    dataset: xr.Dataset, labels: np.ndarray, weights: np.ndarray | None, solutions: Sequence[Solution]
) -> xr.Dataset:
    """The Dataset of a fit with its rivals; the same one if there are none.

    Parameters
    ----------
    dataset : Dataset
    labels : ndarray of int (n_samples,)
        Most probable component of every sample.
    weights : ndarray (n_samples,) or None
    solutions : sequence of Solution
        The best one first.

    Returns
    -------
    Dataset
        With ``rival_criterion``, ``rival_deviation``, ``rival_agreement`` and ``rival_candidate`` (rival),
        ``rival_overlap`` (rival, component, rival_component), and what a solution has of its own (weights, factors,
        ...) as ``rival_weights`` and so on. A component of a rival has the number of the one that it shares most
        samples with, as far as each is given once.
    """
    if not solutions:
        return dataset
    rank = dataset.sizes["component"]
    ordered = []
    overlaps = []
    for each in solutions:
        table = contingency(labels, each.labels, rank, weights).astype(float)
        _, order = linear_sum_assignment(-table)
        ordered.append(each.dataset.isel(component=order))
        overlaps.append(table[:, order])
    overlap = np.stack(overlaps)
    total = max(float(overlap[0].sum()), 1e-300)
    numbers = {
        "rival_criterion": (np.array([each.criterion for each in solutions]), "criterion less that of this solution"),
        "rival_deviation": (np.array([each.deviation for each in solutions]), "standard deviation of the difference"),
        "rival_agreement": (np.array([adjusted_rand(table) for table in overlap]), "adjusted Rand index of clusters"),
        "rival_candidate": (np.array([each.candidate for each in solutions]), "number among the candidates"),
    }
    found: dict[str, Any] = {name: ("rival", values, {"long_name": text}) for name, (values, text) in numbers.items()}
    found["rival_overlap"] = (
        ("rival", "component", "rival_component"),
        overlap / total,
        {"long_name": "share of the samples in a cluster of this solution and one of the rival"},
    )
    for name in OWN_VARIABLES:
        if name in dataset:
            values = np.stack([each[name].transpose(*dataset[name].dims).values for each in ordered])
            found[f"rival_{name}"] = (("rival", *dataset[name].dims), values, dict(dataset[name].attrs))
    for name in OWN_ATTRIBUTES:
        if name in dataset.attrs and all(name in each.attrs for each in ordered):
            found[f"rival_{name}"] = ("rival", np.array([each.attrs[name] for each in ordered]), {})
    coords = {"rival": np.arange(len(solutions)), "rival_component": np.arange(rank)}
    return dataset.assign(found).assign_coords(coords)


def n_rivals(dataset: xr.Dataset) -> int:
    """Number of rivals in the Dataset of a fit."""
    return dataset.sizes.get("rival", 0)


def why_none(dataset: xr.Dataset) -> str:
    """The reason why a fit has no rivals, as a clause."""
    of = dataset.attrs.get("rival")
    return "its solution is clearly the best found" if of is None else f"it is rival {of} of another one itself"


def rival_dataset(dataset: xr.Dataset, k: int) -> xr.Dataset:
    """The Dataset of a rival, as if it had been chosen.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        There is no rival of this number.
    """
    k = checked_integer(k, "k", 0)
    if k >= (n := n_rivals(dataset)):
        if not n:
            raise InvalidInputError(f"k is {k}, but the model has no rivals: {why_none(dataset)}.")
        raise InvalidInputError(f"k is {k}; expected a number below {n}, the number of rivals.")
    of_rival = dataset.isel(rival=k)
    own = {
        name: of_rival[f"rival_{name}"].variable.transpose(*dataset[name].dims)
        for name in OWN_VARIABLES
        if f"rival_{name}" in dataset
    }
    attrs = {name: of_rival[f"rival_{name}"].values.item() for name in OWN_ATTRIBUTES if f"rival_{name}" in dataset}
    dropped = [name for name in dataset.variables if str(name).startswith("rival") or name in _OF_BEST]
    kept = dataset.drop_vars(dropped).assign(own).assign_attrs(attrs, rival=k)
    return (
        kept.assign_attrs(best_candidate=int(of_rival["rival_candidate"])) if "best_candidate" in kept.attrs else kept
    )


def describe_rivals(dataset: xr.Dataset, names: Sequence[Hashable]) -> list[str]:
    """A sentence for each rival: how near it is, and which components are one there, or two."""
    return [_described(dataset, k, names) for k in range(n_rivals(dataset))]


def rivals_warning(dataset: xr.Dataset, names: Sequence[Hashable]) -> RivalSolutionsWarning | None:
    """The warning of a fit that has rivals; None if it has none."""
    if not (n := n_rivals(dataset)):
        return None
    sentences = describe_rivals(dataset, names)
    more = [] if n <= _DESCRIBED else [f"model.plot.rivals() and print(model.identifiability_) show all {n}."]
    solutions = "Another solution with other clusters is" if n == 1 else f"{n} other solutions with other clusters are"
    return RivalSolutionsWarning(
        f"{solutions} so near to this one that samples do not tell which is right. "
        + " ".join([*sentences[:_DESCRIBED], *more])
        + " model.rivals(k) is rival k as a model. Decide by what is known of the groups, ask for fewer components, or "
        "measure more variables in which the groups differ.",
        variables=[names[n] for n in _all_variables(dataset)],
    )


def telling_variables(dataset: xr.Dataset, k: int) -> list[int]:
    """All variables, by what they tell about the difference of a solution and a rival.

    First those in which components differ that are one in the other solution, then those in which components of the
    same number differ.
    """
    first = [n for change in _changes(dataset, k) for n in change.variables]
    own = _factors(dataset["factors"], dataset)
    others = _factors(dataset["rival_factors"].isel(rival=k), dataset)
    weights = dataset["weights"].values
    apart = [
        1.0 - float(np.sqrt(np.maximum(a * b, 0.0)).sum(axis=0) @ weights) for a, b in zip(own, others, strict=True)
    ]
    return list(dict.fromkeys([*first, *np.argsort(-np.array(apart), kind="stable").tolist()]))


def _described(dataset: xr.Dataset, k: int, names: Sequence[Hashable]) -> str:
    """Sentence about one rival."""
    below = -float(dataset["rival_criterion"][k])
    agreement = float(dataset["rival_agreement"][k])
    changes = [_change(change, names) for change in _changes(dataset, k)]
    if len(changes) > 3:
        changes = [*changes[:3], "..."]
    what = "; ".join(changes) or "components share the samples in another way"
    side = "below" if below >= 0 else "above"
    return f"Rival {k} ({abs(below):.1f} nats {side}, adjusted Rand index {agreement:.2f}): {what}."


@dataclass(frozen=True)
class _Change:
    """Components that are one in the other solution, and the variables in which they differ most."""

    components: tuple[int, ...]
    together: int
    are_of_rival: bool
    variables: tuple[int, ...]


def _changes(dataset: xr.Dataset, k: int) -> list[_Change]:
    """Components of this solution that are one in a rival, and components of the rival that are one in this."""
    overlap = dataset["rival_overlap"].transpose("rival", "component", "rival_component").values[k]
    own = _factors(dataset["factors"], dataset)
    others = _factors(dataset["rival_factors"].isel(rival=k), dataset)
    changes = []
    for are_of_rival, table, factors in ((False, overlap, own), (True, overlap.T, others)):
        sizes = np.maximum(table.sum(axis=1), 1e-300)
        lies_in = np.where(table.max(axis=1) >= _INSIDE * sizes, table.argmax(axis=1), -1)
        for whole in range(table.shape[1]):
            share = table[:, whole] / max(table[:, whole].sum(), 1e-300)
            (parts,) = np.nonzero((lies_in == whole) & (share >= _PART))
            if len(parts) > 1:
                changes.append(_Change(tuple(parts.tolist()), whole, are_of_rival, _apart(factors, parts)))
    return changes


def _factors(padded: xr.DataArray, dataset: xr.Dataset) -> list[np.ndarray]:
    """Bin probabilities (n_bins, rank) of every variable."""
    values = padded.transpose("variable", "bin", "component").values
    return [a[:size] for a, size in zip(values, dataset["n_bins"].values.tolist(), strict=True)]


def _apart(factors: Sequence[np.ndarray], components: np.ndarray) -> tuple[int, ...]:
    """Variables in which some of the components differ most, by the affinity of their bins; the largest first."""
    differences = np.empty(len(factors))
    for n, a in enumerate(factors):
        roots = np.sqrt(np.maximum(a[:, components], 0.0))
        differences[n] = 1.0 - (roots.T @ roots).min()
    named = np.flatnonzero(differences >= _NAMED * differences.max())
    return tuple(named[np.argsort(-differences[named], kind="stable")].tolist())


def _change(change: _Change, names: Sequence[Hashable]) -> str:
    variables = clip_names([names[n] for n in change.variables])
    listed = " and ".join([", ".join(map(str, change.components[:-1])), str(change.components[-1])])
    if change.are_of_rival:
        return f"component {change.together} is {_COUNTS.get(len(change.components), 'several')} (apart in {variables})"
    return f"components {listed} are one (here apart in {variables})"


_COUNTS = {2: "two", 3: "three", 4: "four"}


def _all_variables(dataset: xr.Dataset) -> list[int]:
    """Variables in which components that are one in another solution differ."""
    found = {n for k in range(n_rivals(dataset)) for change in _changes(dataset, k) for n in change.variables}
    return sorted(found)
