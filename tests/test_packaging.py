"""The package as users get it: built, installed without extras, imported."""

import ast
import importlib.metadata
import re
import subprocess
import sys
import tomllib
import zipfile
from itertools import chain
from pathlib import Path

import pytest

import tensorly_smp

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

# Modules that nothing imports but functions which found the extra installed.
EXTRA_MODULES = {"compiled_kernels.py": {"numba"}}
# Extras and optional backends. pandas is not here: xarray itself depends on it.
OPTIONAL_MODULES = ("matplotlib", "tqdm", "netCDF4", "zarr", "dask", "torch", "jax", "numba", "tensorly_viz")
IMPORT_NAMES = {"scikit-learn": "sklearn"}

# Printed by an interpreter that has imported nothing else.
REPORT_IMPORT = f"""
import sys
import tensorly_smp, tensorly_smp.plotting.accessor
print(tensorly_smp.__version__, *(name for name in {OPTIONAL_MODULES!r} if name in sys.modules))
"""


REPORT_PLACE = "print(tensorly_smp.__file__)"


def run(*command, cwd):
    """Standard output of a command; its whole output in the failure otherwise."""
    done = subprocess.run([str(part) for part in command], cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.fail(f"{' '.join(map(str, command))}\nended with status {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def requirement_names(requirements):
    return {re.match(r"[\w.-]+", requirement)[0].lower().replace("-", "_") for requirement in requirements}


@pytest.fixture(scope="module")
def distributions(tmp_path_factory):
    """The source archive, and the wheel built from that archive, so that the archive is known to be complete."""
    folder = tmp_path_factory.mktemp("dist")
    try:
        run(sys.executable, "-m", "build", "--outdir", folder, ROOT, cwd=folder)
    except pytest.fail.Exception as failure:
        pytest.fail(f"{failure}\n\nBuilding needs the package `build`, and a package index for hatchling.")
    (archive,), (wheel,) = folder.glob("*.tar.gz"), folder.glob("*.whl")
    return archive, wheel


@pytest.mark.slow
def test_wheel_holds_the_package_and_nothing_else(distributions):
    with zipfile.ZipFile(distributions[1]) as wheel:
        names = set(wheel.namelist())
    sources = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "tensorly_smp").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    packaged = {name for name in names if ".dist-info/" not in name}
    assert packaged == sources
    assert "tensorly_smp/py.typed" in packaged
    assert any(name.endswith("licenses/LICENSE") for name in names)


@pytest.mark.slow
def test_wheel_needs_core_dependencies_only_and_can_be_imported(distributions, tmp_path):
    """`make test-minimal` installs these, and runs the tests without any extra."""
    with zipfile.ZipFile(distributions[1]) as wheel:
        wheel.extractall(tmp_path)
    (metadata,) = tmp_path.glob("*.dist-info")
    needed = importlib.metadata.PathDistribution(metadata).requires
    core = requirement_names(each for each in needed if "extra ==" not in each)
    assert core == requirement_names(PROJECT["dependencies"])
    where = f"import sys; sys.path.insert(0, {str(tmp_path)!r})"
    version, *loaded = run(sys.executable, "-P", "-c", f"{where}\n{REPORT_IMPORT}{REPORT_PLACE}", cwd=tmp_path).split()
    assert [version, *loaded] == [PROJECT["version"], str(tmp_path / "tensorly_smp" / "__init__.py")]


def test_import_loads_no_optional_package():
    # Here they are installed, so an import of one, even a guarded one, would be seen.
    version, *loaded = run(sys.executable, "-c", REPORT_IMPORT, cwd=ROOT).split()
    assert loaded == []
    assert version == PROJECT["version"]


def test_one_version_everywhere_and_lower_bounds_only():
    assert tensorly_smp.__version__ == PROJECT["version"]
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.search(r"^version: (.*)$", citation, re.MULTILINE)[1] == PROJECT["version"]
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.search(r"^## (\S+)", changelog, re.MULTILINE)[1] == PROJECT["version"]
    # `make test` installs; a tree that is only on the path has no metadata to compare.
    if importlib.metadata.packages_distributions().get("tensorly_smp"):
        assert importlib.metadata.version("tensorly_smp") == PROJECT["version"]
    # Dependencies have lower bounds and no upper ones.
    for requirement in chain(PROJECT["dependencies"], *PROJECT["optional-dependencies"].values()):
        if not requirement.startswith(("tensorly_smp[", SHIPPED)):
            assert re.fullmatch(r"[\w.-]+(\[[\w,]+\])?>=[\d.]+", requirement), requirement


#: Files that the site ships, of one version that is known to work; not code that this package calls.
SHIPPED = "django-static-mathjax=="


def test_module_level_imports_are_core_dependencies():
    core = {IMPORT_NAMES.get(name.replace("_", "-"), name) for name in requirement_names(PROJECT["dependencies"])}
    for path in sorted((ROOT / "tensorly_smp").rglob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [node.module]
            else:
                continue
            allowed = core | EXTRA_MODULES.get(path.name, set())
            outside = {name.split(".")[0] for name in names} - sys.stdlib_module_names - {"tensorly_smp"}
            assert outside <= allowed, f"{path.relative_to(ROOT)} imports {sorted(outside - allowed)}"
