"""Dataset of a fit with a linear map: that of the mixture of the sources, with the map and the record of the search."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import xarray as xr

from tensorly_smp.unmixing.fit import FoundUnmixing, SourceMixture

#: What the Dataset has beside the product mixture of the sources.
EXTRA = (
    *("unmixing", "mixing", "mixed", "unmixing_log_likelihood", "unmixing_start_criterion"),
    *("source", "unmixing_start", "alternation"),
)
#: Attributes that it has beside those of the mixture of the sources.
EXTRA_ATTRIBUTES = ("is_product", "unmixing_start_name", "unmixing_steps", "unmixing_converged")


def with_unmixing(dataset: xr.Dataset, final: SourceMixture, found: FoundUnmixing, mixed: Sequence[int]) -> xr.Dataset:
    """The Dataset of the sources with the record of the search."""
    n_variables = dataset.sizes["variable"]
    candidate = final.candidate
    inverse = np.linalg.inv(final.matrix)
    contents = {
        "unmixing": (("source", "variable"), final.matrix, "sources are these linear combinations of the variables"),
        "mixing": (("variable", "source"), inverse, "variables are these linear combinations of the sources"),
        "mixed": ("variable", np.isin(np.arange(n_variables), mixed).astype(np.int8), "whether the variable is mixed"),
        "unmixing_log_likelihood": (
            "alternation",
            np.array(candidate.trace) - np.log(found.scale).sum(),
            "log-likelihood per sample after every update of the densities, in nats",
        ),
        "unmixing_start_criterion": (
            "unmixing_start",
            np.array(list(found.criteria.values())) - np.log(found.scale).sum(),
            "log-likelihood less effective parameters, per sample, after the first alternations from the start",
        ),
    }
    dataset = dataset.assign(
        {name: (dims, array, {"long_name": text}) for name, (dims, array, text) in contents.items()}
    )
    dataset = _with_parameters(dataset, 0 if found.is_product else len(mixed) * (len(mixed) - 1))
    dataset = dataset.assign_coords(
        source=dataset["variable"].values.copy(),
        unmixing_start=np.array(list(found.criteria)),
        alternation=np.arange(len(candidate.trace)),
    )
    return dataset.assign_attrs(
        is_product=int(found.is_product),
        unmixing_start_name=candidate.name,
        unmixing_steps=len(candidate.trace),
        unmixing_converged=int(candidate.is_converged),
    )


def without_unmixing(dataset: xr.Dataset) -> xr.Dataset:
    """The Dataset of the sources alone."""
    n_mixed = int(dataset["mixed"].sum())
    kept = _with_parameters(dataset, 0 if dataset.attrs["is_product"] else -n_mixed * (n_mixed - 1))
    kept = kept.drop_vars([name for name in dataset.variables if name in EXTRA])
    kept.attrs = {name: value for name, value in kept.attrs.items() if name not in EXTRA_ATTRIBUTES}
    return kept


def _with_parameters(dataset: xr.Dataset, n_more: int) -> xr.Dataset:
    """The Dataset with more parameters, of the solution and its rivals: the free entries of the matrix."""
    if "rival_n_parameters" in dataset:
        dataset = dataset.assign(rival_n_parameters=dataset["rival_n_parameters"] + n_more)
    return dataset.assign_attrs(n_parameters=dataset.attrs["n_parameters"] + n_more)
