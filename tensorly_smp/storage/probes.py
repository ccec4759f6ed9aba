"""Is this a file of ours, and as large as it says? Asked before anything of it is read into memory.

Damaged and hostile files declare arrays that would fill any memory, refer to other files, or hold pickled code. What
`SmoothProductMixture.save` writes is plain: no compression, no filters, no links. So a file that is not plain is
refused, and a plain one holds everything that it declares, which bounds the memory by the size of the file.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import Any, TypeGuard

import numpy as np

from tensorly_smp.exceptions import FileFormatError

FORMAT = "tensorly_smp.SmoothProductMixture"

# How netCDF-4 marks a dimension that has no coordinate: as an array whose values are never read.
_NO_VARIABLE = b"This is a netCDF dimension but not a netCDF variable"
_HDF5_SIGNATURE = b"\x89HDF\r\n\x1a\n"
_HEAP = b"GCOL\1"  # a global heap of version 1, the only one
_NUMBERS_OR_TEXT = re.compile(r"[<>|][biufU]\d{1,9}")
_CHUNK_NAME = re.compile(r"\d+(\.\d+)*")
_STRINGS_AT_A_TIME = 100


def probe_netcdf(source: Path) -> None:
    """Look a netCDF-4 file over, with h5py.

    Ahead of h5netcdf, whose half-made objects print errors of their own when they are collected.

    Raises
    ------
    FileFormatError
        It is not one of ours, or not plain.
    Exception
        Of many kinds, from h5py: it is damaged.
    """
    import h5py

    size = source.stat().st_size
    _refuse_endless_heaps(source.read_bytes())
    with h5py.File(source, "r") as file:
        _refuse_large_attributes(file, "the file")
        _require_format(file.attrs.get("format"), source)
        with _as_of_others():
            _probe_arrays(file, source, size)


@contextmanager
def _as_of_others() -> Iterator[None]:
    """Add to format errors that another program may have rewritten the file."""
    try:
        yield
    except FileFormatError as error:
        reason = str(error).rstrip(".")
        raise FileFormatError(
            f"{reason}. If another program has saved the file again, take the original, as SmoothProductMixture.save "
            "wrote it."
        ) from error


def _probe_arrays(file: Any, source: Path, size: int) -> None:
    """Refuse links, groups, and arrays that claim more bytes than the file has."""
    import h5py

    held = 0
    for name in file:
        is_linked = not isinstance(file.get(name, getlink=True), h5py.HardLink)
        if is_linked or not isinstance(file[name], h5py.Dataset):
            raise FileFormatError(f"{source} has {name!r}, which is a link or a group; expected arrays only.")
        held += _netcdf_bytes(file[name], size)
    if held > size:
        raise FileFormatError(f"{source} has {size} bytes, but its arrays claim {held}.")


def _refuse_endless_heaps(content: bytes) -> None:
    """Refuse heaps of strings in which the HDF5 library would go round for ever: nothing else guards these.

    HDF5 File Format Specification, III.E: after a head of 16 bytes come objects of an index (2 bytes), 6 bytes that do
    not matter here, and a size (8 bytes); the object of index 0 is free space, and its size includes this head.
    """
    if not content.startswith(_HDF5_SIGNATURE):
        return  # the library says so
    size_of_lengths = content[14 if content[8:9] < b"\2" else 10] if len(content) > 14 else 0
    start = content.find(_HEAP)
    while start >= 0:
        (total,) = struct.unpack_from("<Q", content.ljust(start + 16, b"\0"), start + 8)
        position = start + 16
        end = min(start + total, len(content))
        while position + 16 <= end:
            index, size = struct.unpack_from("<H6xQ", content, position)
            step = 16 + -(-size // 8) * 8 if index else size
            if step < 16 or position + step > end or size_of_lengths != 8:
                raise FileFormatError("its heap of strings is damaged")
            position += step
        start = content.find(_HEAP, start + 1)


def _netcdf_bytes(array: Any, size: int) -> int:
    """Bytes of memory that reading the array takes, refused where the file does not hold as many."""
    import h5py

    _refuse_large_attributes(array, f"array {array.name!r}")
    if bytes(array.attrs.get("NAME", b"")).startswith(_NO_VARIABLE):
        return 0
    stored = array.id.get_storage_size()
    claimed = prod(array.shape) * array.dtype.itemsize
    if array.external is not None or array.is_virtual or stored < claimed:
        raise FileFormatError(
            f"array {array.name!r} claims {claimed} bytes, of which the file holds {stored}; expected neither "
            "compression nor other files."
        )
    if h5py.check_string_dtype(array.dtype) is None:
        if array.dtype.kind not in "biuf":
            raise FileFormatError(f"array {array.name!r} is of dtype {array.dtype}; expected numbers or strings.")
        return claimed
    # Entries are references, and may all refer to the same long string.
    if array.ndim != 1:
        raise FileFormatError(f"array {array.name!r} has {array.ndim} dimensions; expected 1, as it is of strings.")
    for start in range(0, len(array), _STRINGS_AT_A_TIME):
        claimed += sum(map(len, array[start : start + _STRINGS_AT_A_TIME]))
        if claimed > size:
            raise FileFormatError(f"array {array.name!r} holds more text than the file has bytes.")
    return claimed


def _refuse_large_attributes(item: Any, what: str) -> None:
    """Refuse arrays of strings, as these may all refer to the same long one; numbers are at most 64 KiB."""
    import h5py

    for name in item.attrs:
        attribute = item.attrs.get_id(name)
        if h5py.check_string_dtype(attribute.dtype) is not None and prod(attribute.shape) > 1:
            raise FileFormatError(f"{what} has attribute {name!r}, an array of strings; expected a single one.")


def probe_zarr(source: Path) -> None:
    """Look a zarr folder over, without zarr: the filters that it may name include one that unpickles.

    Raises
    ------
    FileFormatError
        It is not one of ours, or not plain.
    Exception
        Of many kinds: it is damaged.
    """
    _refuse_links(source)
    with _as_of_others():
        if (source / "zarr.json").exists():
            raise FileFormatError(f"{source} is a zarr store of format 3; SmoothProductMixture.save writes format 2.")
    _read_json(source / ".zgroup")
    _require_format(_read_json(source / ".zattrs").get("format"), source)
    with _as_of_others():
        for folder in source.iterdir():
            if folder.is_dir():
                _refuse_links(folder)
                _probe_zarr_array(folder, _read_json(folder / ".zarray"))


def _probe_zarr_array(folder: Path, array: dict[str, Any]) -> None:
    """Refuse an array that is not plain, or whose chunks are not all there and of the size that it declares."""
    plain = {"zarr_format": 2, "compressor": None, "filters": None, "order": "C"}
    odd = [name for name, expected in plain.items() if array.get(name) != expected]
    if array.get("dimension_separator", ".") != ".":
        odd.append("dimension_separator")
    dtype = array.get("dtype")
    shape = array.get("shape")
    chunks = array.get("chunks")
    if not isinstance(dtype, str) or not _NUMBERS_OR_TEXT.fullmatch(dtype):
        odd.append("dtype")
    if odd or not _are_sizes(shape, 0) or not _are_sizes(chunks, 1) or len(shape) != len(chunks):
        raise FileFormatError(
            f"array {folder.name!r} has an unusual {', '.join(odd) or 'shape'}; expected plain arrays of numbers or "
            "text, as SmoothProductMixture.save writes them."
        )
    sizes = [each.stat().st_size for each in folder.iterdir() if _CHUNK_NAME.fullmatch(each.name)]
    n_chunks = prod(-(-length // chunk) for length, chunk in zip(shape, chunks, strict=True))
    claimed = prod(chunks) * np.dtype(dtype).itemsize
    if len(sizes) != n_chunks or any(size != claimed for size in sizes):
        raise FileFormatError(
            f"array {folder.name!r} has {len(sizes)} chunks with {sum(sizes)} bytes; expected "
            f"{n_chunks} of {claimed} bytes each."
        )


def _are_sizes(values: Any, least: int) -> TypeGuard[list[int]]:
    return isinstance(values, list) and all(type(value) is int and value >= least for value in values)


def _refuse_links(folder: Path) -> None:
    for entry in folder.iterdir():
        if entry.is_symlink() or not (entry.is_file() or entry.is_dir()):
            raise FileFormatError(f"{entry} is a link or a device; expected files and folders.")


def _read_json(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise FileFormatError(f"there is no {path.name} in {path.parent.name}")
    content = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(content, dict):
        raise FileFormatError(f"{path} holds no JSON object.")
    return content


def _require_format(found: Any, source: Path) -> None:
    if isinstance(found, bytes):  # as other programs write text
        found = found.decode(errors="replace")
    if not isinstance(found, str) or found != FORMAT:
        raise FileFormatError(f"{source} was not written by SmoothProductMixture.save.")
