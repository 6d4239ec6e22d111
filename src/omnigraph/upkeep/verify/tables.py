"""Checks on the tables that a branch shows: each is there, is the right one, and can be read and searched."""

from __future__ import annotations

from omnigraph.schema.arrow import table_schema
from omnigraph.schema.catalog import Catalog, EdgeType, NodeType
from omnigraph.storage.blobs import physical_schema
from omnigraph.storage.inspect import DAMAGE, damage_of, files_damage, index_damage, indexes, made_by
from omnigraph.storage.manifest import Pin
from omnigraph.storage.store import GraphStore
from omnigraph.storage.tables import Handle, is_ours, maker
from omnigraph.upkeep.verify.control import explained_tables
from omnigraph.upkeep.verify.history import read_branch
from omnigraph.upkeep.verify.report import Ledger, Problem

PINS = "pins"
FILES = "files"
COLUMNS = "columns"
HEADS = "heads"
INDEXES = "indexes"


def open_pin(store: GraphStore, ledger: Ledger, branch: str, pin: Pin) -> Handle | None:
    """The table that a pin names, if it is there and every one of its files is."""
    with ledger.looking_at(PINS):
        try:
            handle = store.tables.fresh(pin.location, pin.branch, pin.version)
            rows = int(handle.count_rows())
        except DAMAGE as error:
            ledger.add(PINS, branch, pin.table_key, f"version {pin.version} cannot be opened: {damage_of(error)}")
            return None
        if pin.origin is not None and (maker := made_by(handle)) != pin.origin:
            message = f"version {pin.version} was made by transaction {maker}, the graph names {pin.origin}"
            ledger.add(PINS, branch, pin.table_key, message)
        if rows != pin.row_count:
            message = f"version {pin.version} has {rows} rows, the graph says {pin.row_count}"
            ledger.add(PINS, branch, pin.table_key, message)
    with ledger.looking_at(FILES, len(handle.get_fragments())):
        damage = files_damage(handle)
        if damage is not None:
            ledger.add(FILES, branch, pin.table_key, f"version {pin.version} cannot be read: {damage}")
    return handle if damage is None else None


def check_columns(ledger: Ledger, branch: str, type_: NodeType | EdgeType, handle: Handle) -> bool:
    """Whether the table has the columns of its type. Their order means nothing."""
    with ledger.looking_at(COLUMNS):
        wanted = {field.name: field for field in physical_schema(table_schema(type_))}
        present = {field.name: field for field in handle.schema}
        found = []
        for name in sorted(wanted.keys() | present.keys()):
            if name not in present:
                found.append(f"column '{name}' is missing")
            elif name not in wanted:
                found.append(f"column '{name}' belongs to no property")
            elif (wanted[name].type, wanted[name].nullable) != (present[name].type, present[name].nullable):
                told = [f"{field.type}{'?' if field.nullable else ''}" for field in (present[name], wanted[name])]
                found.append(f"column '{name}' is {told[0]}, the schema asks for {told[1]}")
        for message in found:
            ledger.add(COLUMNS, branch, type_.table_key, message)
        return not found


def unknown_tables(branch: str, catalog: Catalog, keys: set[str]) -> list[Problem]:
    """Types without a table, and tables without a type."""
    wanted = {type_.table_key for types in (catalog.nodes, catalog.edges) for type_ in types.values()}
    lost = [Problem(COLUMNS, branch, key, "the schema has this type, the graph no table") for key in wanted - keys]
    extra = [Problem(COLUMNS, branch, key, "the graph has this table, the schema no type") for key in keys - wanted]
    return sorted(lost + extra)


def drift_problems(store: GraphStore, branch: str) -> list[Problem]:
    """Tables that moved past what the branch shows, with no record that explains it.

    What writers of this software left there is passed over by the next write. At anything else it would refuse.
    """
    snapshot = read_branch(store, branch)
    explained = explained_tables(store)
    found = []
    for key, pin in snapshot.pins.items():
        if not snapshot.owns(pin.branch) or (branch, key) in explained:
            continue
        newest = store.tables.newest_or_none(pin.location, pin.branch)
        if newest is None or newest.version <= pin.version:
            continue
        message = f"the table is at version {newest.version}, the graph shows {pin.version}"
        if all(is_ours(maker(newest, version)) for version in range(pin.version + 1, newest.version + 1)):
            said = f"{message}: a write that never became visible, which the next one passes over"
            found.append(Problem(HEADS, branch, key, said, harmless=True))
        else:
            found.append(Problem(HEADS, branch, key, f"{message}, nothing explains it"))
    return found


def check_indexes(ledger: Ledger, branch: str, table_key: str, handle: Handle) -> None:
    """Whether each index that exists gives answers."""
    try:
        present = indexes(handle)
    except DAMAGE as error:
        ledger.add(INDEXES, branch, table_key, f"its indexes cannot be listed: {damage_of(error)}")
        return
    for index in present:
        with ledger.looking_at(INDEXES):
            damage = index_damage(handle, index)
            if damage is not None:
                ledger.add(INDEXES, branch, table_key, f"the index on '{index.field_names[0]}' is broken: {damage}")
