"""Descriptions of pages for search engines and previews of links, and words for pictures.

A description is the first paragraph of the page. The pictures of the gallery have the sentence before their code.
"""

import html
import re
from pathlib import Path

from docutils import nodes
from sphinx.transforms import SphinxTransform

#: Characters of a description that search engines show, about.
MOST = 180
FALLBACK = "Mixtures of smooth product distributions for Python: densities, clusters and imputation, no shape assumed."
CARD = "_static/social_card.png"


def describe(app, pagename, templatename, context, doctree):
    """Add the tags to the head of the page."""
    text = description_of(doctree) if doctree is not None else FALLBACK
    title = html.unescape(nodes.Text(context.get("title", "tensorly_smp")).astext())
    base = (app.config.html_baseurl or "").rstrip("/")
    tags = {
        "og:title": title,
        "og:type": "website",
        "og:site_name": "tensorly_smp",
        "og:description": text,
        "og:image": f"{base}/{CARD}" if base else context["pathto"](CARD, 1),
        "og:image:alt": "Samples of unknown groups, and the densities that tensorly_smp finds in them",
    }
    lines = [f'<meta property="{name}" content="{html.escape(value)}" />' for name, value in tags.items()]
    lines.append(f'<meta name="description" content="{html.escape(text)}" />')
    lines.append('<meta name="twitter:card" content="summary_large_image" />')
    context["metatags"] = context.get("metatags", "") + "\n    " + "\n    ".join(lines)


def description_of(doctree):
    """The first paragraph, cut at a word."""
    for paragraph in doctree.findall(nodes.paragraph):
        text = " ".join(paragraph.astext().split())
        if len(text) > 20 and paragraph.next_node(nodes.math) is None:
            return shortened(text)
    return FALLBACK


def shortened(text):
    """The text in one line, cut at a word if it is long."""
    text = " ".join(text.split())
    return text if len(text) <= MOST else text[: text.rindex(" ", 0, MOST)].rstrip(" ,;:") + " ..."


class PictureWords(SphinxTransform):
    """Alternative texts of the pictures of examples, which sphinx-gallery leaves empty or makes of the file's name."""

    default_priority = 500

    def apply(self, **_):
        paragraph = ""
        for node in self.document.findall():
            if isinstance(node, nodes.paragraph):
                paragraph = node.astext()
            uri = str(node.get("uri", "")) if isinstance(node, nodes.Element) else ""
            if "sphx_glr" not in uri:
                continue
            if uri.endswith("_thumb.png"):
                example = re.sub(r".*sphx_glr_(.*)_thumb\.png", r"\1", uri)
                node["alt"] = f"Picture of the example “{self.title_of(example)}”"
            elif self.env.docname.startswith("gallery/"):
                node["alt"] = shortened(paragraph).rstrip(":") or self.title_of(self.env.docname.rpartition("/")[2])

    def title_of(self, example):
        """First line of an example's docstring."""
        source = Path(self.env.srcdir).parent / "examples" / f"{example}.py"
        return source.read_text(encoding="utf-8").split("\n")[1] if source.exists() else example


def draw_card(app):
    """Draw the picture that previews of links show, 1200 by 630 pixels."""
    import matplotlib as mpl
    import matplotlib.pyplot as plt
    import numpy as np

    folder = Path(app.outdir) / "_static"
    folder.mkdir(parents=True, exist_ok=True)
    with mpl.rc_context({"font.family": "DejaVu Sans"}):
        figure = plt.figure(figsize=(12, 6.3), dpi=100, facecolor="white")
        ax = figure.add_axes((0.0, 0.0, 1.0, 0.52))
        x = np.linspace(0, 10, 600)
        curves = (
            (0.6 * np.exp(-0.5 * ((x - 2.0) / 0.5) ** 2) + 0.4 * np.exp(-0.5 * ((x - 3.4) / 0.35) ** 2), "#0072B2"),
            (0.9 * np.clip(x - 4.0, 0, None) ** 1.2 * np.exp(-1.4 * np.clip(x - 4.0, 0, None)) * 2.0, "#E69F00"),
            (0.7 * np.exp(-np.abs(x - 7.6) / 0.45), "#009E73"),
        )
        for y, color in curves:
            ax.fill_between(x, y, color=color, alpha=0.25, linewidth=0)
            ax.plot(x, y, color=color, linewidth=4)
        ax.set(xlim=(0, 10), ylim=(0, 1.1))
        ax.set_axis_off()
        figure.text(0.06, 0.78, "tensorly_smp", fontsize=54, weight="bold")
        figure.text(0.06, 0.66, "Mixtures of densities of any smooth shape,", fontsize=27, color="0.25")
        figure.text(0.06, 0.585, "learned from tables with missing entries", fontsize=27, color="0.25")
        figure.savefig(folder / "social_card.png")
        plt.close(figure)


def setup(app):
    app.add_transform(PictureWords)
    app.connect("builder-inited", draw_card)
    app.connect("html-page-context", describe)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
