"""Sphinx configuration; `make docs` builds with warnings as errors and without the network."""

import inspect
import shutil
from pathlib import Path

import tensorly_smp

HERE = Path(__file__).parent
# Functions of submodules that docstrings of public ones refer to.
UNLISTED = ("best_partition", "gevd_decomposition", "start_partition")
# Classes that users get as results or as attributes of results: they have no public name, and a page all the same.
PARTS = (
    "dependence.pairs.PairTests",
    "dependence.unmixed_density.UnmixedDensity",
    "identifiability.concerns.ComponentPair",
    "identifiability.jacobian.LocalIdentifiability",
    "identifiability.known.Known",
    "identifiability.kruskal.KruskalRank",
    "identifiability.stacked.StackedFactor",
    "identifiability.verdict.ReportLine",
    "initializers.core.GevdDiagnostics",
    "likelihood.em.LikelihoodTrace",
    "plotting.accessor.ModelPlots",
    "plotting.unmixing.UnmixedPlots",
)

project = "tensorly_smp"
author = "The tensorly_smp developers"
project_copyright = f"2026, {author}"
version = release = tensorly_smp.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "numpydoc",
    "myst_parser",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build"]
templates_path = ["_templates"]
html_theme = "pydata_sphinx_theme"
html_title = "tensorly_smp"
html_show_sourcelink = False
myst_enable_extensions = ["dollarmath", "amsmath", "colon_fence", "deflist"]
myst_heading_anchors = 3

autosummary_generate = True
autodoc_typehints = "none"  # the docstrings say it, with shapes
numpydoc_show_class_members = False  # the class template lists them
# Every reference must lead somewhere, but for helpers that docstrings mention and that have no page.
nitpicky = True
nitpick_ignore_regex = [
    ("py:.*", r"tensorly_smp\.(?!datasets|exceptions|metrics|plotting)\w+\.\w.*"),
    ("py:.*", "|".join(UNLISTED)),
]

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"plot_",
    "ignore_pattern": r"quickstart\.py|__init__\.py",  # `make demo`
    "within_subsection_order": "FileNameSortKey",
    "image_scrapers": ("matplotlib",),
    "reset_modules": ("matplotlib",),
    "abort_on_example_error": True,
    "remove_config_comments": True,
    "download_all_examples": False,
    "min_reported_time": 5,
}


def kind(thing):
    """Heading under which a public name is listed."""
    if inspect.ismodule(thing):
        return "Modules"
    if not inspect.isclass(thing):
        return "Functions"
    if issubclass(thing, Warning):
        return "Warnings"
    return "Errors" if issubclass(thing, BaseException) else "Classes"


def write_api_page():
    """Write api/index.rst, the list of the public names from which autosummary makes a page each."""
    names = [name for name in getattr(tensorly_smp, "__all__", []) if not name.startswith("_")]
    things = {name: getattr(tensorly_smp, name) for name in names}
    public = {"Parts of results": PARTS}
    for name, thing in things.items():
        public.setdefault(kind(thing), []).append(name)
        if inspect.ismodule(thing):
            # A class that has a public name of its own gets one page, not two.
            members = [member for member in thing.__all__ if getattr(thing, member) not in things.values()]
            public[name] = [f"{name}.{member}" for member in members]
    modules = public.pop("Modules", [])
    lines = ["API reference", "=============", "", ".. currentmodule:: tensorly_smp", ""]
    for heading in ["Classes", "Parts of results", "Functions", *modules, "Errors", "Warnings"]:
        if heading in public:
            title = f"tensorly_smp.{heading}" if heading in modules else heading
            lines += [title, "-" * len(title), ""]
            if heading in modules:  # so that references to the module lead here
                lines += [f".. module:: {title}", "", ".. currentmodule:: tensorly_smp", ""]
            lines += [".. autosummary::", "   :toctree:", ""]
            lines += [*(f"   {name}" for name in public[heading]), ""]
    page = HERE / "api" / "index.rst"
    # Made anew: the page of a name that is gone would be a page without a place in the contents.
    shutil.rmtree(page.parent, ignore_errors=True)
    page.parent.mkdir()
    page.write_text("\n".join(lines), encoding="utf-8")


# Before Sphinx looks for its source files, so at import.
write_api_page()
