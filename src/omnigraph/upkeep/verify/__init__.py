"""Proves that a graph is whole: every branch, table, row rule, commit and control file.

Read-only. A live writer beside it is no problem: what is wrong only for moments is looked at again. `report.py` holds
the values that come out, the other modules one kind of check each.
"""

from __future__ import annotations

from contextlib import ExitStack

from omnigraph import ids
from omnigraph.errors import BranchNotFound
from omnigraph.storage.graph_store import GraphStore
from omnigraph.storage.inspect_files import DAMAGE, damage_of
from omnigraph.storage.metadata.manifest import ManifestSnapshot, Pin
from omnigraph.storage.objects.native_libraries import panics_as_damage
from omnigraph.upkeep.verify import control_checks, history_checks, table_checks
from omnigraph.upkeep.verify.report import Ledger, Problem, VerifyCheck, VerifyReport, lasting
from omnigraph.upkeep.verify.row_checks import CARDINALITY, ENDPOINTS, IDS, KEYS, UNIQUE, VALUES, BranchCheck

__all__ = ["CHECKS", "Problem", "VerifyCheck", "VerifyReport", "verify"]

#: Every check by its stable name, in the order of the report.
CHECKS: dict[str, str] = {
    control_checks.SCHEMA: "the schema files belong together, each branch has an accepted schema",
    history_checks.MANIFEST: "each branch is readable and its present follows from its history",
    history_checks.LINEAGE: "each head is the newest commit and leads back to the first",
    history_checks.MIRRORS: "the copies of the commits and of their actors are complete",
    table_checks.PINS: "each table has the version, transaction and row count that the graph names",
    table_checks.FILES: "every data file of the tables is there and readable",
    table_checks.COLUMNS: "each table has the columns of its type",
    table_checks.HEADS: "no table moved past what the graph shows",
    IDS: "no id occurs twice",
    KEYS: "ids are the texts of their keys",
    VALUES: "@range, @check and enums hold",
    UNIQUE: "@unique holds",
    ENDPOINTS: "every edge finds its nodes",
    CARDINALITY: "@card holds for every source with edges",
    table_checks.INDEXES: "every index gives answers",
    control_checks.RECORDS: "no interrupted write is left",
    control_checks.TAGS: "every tag names a state that can be opened",
    control_checks.REFS: "no table has a branch that the graph does not have",
}

#: Those of a deep look.
DEEP_CHECKS = {table_checks.DIGESTS: "every value of every data file is the one that was written"}


def verify(store: GraphStore, *, look_deep: bool = False) -> VerifyReport:
    """Check everything and tell what was checked and what is wrong.

    Args:
        look_deep: read every value of every data file as well, and compare it with its digest.

    Raises:
        GraphNotFound: there is no graph.
        StoreUnavailable: the store does not answer.
    """
    store.mirror.flush()
    with ExitStack() as stack:
        return _verified(store, stack, look_deep)


def _verified(store: GraphStore, stack: ExitStack, look_deep: bool) -> VerifyReport:
    ledger = Ledger((CHECKS | DEEP_CHECKS if look_deep else CHECKS).items())
    known = control_checks.SchemaFiles(store)
    with ledger.looking_at(control_checks.SCHEMA):
        ledger.extend(lasting(known.problems))
    looking = stack.enter_context(table_checks.DigestCheck(store, ledger)) if look_deep else None
    checking = BranchCheck(store, ledger, looking.damaged if looking else frozenset())
    lineages = history_checks.Lineages()
    locations: set[str] = set()
    for ref in store.branch_refs():
        if ref.name == ids.SCHEMA_APPLY_LOCK:
            continue
        for last in (False, False, True):
            with ledger.attempt() as found:
                snapshot = _snapshot(store, ledger, ref.name)
                if snapshot is None:
                    break
                locations |= {pin.location for pin in snapshot.pins.values()}
                locations |= {table.location for table in snapshot.hidden.values()}
                _account(store, ledger, lineages, snapshot)
                catalog, problem = known.catalog_of(snapshot)
                ledger.extend([problem] if problem else [])
                if looking is not None:
                    looking.tables(snapshot)
                checking.tables(snapshot, catalog)
                _moved(store, ledger, snapshot)
            if last or not found or not _is_outdated(store, snapshot):
                break
            ledger.take_back(found)  # a schema change removed what it dropped while this was looked at
    ledger.extend(lineages.lost_merges())
    with ledger.looking_at(control_checks.RECORDS):
        ledger.extend(lasting(lambda: control_checks.pending_records(store)))
        ledger.extend(control_checks.audit_problems(store))
        ledger.extend(control_checks.upkeep_problems(store))
    _tags(store, ledger)
    with ledger.looking_at(control_checks.REFS, len(locations)):
        ledger.extend(control_checks.unreachable_refs(store, locations))
    return ledger.report()


def _is_outdated(store: GraphStore, snapshot: ManifestSnapshot) -> bool:
    try:
        return store.refresh(snapshot.branch).version != snapshot.version
    except BranchNotFound:
        return True


def _snapshot(store: GraphStore, ledger: Ledger, branch: str) -> ManifestSnapshot | None:
    with ledger.looking_at(history_checks.MANIFEST):
        try:
            snapshot = history_checks.read_branch(store, branch)
            ledger.extend(history_checks.manifest_problems(snapshot))
            return snapshot
        except BranchNotFound:
            pass  # deleted since it was listed
        except DAMAGE as error:
            ledger.add(history_checks.MANIFEST, branch, None, f"the branch cannot be read: {damage_of(error)}")
    return None


def _account(store: GraphStore, ledger: Ledger, lineages: history_checks.Lineages, snapshot: ManifestSnapshot) -> None:
    """What a branch says about its own history."""
    branch = snapshot.branch
    with ledger.looking_at(history_checks.LINEAGE):
        try:
            ledger.extend(lineages.problems(store, snapshot))
        except DAMAGE as error:
            ledger.add(history_checks.LINEAGE, branch, None, f"its commits cannot be read: {damage_of(error)}")
    with ledger.looking_at(history_checks.MIRRORS):
        try:
            with panics_as_damage():
                ledger.extend(lasting(lambda: history_checks.mirror_problems(store, branch)))
        except BranchNotFound:
            pass
        except DAMAGE as error:
            ledger.extend([history_checks.unreadable_mirror(snapshot, damage_of(error))])


def _tags(store: GraphStore, ledger: Ledger) -> None:
    checked: set[Pin] = set()
    for name in control_checks.tag_names(store):
        with ledger.looking_at(control_checks.TAGS):
            ledger.extend(control_checks.tag_problems(store, name, checked))


def _moved(store: GraphStore, ledger: Ledger, snapshot: ManifestSnapshot) -> None:
    with ledger.looking_at(table_checks.HEADS, len(snapshot.pins)):
        try:
            ledger.extend(lasting(lambda: table_checks.drift_problems(store, snapshot.branch)))
        except BranchNotFound:
            pass
        except DAMAGE as error:
            ledger.add(table_checks.HEADS, snapshot.branch, None, f"its tables cannot be looked at: {damage_of(error)}")
