"""Which module may import which: the stages in the order of the data, labels at the top only."""

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "tensorly_smp"

# Folders, and modules at the root, in the order of the data: each imports itself and what stands before it. Imports
# inside functions, and those for type checkers, count too.
ORDER = (
    "exceptions",
    "_support",
    "storage",
    "samples",
    "codes",
    "marginals",
    "factors",
    "initializers",
    "decomposition",
    "splines",
    "likelihood",
    "densities",
    "identifiability",
    "search",
    "fitting",
    "unmixing",
    "uncertainty",
    "dependence",
    "datasets",
    "metrics",
    "plotting",
    "estimators",
    "selection",
    "testing",
    "cli",
    "__main__",
)
MOST_ROOT_MODULES = 12

# The numerical code has never heard of labels: of `samples` it knows the arithmetic of bare values. These modules of it
# take samples in from users, or give results out.
NUMERICAL = ORDER[ORDER.index("codes") : ORDER.index("fitting")]
LABELS = {
    "codes.binning",  # names of variables
    "codes.encoding",  # samples of any kind
    "densities.mixture_density",  # samples of any kind, labelled answers
    "densities.reconstruct",  # samples of any kind
}


def module_name(path):
    """Name of a file inside the package: codes/binning.py is codes.binning, codes/__init__.py is codes."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path): path for path in sorted(PACKAGE.rglob("*.py"))}


def imported_by(name):
    """Modules of this package that a module imports, wherever in it."""
    found = set()
    for node in ast.walk(ast.parse(MODULES[name].read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name}, line {node.lineno}: import by the full path, not a relative one"
            if (node.module or "").split(".")[0] == PACKAGE.name:
                base = node.module.split(".")[1:]
                # `from tensorly_smp import metrics` and `from tensorly_smp.codes import binning` import modules too.
                for alias in node.names:
                    full = ".".join([*base, alias.name])
                    found.add(full if full in MODULES else ".".join(base))
        elif isinstance(node, ast.Import):
            found |= {
                ".".join(alias.name.split(".")[1:]) for alias in node.names if alias.name.split(".")[0] == PACKAGE.name
            }
    return found


def folder(name):
    return name.split(".")[0]


@pytest.mark.parametrize("name", [name for name in MODULES if name])
def test_modules_import_what_stands_before_them(name):
    allowed = ORDER[: ORDER.index(folder(name)) + 1]
    for target in imported_by(name):
        assert folder(target) in allowed, f"{name} imports {target or 'the public names'}"


@pytest.mark.parametrize("name", [name for name in MODULES if folder(name) in NUMERICAL])
def test_labels_are_known_where_users_come_in_only(name):
    knows = {target for target in imported_by(name) if folder(target) == "samples"} - {"samples.values"}
    assert bool(knows) == (name in LABELS), f"{name} imports {knows or 'no labels any more'}"


def test_no_cycle():
    graph = {name: imported_by(name) for name in MODULES}
    TopologicalSorter(graph).prepare()


def test_the_root_is_small():
    assert len([name for name, path in MODULES.items() if path.parent == PACKAGE]) <= MOST_ROOT_MODULES


def test_every_folder_has_its_place():
    assert {folder(name) for name in MODULES if name} == set(ORDER)
