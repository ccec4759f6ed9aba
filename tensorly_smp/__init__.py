"""Mixtures of smooth product distributions, learned by coupled tensor decomposition of three-way histograms."""

from importlib import import_module
from typing import Any

from tensorly_smp import datasets, exceptions, metrics
from tensorly_smp._support.iteration import StopReason, SweepTrace
from tensorly_smp.codes.binning import Binning, choose_binning
from tensorly_smp.codes.encoding import Codes, encode_samples
from tensorly_smp.decomposition.problem import SolverOptions
from tensorly_smp.decomposition.solution import CoupledSolution
from tensorly_smp.decomposition.solver import CoupledSimplexCP, coupled_simplex_parafac
from tensorly_smp.densities.mixture_density import MixtureDensity
from tensorly_smp.densities.reconstruct import reconstruct_density
from tensorly_smp.dependence.check import IndependenceReport, check_independence
from tensorly_smp.estimators.smooth_product import SmoothProductMixture
from tensorly_smp.estimators.unmixed import UnmixedProductMixture
from tensorly_smp.factors.mixture_factors import MixtureFactors
from tensorly_smp.identifiability.bounds import max_identifiable_rank, min_bins_for_rank
from tensorly_smp.identifiability.ranks import kruskal_rank
from tensorly_smp.identifiability.report import IdentifiabilityReport, check_identifiability
from tensorly_smp.initializers.coupled_gevd import GevdStart, gevd_start
from tensorly_smp.initializers.gevd import gevd_parafac
from tensorly_smp.likelihood.bins import LikelihoodSolution, refine_em
from tensorly_smp.marginals.block_tensor import Partition, block_tensor, default_partition, paper_partition
from tensorly_smp.marginals.histograms import Marginals, count_marginals
from tensorly_smp.selection.models import compare_models
from tensorly_smp.selection.n_components import select_n_components
from tensorly_smp.storage import load

__version__ = "0.1.0"

__all__ = [
    "Binning",
    "Codes",
    "CoupledSimplexCP",
    "CoupledSolution",
    "GevdStart",
    "IdentifiabilityReport",
    "IndependenceReport",
    "LikelihoodSolution",
    "Marginals",
    "MixtureDensity",
    "MixtureFactors",
    "Partition",
    "SmoothProductMixture",
    "SolverOptions",
    "StopReason",
    "SweepTrace",
    "UnmixedProductMixture",
    "block_tensor",
    "check_identifiability",
    "check_independence",
    "choose_binning",
    "compare_models",
    "count_marginals",
    "coupled_simplex_parafac",
    "datasets",
    "default_partition",
    "encode_samples",
    "exceptions",
    "gevd_parafac",
    "gevd_start",
    "kruskal_rank",
    "load",
    "max_identifiable_rank",
    "metrics",
    "min_bins_for_rank",
    "paper_partition",
    "plotting",
    "reconstruct_density",
    "refine_em",
    "select_n_components",
]


def __getattr__(name: str) -> Any:
    """Import the pictures when they are first asked for."""
    if name == "plotting":
        return import_module("tensorly_smp.plotting")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), "plotting"} - {"Any", "import_module"})
