"""Every example that users read is run: docstrings, README.md, and the pages of the documentation."""

import doctest
import importlib
import inspect
import io
import pkgutil
import re
import textwrap
from pathlib import Path

import pytest

import tensorly_smp

ROOT = Path(__file__).parents[1]
MODULES = ["tensorly_smp"] + [
    info.name
    for info in pkgutil.walk_packages(tensorly_smp.__path__, "tensorly_smp.")
    if not info.name.endswith("__main__")
]
GENERATED = {ROOT / "docs" / "api", ROOT / "docs" / "_build"}
PAGES = [
    "README.md",
    *sorted(
        path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md") if not GENERATED & set(path.parents)
    ),
]
# Opening fence (perhaps indented, in a list), body, the same fence. Only ```python runs; ```python-console and the
# like do not, so a block that cannot run is marked by its language.
FENCE = re.compile(
    r"^(?P<indent>[ \t]*)(?P<fence>`{3,})python[ \t]*\n(?P<body>.*?)^(?P=indent)(?P=fence)[ \t]*$", re.M | re.S
)


def python_blocks(text):
    """Pairs (first line number, code) of the ```python blocks."""
    for match in FENCE.finditer(text):
        yield text.count("\n", 0, match.start("body")) + 1, textwrap.dedent(match["body"])


def public_objects():
    """Names and objects of ``__all__``, and of the ``__all__`` of the public modules."""
    for name in getattr(tensorly_smp, "__all__", []):
        thing = getattr(tensorly_smp, name)
        if inspect.ismodule(thing):
            for member in thing.__all__:
                yield f"{name}.{member}", getattr(thing, member)
        else:
            yield name, thing


PUBLIC = dict(public_objects())
FUNCTIONS = [name for name, thing in PUBLIC.items() if inspect.isroutine(thing)]
CLASSES = [name for name, thing in PUBLIC.items() if inspect.isclass(thing)]


@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples_run(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    module = importlib.import_module(name)
    output = io.StringIO()
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    for test in doctest.DocTestFinder().find(module, name):
        runner.run(test, out=output.write)
    assert not runner.failures, output.getvalue()


@pytest.mark.parametrize("page", PAGES)
def test_page_examples_run(page, tmp_path, monkeypatch):
    path = ROOT / page
    text = path.read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    # One namespace a page: a block goes on where the one before it stopped.
    namespace = {"__name__": "__main__"}
    for line, code in python_blocks(text):
        # Leading newlines make tracebacks point at the page's own lines.
        exec(compile("\n" * (line - 1) + code, str(path), "exec"), namespace)


def test_blocks_are_found():
    text = "a\n```python\nx = 1\n```\n- b\n  ```python\n  if x:\n      y = 2\n  ```\n```python-console\nz\n```\n"
    assert list(python_blocks(text)) == [(3, "x = 1\n"), (7, "if x:\n    y = 2\n")]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_public_function_has_docstring_with_example(name):
    doc = inspect.getdoc(PUBLIC[name]) or ""
    assert "Examples\n--------" in doc, f"{name} has no Examples section"
    assert ">>> " in doc, f"the Examples section of {name} has no example"


@pytest.mark.parametrize("name", CLASSES)
def test_public_class_has_docstring(name):
    # vars, not getdoc: a docstring inherited from a base class describes that class.
    assert (vars(PUBLIC[name])["__doc__"] or "").strip(), f"{name} has no docstring"
