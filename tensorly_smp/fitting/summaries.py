"""A fitted model in a few lines of text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import xarray as xr

from tensorly_smp._support.representations import html_weights, number_range
from tensorly_smp.samples.labels import list_names

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
    >>> from tensorly_smp.fitting.summaries import fit_summary
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
