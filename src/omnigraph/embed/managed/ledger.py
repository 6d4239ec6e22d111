"""Which vector was made of which text: facts that stay true whatever becomes of the rows.

A fact is four numbers about one row: the hashes of its id, of its text and of its vector, and whether the vector was
made, given with the data, or could not be made. It says nothing about a branch or a version, so it holds on every
branch, after every merge and at every old state. Facts are only added. Files are never changed: small ones are written
together into a large one, and only then removed, so that a process which stops anywhere, or is late, loses no fact.

A vector that a provider made is kept here with its fact until it is committed; a run that was killed in between finds
it, and the provider is not asked again. Whoever does not know this directory can ignore it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph import ids
from omnigraph.embed.vector_rules import Vectors
from omnigraph.errors import CorruptGraph, StoreUnavailable
from omnigraph.storage.objects.array_file import load_arrays, save_arrays
from omnigraph.storage.objects.object_store import Location, ObjectStore
from omnigraph.text_hash import TextHashes, combined, hash_texts

DIRECTORY = "__embeddings"

_FORMAT = 1
_SUFFIX = ".arrays"

#: More files than this are written together.
_MANY_FILES = 16

#: How often the list of files is read while others change it.
_LOOKS = 8

#: Spaces of the hashes; the constant makes them the same in every process.
_SEED, _IDS, _TEXTS, _PARTS = 0x0E_3BED, 1, 2, 3

#: Why a vector is there, or is not. Any larger number is the place of a reason in the header, plus 2.
MADE, GIVEN, FIRST_REASON = 0, 1, 2


def id_hashes(column: pa.Array) -> TextHashes:
    return hash_texts(column, _SEED, _IDS)


def text_hashes(column: pa.Array) -> TextHashes:
    return hash_texts(column, _SEED, _TEXTS)


def part_hashes(column: pa.Array) -> TextHashes:
    return hash_texts(column, _SEED, _PARTS)


def vector_hashes(vectors: Vectors) -> TextHashes:
    """One number for each vector, by a sum of its components times fixed odd numbers."""
    words = np.ascontiguousarray(vectors).view(np.uint32).astype(np.uint64)
    odd = combined(np.arange(words.shape[1], dtype=np.int64)).view(np.uint64) | np.uint64(1)
    return combined((words @ odd).view(np.int64))


@dataclass(frozen=True, slots=True)
class FactRows:
    """Facts about some rows, as columns.

    Attributes:
        outcomes: `MADE`, `GIVEN`, or the place of a reason plus `FIRST_REASON`.
        vectors: 0 where no vector could be made.
    """

    ids: TextHashes
    texts: TextHashes
    vectors: TextHashes
    outcomes: npt.NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.ids)

    def take(self, chosen: npt.NDArray[Any]) -> FactRows:
        return FactRows(self.ids[chosen], self.texts[chosen], self.vectors[chosen], self.outcomes[chosen])

    @classmethod
    def joined(cls, parts: Sequence[FactRows]) -> FactRows:
        """All rows of several, in their order."""
        columns = ("ids", "texts", "vectors", "outcomes")
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in columns))


@dataclass(frozen=True, slots=True)
class FactFile:
    """One file of the ledger.

    Attributes:
        model: that made the vectors; None for those that were given.
        values: the vectors themselves, of rows that may not be committed yet.
        settled: numbers of parts of tables in which no row needs a vector; see `settled_parts.py`.
    """

    name: str
    model: str | None
    dimension: int
    reasons: tuple[str, ...]
    rows: FactRows
    values: Vectors | None = None
    settled: TextHashes = field(default_factory=lambda: np.zeros(0, np.int64))


@dataclass(frozen=True, slots=True)
class Facts:
    """All facts about one table, arranged to be looked up."""

    files: tuple[FactFile, ...]
    _made: dict[str | None, TextHashes] = field(default_factory=dict)
    _known: list[TextHashes] = field(default_factory=list)

    def models(self) -> set[str]:
        """The models that made vectors of this table at some time."""
        return {file.model for file in self.files if file.model is not None and (file.rows.outcomes == MADE).any()}

    @property
    def settled(self) -> set[int]:
        """Numbers of the parts of tables in which no row needs a vector."""
        return {number for file in self.files for number in file.settled.tolist()}

    def made_by(self, model: str | None, rows: FactRows) -> npt.NDArray[np.bool_]:
        """Whether each vector was made of its text by a model; None for those that were given with it."""
        if model not in self._made:
            wanted = GIVEN if model is None else MADE
            self._made[model] = _sorted(
                combined(part.ids, part.texts, part.vectors)
                for file in self.files
                if file.model == model
                for part in [file.rows.take(file.rows.outcomes == wanted)]
            )
        return _is_in(combined(rows.ids, rows.texts, rows.vectors), self._made[model])

    def knows_vector(self, rows: FactRows) -> npt.NDArray[np.bool_]:
        """Whether it is known what text each vector of a row belongs to, whatever text the row has now."""
        if not self._known:
            made = (file.rows.take(file.rows.outcomes < FIRST_REASON) for file in self.files)
            self._known.append(_sorted(combined(part.ids, part.vectors) for part in made))
        return _is_in(combined(rows.ids, rows.vectors), self._known[0])

    def failures(self, model: str | None, dimension: int, rows: FactRows) -> tuple[npt.NDArray[np.int32], list[str]]:
        """Why the text of each row has no vector of a model, or of any model: places in a list of reasons, or -1."""
        found = np.full(len(rows), -1, np.int32)
        reasons: list[str] = []
        keys = combined(rows.ids, rows.texts)
        for file in self.files:
            failed = file.rows.take(file.rows.outcomes >= FIRST_REASON)
            if file.dimension != dimension or (model is not None and file.model != model) or not len(failed):
                continue
            stored = combined(failed.ids, failed.texts)
            order = np.argsort(stored, kind="stable")
            hit = np.flatnonzero(_is_in(keys, stored[order]))
            at = order[np.searchsorted(stored[order], keys[hit])]
            found[hit] = failed.outcomes[at] - FIRST_REASON + len(reasons)
            reasons += file.reasons
        return found, reasons

    def kept_vectors(self, model: str, dimension: int, rows: FactRows) -> dict[int, npt.NDArray[np.float32]]:
        """Vectors that were made of these very texts and perhaps never committed, by the place of the row."""
        found: dict[int, npt.NDArray[np.float32]] = {}
        keys = combined(rows.ids, rows.texts)
        for file in self.files:
            if file.values is None or (file.model, file.dimension) != (model, dimension):
                continue
            stored = combined(file.rows.ids, file.rows.texts)
            order = np.argsort(stored, kind="stable")
            at = np.searchsorted(stored[order], keys)
            for row in np.flatnonzero(_is_in(keys, stored[order])).tolist():
                found[row] = file.values[order[at[row]]]
        return found


class FactLedger:
    """The facts about the rows of one table. A table keeps its directory when its type is renamed."""

    def __init__(self, location: Location, table_location: str) -> None:
        self._location = location
        self._table = table_location
        self._objects = ObjectStore(location)
        self._folder = f"{DIRECTORY}/{table_location.replace('/', '.')}"

    def __reduce__(self) -> tuple[type[FactLedger], tuple[Location, str]]:
        """A process of Spark opens it by itself."""
        return FactLedger, (self._location, self._table)

    def names(self) -> frozenset[str]:
        """The files that are there."""
        return frozenset(name for name in self._objects.names(self._folder) if name.endswith(_SUFFIX))

    def read(self, besides: Collection[str] = ()) -> Facts:
        """All facts, but those of some files. A file that is gone was written into another one meanwhile, so the list
        is read again.

        To be read after the state that it is asked about: the fact about a vector is there before the vector is.

        Raises:
            StoreUnavailable: others changed the files all the time.
        """
        for _ in range(_LOOKS):
            found = [self._file(name) for name in sorted(self.names() - set(besides))]
            if None not in found:
                return Facts(tuple(file for file in found if file is not None and file.dimension))
        raise StoreUnavailable(f"{self._folder} was changed by others all the time", hint="try again")

    def add(
        self,
        model: str | None,
        dimension: int,
        rows: FactRows,
        reasons: Sequence[str] = (),
        values: Vectors | None = None,
        settled: TextHashes | None = None,
    ) -> str:
        """Write facts into a file of their own; returns its name."""
        name = f"{ids.new_ulid()}{_SUFFIX}"
        header = {"format": _FORMAT, "model": model, "dimension": dimension, "reasons": list(reasons)}
        arrays: dict[str, npt.NDArray[Any]] = {
            "ids": rows.ids,
            "texts": rows.texts,
            "vectors": rows.vectors,
            "outcomes": rows.outcomes,
        }
        if values is not None:
            arrays["values"] = values.reshape(-1)
        if settled is not None and len(settled):
            arrays["settled"] = settled
        save_arrays(self._objects, f"{self._folder}/{name}", header, arrays)
        return name

    def remove(self, names: Iterable[str]) -> None:
        """Remove files whose facts are in others."""
        for name in names:
            self._objects.delete(f"{self._folder}/{name}")

    def fold(self, files: Sequence[FactFile]) -> None:
        """Write the facts of several files into one for each model, without vectors, and remove the files then."""
        for model, dimension in dict.fromkeys((file.model, file.dimension) for file in files):
            several = [file for file in files if (file.model, file.dimension) == (model, dimension)]
            reasons = list(dict.fromkeys(reason for file in several for reason in file.reasons))
            together = FactRows.joined([_renumbered(file, reasons) for file in several])
            keys = combined(together.ids, together.texts, together.vectors)
            _, last = np.unique(keys[::-1], return_index=True)
            settled = np.unique(np.concatenate([file.settled for file in several]))
            self.add(model, dimension, together.take(np.sort(len(keys) - 1 - last)), reasons, settled=settled)
            self.remove(file.name for file in several)

    def fold_many(self, facts: Facts) -> None:
        """Keep the number of files small."""
        plain = [file for file in facts.files if file.values is None]
        if len(plain) > _MANY_FILES:
            self.fold(plain)

    def _file(self, name: str) -> FactFile | None:
        """A file of the ledger; None when it is gone, and one without a dimension when a later version wrote it."""
        path = f"{self._folder}/{name}"
        try:
            header, arrays = load_arrays(self._location, self._objects, path)
        except CorruptGraph:
            if self._objects.read(path) is None:
                return None
            raise
        rows = FactRows(*(arrays.get(part, np.zeros(0, np.int64)) for part in ("ids", "texts", "vectors", "outcomes")))
        if header.get("format") != _FORMAT:
            return FactFile(name, None, 0, (), rows)
        dimension = int(header["dimension"])
        values = arrays["values"].reshape(-1, dimension) if "values" in arrays else None
        settled = arrays.get("settled", np.zeros(0, np.int64))
        return FactFile(name, header["model"], dimension, tuple(header["reasons"]), rows, values, settled)


def no_facts() -> FactRows:
    nothing = np.zeros(0, np.int64)
    return FactRows(nothing, nothing, nothing, np.zeros(0, np.int32))


def _renumbered(file: FactFile, reasons: list[str]) -> FactRows:
    """The rows of a file with the places that their reasons have in another list."""
    places = np.array([MADE, GIVEN, *(FIRST_REASON + reasons.index(each) for each in file.reasons)], np.int32)
    rows = file.rows
    return FactRows(rows.ids, rows.texts, rows.vectors, places[rows.outcomes])


def _sorted(parts: Iterable[TextHashes]) -> TextHashes:
    several = list(parts)
    return np.sort(np.concatenate(several)) if several else np.zeros(0, np.int64)


def _is_in(keys: TextHashes, stored: TextHashes) -> npt.NDArray[np.bool_]:
    """Which keys are among the sorted ones."""
    if not len(stored):
        return np.zeros(len(keys), np.bool_)
    at = np.minimum(np.searchsorted(stored, keys), len(stored) - 1)
    found: npt.NDArray[np.bool_] = stored[at] == keys
    return found
