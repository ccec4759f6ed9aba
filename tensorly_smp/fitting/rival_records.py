"""Rivals in the Dataset of a fit: other solutions that may be as good, put in and taken out."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from scipy.optimize import linear_sum_assignment

from tensorly_smp._support.checks import checked_integer
from tensorly_smp.exceptions import InvalidInputError, RivalSolutionsWarning
from tensorly_smp.identifiability.likeness import affinity, rival_changes
from tensorly_smp.identifiability.problem import describe_rivals, rival_tables
from tensorly_smp.likelihood.comparison import adjusted_rand, contingency

#: What a solution has of its own in a Dataset, as far as it has it; a rival's is called "rival_" and the name.
OWN_VARIABLES = (
    *("weights", "factors", "spline", "penalty", "background", "interval", "spline_center", "spline_scale"),
)
OWN_ATTRIBUTES = ("total_log_likelihood", "n_parameters", "n_passes", "n_sweeps", "status")
#: Records of the solution that was chosen, which its rivals have not.
_OF_BEST = ("log_likelihood", "round", "em_pass", "candidate_agreement")
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


def rivals_warning(dataset: xr.Dataset, names: Sequence[Hashable]) -> RivalSolutionsWarning | None:
    """The warning of a fit that has rivals; None if it has none."""
    if not (n := n_rivals(dataset)):
        return None
    sentences = describe_rivals(dataset, names)
    differing = {v for k in range(n) for change in rival_changes(*rival_tables(dataset, k)) for v in change.variables}
    more = [] if n <= _DESCRIBED else [f"model.plot.rivals() and print(model.identifiability_) show all {n}."]
    solutions = "Another solution with other clusters is" if n == 1 else f"{n} other solutions with other clusters are"
    return RivalSolutionsWarning(
        f"{solutions} so near to this one that samples do not tell which is right. "
        + " ".join([*sentences[:_DESCRIBED], *more])
        + " model.rivals(k) is rival k as a model. Decide by what is known of the groups, ask for fewer components, or "
        "measure more variables in which the groups differ.",
        variables=[names[n] for n in sorted(differing)],
    )


def telling_variables(dataset: xr.Dataset, k: int) -> list[int]:
    """All variables, by what they tell about the difference of a solution and a rival.

    First those in which components differ that are one in the other solution, then those in which components of the
    same number differ.
    """
    overlap, own, others = rival_tables(dataset, k)
    first = [n for change in rival_changes(overlap, own, others) for n in change.variables]
    weights = dataset["weights"].values
    apart = [1.0 - float(affinity(a, b).diagonal() @ weights) for a, b in zip(own, others, strict=True)]
    return list(dict.fromkeys([*first, *np.argsort(-np.array(apart), kind="stable").tolist()]))
