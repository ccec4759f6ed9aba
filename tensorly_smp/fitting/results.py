"""The record of a fit in its Dataset: patterns of missing entries, the likelihood by pass, the candidates."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import xarray as xr

from tensorly_smp.identifiability.problem import observed_patterns
from tensorly_smp.likelihood.em import LikelihoodSolution
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


def with_likelihood_trace(dataset: xr.Dataset, solution: LikelihoodSolution) -> xr.Dataset:
    """The Dataset of a fit whose factors EM has refined, with the record of EM: ``log_likelihood`` (em_pass)."""
    trace = solution.trace
    note = {"long_name": "penalized log-likelihood per sample, in nats, of bin probabilities"}
    dataset = dataset.assign(log_likelihood=("em_pass", trace.penalized, note))
    return dataset.assign_coords(em_pass=np.arange(len(trace.penalized))).assign_attrs(
        status=solution.status.name.lower(),
        status_explanation=solution.status.explanation,
        n_passes=trace.n_passes,
    )


def with_candidates(
    dataset: xr.Dataset, origins: Sequence[str], criteria: np.ndarray, agreement: np.ndarray, best: int
) -> xr.Dataset:
    """The Dataset of a fit with the record of the candidates (candidate) that it was chosen from."""
    names = {
        "start_criterion": "log-likelihood less effective parameters, in nats, as far as the candidate was followed",
        "candidate_agreement": "adjusted Rand index of the clusters with those of the best candidate",
        "candidate_origin": "how the candidate was found",
    }
    contents = {
        "start_criterion": criteria,
        "candidate_agreement": agreement,
        "candidate_origin": np.array(origins),
    }
    dataset = dataset.assign(
        {name: ("candidate", values, {"long_name": names[name]}) for name, values in contents.items()}
    )
    return dataset.assign_coords(candidate=np.arange(len(criteria))).assign_attrs(best_candidate=best)
