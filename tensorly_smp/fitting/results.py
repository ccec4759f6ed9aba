"""The record of a fit: what its Dataset has of missing entries, passes and candidates, and a summary in words."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr
from scipy.optimize import linear_sum_assignment

from tensorly_smp._support.checks import checked_integer
from tensorly_smp._support.iteration import StopReason
from tensorly_smp._support.representations import clip_names, listed, number_range
from tensorly_smp._support.result_schema import OWN_ATTRIBUTES, OWN_VARIABLES, result_values, with_results
from tensorly_smp.exceptions import InvalidInputError, RivalSolutionsWarning
from tensorly_smp.likelihood.bins import LikelihoodTrace
from tensorly_smp.likelihood.comparison import Candidate, adjusted_rand, affinity, contingency
from tensorly_smp.samples.codebook import ATTRIBUTE, to_json
from tensorly_smp.samples.reading import Samples
from tensorly_smp.samples.values import observed_patterns

#: Records of the solution that was chosen, which its rivals have not.
_OF_BEST = ("log_likelihood", "round", "em_pass", "candidate_agreement")
_DESCRIBED = 2
#: A cluster lies in another one if this share of it does, and is a part of it if it has this share of that one.
_INSIDE = 0.7
_PART = 0.01
#: Of the variables in which components differ, those are named that have this share of the largest difference.
_NAMED = 0.25
_COUNTS = {2: "two", 3: "three", 4: "four"}


def with_patterns(dataset: xr.Dataset, observed: np.ndarray) -> xr.Dataset:
    """The Dataset of a fit to samples none of which is complete, with ``patterns`` (pattern, variable) of 0 and 1.

    Parameters
    ----------
    dataset : Dataset
        As of :func:`factors_to_dataset`.
    observed : ndarray of bool (n_samples, n_variables)

    Returns
    -------
    Dataset
        The same one if a sample is complete. Patterns are those of :func:`observed_patterns`.
    """
    patterns = observed_patterns(observed)
    if patterns is None:
        return dataset
    return with_results(dataset, {"patterns": patterns.astype(np.int8)})


def with_value_labels(dataset: xr.Dataset, samples: Samples) -> xr.Dataset:
    """The Dataset of a fit with the labels of the codes of its variables, if the samples have any."""
    if not samples.value_labels:
        return dataset
    return dataset.assign_attrs({ATTRIBUTE: to_json(samples.value_labels, samples.variables)})


def with_likelihood_trace(dataset: xr.Dataset, trace: LikelihoodTrace, status: StopReason) -> xr.Dataset:
    """The Dataset of a fit whose factors EM has refined, with the record of EM: ``log_likelihood`` (em_pass)."""
    return with_results(dataset, {"log_likelihood": trace.penalized}).assign_attrs(
        status=status.name.lower(), status_explanation=status.explanation, n_passes=trace.n_passes
    )


def with_candidates(
    dataset: xr.Dataset, candidates: Sequence[Candidate], first: Candidate, best: int, weights: np.ndarray | None
) -> xr.Dataset:
    """The Dataset of a fit with the record of the candidates (candidate) that it was chosen from.

    Parameters
    ----------
    dataset : Dataset
    candidates : sequence of Candidate
    first : Candidate
        With whose clusters those of all are compared.
    best : int
        Number of the one that was chosen in the end.
    weights : ndarray (n_samples,) or None
    """
    tables = [contingency(first.clusters, each.clusters, dataset.sizes["component"], weights) for each in candidates]
    contents = {
        "start_criterion": [each.criterion for each in candidates],
        "candidate_agreement": [adjusted_rand(table) for table in tables],
        "candidate_origin": [each.origin for each in candidates],
    }
    return with_results(dataset, contents).assign_attrs(best_candidate=best)


_DENSITIES = {"logspline": "log-splines", "sinc": "sinc interpolation of the bins", "histogram": "histograms"}
_REFINED = {
    "smooth": "smoothed EM from coupled decompositions",
    "em": "EM of the bins from the coupled decomposition",
    "none": "coupled decomposition of the histograms",
}
#: Starts that are no decomposition, by the name that stands in place of its loss.
_STARTS = {"search": "from a split-and-merge search", "given": "from given factors"}
_SHOWN_WEIGHTS = 12


def fit_summary(result: xr.Dataset) -> list[tuple[str, str]]:
    """Summary of a fit, as pairs of a label and its text.

    Parameters
    ----------
    result : Dataset
        The ``result_`` of an estimator.

    Examples
    --------
    >>> import tensorly_smp as smp
    >>> from tensorly_smp.fitting.results import fit_summary
    >>> X = smp.datasets.make_smooth_mixture("gaussian", 500, 4, 2, random_state=0).X
    >>> model = smp.SmoothProductMixture(2, n_bins=8, random_state=0).fit(X)
    >>> dict(fit_summary(model.result_))["variables"]
    "4: 'x0', 'x1', 'x2', 'x3'"
    """
    attrs = result.attrs
    weights = result["weights"].values
    bins = number_range(result["n_bins"].values.tolist())
    names = result["variable"].values.tolist()
    shown = " ".join(f"{weight:.3g}" for weight in weights[:_SHOWN_WEIGHTS])
    more = " ..." if len(weights) > _SHOWN_WEIGHTS else ""
    n_starts = result.sizes["start"]
    chosen = "one start" if n_starts == 1 else f"best of {n_starts} starts"
    lines = [
        ("samples", f"{attrs['n_samples']}"),
        ("variables", f"{len(names)}: {listed(names, 6)}"),
        ("components", f"{len(weights)}, with weights {shown}{more}"),
        ("densities", f"{_DENSITIES[attrs['density']]}; {bins} bins per variable"),
        ("method", f"{_method(attrs)}, {chosen}"),
        ("outcome", f"{attrs['status'].replace('_', ' ')}: {attrs['status_explanation']}"),
    ]
    if "unmixing" in result:
        lines.insert(4, ("unmixing", _unmixing(result)))
    return lines


def _method(attrs: Mapping[str, Any]) -> str:
    """The way to the factors in words: the start of a refinement may come from a search, or be given."""
    refined = _REFINED[attrs["refine"]]
    loss = attrs["loss_name"]
    if loss in _STARTS:
        return f"{refined.partition(' from ')[0]} {_STARTS[loss]}"
    return f"{refined}, {loss} loss"


def _unmixing(result: xr.Dataset) -> str:
    attrs = result.attrs
    mixed = result["mixed"].values
    if attrs["is_product"]:
        return "none: a product mixture of the variables themselves is preferred"
    end = "converged" if attrs["unmixing_converged"] else "not converged"
    number = f"{int(mixed.sum())} of {len(mixed)} variables are combined"
    return f"{number}; start: {attrs['unmixing_start_name']}; {attrs['unmixing_steps']} passes, {end}"


def with_rivals(
    dataset: xr.Dataset,
    best: Candidate,
    rivals: Sequence[Candidate],
    datasets: Sequence[xr.Dataset],
    weights: np.ndarray | None,
) -> xr.Dataset:
    """The Dataset of a fit with its rivals; the same one if there are none.

    Parameters
    ----------
    dataset : Dataset
    best : Candidate
        The one that was chosen; posteriors are in the order of the components.
    rivals : sequence of Candidate
        The best one first.
    datasets : sequence of Dataset
        Of every rival, as if it had been chosen.
    weights : ndarray (n_samples,) or None

    Returns
    -------
    Dataset
        With ``rival_criterion``, ``rival_deviation``, ``rival_agreement``, ``rival_candidate`` and
        ``rival_description``, a sentence, (rival),
        ``rival_overlap`` (rival, component, rival_component), and what a solution has of its own (weights, factors,
        ...) as ``rival_weights`` and so on. A component of a rival has the number of the one that it shares most
        samples with, as far as each is given once.
    """
    if not rivals:
        return dataset
    rank = dataset.sizes["component"]
    ordered = []
    overlaps = []
    for rival, own in zip(rivals, datasets, strict=True):
        table = contingency(best.clusters, rival.clusters, rank, weights).astype(float)
        _, order = linear_sum_assignment(-table)
        ordered.append(own.isel(component=order))
        overlaps.append(table[:, order])
    overlap = np.stack(overlaps)
    total = max(float(overlap[0].sum()), 1e-300)
    contents: dict[str, Any] = {
        "rival_criterion": [each.criterion - best.criterion for each in rivals],
        "rival_deviation": [each.deviation for each in rivals],
        "rival_agreement": [adjusted_rand(table) for table in overlap],
        "rival_candidate": [each.number for each in rivals],
        "rival_overlap": overlap / total,
    }
    for name in OWN_VARIABLES:
        if name in dataset:
            contents[f"rival_{name}"] = np.stack([result_values(each, name) for each in ordered])
    for name in OWN_ATTRIBUTES:
        if name in dataset.attrs and all(name in each.attrs for each in ordered):
            contents[f"rival_{name}"] = [each.attrs[name] for each in ordered]
    dataset = with_results(dataset, contents)
    sentences = []
    for k, rival in enumerate(rivals):
        below = best.criterion - rival.criterion
        clauses = [clause for clause, _ in _changes(dataset, k)]
        what = "; ".join(clauses if len(clauses) <= 3 else [*clauses[:3], "..."])
        sentences.append(
            f"Rival {k} ({abs(below):.1f} nats {'below' if below >= 0 else 'above'}, adjusted Rand index "
            f"{contents['rival_agreement'][k]:.2f}): {what or 'components share the samples in another way'}."
        )
    return with_results(dataset, {"rival_description": sentences})


def _bin_probabilities(dataset: xr.Dataset, k: int) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Probabilities of bins (n_bins, rank) by variable, of the solution and of rival k."""
    sizes = dataset["n_bins"].values.tolist()
    own, others = (
        [probabilities[:size] for probabilities, size in zip(padded, sizes, strict=True)]
        for padded in (result_values(dataset, "factors"), result_values(dataset, "rival_factors")[k])
    )
    return own, others


def _changes(dataset: xr.Dataset, k: int) -> list[tuple[str, list[int]]]:
    """Components of a solution that are one in rival k, then components of the rival that are one in the solution.

    Each has a clause, and the variables in which the components differ most, in order.
    """
    names = dataset["variable"].values.tolist()
    overlap = result_values(dataset, "rival_overlap")[k]
    own, others = _bin_probabilities(dataset, k)
    changes = []
    for are_of_rival, table, factors in ((False, overlap, own), (True, overlap.T, others)):
        sizes = np.maximum(table.sum(axis=1), 1e-300)
        lies_in = np.where(table.max(axis=1) >= _INSIDE * sizes, table.argmax(axis=1), -1)
        for whole in range(table.shape[1]):
            share = table[:, whole] / max(table[:, whole].sum(), 1e-300)
            (parts,) = np.nonzero((lies_in == whole) & (share >= _PART))
            if len(parts) > 1:
                differences = np.array([1.0 - affinity(a[:, parts]).min() for a in factors])
                named = np.flatnonzero(differences >= _NAMED * differences.max())
                variables = named[np.argsort(-differences[named], kind="stable")].tolist()
                where = clip_names([names[n] for n in variables])
                clause = f"components {', '.join(map(str, parts[:-1]))} and {parts[-1]} are one (here apart in {where})"
                if are_of_rival:
                    clause = f"component {whole} is {_COUNTS.get(len(parts), 'several')} (apart in {where})"
                changes.append((clause, variables))
    return changes


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
    if "best_candidate" in dataset.attrs:
        attrs["best_candidate"] = int(of_rival["rival_candidate"])
    return dataset.drop_vars(dropped).assign(own).assign_attrs(attrs, rival=k)


def rivals_warning(dataset: xr.Dataset, names: Sequence[Hashable]) -> RivalSolutionsWarning | None:
    """The warning of a fit that has rivals; None if it has none."""
    if not (n := n_rivals(dataset)):
        return None
    sentences = dataset["rival_description"].values.tolist()
    differing = {v for k in range(n) for _, variables in _changes(dataset, k) for v in variables}
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
    own, others = _bin_probabilities(dataset, k)
    first = [n for _, variables in _changes(dataset, k) for n in variables]
    weights = dataset["weights"].values
    apart = [1.0 - float(affinity(a, b).diagonal() @ weights) for a, b in zip(own, others, strict=True)]
    return list(dict.fromkeys([*first, *np.argsort(-np.array(apart), kind="stable").tolist()]))
