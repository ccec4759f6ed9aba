"""The directive ``{run}``: Python code that is run when the site is built, with the figures and results that it has.

It sees what the code blocks of its page before it have defined. The last expression is shown as in a notebook: a report
or a Dataset as a table, anything else as text; figures that are open afterwards follow. Options: ``:hide-code:``,
``:alt:`` (words for those who do not see the figure, required with one) and ``:caption:``.
"""

import ast
import contextlib
import doctest
import hashlib
import io
import os
import tempfile
import traceback
from pathlib import Path
from typing import ClassVar

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from docutils import nodes
from docutils.parsers.rst import directives
from matplotlib.axes import Axes
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

from code_blocks import code_blocks

#: Pixels of an inch of a figure: on the page, and in its file.
SHOWN = 80
SAVED = 160
#: Labels of figures that are shown on some screens only.
KINDS = ("wide", "narrow")
LOGGER = logging.getLogger(__name__)


class Page:
    """The code of one page: its blocks, how many have been run, and the names that they have defined."""

    def __init__(self, path):
        self.path = path
        self.blocks = list(code_blocks(Path(path).read_text(encoding="utf-8")))
        self.n_run = 0
        self.n_figures = 0
        self.namespace = {"__name__": "__main__"}
        self.folder = tempfile.TemporaryDirectory()

    def run_next(self):
        """Run the blocks up to and with the next ``{run}``, and return what the latter prints and returns."""
        with contextlib.chdir(self.folder.name), contextlib.redirect_stdout(io.StringIO()):
            while self.blocks[self.n_run][0] != "run":
                language, line, code = self.blocks[self.n_run]
                self.n_run += 1
                self._run_sources(language, line, code)
            _, line, code = self.blocks[self.n_run]
            self.n_run += 1
            plt.close("all")
            with contextlib.redirect_stdout(io.StringIO()) as printed:
                value = self._run(code, line)
        return printed.getvalue(), value

    def _run_sources(self, language, line, code):
        if language == "python":
            self._run(code, line)
            return
        for example in doctest.DocTestParser().get_examples(code):
            try:
                self._run(example.source, line + example.lineno)
            except Exception:
                if example.exc_msg is None:
                    raise

    def _run(self, code, line):
        """Run the code and return the value of its last line if that is an expression."""
        tree = ast.parse("\n" * (line - 1) + code)
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, self.path, "exec"), self.namespace)
        if last is None:
            return None
        return eval(compile(ast.Expression(last.value), self.path, "eval"), self.namespace)


class RunDirective(SphinxDirective):
    """See the module."""

    has_content = True
    option_spec: ClassVar = {"hide-code": directives.flag, "alt": directives.unchanged, "caption": directives.unchanged}

    def run(self):
        code = "\n".join(self.content)
        shown = [] if "hide-code" in self.options else [nodes.literal_block(code, code, language="python")]
        pages = self.env.temp_data.setdefault("executed_pages", {})
        path = str(self.env.doc2path(self.env.docname))
        if path not in pages:
            pages[path] = Page(path)
        page = pages[path]
        mpl.rcdefaults()
        mpl.use("agg")
        try:
            printed, value = page.run_next()
        except Exception:
            LOGGER.warning("code fails:\n%s", traceback.format_exc(limit=-4), location=self.get_location())
            return shown
        shown += self.outputs(printed, value)
        for number in plt.get_fignums():
            shown.append(self.figure(plt.figure(number), page))
        plt.close("all")
        return shown

    def outputs(self, printed, value):
        """Nodes for what was printed and for the value of the last expression."""
        found = []
        if printed:
            found.append(nodes.literal_block(printed, printed, language="none", classes=["run-output"]))
        if value is None or is_drawing(value):
            return found
        if hasattr(value, "_repr_html_"):
            html = f'<div class="run-output">{value._repr_html_()}</div>'
            return [*found, nodes.raw("", html, format="html")]
        text = value if isinstance(value, str) else repr(value)
        return [*found, nodes.literal_block(text, text, language="none", classes=["run-output"])]

    def figure(self, figure, page):
        """Node of a figure, saved outside of the sources."""
        if "alt" not in self.options:
            LOGGER.warning("a figure without :alt:, words for those who do not see it", location=self.get_location())
        page.n_figures += 1
        name = f"{self.env.docname.replace('/', '_')}_{page.n_figures}"
        folder = Path(self.env.app.doctreedir) / "figures"
        folder.mkdir(parents=True, exist_ok=True)
        data = io.BytesIO()
        figure.savefig(data, format="png", dpi=SAVED, metadata={"Software": None})
        path = folder / f"{name}_{hashlib.sha256(data.getvalue()).hexdigest()[:8]}.png"
        path.write_bytes(data.getvalue())
        image = nodes.image(
            uri=os.path.relpath(path, Path(page.path).parent).replace(os.sep, "/"),
            alt=" ".join(self.options.get("alt", "").split()),
            width=f"{figure.get_figwidth() * SHOWN:.0f}px",
            classes=["run-figure"],
        )
        label = figure.get_label()  # "wide" and "narrow" figures are for screens of that kind only
        node = nodes.figure("", image, align="center", classes=[f"{label}-only"] if label in KINDS else [])
        if "caption" in self.options:
            children, _ = self.state.inline_text(self.options["caption"], self.lineno)
            node += nodes.caption("", "", *children)
        return node


def is_drawing(value):
    """Whether a value is what plot functions return: Axes, or arrays and lists of them."""
    if isinstance(value, np.ndarray | list | tuple):
        flat = np.asarray(value, dtype=object).ravel()
        return len(flat) > 0 and all(map(is_drawing, flat.tolist()))
    return isinstance(value, Axes | mpl.artist.Artist)


def setup(app):
    app.add_directive("run", RunDirective)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
