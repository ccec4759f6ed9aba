"""Files that the pages need and that come from installed packages: MathJax, so that formulas need no network."""

import hashlib
from pathlib import Path

import mathjax  # of django-static-mathjax, which is MathJax's own files and nothing of Django
from sphinx.errors import ExtensionError

SOURCE = Path(mathjax.__file__).parent / "static" / "mathjax"
#: One file with all of TeX input and SVG output; nothing else is ever loaded.
SCRIPT = "tex-svg-full.js"
CHECKSUM = "214c3da890b16db3d1319684cc04f3fd4e72ea59d5eb3863f256146015fb1783"
#: Below ``_static``.
FOLDER = "mathjax"


def copy_mathjax(app):
    """Copy the script and its license beside the other static files."""
    script = (SOURCE / "es5" / SCRIPT).read_bytes()
    if hashlib.sha256(script).hexdigest() != CHECKSUM:
        raise ExtensionError(f"{SOURCE / 'es5' / SCRIPT} is not the file of MathJax 3.2.2.")
    folder = Path(app.outdir) / "_static" / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    (folder / SCRIPT).write_bytes(script)
    (folder / "LICENSE").write_bytes((SOURCE / "LICENSE").read_bytes())


def setup(app):
    app.connect("builder-inited", copy_mathjax)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
