"""Indexes of one table: what is covered, building what is not, and staging what was built.

An index consists of segments, each over some fragments. Extending one adds a segment for the fragments that are not
covered, so the cost follows the new rows. Segments are built in any process and on any version that has the fragments;
`staged_segments` puts them into one transaction and leaves out what does not fit the table any more.

Lance finds rows by their places through a BTREE, and by their stable row ids through the other kinds. It tells which
rows such an index still speaks for by all its segments together. So when a row that an old segment knows lies in a
fragment that a new one would cover, because it was replaced, the old segment would bring back the values that the row
had: such an index is built anew. So is a BTREE of an older Lance, which holds row ids: no index may hold both. So is a
full-text index whose tokenizer is not the one that is wanted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import isqrt
from typing import Any

import lance
from lance.bitmap import Bitmap

from omnigraph import limits
from omnigraph.errors import StoreUnavailable
from omnigraph.storage.objects.native_libraries import reason, store_errors
from omnigraph.storage.tables.lance_types import LanceTable
from omnigraph.storage.tables.stage_rows import StagedTransaction
from omnigraph.storage.tables.text_tokens import lance_parameters
from omnigraph.tokenizer import ENGLISH, Tokenizer

_BTREE = "BTREE"
_INVERTED = "INVERTED"
_TYPES = {_BTREE: "BTREE", _INVERTED: "INVERTED", "VECTOR": "IVF_FLAT"}
_DETAILS = {_BTREE: "btree", _INVERTED: "inverted", "VECTOR": "ivf"}

_CREATED = "_row_created_at_version"

#: From this version of its format on a BTREE holds the places of rows.
_PLACES = 1


@dataclass(frozen=True, slots=True)
class IndexWork:
    """One segment to build.

    Attributes:
        name: of the index that it becomes a part of.
        fragments: what it is going to cover, with the data files of each.
        rows: how many rows these have, deleted ones included.
        replaces: segments that it stands in for.
        is_by_row_id: the index that the table has finds rows by their row ids, and so says which fragments Lance joins.
        tokenizer: of a full-text index.
    """

    column: str
    kind: str
    name: str
    fragments: Mapping[int, tuple[str, ...]]
    rows: int
    replaces: frozenset[str] = frozenset()
    is_by_row_id: bool = False
    tokenizer: Tokenizer = ENGLISH

    def parts(self, rows: int) -> list[IndexWork]:
        """The same as several segments of about so many rows, or more."""
        numbers = sorted(self.fragments)
        count = min(max(1, self.rows // rows), len(numbers))
        ends = [len(numbers) * place // count for place in range(count + 1)]
        chosen = [numbers[start:end] for start, end in pairwise(ends)]
        return [
            replace(
                self,
                fragments={number: self.fragments[number] for number in part},
                rows=self.rows * len(part) // len(numbers),
            )
            for part in chosen
        ]


@dataclass(frozen=True, slots=True)
class BuiltSegment:
    """A segment that was built, as `lance.Index`, and what was asked for."""

    work: IndexWork
    index: Any


@dataclass(frozen=True, slots=True)
class _Segment:
    uuid: str
    fragments: frozenset[int]
    rows: int
    version: int
    is_by_row_id: bool


def index_kind_of(index: Any) -> str:
    """What a schema calls the kind of an index that a table has; an index of another kind keeps Lance's name of it."""
    named = str(index.index_type)
    return next((kind for kind, part in _DETAILS.items() if part in named.lower()), named)


def missing_parts(handle: LanceTable, column: str, kind: str) -> list[int]:
    """Fragments that the index of a column does not cover."""
    with store_errors("read the indexes of a table"):
        covered = {number for segment in _segments(handle, column, kind) for number in segment.fragments}
        return sorted({fragment.fragment_id for fragment in handle.get_fragments()} - covered)


def coverage_by_row_id(handle: LanceTable) -> list[dict[str, frozenset[int]]]:
    """For each index that finds rows by their row ids, the fragments of its segments by their uuid."""
    return [
        {segment.uuid: frozenset(segment.fragment_ids) for segment in index.segments}
        for index in handle.describe_indices()
        if any(_is_by_row_id(index_kind_of(index), segment) for segment in index.segments)
    ]


def older_segments(handle: LanceTable) -> set[str]:
    """Segments of BTREEs of an older Lance. Nothing of today can be added to such an index."""
    return {
        segment.uuid
        for index in handle.describe_indices()
        for segment in index.segments
        if index_kind_of(index) == _BTREE and _is_by_row_id(_BTREE, segment)
    }


def _is_by_row_id(kind: str, segment: Any) -> bool:
    return kind != _BTREE or int(segment.index_version) < _PLACES


def is_tokenized_by(details: Mapping[str, Any] | None, tokenizer: Tokenizer) -> bool:
    """Whether a full-text index with these details takes texts apart in this way; what they do not say is usual."""
    said, usual = details or {}, lance_parameters(ENGLISH)
    return all(said.get(name, usual.get(name)) == value for name, value in lance_parameters(tokenizer).items())


def index_work(
    handle: LanceTable, column: str, kind: str, tokenizer: Tokenizer = ENGLISH
) -> tuple[IndexWork | None, str | None]:
    """What makes the index of a column cover its table, or why it cannot be built yet; nothing when it does.

    Small segments are joined once there are many.
    """
    with store_errors("read the indexes of a table"):
        metas = {fragment.fragment_id: fragment.metadata for fragment in handle.get_fragments()}
        segments = _segments(handle, column, kind)
        is_other = kind == _INVERTED and not all(
            is_tokenized_by(index.details, tokenizer) for index in _indexes_of(handle, column, kind)
        )
        covered = set() if is_other else {number for segment in segments for number in segment.fragments}
        missing = sorted(metas.keys() - covered)
        if missing and kind == "VECTOR":
            if not segments and sum(meta.physical_rows for meta in metas.values()) < limits.VECTOR_INDEX_ROWS:
                return None, f"it has fewer than {limits.VECTOR_INDEX_ROWS:,} rows, whose vectors are quickly measured"
            if not _has_vector(handle, column):
                return None, "no row has a vector yet"
        joined = _many_small(segments)
        is_by_row_id = kind != _BTREE or any(segment.is_by_row_id for segment in segments)
        is_older = kind == _BTREE and is_by_row_id and bool(missing or joined)
        if is_other or is_older or (kind != _BTREE and missing and _speaks_for_older_rows(handle, missing, segments)):
            joined = segments
        fragments = {*missing, *(number for segment in joined for number in segment.fragments if number in metas)}
        if not fragments:
            return None, None
        gone = [segment for segment in segments if not segment.fragments & metas.keys()]
        return IndexWork(
            column,
            kind,
            _name(handle, column, kind),
            {number: _files(metas[number]) for number in sorted(fragments)},
            sum(metas[number].physical_rows for number in fragments),
            frozenset(segment.uuid for segment in (*joined, *gone)),
            is_by_row_id,
            tokenizer,
        ), None


def _segments(handle: LanceTable, column: str, kind: str) -> list[_Segment]:
    """Those of the index of a column; its rows are those of the fragments that the table still has."""
    rows = {fragment.fragment_id: fragment.metadata.physical_rows for fragment in handle.get_fragments()}
    return [
        _Segment(
            segment.uuid,
            frozenset(segment.fragment_ids),
            sum(rows.get(number, 0) for number in segment.fragment_ids),
            int(segment.dataset_version_at_last_update),
            _is_by_row_id(kind, segment),
        )
        for index in _indexes_of(handle, column, kind)
        for segment in index.segments
    ]


def _indexes_of(handle: LanceTable, column: str, kind: str) -> list[Any]:
    return [
        index
        for index in handle.describe_indices()
        if list(index.field_names) == [column] and index_kind_of(index) == kind
    ]


def _many_small(segments: Sequence[_Segment]) -> list[_Segment]:
    """Segments that are joined because each one costs every look-up: the smallest, and larger ones while they are not
    much larger than what is joined anyway, so that a row is indexed again a few times only."""
    small = sorted((each for each in segments if 0 < each.rows < limits.INDEX_SEGMENT_ROWS), key=lambda each: each.rows)
    if len(small) <= limits.INDEX_SEGMENTS:
        return []
    chosen, gathered = [], 0
    for number, segment in enumerate(small):
        if number >= 2 and segment.rows > limits.FOLD_RATIO * gathered:
            break
        chosen.append(segment)
        gathered += segment.rows
    return chosen


def _speaks_for_older_rows(handle: LanceTable, fragments: Iterable[int], segments: Sequence[_Segment]) -> bool:
    """Whether some fragments hold rows that existed when a segment was built, and may be known to it."""
    if not segments:
        return False
    built = max(segment.version for segment in segments)
    chosen = [handle.get_fragment(number) for number in fragments]
    batches = handle.scanner(columns=[_CREATED], fragments=chosen).to_batches()
    return any(bool((batch.column(_CREATED).to_numpy() <= built).any()) for batch in batches)


def _has_vector(handle: LanceTable, column: str) -> bool:
    scanner = handle.scanner(columns=[column], batch_size=1024)
    return any(batch.column(column).null_count < batch.num_rows for batch in scanner.to_batches())


def _files(meta: Any) -> tuple[str, ...]:
    return tuple(file._path for file in meta.files)  # `path` makes a new class at each look


def build_segment(handle: LanceTable, work: IndexWork, version: int) -> BuiltSegment:
    """Build a segment on a handle that nobody else uses meanwhile.

    Args:
        version: of the table whose rows these are; the handle may be at a draft of it.
    """
    options: dict[str, Any] = {}
    if work.kind == "VECTOR":
        many = work.rows >= limits.VECTOR_INDEX_ROWS
        options = {"num_partitions": isqrt(work.rows) if many else 1, "metric": "l2"}
    elif work.kind == _INVERTED:
        options = lance_parameters(work.tokenizer)
    with store_errors("build an index"):
        segment = handle.create_index_uncommitted(
            work.column, _TYPES[work.kind], name=work.name, fragment_ids=list(work.fragments), replace=True, **options
        )
        if work.kind == _INVERTED:  # until it is merged, even alone, its files cannot be searched
            try:
                segment = handle.merge_existing_index_segments([segment])
            except ValueError as error:  # a file that it has just written is gone
                raise StoreUnavailable(f"could not build the index of '{work.column}': {reason(error)}") from error
    return BuiltSegment(work, replace(segment, dataset_version=version))


def staged_segments(
    handle: LanceTable, rows: int, built: Sequence[BuiltSegment]
) -> tuple[StagedTransaction | None, list[BuiltSegment]]:
    """One transaction of the segments that fit the table as it is now, and these segments.

    A fragment that is gone, rewritten, or covered by somebody else meanwhile is not covered by the new segment. An
    index that finds rows by their row ids is left as it is in that last case, and so is one that would get places too.
    """
    with store_errors("read the indexes of a table"):
        present = {fragment.fragment_id: _files(fragment.metadata) for fragment in handle.get_fragments()}
        fields = {field.name(): int(field.id()) for field in handle.lance_schema.fields()}
        new, removed, kept = [], [], []
        for segment in built:
            work = segment.work
            if [fields.get(work.column)] != list(segment.index.fields):
                continue
            others = [each for each in _segments(handle, work.column, work.kind) if each.uuid not in work.replaces]
            known = {number for other in others for number in other.fragments}
            if work.kind != _BTREE and known & work.fragments.keys():
                continue
            if work.kind == _BTREE and any(other.is_by_row_id for other in others):
                continue
            covered = {n for n, files in work.fragments.items() if present.get(n) == files and n not in known}
            if covered:
                kept.append(segment)
                new.append(replace(segment.index, fragment_ids=Bitmap(sorted(covered))))
                removed += [_removed(segment.index, uuid) for uuid in sorted(work.replaces & _uuids(handle))]
        if not new:
            return None, []
        unique = list({index.uuid: index for index in removed}.values())
        return StagedTransaction(lance.LanceOperation.CreateIndex(new, unique), handle.version, rows), kept


def _uuids(handle: LanceTable) -> set[str]:
    return {segment.uuid for index in handle.describe_indices() for segment in index.segments}


def _removed(index: Any, uuid: str) -> Any:
    """What Lance is told of a segment that goes; it looks at the uuid."""
    return replace(index, uuid=uuid, fragment_ids=Bitmap([]), files=None)


def _name(handle: LanceTable, column: str, kind: str) -> str:
    """An index keeps its name when its column is renamed; a new column of the old name must not take it over."""
    taken = []
    for index in handle.describe_indices():
        if list(index.field_names) == [column] and index_kind_of(index) == kind:
            return str(index.name)
        taken.append(index.name)
    name = f"{column}_idx"
    numbers = range(2, len(taken) + 3)
    return name if name not in taken else next(free for n in numbers if (free := f"{name}_{n}") not in taken)
