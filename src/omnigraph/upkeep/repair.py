"""Decides about versions of tables that other software made beside the graph: adopt them, or take them back.

Without consent it only tells what was done. Adopting writes no table: one publish per branch shows the versions that
are there, if the branch still has the head that this was computed on. Taking back puts the shown content on top first.
`drift.py` says what the versions are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from omnigraph import failpoints, ids
from omnigraph.errors import CorruptGraph, InputError, RecoveryRequired
from omnigraph.schema_registry import SchemaRegistry
from omnigraph.storage.commit.preparation import Prepared, Workspace
from omnigraph.storage.commit.protocol import Write, run
from omnigraph.storage.commit.sidecar import WriterKind
from omnigraph.storage.graph_store import GraphStore
from omnigraph.storage.inspect_files import made_by
from omnigraph.storage.metadata.manifest import Commit, ManifestSnapshot, Pin, pin_metadata
from omnigraph.storage.recovery.sweep import taken_back
from omnigraph.storage.tables.lance_types import LanceTable
from omnigraph.upkeep.drift import DriftClass, drift_class, operations
from omnigraph.upkeep.verify import CHECKS
from omnigraph.upkeep.verify.control_checks import pending_records
from omnigraph.upkeep.verify.report import Ledger, Problem, lasting
from omnigraph.upkeep.verify.row_checks import BranchCheck
from omnigraph.upkeep.verify.table_checks import COLUMNS, FILES, PINS

#: A table with one of these problems cannot be read as its type; nobody may show it.
_UNUSABLE = frozenset({PINS, FILES, COLUMNS})

_AUTO_CLEANUP = "lance.auto_cleanup."


@dataclass(frozen=True, slots=True)
class TableRepair:
    """One table of a branch, and what was done about it.

    Attributes:
        version: table version that the branch showed.
        newest_version: the newest one that was stored.
        classification: ``no_drift``, ``verified_maintenance``, ``suspicious`` or ``unverifiable``.
        action: ``no_op``, ``preview``, ``healed``, ``forced``, ``discarded`` or ``refused``.
        operations: what Lance calls the operations in between, oldest first.
        error: why it was refused.
    """

    branch: str
    table_key: str
    version: int
    newest_version: int
    classification: DriftClass
    action: str
    operations: tuple[str, ...] = ()
    error: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {
            "branch": self.branch,
            "type_key": self.table_key,
            "published_dataset_version": self.version,
            "lance_head_version": self.newest_version,
            "classification": self.classification.value,
            "action": self.action,
            "operations": list(self.operations),
            "error": self.error,
        }


@dataclass(frozen=True, slots=True)
class RepairReport:
    """The answer of `repair`.

    Attributes:
        version: manifest version of the branch that was asked for, or of main, before anything was done.
        tables: every table that a branch has for itself.
        commits: what was published, one for each branch that had something to do.
        problems: rules that the rows of suspicious tables break once they are shown.
    """

    uri: str
    confirm: bool
    force: bool
    discard: bool
    version: int
    tables: tuple[TableRepair, ...]
    commits: tuple[Commit, ...] = ()
    problems: tuple[Problem, ...] = ()

    @property
    def refused(self) -> bool:
        """Whether something stayed as it is although consent was given."""
        return any(table.action == "refused" for table in self.tables)

    @property
    def drifting(self) -> tuple[TableRepair, ...]:
        """The tables that have something to decide about."""
        return tuple(table for table in self.tables if table.classification is not DriftClass.NO_DRIFT)

    def __repr__(self) -> str:
        actions = [f"{table.table_key} on {table.branch} {table.action}" for table in self.drifting]
        broken = f"; {len(self.problems)} rules broken" if self.problems else ""
        return f"RepairReport({', '.join(actions) or 'no drift'}{broken})"

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {
            "uri": self.uri,
            "confirm": self.confirm,
            "force": self.force,
            "discard": self.discard,
            "graph_manifest_version": self.version,
            "datasets": [table.to_dict() for table in self.tables],
            "commits": [commit.id for commit in self.commits],
            "problems": [problem.to_dict() for problem in self.problems],
        }


@dataclass(frozen=True, slots=True)
class RepairRequest:
    """What a caller asks for.

    Attributes:
        branch: None for every branch.
        confirm: do it; without it only tell.
        force: also adopt what is suspicious or cannot be verified.
        discard: take back what is there instead of adopting it.
    """

    branch: str | None
    confirm: bool = False
    force: bool = False
    discard: bool = False


@dataclass(frozen=True, slots=True)
class _Drift:
    """A table of a branch that has versions above the one that is shown, or none."""

    pin: Pin
    newest: LanceTable
    shown: LanceTable
    kind: DriftClass

    def told(self, branch: str, action: str, error: str | None = None) -> TableRepair:
        names = operations(self.newest, above=self.pin.version)
        return TableRepair(
            branch, self.pin.table_key, self.pin.version, int(self.newest.version), self.kind, action, names, error
        )


@dataclass(slots=True)
class _BranchRepair:
    """What a look at one branch came to."""

    tables: list[TableRepair] = field(default_factory=list)
    pointers: dict[str, Pin] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()


def repair(store: GraphStore, schemas: SchemaRegistry, request: RepairRequest) -> RepairReport:
    """Tell what other software did to the tables, and decide about it as the request says.

    Raises:
        InputError: the request contradicts itself.
        RecoveryRequired: an interrupted write is left; it has to be resolved first.
        CorruptGraph: a table is older than what the graph shows.
    """
    if request.force and not request.confirm:
        raise InputError("force says that a repair may adopt anything, and needs confirm", hint="pass confirm=True too")
    if request.force and request.discard:
        raise InputError("force adopts what is there and discard takes it back", hint="give one of them")
    _require_no_records(store)
    names = [request.branch] if request.branch is not None else _branches(store)
    version = store.refresh(names[0]).version
    reports: list[_BranchRepair] = []
    commits: list[Commit] = []
    for name in names:
        if request.confirm:
            report, commit = _repaired(store, schemas, name, request)
            commits += [commit] if commit is not None else []
        else:
            report = _preview(store, schemas, store.refresh(name))
        reports.append(report)
    return RepairReport(
        uri=store.location.uri,
        confirm=request.confirm,
        force=request.force,
        discard=request.discard,
        version=version,
        tables=tuple(table for report in reports for table in report.tables),
        commits=tuple(commits),
        problems=tuple(problem for report in reports for problem in report.problems),
    )


def _branches(store: GraphStore) -> list[str]:
    return [ref.name for ref in store.branch_refs() if ref.name != ids.SCHEMA_APPLY_LOCK]


def _require_no_records(store: GraphStore) -> None:
    """What an interrupted write left is its own matter. One that runs removes its record within moments."""
    pending = lasting(lambda: pending_records(store))
    if pending:
        raise RecoveryRequired(f"nothing can be repaired: {pending[0].message}", hint="run recover() first")


def _preview(store: GraphStore, schemas: SchemaRegistry, snapshot: ManifestSnapshot) -> _BranchRepair:
    """What there is to decide, and which rules would be broken if all of it were adopted."""
    drifts = _drifts(store, snapshot)
    pins = {drift.pin.table_key: _adopted(store, drift) for drift in drifts if _needs_force(drift)}
    problems = _broken_rules(store, schemas, snapshot, pins) if pins else ()
    tables = [drift.told(snapshot.branch, _idle(drift) or "preview") for drift in drifts]
    return _BranchRepair(tables, problems=problems)


def _repaired(
    store: GraphStore, schemas: SchemaRegistry, branch: str, request: RepairRequest
) -> tuple[_BranchRepair, Commit | None]:
    """One publish for all tables of a branch that are adopted or taken back; nothing when there are none."""
    forces = request.force and any(map(_needs_force, _drifts(store, store.refresh(branch))))

    def prepare(workspace: Workspace) -> Prepared[_BranchRepair]:
        snapshot = workspace.snapshot
        report = _taken_back(store, snapshot) if request.discard else _adopting(store, schemas, snapshot, forces)
        return Prepared(report, pointers=report.pointers, made_for=schemas.of(snapshot).hash)

    actor = ids.FORCED_REPAIR_ACTOR if forces else ids.REPAIR_ACTOR
    done = run(store, Write(branch, WriterKind.OPTIMIZE, actor, prepare, recomputes_reads=True, done="repair"))
    return done.report, done.commit


def _adopting(store: GraphStore, schemas: SchemaRegistry, snapshot: ManifestSnapshot, forces: bool) -> _BranchRepair:
    report = _BranchRepair()
    forced: list[_Drift] = []
    for drift in _drifts(store, snapshot):
        idle = _idle(drift)
        if idle is not None:
            report.tables.append(drift.told(snapshot.branch, idle))
        elif not _needs_force(drift):
            report.pointers[drift.pin.table_key] = _adopted(store, drift)
            report.tables.append(drift.told(snapshot.branch, "healed"))
        elif forces:
            forced.append(drift)
        else:
            hint = "adopt it with force, or take it back with discard"
            report.tables.append(drift.told(snapshot.branch, "refused", f"it is {drift.kind}: {hint}"))
    _force(store, schemas, snapshot, forced, report)
    report.tables.sort(key=lambda table: table.table_key)
    return report


def _force(
    store: GraphStore,
    schemas: SchemaRegistry,
    snapshot: ManifestSnapshot,
    forced: list[_Drift],
    report: _BranchRepair,
) -> None:
    """Adopt whatever can be read as its type at all, and tell which rules its rows break."""
    pins = {drift.pin.table_key: _adopted(store, drift) for drift in forced if _options(drift) is None}
    problems = _broken_rules(store, schemas, snapshot, {**report.pointers, **pins}) if pins else ()
    unusable = {problem.table: problem.message for problem in problems if problem.check in _UNUSABLE}
    for drift in forced:
        key = drift.pin.table_key
        error = _options(drift) or unusable.get(key)
        if error is None:
            report.pointers[key] = pins[key]
        report.tables.append(drift.told(snapshot.branch, "forced" if error is None else "refused", error))
    report.problems = tuple(problem for problem in problems if problem.table not in unusable)


def _options(drift: _Drift) -> str | None:
    """Why the options that somebody set may not be adopted: by them every later commit would remove history."""
    one, other = (
        {name: value for name, value in table.config().items() if name.startswith(_AUTO_CLEANUP)}
        for table in (drift.newest, drift.shown)
    )
    return None if one == other else f"it sets {', '.join(sorted(one)) or _AUTO_CLEANUP}: take it back with discard"


def _taken_back(store: GraphStore, snapshot: ManifestSnapshot) -> _BranchRepair:
    report = _BranchRepair()
    for drift in _drifts(store, snapshot):
        idle = _idle(drift)
        if idle is None:
            report.pointers[drift.pin.table_key] = taken_back(store, drift.pin)
            failpoints.reach("repair.after_restore")
        report.tables.append(drift.told(snapshot.branch, idle or "discarded"))
    return report


def _drifts(store: GraphStore, snapshot: ManifestSnapshot) -> list[_Drift]:
    """The tables that a branch has for itself, by key."""
    return [_drift(store, pin) for _, pin in sorted(snapshot.pins.items()) if snapshot.owns(pin.branch)]


def _drift(store: GraphStore, pin: Pin) -> _Drift:
    newest = store.tables.newest(pin.location, pin.branch)
    if newest.version < pin.version:
        raise CorruptGraph(
            f"table '{pin.table_key}' is at version {newest.version}, below the {pin.version} that the graph shows",
            hint="restore its directory from a copy",
            table_key=pin.table_key,
        )
    shown = store.table(pin)
    return _Drift(pin, newest, shown, drift_class(newest, shown))


def _idle(drift: _Drift) -> str | None:
    return "no_op" if drift.kind is DriftClass.NO_DRIFT else None


def _needs_force(drift: _Drift) -> bool:
    return drift.kind in (DriftClass.SUSPICIOUS, DriftClass.UNVERIFIABLE)


def _adopted(store: GraphStore, drift: _Drift) -> Pin:
    """The pin that shows the newest version of a table, with the transaction that made it."""
    pin, version = drift.pin, int(drift.newest.version)
    uri = store.tables.uri(pin.location, pin.branch)
    metadata = pin_metadata(uri, version, made_by(drift.newest))
    return replace(pin, version=version, row_count=int(drift.newest.count_rows()), metadata=metadata)


def _broken_rules(
    store: GraphStore, schemas: SchemaRegistry, snapshot: ManifestSnapshot, pins: Mapping[str, Pin]
) -> tuple[Problem, ...]:
    """What `verify` would say about a branch with these tables: files, columns, ids, keys, values, unique values,
    endpoints and cardinality."""
    ledger = Ledger(CHECKS.items())
    shown = replace(snapshot, pins={**snapshot.pins, **pins})
    BranchCheck(store, ledger).tables(shown, schemas.of(snapshot).catalog)
    return tuple(_serious(ledger))


def _serious(ledger: Ledger) -> Iterator[Problem]:
    return (problem for problem in ledger.report().problems if not problem.harmless)
