"""Print the oldest releases that pyproject.toml allows, one requirement a line, for `make test-lowest`.

python tools/lower_bounds.py plot progress io     those of the core, of these extras, and of the tests' own tools
"""

import re
import sys
import tomllib
from pathlib import Path

PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def lowest(requirements):
    """'name==bound' of every 'name>=bound'; what refers to extras of this package is left out."""
    for requirement in requirements:
        if not requirement.startswith(PROJECT["name"] + "["):
            name, bound = re.match(r"([\w.-]+(?:\[[\w,]+\])?)>=([\w.]+)", requirement).groups()
            yield f"{name}=={bound}"


def main(extras):
    groups = [PROJECT["dependencies"], *(PROJECT["optional-dependencies"][extra] for extra in (*extras, "test"))]
    print(*dict.fromkeys(line for group in groups for line in lowest(group)), sep="\n")


if __name__ == "__main__":
    main(sys.argv[1:])
