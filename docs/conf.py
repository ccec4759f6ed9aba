"""Sphinx configuration; `make docs` builds with warnings as errors and without the network."""

import os
import sys
from pathlib import Path

import tensorly_smp

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_extensions"))

from api_pages import write_api_pages  # noqa: E402

# Functions of submodules that docstrings of public ones refer to.
UNLISTED = ("best_partition", "gevd_decomposition", "start_partition")

project = "tensorly_smp"
author = "The tensorly_smp developers"
project_copyright = f"2026, {author}"
version = release = tensorly_smp.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx.ext.viewcode",
    "numpydoc",
    "myst_parser",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    # Those of the folder _extensions.
    "own_files",
    "executed_blocks",
    "api_links",
    "page_metadata",
    "source_pages",
]
# The latter may be there from builds by earlier versions.
exclude_patterns = ["_build", "**sg_execution_times.rst"]
templates_path = ["_templates"]
html_theme = "pydata_sphinx_theme"
html_title = "tensorly_smp"
html_show_sourcelink = False
html_static_path = ["_static"]
html_css_files = ["custom.css"]
html_js_files = ["accessible.js"]
html_search_scorer = str(HERE / "_extensions" / "search_scorer.js")
html_favicon = "_static/favicon.svg"
# Where the site is put, for previews of links: https://... or nothing.
html_baseurl = os.environ.get("DOCS_URL", "")
html_theme_options = {
    "logo": {
        "image_light": "_static/logo.svg",
        "image_dark": "_static/logo_dark.svg",
        "text": "tensorly_smp",
    },
    "navigation_with_keys": False,
    "show_nav_level": 1,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
}
toc_object_entries_show_parents = "hide"
html_sidebars = {"index": []}
# Shipped with the site: no page loads a script from elsewhere.
mathjax_path = "mathjax/tex-svg-full.js"
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
copybutton_exclude = ".linenos"  # lines without a prompt are output, and left out where there are prompts
copybutton_selector = ", ".join(
    f"div.highlight-{language} pre"
    for language in ("python", "pycon", "default", "sh")
)
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
    "write_computation_times": False,  # pages about the build, which the search would find
    "show_signature": False,
    "backreferences_dir": "api/backreferences",
    "doc_module": ("tensorly_smp",),
    # Code in examples links to the reference.
    "reference_url": {"tensorly_smp": None},
    "image_srcset": ["2x"],
}


# Before Sphinx looks for its source files, so at import.
write_api_pages(HERE / "api")
