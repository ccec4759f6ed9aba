"""Every example that users read is run, and every link followed: docstrings, README.md, the documentation's pages."""

import doctest
import importlib
import inspect
import io
import pkgutil
import re
import runpy
import shutil
import tomllib
from pathlib import Path

import pytest
from api_pages import part_paths, write_api_pages
from code_blocks import FENCE, code_blocks
from without_extras import LACKING

import tensorly_smp

ROOT = Path(__file__).parents[1]
MODULES = ["tensorly_smp"] + [
    info.name
    for info in pkgutil.walk_packages(tensorly_smp.__path__, "tensorly_smp.")
    if not info.name.endswith("__main__")
]
GENERATED = {ROOT / "docs" / name for name in ("api", "gallery", "_build")}
PAGES = [
    "README.md",
    *sorted(
        path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md") if not GENERATED & set(path.parents)
    ),
]
LINKED = [*PAGES, "CHANGELOG.md", "CONTRIBUTING.md"]
DOCTEST_FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


def lacking_import(code):
    """Name of an optional package that the code imports and that is not installed, or None."""
    names = re.findall(r"^(?:>>> |\.\.\. )?[ \t]*(?:import|from) (\w+)", code, re.M)
    return next((name for name in names if name in LACKING), None)


def run_session(code, namespace, path, line):
    """Run a ```pycon block in the namespace, and compare what it prints."""
    test = doctest.DocTestParser().get_doctest(code, namespace, path.name, str(path), line - 1)
    output = io.StringIO()
    runner = doctest.DocTestRunner(optionflags=DOCTEST_FLAGS)
    runner.run(test, out=output.write, clear_globs=False)
    namespace.update(test.globs)  # a copy: the names are for the blocks that follow, too
    assert not runner.failures, output.getvalue()


def without_code(text):
    """The text without fenced blocks and without code in a line, in neither of which brackets are links."""
    text = re.sub(r"^(?P<indent>[ \t]*)(?P<fence>`{3,})\w.*?^(?P=indent)(?P=fence)[ \t]*$", "", text, flags=re.M | re.S)
    return re.sub(r"(?<!\})`[^`\n]+`", "", text)


def anchors(text):
    """What the headings of a page are called in links, by the rule of GitHub and of myst_heading_anchors."""
    headings = re.findall(r"^#{1,6}[ \t]+(.+?)[ \t]*$", re.sub(FENCE, "", text), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken_links(path):
    """Targets of relative links on the page that lead nowhere."""
    for target in re.findall(r"\]\(\s*<?([^)\s>]+)", without_code(path.read_text(encoding="utf-8"))):
        if re.match(r"[a-z][a-z0-9+.-]*:", target):
            continue  # another site
        name, _, anchor = target.partition("#")
        file = (path.parent / name).resolve() if name else path
        if ROOT / "docs" / "gallery" in file.parents:  # made of the examples of the same name
            file = ROOT / "examples" / file.with_suffix(".py").name
        if not file.exists() or (anchor and anchor not in anchors(file.read_text(encoding="utf-8"))):
            yield target


def public_objects():
    """Names and objects of ``__all__``, and of the ``__all__`` of the public modules."""
    for name in getattr(tensorly_smp, "__all__", []):
        thing = getattr(tensorly_smp, name)
        if inspect.ismodule(thing):
            for member in thing.__all__:
                yield f"{name}.{member}", getattr(thing, member)
        else:
            yield name, thing


def is_ours(thing):
    return (getattr(thing, "__module__", None) or "").startswith("tensorly_smp")


def methods_of(thing):
    """Names and functions of the methods and properties that a class has from this package."""
    for name in sorted({name for base in thing.__mro__ for name in vars(base)}):
        value = inspect.getattr_static(thing, name)
        # Of a property, of a cached property, of a class method or any other.
        function = getattr(value, "fget", None) or getattr(value, "func", None) or inspect.unwrap(value)
        if is_ours(function) and not name.startswith("_") and inspect.isroutine(function):
            yield name, function


def annotations():
    """Types, as they are written, of what public functions and methods return, and of attributes of public classes."""
    for thing in PUBLIC.values():
        if inspect.isroutine(thing):
            yield thing.__annotations__["return"]
        elif inspect.isclass(thing):
            for base in filter(is_ours, thing.__mro__):
                yield from (what for name, what in vars(base).get("__annotations__", {}).items() if name[0] != "_")
            yield from (function.__annotations__["return"] for _, function in methods_of(thing))


PUBLIC = dict(public_objects())
FUNCTIONS = [name for name, thing in PUBLIC.items() if inspect.isroutine(thing)]
CLASSES = [name for name, thing in PUBLIC.items() if inspect.isclass(thing)]
METHODS = [f"{name}.{method}" for name in CLASSES for method, _ in methods_of(PUBLIC[name])]
# Results are made of these, too, but users have no business with them.
INNER = {"ConditionalDensities", "SampleLabels"}
# Faults that numpydoc finds and that are refused: of form anywhere (sections unknown, empty or in the wrong order,
# parameters that do not exist), of content in functions. Not refused are short methods that say in one line what they
# take and return, classes whose attributes are their parameters, and missing "See Also".
WRONG = {"GL06", "GL07", "GL08", "GL09", "PR02", "PR03", "PR04", "PR05", "PR08", "PR10", "YD01", "SS01", "SS03"}
INCOMPLETE = {"PR01", "PR06", "RT01", "SS02", "SS06", "EX01"}


@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples_run(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    module = importlib.import_module(name)
    output = io.StringIO()
    runner = doctest.DocTestRunner(optionflags=DOCTEST_FLAGS)
    for test in doctest.DocTestFinder().find(module, name):
        runner.run(test, out=output.write)
    assert not runner.failures, output.getvalue()


@pytest.mark.filterwarnings("ignore::tensorly_smp.exceptions.DependenceWarning")  # pages say where fits warn
@pytest.mark.parametrize("page", PAGES)
def test_page_examples_run(page, tmp_path, monkeypatch):
    path = ROOT / page
    text = path.read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    # One namespace a page: a block goes on where the one before it stopped.
    namespace = {"__name__": "__main__"}
    for language, line, code in code_blocks(text):
        if name := lacking_import(code):
            pytest.skip(f"needs {name}, from line {line} on")
        if language == "pycon":
            run_session(code, namespace, path, line)
        else:
            # Leading newlines make tracebacks point at the page's own lines.
            exec(compile("\n" * (line - 1) + code, str(path), "exec"), namespace)


def test_blocks_are_found():
    text = (
        "a\n```python\nx = 1\n```\n- b\n  ```python\n  if x:\n      y = 2\n  ```\n```python-console\nz\n```\n"
        "```pycon\n>>> x\n1\n```\n```{run}\n:hide-code:\n:alt: words\nx + 1\n```\n"
    )
    assert list(code_blocks(text)) == [
        ("python", 3, "x = 1\n"),
        ("python", 7, "if x:\n    y = 2\n"),
        ("pycon", 14, ">>> x\n1\n"),
        ("run", 20, "x + 1\n"),
    ]


def test_blocks_that_lack_an_import_are_known(monkeypatch):
    monkeypatch.setitem(globals(), "LACKING", {"tlviz"})
    assert lacking_import("import numpy\nif numpy:\n    from tlviz.data import x\n") == "tlviz"
    assert lacking_import(">>> import tlviz\n>>> tlviz.x\n") == "tlviz"
    assert lacking_import("import none\nimport tlvizard\nx = 'tlviz'\n") is None  # which is an error


def test_output_of_a_session_is_compared():
    namespace = {"x": 1}
    run_session(">>> y = x + 1\n>>> y\n2\n", namespace, ROOT / "page.md", 1)
    assert namespace["y"] == 2
    with pytest.raises(AssertionError, match=r"Expected:\s+3\s+Got:\s+2"):
        run_session(">>> y\n3\n", namespace, ROOT / "page.md", 1)


@pytest.mark.parametrize("page", LINKED)
def test_relative_links_lead_somewhere(page):
    assert list(broken_links(ROOT / page)) == []


def test_broken_links_are_found(tmp_path):
    (tmp_path / "other.md").write_text("# One Heading, two `words`\n", encoding="utf-8")
    links = (
        "[a](other.md) [b](none.md) [c](other.md#one-heading-two-words) [d](other.md#none) [e](https://x.org/none)\n"
        "`x[0](none)` [f](#here)\n\n## Here\n\n```python\nx[1](none)\n```\n"
    )
    (tmp_path / "page.md").write_text(links, encoding="utf-8")
    assert list(broken_links(tmp_path / "page.md")) == ["none.md", "other.md#none"]


def test_errors_warnings_and_extras_are_on_their_pages():
    headings = re.findall(r"^#+ `(\w+)`$", (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8"), re.M)
    assert sorted(headings) == sorted(tensorly_smp.exceptions.__all__)
    # Every extra is on the page of installation.
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    listed = re.findall(r"^\| `(\w+)` \|", (ROOT / "docs" / "installation.md").read_text(encoding="utf-8"), re.M)
    assert sorted(listed) == sorted(project["optional-dependencies"])


def test_public_names_have_docstrings_examples_and_a_place_in_the_reference(tmp_path):
    docs = {name: inspect.getdoc(PUBLIC[name]) or "" for name in FUNCTIONS}
    assert [name for name, doc in docs.items() if "Examples\n--------" not in doc or ">>> " not in doc] == []
    # vars, not getdoc: a docstring inherited from a base class describes that class.
    assert [name for name in CLASSES if not (vars(PUBLIC[name])["__doc__"] or "").strip()] == []
    # Reference lists every public name.
    write_api_pages(tmp_path / "api")  # refuses names in no group
    listed = "".join(path.read_text(encoding="utf-8") for path in (tmp_path / "api").glob("*.rst"))
    assert all(f"   {name}\n" in listed for name in tensorly_smp.__all__ if name not in ("datasets", "exceptions"))


def test_docstrings_are_valid_numpydoc():
    validate = pytest.importorskip("numpydoc.validate", reason="numpydoc is of the extra docs").validate
    faults = {}
    for name in [*FUNCTIONS, *CLASSES, *METHODS]:
        refused = WRONG | (INCOMPLETE if name in FUNCTIONS else {"EX01"} if name in CLASSES else set())
        found = [f"{code}: {what}" for code, what in validate(f"tensorly_smp.{name}")["errors"] if code in refused]
        faults |= {name: found} if found else {}
    assert faults == {}


@pytest.fixture(scope="module")
def documented(tmp_path_factory):
    """Kinds of all that the API reference describes, by name: built from the site's own list of names and template."""
    application = pytest.importorskip("sphinx.application", reason="Sphinx is of the extra docs")
    from sphinx.util.docutils import docutils_namespace

    folder = tmp_path_factory.mktemp("docs")
    shutil.copy(ROOT / "docs" / "conf.py", folder)
    shutil.copytree(ROOT / "docs" / "_extensions", folder / "_extensions")
    runpy.run_path(str(folder / "conf.py"))  # writes api/ beside itself
    settings = {
        "extensions": ["sphinx.ext.autodoc", "sphinx.ext.autosummary"],
        "templates_path": [str(ROOT / "docs" / "_templates")],
    }
    with docutils_namespace():
        app = application.Sphinx(
            folder / "api", None, folder / "out", folder / "trees", "dummy", settings, status=None, warning=None
        )
        app.build()
    # Without the names by which classes are known where they are defined.
    objects = {name: entry for name, entry in app.env.domaindata["py"]["objects"].items() if not entry.aliased}
    return {name.removeprefix("tensorly_smp."): entry.objtype for name, entry in objects.items()}


@pytest.mark.slow
def test_reference_has_every_public_name_method_and_class_of_results(documented):
    assert set(PUBLIC) <= set(documented)
    # Reference has every method and no other.
    expected = set()
    for name in [name for name, kind in documented.items() if kind == "class"]:
        module, _, attribute = f"tensorly_smp.{name}".rpartition(".")
        thing = getattr(importlib.import_module(module), attribute)
        expected |= {f"{name}.{method}" for method, _ in methods_of(thing)}
    assert expected >= set(METHODS)
    # Of a base class of others, scikit-learn's for instance, nothing is listed.
    assert {name for name, kind in documented.items() if kind in ("method", "property")} == expected
    # Reference has the classes of results.
    names = {name for what in annotations() for name in re.findall(r"\w+", str(what))}
    modules = [importlib.import_module(name) for name in MODULES]
    ours = {name for module in modules for name, thing in inspect.getmembers(module, inspect.isclass) if is_ours(thing)}
    assert names & ours <= {name.rpartition(".")[2] for name in documented} | INNER


def test_examples_of_docstrings_fit_into_their_column():
    # As the code of pages: 88 columns, prompt and output among them.
    listed = {name: getattr(importlib.import_module(module), name) for module, name in map(split_path, part_paths())}
    things = {name: thing for name, thing in (PUBLIC | listed).items() if callable(thing)}
    for name, thing in list(things.items()):
        if inspect.isclass(thing):
            things |= {f"{name}.{method}": value for method, value in methods_of(thing)}
    wide = {}
    for name, thing in things.items():
        for example in doctest.DocTestParser().get_examples(inspect.getdoc(thing) or ""):
            lines = [f">>> {line}" for line in example.source.splitlines()] + example.want.splitlines()
            if max(map(len, lines)) > 88:
                wide[name] = max(lines, key=len)
    assert wide == {}


def split_path(path):
    module, _, name = path.rpartition(".")
    return f"tensorly_smp.{module}", name
