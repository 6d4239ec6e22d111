"""One line → the record on it: of which type, with which values. The slow path, which also finds the words for errors.

Two dialects: the graph's own, where each line names its type, and flat objects of one type, as other tools write them.
Text that JSON does not promise to mean one thing is refused; values become what `stored_values.column` puts into an
Arrow array.
"""

from __future__ import annotations

import codecs
import json
import math
import re
import struct
from dataclasses import dataclass
from typing import Any, NoReturn

from omnigraph import limits
from omnigraph.errors import InvalidRecord, InvalidRow, OmniGraphError, ResourceLimitExceeded
from omnigraph.ids import did_you_mean
from omnigraph.integers import INTEGER_BOUNDS
from omnigraph.query.temporal import FORMS, from_days, from_millis, parse_date, parse_datetime, to_days, to_millis
from omnigraph.schema.catalog import Catalog, EdgeType, NodeType, PropertyType, Scalar
from omnigraph.write.blob_text import blob_bytes
from omnigraph.write.row_rules import too_fine

PHYSICAL = frozenset(
    {"_rowid", "_rowaddr", "_rowoffset", "_row_created_at_version", "_row_last_updated_at_version", "_tombstone"}
)
_NODE_MEMBERS = frozenset({"type", "data"})
_EDGE_MEMBERS = frozenset({"edge", "from", "to", "data"})
_ENDS = (("src", "from"), ("dst", "to"))


@dataclass(frozen=True, slots=True)
class Record:
    """One record with the stored values of its members."""

    table_key: str
    values: dict[str, Any]


def read_record(
    catalog: Catalog, flat: NodeType | EdgeType | None, line: bytes, number: int, rounds: bool = False
) -> Record:
    """The record on a line.

    Args:
        flat: type of flat objects; None for the graph's dialect.
        rounds: times finer than a millisecond are rounded instead of refused.

    Raises:
        InvalidRow: it is none.
    """
    value = parse_line(line, number)
    if not isinstance(value, dict):
        raise InvalidRecord(f"line {number}: graph batch record must be a JSON object, got {shown(value)}")
    if flat is not None:
        return _flat_record(flat, value, number, rounds)
    return _graph_record(catalog, value, number, rounds)


def _graph_record(catalog: Catalog, members: dict[str, Any], number: int, rounds: bool) -> Record:
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
        edge = type_ = catalog.edge_by_word(name)
        ends = {column: _end(edge, column, members, word, number) for column, word in _ENDS} if edge else {}
    if type_ is None:
        kind, names = ("node", list(catalog.nodes)) if "type" in members else ("edge", list(catalog.edges))
        raise InvalidRecord(f"line {number}: unknown {kind} type '{name}'", hint=did_you_mean(name, names))
    data = members.get("data", {})
    if not isinstance(data, dict):
        raise InvalidRecord(f"line {number}: graph batch field 'data' must be an object, got {shown(data)}")
    return Record(type_.table_key, {**_properties(type_, data, number, rounds), **ends})


def _flat_record(type_: NodeType | EdgeType, members: dict[str, Any], number: int, rounds: bool) -> Record:
    ends = {}
    if isinstance(type_, EdgeType):
        members = dict(members)
        for column, word in _ENDS:
            name = column if column in members or word not in members or word in type_.properties else word
            ends[column] = _end(type_, column, members, name, number)
            del members[name]
    return Record(type_.table_key, {**_properties(type_, members, number, rounds), **ends})


def _end(edge: EdgeType, column: str, members: dict[str, Any], name: str, number: int) -> str:
    """The id of a node at one end: text, or the number itself where the key of the node is one."""
    value, key = members.get(name), edge.integer_ends.get(column)
    if key is not None and isinstance(value, int) and not _is_bool(value):
        return str(_whole(name, key, value, f"'{name}'"))
    return _text(members, name, number)


def _properties(type_: NodeType | EdgeType, data: dict[str, Any], number: int, rounds: bool) -> dict[str, Any]:
    values = {}
    for name, value in data.items():
        prop = type_.properties.get(name)
        if prop is not None:
            values[name] = json_value(name, prop.type, value, rounds)
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


class _WrongKind(Exception):
    """The JSON type of a value is not one that the property takes."""


def json_value(name: str, type_: PropertyType, value: Any, rounds: bool = False) -> Any:
    """The stored form of a member of ``data``; null stays null, whether it may be is decided with the whole row."""
    if value is None:
        return None
    if type_.scalar is Scalar.VECTOR:
        return _vector(name, type_, value)
    if type_.list:
        return _list(name, type_.scalar, value, rounds)
    if type_.scalar is Scalar.BLOB:
        return _blob(name, value)
    try:
        return _scalar(name, type_.scalar, value, f"property '{name}' value", rounds)
    except _WrongKind:
        message = f"property '{name}' expects {type_.scalar}, got {shown(value)}"
        raise InvalidRow(message, property=name) from None


def _list(name: str, scalar: Scalar, value: Any, rounds: bool) -> list[Any]:
    if not isinstance(value, list):
        raise InvalidRow(f"list property '{name}' expects a JSON array, got {shown(value)}", property=name)
    try:
        return [_scalar(name, scalar, item, "list value", rounds) for item in value]
    except _WrongKind:
        message = f"list property '{name}' holds a null or an item that is no {scalar}"
        raise InvalidRow(message, property=name) from None


def _vector(name: str, type_: PropertyType, value: Any) -> list[float]:
    if not isinstance(value, list):
        raise InvalidRow(f"vector property '{name}' expects a JSON array, got {shown(value)}", property=name)
    if len(value) != type_.dimension:
        message = f"vector property '{name}' expects {type_.dimension} dimensions, got {len(value)}"
        raise InvalidRow(message, property=name)
    wrong = next((item for item in value if not _is_number(item)), value)
    if wrong is not value:
        raise InvalidRow(f"vector property '{name}' elements must be numeric, got {shown(wrong)}", property=name)
    return [_real(name, Scalar.F32, item, f"property '{name}' value") for item in value]


def _blob(name: str, value: Any) -> bytes:
    if not isinstance(value, str):
        raise InvalidRow(f"blob property '{name}' must be a URI string or base64: prefixed data", property=name)
    return blob_bytes(value, name)


def _scalar(name: str, scalar: Scalar, value: Any, subject: str, rounds: bool) -> Any:
    match scalar:
        case Scalar.I32 | Scalar.I64 | Scalar.U32 | Scalar.U64 if isinstance(value, int) and not _is_bool(value):
            return _whole(name, scalar, value, subject)
        case Scalar.F32 | Scalar.F64 if _is_number(value):
            return _real(name, scalar, value, subject)
        case Scalar.STRING if isinstance(value, str):
            return value
        case Scalar.BOOL if isinstance(value, bool):
            return value
        case Scalar.DATE | Scalar.DATETIME if isinstance(value, str | int) and not _is_bool(value):
            return _moment(name, scalar, value, rounds)
    raise _WrongKind


def _whole(name: str, scalar: Scalar, value: int, subject: str) -> int:
    bounds = INTEGER_BOUNDS[scalar]
    if value not in bounds:
        raise InvalidRow(f"{subject} {value} exceeds {bounds.name} range", property=name)
    return value


def _real(name: str, scalar: Scalar, value: int | float, subject: str) -> float:
    number = float(value)
    if scalar is Scalar.F32:
        try:
            struct.pack("<f", number)
        except OverflowError:
            raise InvalidRow(f"{subject} {shown(value)} exceeds F32 range", property=name) from None
    return number


def _moment(name: str, scalar: Scalar, value: str | int, rounds: bool) -> int:
    try:
        if scalar is Scalar.DATE:
            return to_days(parse_date(value) if isinstance(value, str) else from_days(value))
        if isinstance(value, int):
            return to_millis(from_millis(value))
        millis = to_millis(parse_datetime(value))
    except ValueError:
        message = f"property '{name}' expects {scalar} as {FORMS[scalar]}, got {shown(value)}"
        raise InvalidRow(message, property=name) from None
    digit = _finer_digit(value)
    if digit is None:
        return millis
    if not rounds:
        raise too_fine(name, shown(value))
    return millis + (digit >= "5")


def _finer_digit(text: str) -> str | None:
    """The first digit behind the milliseconds; None when nothing but zeros is there."""
    fine = re.search(r"\.[0-9]{3}([0-9]+)", text)
    return fine[1][0] if fine is not None and fine[1].strip("0") else None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not _is_bool(value) and math.isfinite(value)


def _is_bool(value: Any) -> bool:
    return isinstance(value, bool)


_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"?', re.DOTALL)
_DELIMITERS = b"{}[],:"
_LONGEST_INTEGER = 64
_LONGEST_SHOWN = 100


class _Refused(ValueError):
    """Why a text is no strict JSON."""


def parse_line(line: bytes, number: int) -> Any:
    """The value on a line.

    Raises:
        InvalidRecord: it is not strict JSON.
        ResourceLimitExceeded: it holds too many delimiters.
    """
    check_structure(line)
    if line.startswith(codecs.BOM_UTF8):
        raise _invalid(number, "a byte order mark is not allowed")
    try:
        value = _DECODER.decode(line.decode("utf-8"))
        if b"\\u" in line:
            json.dumps(value, ensure_ascii=False).encode("utf-8")
        return value
    except UnicodeDecodeError as error:
        raise _invalid(number, f"byte {error.start + 1} is not UTF-8") from None
    except UnicodeEncodeError:
        raise _invalid(number, "a string holds a lone surrogate") from None
    except RecursionError:
        raise _invalid(number, "it is nested too deeply") from None
    except json.JSONDecodeError as error:
        raise _invalid(number, f"{error.msg} at column {error.colno}") from None
    except _Refused as error:
        raise _invalid(number, str(error)) from None


def check_structure(line: bytes) -> None:
    """Refuse a line with too many delimiters outside its strings."""
    if len(line) <= limits.LOAD_LINE_SLOTS:
        return
    bare = _STRING.sub(b"", line)
    slots = sum(bare.count(sign) for sign in _DELIMITERS)
    if slots > limits.LOAD_LINE_SLOTS:
        raise ResourceLimitExceeded("graph_batch_json_structural_slots", slots, limits.LOAD_LINE_SLOTS)


def shown(value: Any) -> str:
    """A value as messages show it."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"


def _invalid(number: int, reason: str) -> OmniGraphError:
    return InvalidRecord(f"invalid strict JSON at line {number}: {reason}")


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        seen: set[str] = set()
        repeated = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise _Refused(f"duplicate JSON member {_quoted(repeated)}")
    return members


def _quoted(name: str) -> str:
    text = name.encode("utf-8", "replace").decode("utf-8")
    return f"'{text if len(text) <= _LONGEST_SHOWN else text[:_LONGEST_SHOWN] + '…'}'"


def _integer(text: str) -> int | float:
    """Exact, unless it is longer than any stored integer: then it can only be meant as a float."""
    return int(text) if len(text) <= _LONGEST_INTEGER else _float(text)


def _float(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise _Refused("number out of range")
    return value


def _word(text: str) -> NoReturn:
    raise _Refused(f"{text} is not a JSON number")


_DECODER = json.JSONDecoder(
    object_pairs_hook=_members, parse_int=_integer, parse_float=_float, parse_constant=_word, strict=True
)
