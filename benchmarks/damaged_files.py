"""Damaged files of a saved model, and what `smp.load` gives for them, as a table of counts.

    python benchmarks/damaged_files.py [number of files of a kind, default 500]

Every file must be refused with a FileFormatError; a changed byte in space that no reader looks at may leave the model
as it was, to the last bit. "content" counts what the checksum alone refused: netCDF itself would have opened it.
"""

import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np

import tensorly_smp as smp
from tensorly_smp.exceptions import FileFormatError

SEED = 0
Damage = Callable[[np.random.Generator, bytearray], bytes | bytearray]


def cut(rng: np.random.Generator, content: bytearray) -> bytearray:
    return content[: rng.integers(len(content))]


def flip_bit(rng: np.random.Generator, content: bytearray) -> bytearray:
    content[rng.integers(len(content))] ^= 1 << rng.integers(8)
    return content


def zero_block(rng: np.random.Generator, content: bytearray) -> bytearray:
    start = rng.integers(len(content))
    content[start : start + 512] = bytes(len(content[start : start + 512]))
    return content


def swap_blocks(rng: np.random.Generator, content: bytearray) -> bytearray:
    one, other = (512 * i for i in rng.choice(len(content) // 512, 2, replace=False))
    content[one : one + 512], content[other : other + 512] = content[other : other + 512], content[one : one + 512]
    return content


def damage_header(rng: np.random.Generator, content: bytearray) -> bytearray:
    content[4 + rng.integers(4000)] = rng.integers(256)
    return content


KINDS: dict[str, Damage] = {
    "cut off": cut,
    "one bit": flip_bit,
    "512 zeros": zero_block,
    "two blocks swapped": swap_blocks,
    "a byte of the header": damage_header,
}


def outcome(path: Path, model: smp.SmoothProductMixture) -> str:
    try:
        loaded = smp.load(path)
    except FileFormatError as error:
        return "content" if "not what was written" in str(error) else "refused"
    except Exception as error:
        return f"UNEXPECTED {type(error).__name__}"
    return "unchanged" if loaded.result_.identical(model.result_) else "ANOTHER MODEL"


def main() -> None:
    number = int(sys.argv[1]) if len(sys.argv) > 1 else 500
    X = smp.datasets.make_smooth_mixture("gaussian", 400, 4, 2, random_state=1, missing=0.1).X
    model = smp.SmoothProductMixture(2, n_bins=8, n_init=1, random_state=0).fit(X)
    rng = np.random.default_rng(SEED)
    start = time.perf_counter()
    print(f"| damage, {number} files each | what loading gave |\n|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.nc"
        model.save(path)
        content = path.read_bytes()
        for name, damage in KINDS.items():
            counts: Counter[str] = Counter()
            for _ in range(number):
                path.write_bytes(damage(rng, bytearray(content)))
                counts[outcome(path, model)] += 1
            print(f"| {name} | {dict(counts)} |")
    print(f"\n{len(content)} bytes; {time.perf_counter() - start:.1f} s")


if __name__ == "__main__":
    main()
