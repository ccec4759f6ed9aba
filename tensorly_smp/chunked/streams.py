"""Samples that come chunk after chunk: what is kept of them is their histograms, which add up."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

from tensorly_smp.chunked.coding import count_part, encode_chunks
from tensorly_smp.chunked.reading import ChunkedSamples, is_chunked, read_chunks
from tensorly_smp.codes.binning import Binning
from tensorly_smp.codes.encoding import encode_samples
from tensorly_smp.discretization import Discretization
from tensorly_smp.exceptions import IdentifiabilityWarning, InvalidInputError
from tensorly_smp.factors.solver import coupled_simplex_parafac
from tensorly_smp.fit_samples import ReadSamples
from tensorly_smp.identifiability.concerns import identifiability_concerns
from tensorly_smp.marginals.histograms import MAX_BYTES, Marginals, count_chunk, fitting_triples
from tensorly_smp.progress import checked_verbose
from tensorly_smp.randomness import RandomState
from tensorly_smp.results import solution_to_dataset
from tensorly_smp.units import units_of, with_units


def is_streamable(model: Any) -> bool:
    """Whether ``SmoothProductMixture`` has ``partial_fit``, as scikit-learn asks; why not, where it has not."""
    if model.refine is not None:
        raise InvalidInputError(
            f"partial_fit with refine={model.refine!r}; expected refine=None: what is kept of earlier chunks is their "
            "histograms, and a refinement needs the samples. To refine, fit all of them at once, as a dask array if "
            "they are too many for the memory."
        )
    return True


def fit_next(model: Any, X: Any, sample_weight: Any) -> None:
    """What ``SmoothProductMixture.partial_fit`` does.

    Parameters
    ----------
    model : SmoothProductMixture
    X, sample_weight
        As for ``fit``.
    """
    model._check_parameters()
    verbose = checked_verbose(model.verbose)
    before: Marginals | None = getattr(model, "marginals_", None)
    known = model.binning if before is None else before.binning
    if before is not None:
        model._check_width(X, before.binning.variables)
    read = read_chunks if is_chunked(X) else ReadSamples.of
    data = read(X, sample_weight, known.variables if isinstance(known, Binning) else None, model.sample_dim)
    discretization = Discretization(model.n_bins, known, model.coverage, model.n_components)
    binning = discretization.bins(data.few, data.few_weights)
    density = model._density_name()
    if density == "sinc":
        binning.require_uniform()
    model.marginals_ = count_next(before, data, binning, model.triples, model.random_state)
    solution = coupled_simplex_parafac(
        model.marginals_, model.n_components, **model._decomposition(verbose).settings(binning.n_bins)
    )
    dataset = solution_to_dataset(replace(solution, factors=solution.factors.to_numpy().sort())).assign_attrs(
        density=density, refine="none", n_samples=model.marginals_.n_samples, container=data.container
    )
    # Those of earlier chunks, where this one has none.
    has_units = before is None or any(units_of(X, binning.variables))
    dataset = with_units(dataset, X if has_units else getattr(model, "result_", None), binning.variables)
    model._set_fitted(dataset, binning.variables)
    concerns = identifiability_concerns(model.factors_, "all" if solution.triples is None else solution.triples)
    if concerns:
        warnings.warn(" ".join(concerns), IdentifiabilityWarning, stacklevel=3)


def count_next(
    before: Marginals | None,
    data: ReadSamples | ChunkedSamples,
    binning: Binning,
    triples: Any,
    random_state: RandomState,
) -> Marginals:
    """Marginals of all samples so far, those of one more chunk included.

    Without weights they are the same to the last bit in whatever order the chunks come.

    Parameters
    ----------
    before : Marginals or None
        Of the earlier chunks.
    data : ReadSamples or ChunkedSamples
        Of the variables of the binning, in their order.
    binning : Binning
        Of the first chunk; values beyond it are in the outermost bins.
    triples, random_state
        As for :func:`tensorly_smp.count_marginals`; of the first chunk.

    Returns
    -------
    Marginals
        Nobody is warned of what one chunk alone may lack.
    """
    index = fitting_triples(triples, binning.n_bins, random_state, MAX_BYTES) if before is None else before.triples
    if isinstance(data, ChunkedSamples):
        found: Marginals = encode_chunks(data, binning).parts.map(count_part, binning, index).reduce(sum)
    else:
        found = count_chunk(encode_samples(data.samples.values, binning).values, binning, index, data.weights)
    return found if before is None else before + found
