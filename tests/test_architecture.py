"""Which module may import which: the stages in their order, labels at the top only."""

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "tensorly_smp"

# A stage imports itself and earlier ones.
STAGES = (
    "codes",
    "marginals",
    "factors",
    "initializers",
    "identifiability",
    "likelihood",
    "search",
    "densities",
    "dependence",
)
# Beside the estimator, above all stages.
TOP_FOLDERS = ("chunked", "plotting", "unmixing")
# Imported by any stage; they import each other only. Who may import `labels` and `samples` is a rule of its own, below.
FOUNDATIONS = (
    "exceptions",
    "arrow_frames",
    "checks",
    "randomness",
    "representations",
    "progress",
    "threads",
    "kernels",
    "compiled_kernels",
    "labels",
    "samples",
)

# importing module: stages or modules that it imports against the order, inside its functions only, with the reason.
LAZY = {
    "factors.solver": {"initializers"},  # a start is chosen by its name
    "factors.solution": {"results"},  # to_dataset
    "identifiability.problem": {"results"},  # takes the Dataset of a fit
}
# The numerical code has never heard of labels. These modules take samples in from users, or give results out.
LABELS = {
    "codes.binning",
    "codes.encoding",
    "densities.mixture_density",
    "densities.reconstruct",
    "dependence.unmixed_density",
    "estimator",
    "fitted",
    "independence",
    "unmixing.reading",
    "selection",
    "metrics",
    "plotting.calibration",
    "plotting.names",
    "plotting.subject",
    "chunked.lazily",
    "chunked.reading",
    "discretization",
    "fit_samples",
    "refinement",
    "variables",
    "csv_columns",
    "csv_tables",
    "summaries",
}
LABELS_LAZY = {"factors.solution", "factors.mixture_factors"}


def module_name(path):
    """Name of a file inside the package: codes/binning.py is codes.binning, codes/__init__.py is codes."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path): path for path in sorted(PACKAGE.rglob("*.py"))}


def imported_by(name):
    """Pairs (module of this package, whether at import time). TYPE_CHECKING blocks count as not at import time."""

    def visit(node, at_import):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name}, line {node.lineno}: import by the full path, not a relative one"
            if (node.module or "").split(".")[0] == PACKAGE.name:
                base = node.module.split(".")[1:]
                # `from tensorly_smp import metrics` and `from tensorly_smp.codes import binning` import modules too.
                for alias in node.names:
                    full = ".".join([*base, alias.name])
                    yield (full if full in MODULES else ".".join(base)), at_import
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == PACKAGE.name:
                    yield ".".join(alias.name.split(".")[1:]), at_import
        else:
            deferred = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) or (
                isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
            )
            for child in ast.iter_child_nodes(node):
                yield from visit(child, at_import and not deferred)

    return set(visit(ast.parse(MODULES[name].read_text(encoding="utf-8")), True))


def folder(name):
    return name.split(".")[0]


@pytest.mark.parametrize("name", [name for name in MODULES if folder(name) in STAGES])
def test_stage_imports_itself_and_earlier_stages(name):
    allowed = {*FOUNDATIONS, *STAGES[: STAGES.index(folder(name)) + 1]}
    for target, at_import in imported_by(name):
        if not at_import and {target, folder(target)} & LAZY.get(name, set()):
            continue
        assert folder(target) in allowed, f"{name} imports {target or 'the public names'}"


@pytest.mark.parametrize("name", FOUNDATIONS)
def test_foundations_import_each_other_only(name):
    if name in MODULES:
        assert {folder(target) for target, _ in imported_by(name)} <= set(FOUNDATIONS)


@pytest.mark.parametrize("name", MODULES)
def test_labels_are_known_at_the_top_only(name):
    for target, at_import in imported_by(name):
        if target in ("labels", "samples"):
            allowed = name in LABELS or (name in LABELS_LAZY and not at_import) or name == "samples"
            assert allowed, f"{name} imports {target}"


@pytest.mark.parametrize("name", [name for name in MODULES if name])
def test_no_module_imports_the_public_names(name):
    # The public names import every module; the other way round would be a cycle at best.
    assert "" not in {target for target, _ in imported_by(name)}


def test_no_cycle_at_import_time():
    graph = {name: {target for target, at_import in imported_by(name) if at_import} for name in MODULES}
    TopologicalSorter(graph).prepare()


def test_folders_are_the_stages():
    folders = {folder(name) for name, path in MODULES.items() if name and path.name == "__init__.py"}
    assert folders <= {*STAGES, *TOP_FOLDERS}


def test_tables_name_modules_that_use_their_exceptions():
    for name, extra in LAZY.items():
        if name in MODULES:
            lazily = {part for target, _ in imported_by(name) for part in (target, folder(target))}
            assert extra <= lazily, f"{name} no longer needs {sorted(extra - lazily)}: remove it from LAZY"
