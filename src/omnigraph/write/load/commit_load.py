"""Gathered rows → one commit, or nothing. `gather.py` comes before, and between the two nothing was written.

Rows of a load that is to reject are settled against the state they will be committed on, and again if that moves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from omnigraph import limits
from omnigraph.errors import InputError, InvalidRowSet, KeyConflict, OmniGraphError
from omnigraph.schema.catalog import Catalog
from omnigraph.schema.compiled_schema import CompiledSchema
from omnigraph.storage.commit.preparation import Prepared, Workspace
from omnigraph.storage.commit.protocol import Write, run
from omnigraph.storage.commit.sidecar import WriterKind
from omnigraph.storage.graph_store import GraphStore
from omnigraph.storage.metadata.manifest import Commit, ManifestSnapshot
from omnigraph.write.change import Mode, type_of
from omnigraph.write.json_lines import json_lines
from omnigraph.write.load.gather import FILE, Gathered, LoadRequest, OnError, give_up
from omnigraph.write.load.reject import POSITION, Candidate, Rejection
from omnigraph.write.load.valid_rows import LINE
from omnigraph.write.load.violations import Violation, place_of, placed, rejects_table
from omnigraph.write.stage_changes import stage_changes, typed_changes


@dataclass(frozen=True, slots=True)
class Loaded:
    """What a load wrote.

    Attributes:
        counts: input records by table key, before repeated ids are collapsed.
    """

    commit: Commit | None
    counts: Mapping[str, int]
    rejects: pa.Table


@dataclass(frozen=True, slots=True)
class Author:
    """Who loads, what they say about it, and what they want its commit to be called; see `Write`."""

    actor: str | None
    message: str | None = None
    commit_id: str | None = None

    def write(
        self,
        branch: str,
        prepare: Callable[[Workspace], Prepared[_Accepted]],
        base: ManifestSnapshot | None,
        schema: CompiledSchema,
    ) -> Write[_Accepted]:
        return Write(
            branch,
            WriterKind.LOAD,
            self.actor,
            prepare,
            base,
            schema=schema.hash,
            message=self.message,
            commit_id=self.commit_id,
        )


def commit(
    store: GraphStore,
    schema: CompiledSchema,
    request: LoadRequest,
    gathered: Gathered,
    branch: str,
    author: Author,
    base: ManifestSnapshot | None = None,
) -> Loaded:
    """Write gathered rows as one commit, or raise and write nothing.

    Args:
        schema: the one that the rows were gathered for; under another one they are refused.
        base: the state whose rows they keep columns of; a table that moved since is a conflict.
    """
    candidates = candidates_of(schema.catalog, request, gathered)
    if request.on_error is OnError.REJECT:
        rejecting = _RejectingLoad(schema.catalog, request, gathered, candidates)
        done = run(store, author.write(branch, rejecting.prepare, base, schema))
    else:
        try:
            strict = _StrictLoad(schema.catalog, candidates)
            done = run(store, author.write(branch, strict.prepare, base, schema))
        except (InvalidRowSet, KeyConflict) as error:
            rejection = Rejection(
                Workspace(store, store.snapshot(branch)), schema.catalog, candidates, limits.LOAD_COUNTED_VIOLATIONS
            )
            raise placed_error(rejection, gathered, error) from None
    report: _Accepted | None = done.report
    if report is None and done.commit is not None:
        counts = {key: rows.inserted + rows.updated for key, rows in done.commit.rows.items()}
        return Loaded(done.commit, counts, rejects_table([]))
    return Loaded(done.commit, done.report.counts, rejects_table(done.report.rejected))


@dataclass(frozen=True, slots=True)
class _Accepted:
    """Rows of a load that stay, by table key, and what was rejected, in the order of the input."""

    counts: Mapping[str, int]
    rejected: list[Violation]


class _StrictLoad:
    """A load that one bad row refuses."""

    def __init__(self, catalog: Catalog, candidates: Mapping[str, Candidate]) -> None:
        self._catalog = catalog
        self._changes = typed_changes(catalog, [candidate.change for candidate in candidates.values()])
        self._counts = {key: each.rows.num_rows for key, each in candidates.items()}

    def prepare(self, workspace: Workspace) -> Prepared[_Accepted]:
        staged = stage_changes(workspace, self._catalog, self._changes)
        return Prepared(_Accepted(self._counts, []), staged.tables)


@dataclass(frozen=True, slots=True)
class _RejectingLoad:
    """A load that leaves out the rows that break a rule on the state it is committed on."""

    catalog: Catalog
    request: LoadRequest
    gathered: Gathered
    candidates: Mapping[str, Candidate]

    def prepare(self, workspace: Workspace) -> Prepared[_Accepted]:
        request, gathered = self.request, self.gathered
        rejection = Rejection(workspace, self.catalog, self.candidates, request.tolerated - len(gathered.found))
        rejection.run()
        rejected = in_input_order([*gathered.found, *violations_of(gathered, rejection)], gathered)
        if len(rejected) > request.tolerated:
            raise give_up(request, rejected)
        left = {key: each.rows.num_rows for key, each in rejection.candidates.items()}
        given = {key: rows.num_rows for key, rows in gathered.rows.items()}
        refuse_emptying(request, gathered.found, given, left)
        staged = stage_changes(workspace, self.catalog, typed_changes(self.catalog, rejection.changes()))
        return Prepared(_Accepted(left, rejected), staged.tables)


def candidates_of(catalog: Catalog, request: LoadRequest, gathered: Gathered) -> dict[str, Candidate]:
    """Gathered rows as candidates; ``#position`` is the place in `Gathered.rows`."""
    return {
        key: Candidate(
            type_of(catalog, key),
            request.mode,
            rows.drop_columns([LINE, FILE]).append_column(POSITION, pa.arange(0, rows.num_rows)),
            key in gathered.fresh,
            request.keeps,
        )
        for key, rows in gathered.rows.items()
    }


def refuse_emptying(
    request: LoadRequest, found: Sequence[Violation], given: Mapping[str, int], left: Mapping[str, int]
) -> None:
    """An overwrite with nothing but rejected rows would only delete.

    Args:
        given, left: rows by table key before and after the set rules.
    """
    if request.mode is not Mode.OVERWRITE:
        return
    rejected = {each.table_key for each in found}
    for key, rows in left.items():
        if rows or not (given[key] or key in rejected):
            continue
        raise InputError(
            f"every row of '{key}' was rejected, so overwriting it would leave it empty",
            hint="correct the rows, or leave the type out",
        )


def violations_of(gathered: Gathered, rejection: Rejection) -> list[Violation]:
    """What a rejection refused, with where each row came from."""
    return [_violation(gathered, each.table_key, each.position, each.error) for each in rejection.rejected]


def _violation(gathered: Gathered, key: str, position: int, error: OmniGraphError) -> Violation:
    row = gathered.rows[key].slice(position, 1)
    first = error.details.pop("first_row", None)
    if first is not None:
        error.hint = f"the first is {place_of(*_origin(gathered, key, first))}"
    made_up = [LINE, FILE, *(["id"] if key in gathered.fresh else [])]
    return Violation(*_origin(gathered, key, position), key, error, _record_text(key, row.drop_columns(made_up)))


def _origin(gathered: Gathered, key: str, position: int) -> tuple[str, int]:
    """The file and line of a row."""
    rows = gathered.rows[key]
    file, number = gathered.files[rows.column(FILE)[position].as_py()], rows.column(LINE)[position].as_py()
    lines = gathered.lines.get(file)
    return file, number if lines is None else lines.line(number)


def in_input_order(found: list[Violation], gathered: Gathered) -> list[Violation]:
    """By file and line."""
    order = {name: number for number, name in enumerate(gathered.files)}
    return sorted(found, key=lambda each: (order.get(each.file, 0), each.line))


def placed_error(rejection: Rejection, gathered: Gathered, error: OmniGraphError) -> OmniGraphError:
    """The error of a set rule with the line of the row it blames, if it blames one, and the first of each kind."""
    try:
        rejection.run()
        found = in_input_order(violations_of(gathered, rejection), gathered)
    except OmniGraphError:
        return error
    blamed = next((each for each in found if each.error.message == error.message), None)
    if blamed is None:
        return error
    error.hint = blamed.error.hint
    kinds = {each.kind: each for each in reversed(found)}
    shown = [each.to_dict() for each in in_input_order(list(kinds.values()), gathered)]
    return placed(
        Violation(blamed.file, blamed.line, blamed.table_key, error, ""), shown[: limits.LOAD_SHOWN_VIOLATIONS]
    )


def _record_text(key: str, row: pa.Table) -> str:
    """A row that has no line of its own any more, as a line of the graph's dialect."""
    text: str = json_lines(key, row.to_batches()[0])[0].as_py()
    return text.rstrip("\n")
