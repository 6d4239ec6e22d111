"""One line → the record on it: of which type, with which values. The slow path, which also finds the words for errors.

Two dialects: the graph's own, where each line names its type, and flat objects of one type, as other tools write them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from omnigraph.errors import InvalidRecord, InvalidRow
from omnigraph.ids import did_you_mean
from omnigraph.schema.catalog import Catalog, EdgeType, NodeType
from omnigraph.write.load.json_value import json_value
from omnigraph.write.load.strict_json import parse_line, shown

PHYSICAL = frozenset(
    {"_rowid", "_rowaddr", "_rowoffset", "_row_created_at_version", "_row_last_updated_at_version", "_tombstone"}
)
_NODE_MEMBERS = frozenset({"type", "data"})
_EDGE_MEMBERS = frozenset({"edge", "from", "to", "data"})


@dataclass(frozen=True, slots=True)
class Record:
    """One record with the stored values of its members; what is missing is null."""

    table_key: str
    values: dict[str, Any]


def read_record(catalog: Catalog, flat: NodeType | EdgeType | None, line: bytes, number: int) -> Record:
    """The record on a line.

    Args:
        flat: type of flat objects; None for the graph's dialect.

    Raises:
        InvalidRow: it is none.
    """
    value = parse_line(line, number)
    if not isinstance(value, dict):
        raise InvalidRecord(f"line {number}: graph batch record must be a JSON object, got {shown(value)}")
    if flat is not None:
        return _flat_record(flat, value, number)
    return _graph_record(catalog, value, number)


def _graph_record(catalog: Catalog, members: dict[str, Any], number: int) -> Record:
    if ("type" in members) == ("edge" in members):
        raise InvalidRecord(f"line {number}: graph batch record must contain exactly one of 'type' or 'edge'")
    known = _NODE_MEMBERS if "type" in members else _EDGE_MEMBERS
    for name in members:
        _refuse_physical(name, number)
        if name not in known:
            raise InvalidRecord(f"line {number}: unknown top-level graph batch field '{name}'")
    if "type" in members:
        name = _text(members, "type", number)
        type_: NodeType | EdgeType | None = catalog.nodes.get(name)
        ends = {}
    else:
        name = _text(members, "edge", number)
        type_ = catalog.edge_by_word(name)
        ends = {"src": _text(members, "from", number), "dst": _text(members, "to", number)} if type_ else {}
    if type_ is None:
        kind, names = ("node", list(catalog.nodes)) if "type" in members else ("edge", list(catalog.edges))
        raise InvalidRecord(f"line {number}: unknown {kind} type '{name}'", hint=did_you_mean(name, names))
    data = members.get("data", {})
    if not isinstance(data, dict):
        raise InvalidRecord(f"line {number}: graph batch field 'data' must be an object, got {shown(data)}")
    return Record(type_.table_key, {**_properties(type_, data, number), **ends})


def _flat_record(type_: NodeType | EdgeType, members: dict[str, Any], number: int) -> Record:
    ends = {}
    if isinstance(type_, EdgeType):
        members = dict(members)
        for column, word in (("src", "from"), ("dst", "to")):
            name = column if column in members or word not in members or word in type_.properties else word
            ends[column] = _text(members, name, number)
            del members[name]
    return Record(type_.table_key, {**_properties(type_, members, number), **ends})


def _properties(type_: NodeType | EdgeType, data: dict[str, Any], number: int) -> dict[str, Any]:
    values = {}
    for name, value in data.items():
        prop = type_.properties.get(name)
        if prop is not None:
            values[name] = json_value(name, prop.type, value)
        elif name == "id":
            values[name] = None if value is None else _text(data, name, number)
        else:
            _refuse_physical(name, number)
            if isinstance(type_, EdgeType) and name in ("src", "dst"):
                raise InvalidRecord(f"line {number}: edge data field '{name}' is reserved structural state")
            raise InvalidRow(
                f"unknown input field '{name}' for '{type_.table_key}'",
                hint=did_you_mean(name, type_.properties),
                type=type_.name,
                property=name,
            )
    return values


def _refuse_physical(name: str, number: int) -> None:
    if name in PHYSICAL:
        raise InvalidRecord(f"line {number}: graph batch field '{name}' is reserved physical state")


def _text(members: dict[str, Any], name: str, number: int) -> str:
    if name not in members:
        raise InvalidRecord(f"line {number}: graph batch record requires field '{name}'")
    value = members[name]
    if not isinstance(value, str):
        raise InvalidRecord(f"line {number}: graph batch field '{name}' must be a string, got {shown(value)}")
    return value
