"""Joins small fragments of a table and leaves deleted rows behind: which fragments, their new files, the transaction.

Rows keep their values, stable row ids and row versions, so no state, diff or merge can tell. The new files are written
by a task of Lance, in any process; `staged_rewrite` puts them into one transaction. Numbers of the new fragments are
chosen here, because an index that is built on a draft of the result speaks of them, and are far enough above all others
that a writer who comes first leaves them free.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import lance
import pyarrow as pa
from lance.fragment import FragmentMetadata
from lance.optimize import Compaction, CompactionTask

from omnigraph import limits
from omnigraph.errors import InternalError
from omnigraph.storage.objects.native_libraries import store_errors
from omnigraph.storage.tables import stage_rows
from omnigraph.storage.tables.datasets import AS_BYTES, as_dataset, has_blobs
from omnigraph.storage.tables.lance_types import LanceTable
from omnigraph.storage.tables.older_blobs import has_older_nulls
from omnigraph.storage.tables.stage_rows import ColumnDigest, StagedTransaction
from omnigraph.storage.tables.table_indexes import coverage_by_row_id

#: New fragments are numbered so far above the others: what is written meanwhile is numbered below.
_ROOM = 1_024

#: A fragment is rewritten when this share of its rows is deleted.
_DELETED_SHARE = 0.1


@dataclass(frozen=True, slots=True)
class RewrittenGroup:
    """Fragments and those that take their place, as JSON of Lance.

    Attributes:
        fields: ids of the columns that the table had.
        digests: of the values in the new files, by the name of the file; made of the rows of the old ones.
    """

    old: tuple[dict[str, Any], ...]
    new: tuple[dict[str, Any], ...]
    fields: tuple[int, ...]
    digests: Mapping[str, str]

    @property
    def dropped_rows(self) -> int:
        """Deleted rows that the new fragments do not hold any more."""
        return _places(self.old) - _places(self.new)

    def to_text(self) -> str:
        return json.dumps({"old": self.old, "new": self.new, "fields": self.fields, "digests": dict(self.digests)})

    @staticmethod
    def from_text(text: str) -> RewrittenGroup:
        record = json.loads(text)
        return RewrittenGroup(tuple(record["old"]), tuple(record["new"]), tuple(record["fields"]), record["digests"])


def _places(fragments: Iterable[dict[str, Any]]) -> int:
    """Rows of some fragments, deleted ones included."""
    return sum(int(each["physical_rows"]) for each in fragments)


@dataclass(frozen=True, slots=True)
class _Piece:
    number: int
    rows: int
    deleted: int
    covered: tuple[str | None, ...]


def fragment_groups(handle: LanceTable, *, aligned: bool = True) -> list[tuple[int, ...]]:
    """Fragments that are better rewritten, each group as one: small ones together, and those with many deleted rows.

    A second look at the result finds none. The size of a fragment follows that of its table, so that a large table has
    neither many fragments nor, while it is small, fragments whose rows are slow to replace. Fragments with null blobs
    of an older Lance stay as they are.

    Args:
        aligned: an index that finds rows by their row ids covers all of a group or nothing of it; Lance asks for that.
    """
    with store_errors("look at the fragments of a table", handle):
        pieces = list(_pieces(handle, coverage_by_row_id(handle) if aligned else []))
        target = fragment_rows(sum(piece.rows for piece in pieces))
        chosen = [piece for piece in pieces if 2 * piece.rows < target or _is_thin(piece)]
        chosen = [piece for piece in chosen if not has_older_nulls(handle, piece.number)]
    small: dict[tuple[str | None, ...], list[_Piece]] = {}
    groups = []
    for piece in chosen:
        if 2 * piece.rows < target:
            small.setdefault(piece.covered, []).append(piece)
        else:
            groups.append([piece])
    for alike in small.values():
        groups += _bins(alike, target)
    return sorted(tuple(piece.number for piece in group) for group in groups)


def fragment_rows(rows: int) -> int:
    """How many rows a fragment should have in a table with so many."""
    return min(max(limits.FRAGMENT_ROWS, rows // limits.FRAGMENTS_PER_TABLE), limits.LARGEST_FRAGMENT_ROWS)


def _pieces(handle: LanceTable, segments: Sequence[Mapping[str, frozenset[int]]]) -> Iterator[_Piece]:
    for fragment in handle.get_fragments():
        meta, number = fragment.metadata, fragment.fragment_id
        deleted = meta.deletion_file.num_deleted_rows if meta.deletion_file is not None else 0
        covered = tuple(next((uuid for uuid, found in each.items() if number in found), None) for each in segments)
        yield _Piece(number, meta.physical_rows - deleted, deleted, covered)


def _is_thin(piece: _Piece) -> bool:
    return piece.deleted >= _DELETED_SHARE * (piece.rows + piece.deleted)


def _bins(pieces: Sequence[_Piece], target: int) -> list[list[_Piece]]:
    bins: list[list[_Piece]] = []
    room = 0
    for piece in pieces:
        if not bins or piece.rows > room:
            bins.append([])
            room = target
        bins[-1].append(piece)
        room -= piece.rows
    return [each for each in bins if len(each) > 1 or _is_thin(each[0])]


def rewrite_group(handle: LanceTable, fragments: Sequence[int]) -> RewrittenGroup:
    """Write the rows of some fragments into new files. Nothing becomes visible, no version moves."""
    with store_errors("compact a table", handle):
        chosen = [handle.get_fragment(number) for number in fragments]
        old = tuple(fragment.metadata.to_json() for fragment in chosen)
        plan: Any = Compaction.plan(as_dataset(handle), {"num_threads": 1})
        task = {
            "task": {"fragments": old},
            "read_version": handle.version,
            "options": json.loads(plan.json())["options"] | {"target_rows_per_fragment": _places(old)},
        }
        tasks: Any = CompactionTask
        done = tasks.from_json(json.dumps(task)).execute(as_dataset(handle))
        new = list(done.new_fragments)
        digests = _digests(handle, chosen, new)
        return RewrittenGroup(old, tuple(each.to_json() for each in new), _field_ids(handle), digests)


def _digests(handle: LanceTable, chosen: Sequence[Any], new: Sequence[FragmentMetadata]) -> dict[str, str]:
    """The digests of new files that hold the live rows of some fragments in their order."""
    names = handle.schema.names
    scanner = handle.scanner(
        columns=list(names),
        fragments=chosen,
        batch_size=limits.EXPORT_BLOB_BATCH_ROWS if has_blobs(handle.schema) else limits.VERIFY_BATCH_ROWS,
        scan_in_order=True,
        blob_handling=AS_BYTES,
    )
    owners = {number: field.name() for field in handle.lance_schema.fields() for number in _numbers(field)}
    batches = scanner.to_batches()
    rest: pa.RecordBatch | None = None
    found = {}
    for fragment in new:
        columns = {name: ColumnDigest() for name in names}
        wanted = fragment.physical_rows
        while wanted:
            batch = rest if rest is not None else next(batches, None)
            if batch is None:
                raise InternalError("a compaction wrote more rows than there were")
            part = batch.slice(0, wanted)
            rest = batch.slice(len(part)) if len(part) < len(batch) else None
            wanted -= len(part)
            for name, values in zip(part.schema.names, part.columns, strict=True):
                columns[name].add(values)
        (file,) = fragment.files
        found[file.path] = stage_rows.text_of(columns[owners[number]] for number in file.fields)
    if rest is not None or any(len(batch) for batch in batches):
        raise InternalError("a compaction left rows behind")
    return found


def _field_ids(handle: LanceTable) -> tuple[int, ...]:
    return tuple(sorted(number for field in handle.lance_schema.fields() for number in _numbers(field)))


def _numbers(field: Any) -> list[int]:
    return [int(field.id()), *(number for child in field.children() for number in _numbers(child))]


def numbered(handle: LanceTable, groups: Sequence[RewrittenGroup]) -> list[RewrittenGroup]:
    """The groups with numbers for their new fragments that nothing in the table has, or soon gets."""
    used = [fragment.fragment_id for fragment in handle.get_fragments()]
    with store_errors("read the indexes of a table"):
        segments = [segment for index in handle.describe_indices() for segment in index.segments]
    used += [max(segment.fragment_ids, default=0) for segment in segments]
    free = max(used, default=0) + _ROOM
    placed = []
    for group in groups:
        placed.append(replace(group, new=tuple({**each, "id": free + n} for n, each in enumerate(group.new))))
        free += len(group.new)
    return placed


def fitting(handle: LanceTable, groups: Sequence[RewrittenGroup]) -> list[RewrittenGroup]:
    """Those groups whose fragments a later version of the table has as they were, in which no row was deleted since
    and that no index took apart; what was added to the table meanwhile is no matter."""
    with store_errors("look at the fragments of a table", handle):
        present = {fragment.fragment_id: fragment for fragment in handle.get_fragments()}
        segments = [set(found) for each in coverage_by_row_id(handle) for found in each.values()]
        fields = _field_ids(handle)
        highest = max(present, default=0)

        def fits(group: RewrittenGroup) -> bool:
            numbers = {int(each["id"]) for each in group.old}
            return (
                min((int(each["id"]) for each in group.new), default=highest + 1) > highest
                and numbers <= present.keys()
                and all(present[int(each["id"])].metadata.to_json() == each for each in group.old)
                and all(numbers <= found or not numbers & found for found in segments)
                and group.fields == fields
            )

        return [group for group in groups if fits(group)]


def staged_rewrite(handle: LanceTable, rows: int, groups: Sequence[RewrittenGroup]) -> StagedTransaction:
    """The groups as one transaction."""
    operation = lance.LanceOperation.Rewrite(
        [lance.LanceOperation.RewriteGroup(_fragments(group.old), _fragments(group.new)) for group in groups],
        [],
    )
    digests = {name: digest for group in groups for name, digest in group.digests.items()}
    return StagedTransaction(operation, handle.version, rows, digests=digests)


def _fragments(records: Sequence[dict[str, Any]]) -> list[FragmentMetadata]:
    return [FragmentMetadata.from_json(json.dumps(record)) for record in records]
