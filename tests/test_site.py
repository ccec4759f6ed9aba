"""The site's own settings and the checks of its built pages."""

import ast
import importlib.util
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from code_blocks import code_blocks

import tensorly_smp

ROOT = Path(__file__).parents[1]
HEAD = '<head><meta name="description" content="words" /></head>'


@pytest.fixture
def settings(tmp_path):
    pytest.importorskip("sphinx", reason="Sphinx is of the extra docs")
    shutil.copy(ROOT / "docs" / "conf.py", tmp_path)
    shutil.copytree(ROOT / "docs" / "_extensions", tmp_path / "_extensions")
    return runpy.run_path(str(tmp_path / "conf.py"))


def faults(folder, **pages):
    """Faults that tools/check_site.py finds in these pages, and its exit status."""
    for name, body in pages.items():
        (folder / f"{name}.html").write_text(HEAD + body, encoding="utf-8")
    command = [sys.executable, str(ROOT / "tools" / "check_site.py"), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stderr.splitlines(), done.returncode


def test_settings_load_nothing_from_another_site(settings):
    loaded = [settings["mathjax_path"], settings["html_favicon"], *settings["html_css_files"]]
    loaded += [*settings.get("html_js_files", []), *settings["html_theme_options"]["logo"].values()]
    assert [each for each in loaded if "//" in each] == []


def test_mathjax_is_of_the_version_that_is_pinned():
    pytest.importorskip("mathjax", reason="MathJax is of the extra docs")
    sphinx_errors = pytest.importorskip("sphinx.errors", reason="Sphinx is of the extra docs")
    spec = importlib.util.spec_from_file_location("own_files", ROOT / "docs" / "_extensions" / "own_files.py")
    own_files = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(own_files)
    own_files.CHECKSUM = own_files.CHECKSUM[::-1]
    with pytest.raises(sphinx_errors.ExtensionError, match=r"3\.2\.2"):
        own_files.copy_mathjax(None)


def test_good_pages_have_no_fault(tmp_path):
    (tmp_path / "own.js").touch()
    body = '<script src="own.js?v=1"></script><a href="b.html#there">b</a><a href="https://example.org/x">other</a>'
    assert faults(tmp_path, a=body, b='<h1 id="there">b</h1><img src="data:image/png;base64,AA" alt="words">') == (
        [],
        0,
    )


def test_faults_of_pages_are_found(tmp_path):
    wrong = {
        '<script src="https://example.org/x.js"></script>': "loads from another site: https://example.org/x.js",
        '<link rel="stylesheet" href="//example.org/x.css">': "loads from another site: //example.org/x.css",
        '<script src="none.js"></script>': "loads a file that is not there: none.js",
        '<a href="none.html">x</a>': "link leads nowhere: none.html",
        '<a href="#none">x</a>': "link leads nowhere: #none",
        '<img src="data:," alt="">': "picture without words: data:,",
    }
    pages = dict(zip("abcdef", wrong, strict=True))
    found, status = faults(tmp_path, **pages)
    assert (sorted(found), status) == ([f"{name}.html: {wrong[body]}" for name, body in pages.items()], 6)


def test_code_of_pages_fits_into_their_column():
    # 88 columns are what there is room for beside both sidebars on a screen of 1400 pixels.
    wide = [
        f"{path.name}: {line}"
        for path in sorted((ROOT / "docs").glob("*.md"))
        for _, _, code in code_blocks(path.read_text(encoding="utf-8"))
        for line in code.splitlines()
        if len(line) > 88
    ]
    for path in sorted((ROOT / "examples").glob("plot_*.py")):
        lines = path.read_text(encoding="utf-8").splitlines()
        start = ast.parse("\n".join(lines)).body[0].end_lineno  # the text of the page
        wide += [f"{path.name}: {line}" for line in lines[start:] if len(line) > 88 and not line.startswith("#")]
    assert wide == []


def test_pages_have_words_that_are_searched_for_and_tables_that_scroll():
    texts = [path.read_text(encoding="utf-8").lower() for path in (ROOT / "docs").glob("*.md")]
    for words in ("stack time station", "polca loglik", "kruskal criterion", "support rain", "missing header"):
        assert any(all(word in text for word in words.split()) for text in texts), words
    # Wide tables scroll on a phone.
    style = (ROOT / "docs" / "_static" / "custom.css").read_text(encoding="utf-8")
    assert re.search(r"\.pst-scrollable-table-container \{[^}]*overflow-x: auto", style)
    assert re.search(r"table td code[^{]*\{[^}]*overflow-wrap: anywhere", style)


def pages_of(name):
    """Pages in the tables of contents of a page."""
    text = (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")
    trees = re.findall(r"^```\{toctree\}\n(.*?)^```$", text, re.M | re.S)
    return [line for tree in trees for line in tree.splitlines() if re.fullmatch(r"\w+", line)]


@pytest.mark.parametrize("page", [*pages_of("guide"), *pages_of("start")])
def test_pages_of_the_guide_show_something_that_was_run(page):
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    assert "run" in [language for language, _, _ in code_blocks(text)]
    # Inline code that is a public name becomes a link to the reference.
    names = set(tensorly_smp.__all__) | set(tensorly_smp.exceptions.__all__)
    found = re.findall(r"`(?:smp\.)?(\w+)[`(]", text)
    assert names & set(found) or "model.plot" in text
