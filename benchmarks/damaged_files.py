"""Damaged files of a saved model, and what `smp.load` gives for them, as a table of counts.

    python benchmarks/damaged_files.py [--number 500]

Every file must be refused with a FileFormatError; a changed byte in space that no reader looks at may leave the model
as it was, to the last bit. "content" counts what the checksum alone refused: netCDF itself would have opened it.
"""

import tempfile
from collections import Counter
from pathlib import Path

import numpy as np
from common import options_of

import tensorly_smp as smp
from tensorly_smp.exceptions import FileFormatError

KINDS = ("cut off", "one bit", "512 zeros", "two blocks swapped", "a byte of the header")


def damaged(kind: str, rng: np.random.Generator, content: bytearray) -> bytearray:
    place = int(rng.integers(len(content)))
    if kind == "cut off":
        return content[:place]
    if kind == "one bit":
        content[place] ^= 1 << rng.integers(8)
    elif kind == "512 zeros":
        content[place : place + 512] = bytes(len(content[place : place + 512]))
    elif kind == "two blocks swapped":
        one, other = (slice(512 * i, 512 * i + 512) for i in rng.choice(len(content) // 512, 2, replace=False))
        content[one], content[other] = content[other], content[one]
    else:
        content[4 + rng.integers(4000)] = rng.integers(256)
    return content


def outcome(path: Path, model: smp.SmoothProductMixture) -> str:
    try:
        loaded = smp.load(path)
    except FileFormatError as error:
        return "content" if "not what was written" in str(error) else "refused"
    except Exception as error:
        return f"UNEXPECTED {type(error).__name__}"
    return "unchanged" if loaded.result_.identical(model.result_) else "ANOTHER MODEL"


if __name__ == "__main__":
    number = options_of(__doc__, number=500).number
    X = smp.datasets.make_smooth_mixture("gaussian", 400, 4, 2, random_state=1, missing=0.1).X
    model = smp.SmoothProductMixture(2, n_bins=8, n_init=1, random_state=0).fit(X)
    rng = np.random.default_rng(0)
    print(f"| damage, {number} files each | what loading gave |\n|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.nc"
        model.save(path)
        content = path.read_bytes()
        for kind in KINDS:
            counts: Counter[str] = Counter()
            for _ in range(number):
                path.write_bytes(damaged(kind, rng, bytearray(content)))
                counts[outcome(path, model)] += 1
            print(f"| {kind} | {dict(counts)} |", flush=True)
    print(f"\n{len(content)} bytes")
