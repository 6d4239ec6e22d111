"""Applies a schema change: its steps become table work, schema files and one commit.

Rows are never copied. A new type is a new empty table, a renamed type keeps its table under another key, changed
columns are one staged transaction, a dropped type is a tombstone. Everything goes through the commit protocol, so a
crash leaves the old graph or the new one. Planning is `schema/evolve/`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from omnigraph import failpoints, ids
from omnigraph.errors import (
    PreconditionFailed,
    SchemaApplyBlocked,
    UnsupportedSchemaChange,
)
from omnigraph.schema.arrow import table_schema
from omnigraph.schema.catalog import Catalog, EdgeType, NodeType
from omnigraph.schema.compiled_schema import CompiledSchema
from omnigraph.schema.contract import state_text
from omnigraph.schema.evolve import (
    AddProperty,
    AddType,
    DropProperty,
    DropType,
    MigrationStep,
    RelaxProperty,
    RenameProperty,
    RenameType,
    SchemaPlan,
    WidenProperty,
    plan_change,
)
from omnigraph.schema.stable_ids import table_path
from omnigraph.schema_registry import SchemaRegistry
from omnigraph.storage.commit.preparation import Prepared, PreparedTable, SchemaChange, Workspace
from omnigraph.storage.commit.protocol import Write, run
from omnigraph.storage.commit.sidecar import WriterKind
from omnigraph.storage.graph_store import GraphStore
from omnigraph.storage.metadata import manifest, schema_files
from omnigraph.storage.metadata.manifest import Commit, ManifestSnapshot, Pin
from omnigraph.storage.objects.locks import CONTROL
from omnigraph.storage.objects.object_store import ObjectStore
from omnigraph.storage.recovery.sweep import heal_branch
from omnigraph.storage.tables.stage_columns import ColumnChange, stage_new, stage_reshape


@dataclass(frozen=True, slots=True)
class SchemaApplied:
    """What a schema change did.

    Attributes:
        plan: the steps that were taken.
        commit: None when the schema already meant the same.
        graph_manifest_version: of main, afterwards.
    """

    plan: SchemaPlan
    commit: Commit | None
    graph_manifest_version: int

    def __repr__(self) -> str:
        done = f"commit {self.commit.id}" if self.commit is not None else "nothing to change"
        return f"SchemaApplied({len(self.plan.steps)} steps; {done})"

    @property
    def supported(self) -> bool:
        return self.plan.supported

    @property
    def applied(self) -> bool:
        return self.commit is not None

    def lines(self) -> tuple[str, ...]:
        return self.plan.lines()

    def to_dict(self) -> dict[str, Any]:
        planned = self.plan.to_dict()
        return {
            "supported": self.supported,
            "applied": self.applied,
            "step_count": planned["step_count"],
            "graph_manifest_version": self.graph_manifest_version,
            "steps": planned["steps"],
        }


@dataclass(frozen=True, slots=True)
class SchemaRequest:
    """The wanted schema, how far drops may go, who wants it, for which schema (None for any) it was planned, and what
    its author says about it."""

    desired: CompiledSchema
    allow_data_loss: bool
    actor: str | None
    if_hash: str | None = None
    message: str | None = None


def apply_schema(store: GraphStore, schemas: SchemaRegistry, request: SchemaRequest) -> SchemaApplied:
    """Change the schema of a graph that has no branch but main.

    Raises:
        UnsupportedSchemaChange: a step is refused; nothing changed.
        SchemaApplyBlocked: there are other branches.
        PreconditionFailed: the graph has another schema than ``if_hash``.
        SchemaIdentityError: a ``@rename_from`` hint cannot be followed.
    """

    def prepare(workspace: Workspace) -> Prepared[SchemaPlan]:
        accepted = schemas.of(workspace.snapshot)
        if request.if_hash is not None and accepted.hash != request.if_hash:
            raise PreconditionFailed(
                f"the schema is {accepted.hash}, not {request.if_hash}",
                hint="somebody changed it; plan again",
                expected=request.if_hash,
                actual=accepted.hash,
            )
        plan = plan_for(workspace.snapshot, accepted, request.desired, allow_data_loss=request.allow_data_loss)
        refusal = plan.first_refusal()
        if refusal is not None:
            raise UnsupportedSchemaChange(refusal, steps=[step.to_dict() for step in plan.steps])
        return _prepared(workspace, accepted, request.desired, plan) if plan.steps else Prepared(plan)

    with store.sections.hold(CONTROL):
        failpoints.reach("schema_apply.after_lock")
        with store.sections.hold(ids.MAIN) as fence:
            heal_branch(store, ids.MAIN, fence)  # also a change that died may be what is wanted here
        _require_only_main(store)
        done = run(store, Write(ids.MAIN, WriterKind.SCHEMA_APPLY, request.actor, prepare, message=request.message))
    version = done.commit.version if done.commit else store.snapshot(ids.MAIN).version
    return SchemaApplied(done.report, done.commit, version)


def plan_for(
    snapshot: ManifestSnapshot, accepted: CompiledSchema, desired: CompiledSchema, *, allow_data_loss: bool
) -> SchemaPlan:
    """The plan for one state. Rows that another writer adds move the state, and the plan is made again."""
    empty = {key for key, pin in snapshot.pins.items() if pin.row_count == 0}
    return plan_change(accepted, desired, allow_data_loss=allow_data_loss, empty=empty)


def _require_only_main(store: GraphStore) -> None:
    """A change of tables that other branches read would change what they are."""
    others = [ref.name for ref in store.branch_refs() if ref.name != ids.MAIN]
    if ids.SCHEMA_APPLY_LOCK in others:  # of a dead process of other software: the control section is ours
        store.tables.drop_branch(manifest.PATH, ids.SCHEMA_APPLY_LOCK)
        others.remove(ids.SCHEMA_APPLY_LOCK)
    if others:
        raise SchemaApplyBlocked(
            f"schema apply requires a graph with only main; found non-main branches: {', '.join(sorted(others))}",
            hint="merge or delete them first",
            branches=sorted(others),
        )


def _prepared(
    workspace: Workspace, accepted: CompiledSchema, desired: CompiledSchema, plan: SchemaPlan
) -> Prepared[SchemaPlan]:
    objects, snapshot = workspace.store.objects, workspace.snapshot
    _keep(objects, accepted)
    reshaping = Reshaping.of(plan.steps)
    tables: dict[str, PreparedTable] = {}
    pointers: dict[str, Pin] = {}
    for type_ in _types(desired.catalog):
        key, old_key = type_.table_key, reshaping.old_key(type_.table_key)
        if key in reshaping.added:
            tables[key] = _new_table(workspace, type_, taken={table.pin.location for table in tables.values()})
            continue
        changed = _changed_table(workspace, type_, reshaping) if key in reshaping.changed else None
        if changed is not None:
            tables[key] = changed
        elif key != old_key:
            pointers[key] = replace(snapshot.pins[old_key], table_key=key)
    gone = {*reshaping.dropped, *reshaping.renamed.values()} - {*tables, *pointers}
    return Prepared(
        plan,
        tables=tables,
        pointers=pointers,
        tombstones={key: snapshot.pins[key].version + 1 for key in sorted(gone)},
        schema=SchemaChange(
            hash=desired.hash,
            source=desired.source,
            ir=desired.ir_text,
            state=state_text(desired.hash),
            purge=tuple(sorted(snapshot.pins[reshaping.old_key(key)].location for key in reshaping.purged)),
            remove=tuple(sorted(snapshot.pins[key].location for key in reshaping.removed)),
        ),
    )


def _keep(objects: ObjectStore, accepted: CompiledSchema) -> None:
    """States until now are read with it: by the hash that they record, or by that of the spelling of this software."""
    today, earlier = accepted.hashes
    for name in {accepted.hash, today}:
        schema_files.keep(objects, name, accepted.source)
    if accepted.hash not in (today, earlier):
        schema_files.keep_ir(objects, accepted.hash, accepted.ir_text)
    schema_files.keep_unrecorded(objects, accepted.source)


def _changed_table(workspace: Workspace, type_: NodeType | EdgeType, reshaping: Reshaping) -> PreparedTable | None:
    """A table with other columns, under its new key if it has one; None when it has the wanted columns already."""
    pin, handle = workspace.writable(reshaping.old_key(type_.table_key))
    staged = stage_reshape(handle, pin.row_count, reshaping.columns(type_, handle.schema))
    shown = replace(pin, table_key=type_.table_key)
    return PreparedTable(shown, handle, staged, reads_rows=False) if staged is not None else None


def _new_table(workspace: Workspace, type_: NodeType | EdgeType, taken: set[str]) -> PreparedTable:
    location = _free_location(workspace, type_.table_key, taken)
    metadata = manifest.pin_metadata(workspace.store.tables.uri(location), 0, None)
    return PreparedTable(
        Pin(type_.table_key, location, 0, None, 0, metadata), None, stage_new(table_schema(type_)), reads_rows=False
    )


def _free_location(workspace: Workspace, table_key: str, taken: set[str]) -> str:
    """Where a new table goes: under its name, unless a dropped or renamed table of that name lay there before."""
    kind, _, name = table_key.partition(":")
    known = taken | {pin.location for pin in workspace.snapshot.pins.values()}
    number = 1
    while True:
        location = table_path(kind, name if number == 1 else f"{name}#{number}")
        if location not in known and not workspace.store.objects.any_below(location):
            return location
        number += 1


def _types(catalog: Catalog) -> list[NodeType | EdgeType]:
    return [*catalog.nodes.values(), *catalog.edges.values()]


_INTERFACE = "interface"


@dataclass(slots=True)
class Reshaping:
    """What a plan does to tables, by table key as the desired schema names it (dropped ones as the accepted did).

    Attributes:
        renamed: new key → old key.
        changed: tables whose columns change.
        purged, removed: tables whose older versions, or which wholly, are given up after the change.
    """

    added: set[str] = field(default_factory=set)
    dropped: set[str] = field(default_factory=set)
    renamed: dict[str, str] = field(default_factory=dict)
    changed: set[str] = field(default_factory=set)
    purged: set[str] = field(default_factory=set)
    removed: set[str] = field(default_factory=set)
    _new_properties: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    _old_names: dict[str, dict[str, str]] = field(default_factory=lambda: defaultdict(dict))

    @classmethod
    def of(cls, steps: Iterable[MigrationStep]) -> Reshaping:
        found = cls()
        for step in steps:
            if getattr(step, "type_kind", _INTERFACE) != _INTERFACE:  # an interface has no table
                found._take(step)
        return found

    def _take(self, step: MigrationStep) -> None:
        match step:
            case AddType(kind, name):
                self.added.add(f"{kind}:{name}")
            case RenameType(kind, old, new):
                self.renamed[f"{kind}:{new}"] = f"{kind}:{old}"
            case DropType(kind, name, mode):
                self.dropped.add(f"{kind}:{name}")
                if mode == "hard":
                    self.removed.add(f"{kind}:{name}")
            case AddProperty(kind, owner, name):
                self.changed.add(f"{kind}:{owner}")
                self._new_properties[f"{kind}:{owner}"].add(name)
            case RenameProperty(kind, owner, old, new):
                self.changed.add(f"{kind}:{owner}")
                self._old_names[f"{kind}:{owner}"][new] = old
            case WidenProperty(kind, owner) | RelaxProperty(kind, owner):
                self.changed.add(f"{kind}:{owner}")
            case DropProperty(kind, owner, _, mode):
                self.changed.add(f"{kind}:{owner}")
                if mode == "hard":
                    self.purged.add(f"{kind}:{owner}")

    def old_key(self, table_key: str) -> str:
        return self.renamed.get(table_key, table_key)

    def columns(self, type_: NodeType | EdgeType, before: pa.Schema) -> list[ColumnChange]:
        """The columns of a changed table. A column that stays keeps its metadata: what identifies it, it keeps too."""
        new, old_names = self._new_properties[type_.table_key], self._old_names[type_.table_key]
        columns = []
        for wanted in table_schema(type_):
            if wanted.name in new:
                columns.append(ColumnChange(wanted, None, type_.properties[wanted.name].default))
                continue
            source = old_names.get(wanted.name, wanted.name)
            columns.append(ColumnChange(wanted.with_metadata(before.field(source).metadata), source))
        return columns
