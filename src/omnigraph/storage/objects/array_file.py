"""Numeric arrays in one file: a line of JSON that says what is where, then the bytes.

For derived data that can always be made again. A local file is mapped into memory, so that opening it costs nothing
and pages are read when they are touched.
"""

from __future__ import annotations

import json
import mmap
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from omnigraph.errors import CorruptGraph
from omnigraph.storage.objects.object_store import Location, ObjectStore

_ALIGNMENT = 64
_MAGIC = b"omnigraph arrays 1\n"

Array = npt.NDArray[Any]


def save_arrays(objects: ObjectStore, path: str, header: Mapping[str, Any], arrays: Mapping[str, Array]) -> None:
    """Write arrays and a header; readers see all of it or nothing."""
    places, offset = {}, 0
    for name, array in arrays.items():
        places[name] = {"type": array.dtype.str, "length": len(array), "offset": offset}
        offset += -(-array.nbytes // _ALIGNMENT) * _ALIGNMENT
    head = _MAGIC + json.dumps({"header": header, "arrays": places}).encode() + b"\n"
    head += b" " * (-len(head) % _ALIGNMENT)
    parts = [head]
    for array in arrays.values():
        raw = np.ascontiguousarray(array).tobytes()
        parts += [raw, b"\0" * (-len(raw) % _ALIGNMENT)]
    objects.write(path, b"".join(parts))


def load_arrays(location: Location, objects: ObjectStore, path: str) -> tuple[dict[str, Any], dict[str, Array]]:
    """Header and arrays of a file; raises CorruptGraph when it is not one of ours."""
    raw = _map(location.child(path)) if location.is_local else objects.read(path)
    if raw is None or bytes(raw[: len(_MAGIC)]) != _MAGIC:
        raise CorruptGraph(f"{path} holds no arrays")
    try:
        end = raw.index(b"\n", len(_MAGIC)) if isinstance(raw, bytes) else raw.find(b"\n", len(_MAGIC))
        record = json.loads(bytes(raw[len(_MAGIC) : end]))
        start = -(-(end + 1) // _ALIGNMENT) * _ALIGNMENT
        arrays = {
            name: np.frombuffer(raw, place["type"], place["length"], start + place["offset"])
            for name, place in record["arrays"].items()
        }
        return record["header"], arrays
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptGraph(f"{path} is damaged: {error}") from error


def _map(path: str) -> mmap.mmap | None:
    try:
        with open(path, "rb") as file:
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except (OSError, ValueError):
        return None
