"""The record of a fit: what its Dataset has of missing entries, passes and candidates, and a summary in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from tensorly_smp._support.iteration import StopReason
from tensorly_smp._support.representations import html_weights, number_range
from tensorly_smp.identifiability.problem import observed_patterns
from tensorly_smp.likelihood.comparison import Candidate, adjusted_rand, contingency
from tensorly_smp.likelihood.em import LikelihoodTrace
from tensorly_smp.samples.labels import list_names
from tensorly_smp.samples.reading import Samples
from tensorly_smp.samples.value_labels import ATTRIBUTE, to_json


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
    note = {"long_name": "variables that are observed together in some sample"}
    return dataset.assign(patterns=(("pattern", "variable"), patterns.astype(np.int8), note))


def with_value_labels(dataset: xr.Dataset, samples: Samples) -> xr.Dataset:
    """The Dataset of a fit with the labels of the codes of its variables, if the samples have any."""
    if not samples.value_labels:
        return dataset
    return dataset.assign_attrs({ATTRIBUTE: to_json(samples.value_labels, samples.variables)})


def with_likelihood_trace(dataset: xr.Dataset, trace: LikelihoodTrace, status: StopReason) -> xr.Dataset:
    """The Dataset of a fit whose factors EM has refined, with the record of EM: ``log_likelihood`` (em_pass)."""
    note = {"long_name": "penalized log-likelihood per sample, in nats, of bin probabilities"}
    dataset = dataset.assign(log_likelihood=("em_pass", trace.penalized, note))
    return dataset.assign_coords(em_pass=np.arange(len(trace.penalized))).assign_attrs(
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
        "start_criterion": (
            [each.criterion for each in candidates],
            "log-likelihood less effective parameters, in nats, as far as the candidate was followed",
        ),
        "candidate_agreement": (
            [adjusted_rand(table) for table in tables],
            "adjusted Rand index of the clusters with those of the best candidate",
        ),
        "candidate_origin": ([each.origin for each in candidates], "how the candidate was found"),
    }
    dataset = dataset.assign(
        {name: ("candidate", np.array(values), {"long_name": note}) for name, (values, note) in contents.items()}
    )
    return dataset.assign_coords(candidate=np.arange(len(candidates))).assign_attrs(best_candidate=best)


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
        ("variables", f"{len(names)}: {list_names(names, 6)}"),
        ("components", f"{len(weights)}, with weights {shown}{more}"),
        ("densities", f"{_DENSITIES[attrs['density']]}; {bins} bins per variable"),
        ("method", f"{_method(attrs)}, {chosen}"),
        ("outcome", f"{attrs['status'].replace('_', ' ')}: {attrs['status_explanation']}"),
    ]
    if "unmixing" in result:
        lines.insert(4, ("unmixing", _unmixing(result)))
    return lines


def _method(attrs: Mapping[str, Any]) -> str:
    """How the factors were found: the start of a refinement may come from a search, or be given."""
    refined, loss = _REFINED[attrs["refine"]], attrs["loss_name"]
    if loss in _STARTS:
        return f"{refined.partition(' from ')[0]} {_STARTS[loss]}"
    return f"{refined}, {loss} loss"


def _unmixing(result: xr.Dataset) -> str:
    attrs, mixed = result.attrs, result["mixed"].values
    if attrs["is_product"]:
        return "none: a product mixture of the variables themselves is preferred"
    end = "converged" if attrs["unmixing_converged"] else "not converged"
    number = f"{int(mixed.sum())} of {len(mixed)} variables are combined"
    return f"{number}; start: {attrs['unmixing_start_name']}; {attrs['unmixing_steps']} alternations, {end}"


def fit_html(result: xr.Dataset) -> str:
    """The summary of a fit as HTML, with a table of the weights."""
    pairs = [(word, text) for word, text in fit_summary(result) if word != "components"]
    return html_weights("Fit", pairs, result["weights"].values)
