"""Draw the picture of the README, which is the first one of the site: python tools/draw_overview.py."""

import sys
from pathlib import Path

import matplotlib as mpl

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "docs" / "_extensions"))

from code_blocks import code_blocks  # noqa: E402


def main():
    mpl.use("agg")
    mpl.rcParams.update({"svg.hashsalt": "tensorly_smp", "svg.fonttype": "none"})
    blocks = code_blocks((ROOT / "docs" / "index.md").read_text(encoding="utf-8"))
    names = {}
    exec(next(code for language, _, code in blocks if language == "run"), names)
    path = ROOT / "docs" / "_static" / "overview.svg"
    names["figure"].savefig(path, metadata={"Date": None, "Creator": None}, facecolor="white")


if __name__ == "__main__":
    main()
