"""Damaged, foreign and hostile files, and what `smp.load` gives for each of them, as a table.

    python benchmarks/damaged_files.py

Every file must be refused with a FileFormatError; a flipped byte in space that no reader looks at may leave the model
as it was, to the last bit. The tests go through the same list.
"""

import gzip
import io
import itertools
import json
import os
import pickle
import shutil
import sqlite3
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import h5py
import numpy as np
import xarray as xr

import tensorly_smp as smp
from tensorly_smp.exceptions import FileFormatError
from tensorly_smp.storage.content import digest

SEED = 0
N_TRUNCATED, N_FLIPPED = 16, 16

#: Edits whose checksum is right, as of someone who means it: a Dataset to a Dataset.
EDITS: dict[str, Callable[[xr.Dataset], xr.Dataset]] = {
    "parameters: not JSON": lambda d: d.assign_attrs(parameters="rm -rf"),
    "parameters: JSON of great depth": lambda d: d.assign_attrs(parameters="[" * 100_000),
    "parameters: a list": lambda d: d.assign_attrs(parameters="[1, 2]"),
    "parameters: a number": lambda d: d.assign_attrs(parameters=3.5),
    "parameters: an unknown one": lambda d: d.assign_attrs(parameters='{"mapping": [["shell", "rm"]]}'),
    "parameters: keys that are lists": lambda d: d.assign_attrs(parameters='{"mapping": [[[1], 2]]}'),
    "parameters: none": lambda d: without(d, "parameters"),
    "names: fewer": lambda d: d.assign_attrs(variable_names='["a"]'),
    "names: a number": lambda d: d.assign_attrs(variable_names="5"),
    "names: repeated": lambda d: d.assign_attrs(variable_names='["a", "a", "b", "c"]'),
    "names: lists": lambda d: d.assign_attrs(variable_names='[["a"], ["b"], ["c"], ["d"]]'),
    "names: an enormous integer": lambda d: d.assign_attrs(variable_names="9" * 5000),
    "names: none": lambda d: without(d, "variable_names"),
    "format version: of a later release": lambda d: d.assign_attrs(format_version=99),
    "format version: none": lambda d: without(d, "format_version"),
    "format version: a long text": lambda d: d.assign_attrs(format_version="1" * 10**6),
    "density: unknown": lambda d: d.assign_attrs(density="wavelet"),
    "density: none": lambda d: without(d, "density"),
    "status: unknown": lambda d: d.assign_attrs(status="great"),
    "status: a number": lambda d: d.assign_attrs(status=3),
    "status: none": lambda d: without(d, "status"),
    "sweeps: text": lambda d: d.assign_attrs(n_sweeps="many"),
    "sweeps: infinite": lambda d: d.assign_attrs(n_sweeps=np.inf),
    "container: unknown": lambda d: d.assign_attrs(container="shell"),
    "weights: none": lambda d: d.drop_vars("weights"),
    "weights: NaN": lambda d: d.assign(weights=d.weights * np.nan),
    "weights: negative": lambda d: d.assign(weights=("component", np.array([1.5, -0.5]))),
    "weights: sum 2": lambda d: d.assign(weights=d.weights * 2),
    "weights: huge": lambda d: d.assign(weights=d.weights * 1e308),
    "weights: text": lambda d: d.assign(weights=("component", np.array(["a", "b"]))),
    "weights: integers": lambda d: d.assign(weights=("component", np.array([1, 0]))),
    "weights: a matrix": lambda d: d.assign(weights=d.weights.expand_dims(twice=2)),
    "factors: none": lambda d: d.drop_vars("factors"),
    "factors: negative": lambda d: d.assign(factors=-d.factors),
    "factors: infinite": lambda d: d.assign(factors=d.factors + np.inf),
    "factors: of other dimensions": lambda d: d.assign(factors=d.factors.rename(bin="basket")),
    "factors: transposed": lambda d: d.assign(factors=d.factors.transpose("component", "bin", "variable")),
    "no components": lambda d: d.isel(component=[]),
    "no variables": lambda d: d.isel(variable=[]),
    "no loss": lambda d: d.drop_vars("loss"),
    "n_bins: none": lambda d: d.drop_vars("n_bins"),
    "n_bins: negative": lambda d: d.assign(n_bins=-d.n_bins),
    "n_bins: zero": lambda d: d.assign(n_bins=d.n_bins * 0),
    "n_bins: fewer than the factors have": lambda d: d.assign(n_bins=d.n_bins - 2),
    "n_bins: enormous": lambda d: d.assign(n_bins=d.n_bins * 10**15),
    "n_bins: fractional": lambda d: d.assign(n_bins=d.n_bins + 0.5),
    "edges: none": lambda d: d.drop_vars("edges"),
    "edges: decreasing": lambda d: d.assign(edges=-d.edges),
    "edges: NaN": lambda d: d.assign(edges=d.edges * np.nan),
    "edges: huge": lambda d: d.assign(edges=np.sign(d.edges) * 1e308),
    "edges: one too few": lambda d: d.isel(edge=slice(-1)),
    "edges: unequal bins for sinc": lambda d: d.assign(edges=d.edges**3).assign_attrs(density="sinc"),
    "splines: none": lambda d: d.drop_vars("spline"),
    "splines: NaN": lambda d: d.assign(spline=d.spline * np.nan),
    "splines: infinite": lambda d: d.assign(spline=d.spline + np.inf),
    "splines: of two functions": lambda d: d.isel(basis=slice(2)),
    "interval: reversed": lambda d: d.assign(interval=-d.interval),
    "bounds: inside the interval": lambda d: d.assign(bounds=d.interval * 0.5),
    "background: more than all": lambda d: d.assign(background=d.background + 1),
    "discrete: text": lambda d: d.assign(discrete=("variable", np.array(["no"] * d.sizes["variable"]))),
    "triples: of unknown variables": lambda d: d.assign(triples=(("triple", "mode"), np.array([[0, 1, 99]]))),
    "triples: pairs": lambda d: d.assign(triples=(("triple", "mode"), np.array([[0, 1]]))),
}


def without(dataset: xr.Dataset, attribute: str) -> xr.Dataset:
    """A copy without this attribute."""
    copy = dataset.copy()
    del copy.attrs[attribute]
    return copy


def signed(dataset: xr.Dataset) -> xr.Dataset:
    """A copy whose checksum is right."""
    return dataset.assign_attrs(sha256=digest(dataset))


def damaged_files(
    folder: Path, model: smp.SmoothProductMixture, with_forged: bool = True
) -> Iterator[tuple[str, Path]]:
    """Pairs (what is wrong, path), each file made just before it is yielded."""
    model.save(folder / "saved.nc")
    model.save(folder / "saved.zarr")
    makers = itertools.chain(
        truncated(folder),
        flipped(folder),
        foreign(folder, model),
        edited(folder),
        forged(folder) if with_forged else (),
        hostile(folder),
        zarr_stores(folder),
    )
    for number, (name, make) in enumerate(makers):
        path = folder / f"{number:03d}.nc"
        make(path)
        yield name, path


Made = Iterator[tuple[str, Callable[[Path], object]]]


def truncated(folder: Path) -> Made:
    content = (folder / "saved.nc").read_bytes()
    early = [1, 8, 48, 96]
    for size in [*early, *np.linspace(512, len(content) - 1, N_TRUNCATED - len(early)).astype(int).tolist()]:
        yield f"netCDF: the first {size} bytes of {len(content)}", lambda path, n=size: path.write_bytes(content[:n])


def flipped(folder: Path) -> Made:
    """Bytes inverted where there is something, and anywhere."""
    source = folder / "saved.nc"
    content = source.read_bytes()
    with h5py.File(source, "r") as file:
        starts = {name: file[name].id.get_offset() for name in ("weights", "factors", "edges", "n_bins", "spline")}
    anywhere = np.random.default_rng(SEED).integers(len(content), size=N_FLIPPED)
    places = [("the signature", 0), *((f"values of {name}", start + 3) for name, start in starts.items())]

    def flip(path: Path, position: int) -> None:
        damaged = bytearray(content)
        damaged[position] ^= 0xFF
        path.write_bytes(damaged)

    for what, position in [*places, *(("anywhere", int(position)) for position in anywhere)]:
        yield f"netCDF: byte {position} inverted, {what}", lambda path, n=position: flip(path, n)


def foreign(folder: Path, model: smp.SmoothProductMixture) -> Made:
    other = xr.Dataset({"rain": ("day", np.arange(3.0))})
    content = (folder / "saved.nc").read_bytes()
    texts = {
        "nothing": b"",
        "zeros": b"\0" * 1000,
        "random bytes": np.random.default_rng(SEED).bytes(5000),
        "CSV": b"x,y\n1,2\n",
        "JSON": b'{"format": "tensorly_smp.SmoothProductMixture"}',
        "HTML": b"<!DOCTYPE html><html></html>",
        "PNG": b"\x89PNG\r\n\x1a\n" + b"\0" * 100,
        "HDF5 signature only": b"\x89HDF\r\n\x1a\n",
        "netCDF classic header only": b"CDF\x01" + b"\0" * 60,
        "npy": saved_bytes(np.save, np.eye(3)),
        "npz": saved_bytes(np.savez, np.eye(3)),
        "zip": saved_bytes(lambda file, text: zipfile.ZipFile(file, "w").writestr("a.txt", text), "a"),
        "pickle of a model": pickle.dumps(model),
        "the model in gzip": gzip.compress(content),
        "a text before the model": b"From: somebody\n" + content,
    }
    for name, each in texts.items():
        yield f"foreign: {name}", lambda path, data=each: path.write_bytes(data)
    yield "foreign: SQLite", make_sqlite
    yield "foreign: HDF5 with a table", lambda path: make_hdf5(path, lambda file: file.create_dataset("x", data=[1.0]))
    yield "foreign: netCDF of rain", lambda path: other.to_netcdf(path, engine="h5netcdf")
    yield "foreign: netCDF classic of rain", lambda path: other.to_netcdf(path, engine="scipy")
    yield "foreign: the result alone", lambda path: model.result_.to_netcdf(path, engine="h5netcdf")
    yield "foreign: an empty folder", Path.mkdir
    yield "foreign: a folder with a table", make_folder


def edited(folder: Path) -> Made:
    """Edits without a new checksum."""
    content = read(folder / "saved.nc")
    careless = {"weights doubled": lambda d: d.assign(weights=d.weights * 2)}
    careless["another seed"] = lambda d: d.assign_attrs(parameters=d.parameters.replace("random_state", "n_init"))
    careless["checksum of another model"] = lambda d: d.assign_attrs(sha256="0" * 64)
    careless["no checksum"] = lambda d: without(d, "sha256")
    for name, change in careless.items():
        yield f"edited: {name}", lambda path, edit=change: edit(content).to_netcdf(path, engine="h5netcdf")


def forged(folder: Path) -> Made:
    """Edits with a checksum that is right."""
    content = read(folder / "saved.nc")
    for name, change in EDITS.items():
        yield f"forged: {name}", lambda path, edit=change: signed(edit(content)).to_netcdf(path, engine="h5netcdf")


def hostile(folder: Path) -> Made:
    """HDF5 files that would take all memory, or lead elsewhere."""
    source = folder / "saved.nc"

    def with_change(change: Callable[[h5py.File], object]) -> Callable[[Path], None]:
        return lambda path: (shutil.copy(source, path), make_hdf5(path, change, "r+"))

    def replaced(file: h5py.File, name: str, **options: object) -> None:
        del file[name]
        file.create_dataset(name, **options)

    enormous = (10**6, 10**6, 10**3)
    text = h5py.string_dtype()
    yield (
        "hostile: 8 exabytes of factors",
        with_change(lambda file: replaced(file, "factors", shape=enormous, dtype="f8", chunks=(100, 100, 100))),
    )
    yield (
        "hostile: 80 GB of a new array",
        with_change(lambda file: file.create_dataset("more", shape=(10**10,), dtype="f8", chunks=(1000,))),
    )
    yield (
        "hostile: compressed zeros, 1000 : 1",
        with_change(lambda file: file.create_dataset("more", data=np.zeros(10**6), compression="gzip")),
    )
    yield "hostile: a thousand references to one long text", with_change(repeat_text)
    yield (
        "hostile: an attribute of a thousand texts",
        with_change(lambda file: file.attrs.create("more", ["x" * 10] * 1000, dtype=text)),
    )
    yield "hostile: format as an array", with_change(lambda file: file.attrs.create("format", ["x"] * 5, dtype=text))
    yield (
        "hostile: objects in place of numbers",
        with_change(lambda file: replaced(file, "weights", data=np.zeros(2, dtype=[("a", "f8"), ("b", "i4")]))),
    )
    yield (
        "hostile: a link to another file",
        with_change(lambda file: file.__setitem__("elsewhere", h5py.ExternalLink(str(source), "/weights"))),
    )
    yield (
        "hostile: values in another file",
        with_change(lambda file: replaced(file, "weights", shape=(2,), dtype="f8", external=[(str(source), 0, 16)])),
    )
    yield "hostile: strings in a heap without end", lambda path: path.write_bytes(endless_heap(source.read_bytes()))
    yield "hostile: a link to itself", with_change(lambda file: file.__setitem__("loop", h5py.SoftLink("/loop")))
    yield (
        "hostile: a group that contains itself",
        with_change(lambda file: file.create_group("loop").__setitem__("loop", file)),
    )


def zarr_stores(folder: Path) -> Made:
    source = folder / "saved.zarr"
    other = xr.Dataset({"rain": ("day", np.arange(3.0))})

    def with_change(change: Callable[[Path], object]) -> Callable[[Path], None]:
        return lambda path: (shutil.copytree(source, path), change(path))

    def with_json(file: str, **entries: object) -> Callable[[Path], None]:
        return with_change(lambda path: write_json(path / file, json.loads((path / file).read_text()) | entries))

    for name in (".zgroup", ".zattrs", "weights", "factors/.zarray", "factors/0.0.0", "edges/.zattrs"):
        yield f"zarr: without {name}", with_change(lambda path, part=name: remove(path / part))
    for name in (".zgroup", ".zattrs", "factors/.zarray", "factors/0.0.0", "edges/.zattrs", "variable/0"):
        yield f"zarr: half of {name}", with_change(lambda path, part=name: halve(path / part))
    for name in (".zattrs", "factors/.zarray", "weights/0", "factors/0.0.0", "variable/0", "spline/0.0.0"):
        yield f"zarr: a byte inverted in {name}", with_change(lambda path, part=name: invert(path / part, 3))
    for name in (".zattrs", "factors/.zarray"):
        yield (
            f"zarr: JSON of great depth in {name}",
            with_change(lambda path, part=name: (path / part).write_text("[" * 100_000)),
        )
        yield f"zarr: a list in {name}", with_change(lambda path, part=name: (path / part).write_text("[]"))
    array = "factors/.zarray"
    yield "zarr: 8 exabytes of factors", with_json(array, shape=[10**6, 10**6, 10**6])
    yield "zarr: chunks of 8 exabytes", with_json(array, chunks=[10**6, 10**6, 10**6])
    yield "zarr: negative shape", with_json(array, shape=[-1, 8, 2])
    yield "zarr: text of a gigabyte each", with_json("variable/.zarray", dtype="<U250000000")
    yield "zarr: dtype of objects", with_json(array, dtype="|O")
    yield "zarr: dtype that is a record", with_json(array, dtype=[["a", "<f8"], ["b", "<f8"]])
    yield "zarr: a filter that unpickles", make_pickled_zarr(source)
    yield "zarr: a compressor", with_json(array, compressor={"id": "zlib", "level": 1})
    yield "zarr: dimensions that do not fit", with_json("factors/.zattrs", _ARRAY_DIMENSIONS=["variable", "bin"])
    yield "zarr: later format version", with_json(".zattrs", format_version=2)
    yield (
        "zarr: a chunk that is a link to an endless device",
        with_change(lambda path: (remove(path / "weights/0"), (path / "weights/0").symlink_to("/dev/zero"))),
    )
    yield (
        "zarr: an array that is a link",
        with_change(lambda path: (remove(path / "weights"), (path / "weights").symlink_to(source / "weights"))),
    )
    yield "zarr: of rain", lambda path: other.to_zarr(path, zarr_format=2, consolidated=True)
    yield "zarr: of rain, format 3", lambda path: other.to_zarr(path, zarr_format=3, consolidated=False)


# ---- how they are made ----


def read(path: Path) -> xr.Dataset:
    """Of a netCDF file, in memory."""
    with xr.open_dataset(path, engine="h5netcdf") as opened:
        return opened.load()


def saved_bytes(write: Callable[[io.BytesIO, object], object], content: object) -> bytes:
    file = io.BytesIO()
    write(file, content)
    return file.getvalue()


def make_hdf5(path: Path, change: Callable[[h5py.File], object], mode: str = "w") -> None:
    with h5py.File(path, mode) as file:
        change(file)


def make_sqlite(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("create table x (a)")
    connection.commit()
    connection.close()


def make_folder(path: Path) -> None:
    path.mkdir()
    (path / "table.csv").write_text("x,y\n1,2\n")


def repeat_text(file: h5py.File) -> None:
    """A thousand references to one text as long as the file: references are written over with the first one."""
    size = 100_000
    array = file.create_dataset("more", data=["x" * size] + ["y"] * 999, dtype=h5py.string_dtype())
    offset = array.id.get_offset()
    file.flush()
    name = file.filename
    file.close()
    with open(name, "r+b") as raw:
        raw.seek(offset)
        first = raw.read(16)
        raw.seek(offset)
        raw.write(first * 1000)


def endless_heap(content: bytes) -> bytes:
    """The first object of the heap of strings becomes free space of size zero, which HDF5 would never get past."""
    first = content.index(b"GCOL\1") + 16
    return content[:first] + bytes(16) + content[first + 16 :]


class Evil:
    """Leaves a trace when it is unpickled."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return Path.touch, (self.trace,)


def make_pickled_zarr(source: Path) -> Callable[[Path], None]:
    """A chunk that leaves `executed` beside the store if it is unpickled."""

    def make(path: Path) -> None:
        shutil.copytree(source, path)
        described = json.loads((path / "weights/.zarray").read_text())
        write_json(path / "weights/.zarray", described | {"dtype": "|O", "filters": [{"id": "pickle", "protocol": 5}]})
        (path / "weights/0").write_bytes(pickle.dumps(Evil(path.parent / "executed")))

    return make


def write_json(path: Path, content: object) -> None:
    path.write_text(json.dumps(content), encoding="utf-8")


def remove(path: Path) -> None:
    shutil.rmtree(path) if path.is_dir() else path.unlink()


def halve(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])


def invert(path: Path, position: int) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= 0xFF
    path.write_bytes(content)


def small_model() -> smp.SmoothProductMixture:
    """Fast to fit, and of all that files hold."""
    X = smp.datasets.make_smooth_mixture("gaussian", 400, 4, 2, random_state=1, missing=0.1).X
    return smp.SmoothProductMixture(2, n_bins=8, n_init=1, random_state=0).fit(X)


def outcome(path: Path, model: smp.SmoothProductMixture) -> str:
    """What loading gave: the class and text of an error, or whether what was read is the model."""
    try:
        loaded = smp.load(path)
    except FileFormatError as error:
        text = str(error).replace(f"{path.parent}{os.sep}", "")
        return f"FileFormatError: {' '.join(text.split())}"
    return "the model, unchanged" if loaded.result_.identical(model.result_) else "ANOTHER MODEL"


def main() -> None:
    model, start, counts = small_model(), time.perf_counter(), {"refused": 0, "unchanged": 0, "other": 0}
    print("| file | what it gave |\n|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for name, path in damaged_files(Path(folder), model):
            try:
                gave = outcome(path, model)
            except Exception as error:
                gave = f"UNEXPECTED {type(error).__name__}: {error}"
            kinds = {"FileFormatError": "refused", "the model": "unchanged"}
            counts[next((kind for head, kind in kinds.items() if gave.startswith(head)), "other")] += 1
            shown = gave if len(gave) <= 160 else f"{gave[:157]}..."
            print(f"| {name} | {shown.replace('|', '/')} |")
        if (Path(folder) / "executed").exists():
            counts["other"] += 1
            print("| code in a file | WAS EXECUTED |")
    print(f"\n{sum(counts.values())} files in {time.perf_counter() - start:.1f} s: {counts}")


if __name__ == "__main__":
    main()
