"""Write the pages of the API reference: one a group of public names, from which autosummary makes a page each."""

import importlib
import inspect
import pkgutil
import shutil

import tensorly_smp

#: Groups in the order in which users meet them: file, title, one sentence, names.
GROUPS = (
    (
        "estimators",
        "Estimators",
        "One call from samples to a fitted model, and back from a file.",
        ("SmoothProductMixture", "UnmixedProductMixture", "load"),
    ),
    (
        "choosing",
        "Choosing and checking",
        "How many components, which model, are they the only ones, and do the variables depend on each other in them?",
        (
            "select_n_components",
            "compare_models",
            "check_identifiability",
            "IdentifiabilityReport",
            "max_identifiable_rank",
            "min_bins_for_rank",
            "kruskal_rank",
            "check_independence",
            "IndependenceReport",
        ),
    ),
    (
        "plotting",
        "Pictures",
        "Functions of ``tensorly_smp.plotting``; a fitted model has them as methods, ``model.plot``.",
        "plotting",
    ),
    (
        "densities",
        "Densities",
        "From bin probabilities to functions, posteriors and samples.",
        ("reconstruct_density", "MixtureDensity"),
    ),
    (
        "stages",
        "Codes and marginals",
        "From samples to bins, and from bins to histograms of triples of variables.",
        (
            "choose_binning",
            "Binning",
            "encode_samples",
            "Codes",
            "count_marginals",
            "Marginals",
            "block_tensor",
            "default_partition",
            "paper_partition",
            "Partition",
        ),
    ),
    (
        "decomposition",
        "Coupled decomposition",
        "From histograms, or any third-order tensors that share factors and weights, to weights and factors.",
        (
            "coupled_simplex_parafac",
            "CoupledSimplexCP",
            "CoupledSolution",
            "MixtureFactors",
            "SolverOptions",
            "StopReason",
            "SweepTrace",
            "gevd_parafac",
            "gevd_start",
            "GevdStart",
        ),
    ),
    (
        "likelihood",
        "Likelihood",
        "From factors and whole samples to better factors.",
        ("refine_em", "LikelihoodSolution"),
    ),
    ("metrics", "Metrics", "How close an answer is to a known truth.", "metrics"),
    ("datasets", "Datasets", "Samples of known mixtures.", "datasets"),
    ("exceptions", "Errors and warnings", "Every one has a section in :doc:`/troubleshooting`.", "exceptions"),
)
#: Classes that users get as results or as attributes of results. They have no public name, and a page all the same.
PARTS = (
    "ComponentPair",
    "GevdDiagnostics",
    "KnownMarginals",
    "KruskalRank",
    "LikelihoodTrace",
    "LocalIdentifiability",
    "ModelPlots",
    "PairTests",
    "ReportLine",
    "StackedFactor",
    "UnmixedDensity",
    "UnmixedPlots",
    "ValueLabels",
)


def part_paths():
    """Paths ``module.Class`` below the package of the classes in PARTS, wherever they are defined."""
    names = [info.name for info in pkgutil.walk_packages(tensorly_smp.__path__, "tensorly_smp.")]
    modules = [importlib.import_module(name) for name in names if not name.endswith("__main__")]
    found = {
        name: f"{module.__name__}.{name}".removeprefix("tensorly_smp.")
        for module in modules
        for name, thing in inspect.getmembers(module, inspect.isclass)
        if thing.__module__ == module.__name__
    }
    return [found[name] for name in PARTS]


def entries(names):
    """Names of a group, or those of a public module that have no other public name, relative to the package."""
    if not isinstance(names, str):
        return list(names)
    module = getattr(tensorly_smp, names)
    public = [getattr(tensorly_smp, name) for name in tensorly_smp.__all__]
    return [f"{names}.{member}" for member in module.__all__ if getattr(module, member) not in public]


def page_of(title, sentence, names, module=""):
    """Text of the page of one group."""
    lines = [title, "=" * len(title), ""]
    if module:  # so that references to the module lead here
        lines += [f".. module:: tensorly_smp.{module}", ""]
    lines += [".. currentmodule:: tensorly_smp", "", sentence, "", ".. autosummary::", "   :toctree:", ""]
    return "\n".join([*lines, *(f"   {name}" for name in names), ""])


def write_api_pages(folder):
    """Write index.rst and the pages of the groups into this folder, which is made anew.

    Anew, since the page of a name that is gone would be a page without a place in the contents.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    public = {name for name in tensorly_smp.__all__ if not name.startswith("_")}
    grouped = {name for *_, names in GROUPS for name in ([names] if isinstance(names, str) else names)}
    if public != grouped:
        raise ValueError(f"docs/_extensions/api_pages.py: in no group, or not public: {sorted(public ^ grouped)}")
    title = "API reference"
    index = [title, "=" * len(title), ""]
    index += ["Everything is in ``tensorly_smp``, by convention ``import tensorly_smp as smp``.", ""]
    groups = [(*group, group[3] if isinstance(group[3], str) else "") for group in GROUPS]
    groups.append(
        ("parts", "Parts of results", "Classes of attributes of results; nobody makes one.", part_paths(), "")
    )
    for file, heading, sentence, names, module in groups:
        (folder / f"{file}.rst").write_text(page_of(heading, sentence, entries(names), module), encoding="utf-8")
        index += [f":doc:`{heading} <{file}>`", "-" * (len(heading) + len(file) + 11), "", sentence, ""]
        index += [".. currentmodule:: tensorly_smp", "", ".. autosummary::", ""]
        index += [*(f"   {name}" for name in entries(names)), ""]
    index += [".. toctree::", "   :hidden:", "", *(f"   {file}" for file, *_ in groups), ""]
    (folder / "index.rst").write_text("\n".join(index), encoding="utf-8")
