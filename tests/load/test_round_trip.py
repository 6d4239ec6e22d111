"""An export loads again as the same graph, and exports again as the same bytes, for any schema and any values."""

from __future__ import annotations

import base64
import json
import math
import struct
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import omnigraph as og

TEXT = st.text(st.characters(codec="utf-8"), max_size=8) | st.sampled_from(
    ["", '"', "\\", "\u2028", "\0", "é\n", "null"]
)
NARROW = st.floats(width=32, allow_nan=False, allow_infinity=False)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "String": TEXT,
    "Bool": st.booleans(),
    "I32": st.integers(-(2**31), 2**31 - 1),
    "I64": st.integers(-(2**63), 2**63 - 1),
    "U32": st.integers(0, 2**32 - 1),
    "U64": st.integers(0, 2**64 - 1),
    "F32": NARROW,
    "F64": st.floats(allow_nan=False, allow_infinity=False),
    "Date": st.integers(-719162, 2932896) | st.dates().map(str),
    "DateTime": st.integers(-62135596800000, 253402300799999) | st.sampled_from(["2025-06-01T10:00:00.5+02:00"]),
    "enum(a, b)": st.sampled_from(["a", "b"]),
    "Vector(3)": st.lists(NARROW, min_size=3, max_size=3),
    "Blob": st.binary(max_size=20).map(lambda data: "base64:" + base64.b64encode(data).decode()),
}
LISTED = ("String", "Bool", "I32", "I64", "U32", "U64", "F32", "F64", "Date", "DateTime")
NAMES = st.from_regex(r"[a-z][A-Za-z0-9_]{0,6}", fullmatch=True).filter(
    lambda name: name not in {"id", "src", "dst", "from", "to", "k"}
)


@st.composite
def properties(draw: st.DrawFn) -> dict[str, tuple[str, st.SearchStrategy[Any]]]:
    """Names with a type as the schema spells it and the values it takes."""
    found = {}
    for name in draw(st.lists(NAMES, unique=True, max_size=6)):
        kind = draw(st.sampled_from(sorted(VALUES)))
        values = VALUES[kind]
        if kind in LISTED and draw(st.booleans()):
            kind, values = f"[{kind}]", st.lists(values, max_size=4)
        if draw(st.booleans()):
            kind, values = f"{kind}?", st.none() | values
        found[name] = (kind, values)
    return found


@st.composite
def graphs(draw: st.DrawFn) -> tuple[str, list[dict[str, Any]]]:
    """A schema and the records of a graph of it."""
    node, edge = draw(properties()), draw(properties())
    keys = draw(st.lists(TEXT, unique=True, min_size=1, max_size=6))
    records: list[dict[str, Any]] = [
        {"type": "N", "data": {"k": key, **{name: draw(values) for name, (_, values) in node.items()}}} for key in keys
    ]
    for number in range(draw(st.integers(0, 6))):
        data = {"id": f"e{number}", **{name: draw(values) for name, (_, values) in edge.items()}}
        ends = {"from": draw(st.sampled_from(keys)), "to": draw(st.sampled_from(keys))}
        records.append({"edge": "E", **ends, "data": data})
    body, other = (" ".join(f"{name}: {kind}" for name, (kind, _) in each.items()) for each in (node, edge))
    return f"node N {{ k: String @key {body} }} edge E: N -> N {{ {other} }}", draw(st.permutations(records))


@settings(max_examples=12)
@given(graph=graphs(), ascii_only=st.booleans())
def test_a_loaded_export_is_the_same_graph(graph: tuple[str, list[dict[str, Any]]], ascii_only: bool) -> None:
    _round_trip(*graph, ascii_only)


@pytest.mark.torture
@given(graph=graphs(), ascii_only=st.booleans())
def test_a_loaded_export_is_the_same_graph_many_times(
    graph: tuple[str, list[dict[str, Any]]], ascii_only: bool
) -> None:
    _round_trip(*graph, ascii_only)


def _round_trip(schema: str, records: list[dict[str, Any]], ascii_only: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        lines = (json.dumps(record, ensure_ascii=ascii_only) for record in records)
        (root / "in.jsonl").write_text("\n".join(lines), "utf-8", newline="")
        with og.init(root / "a", schema) as first, og.init(root / "b", schema) as second:
            first.load(root / "in.jsonl", "append")
            first.export(root / "out.jsonl")
            second.load(root / "out.jsonl", "overwrite")
            assert second.export().text == first.export().text
            for name in ("N", "E"):
                assert _rows(second, name) == _rows(first, name)
            assert _meaning(first) == {_identity(record): _plain(record["data"]) for record in records}


def _rows(graph: og.Graph, name: str) -> list[Any]:
    rows: list[Any] = graph.snapshot().arrow(name).sort_by("id").to_pylist()
    return rows


def _meaning(graph: og.Graph) -> dict[Any, Any]:
    """What the export says, as values, without what was derived."""
    found = {}
    for line in (graph.export().text or "").split("\n")[:-1]:
        record = json.loads(line)
        if "type" in record:
            assert record["data"].pop("id") == record["data"]["k"]
        found[_identity(record)] = _plain(record["data"])
    return found


def _identity(record: dict[str, Any]) -> Any:
    return ("N", record["data"]["k"]) if "type" in record else ("E", record["data"]["id"], record["from"], record["to"])


def _plain(data: dict[str, Any]) -> dict[str, Any]:
    """Values that are equal when they mean the same: dates given as text have no other form than their number."""
    return {name: _value(value) for name, value in data.items()}


def _value(value: Any) -> Any:
    if isinstance(value, list):
        return [_value(item) for item in value]
    if isinstance(value, float):
        return struct.pack("<d", value) if math.isfinite(value) else value
    return _as_number(value) if isinstance(value, str) else value


def _as_number(text: str) -> Any:
    from omnigraph.query.temporal import parse_date, parse_datetime, to_days, to_millis

    if text == "2025-06-01T10:00:00.5+02:00":
        return to_millis(parse_datetime(text))
    try:
        return to_days(parse_date(text))
    except ValueError:
        return text
