"""Wanted and unbuilt indexes."""

from __future__ import annotations

from omnigraph.schema import compile_schema
from omnigraph.schema.index_plan import IndexKind, IndexPlan, NotBuilt, index_plan


def _node(body: str) -> IndexPlan:
    return index_plan(compile_schema(f"node A {{ {body} }}").catalog.nodes["A"])


def _edge(body: str) -> IndexPlan:
    return index_plan(compile_schema(f"node A {{}} edge E: A -> A {{ {body} }}").catalog.edges["E"])


def _wanted(plan: IndexPlan) -> dict[str, str]:
    assert len({index.column for index in plan.wanted}) == len(plan.wanted)
    return {index.column: str(index.kind) for index in plan.wanted}


def test_every_node_has_an_index_on_its_id() -> None:
    assert _wanted(_node("")) == {"id": "BTREE"}


def test_every_edge_has_indexes_on_id_and_endpoints() -> None:
    assert _wanted(_edge("")) == {"id": "BTREE", "src": "BTREE", "dst": "BTREE"}


def test_kind_follows_the_type() -> None:
    columns = {
        "a": "String",
        "b": "enum(x, y)",
        "c": "Bool",
        "d": "I32?",
        "e": "U64",
        "f": "F32",
        "g": "Date",
        "h": "DateTime",
        "i": "Vector(3)",
    }
    plan = _node(" ".join(f"{name}: {type_} @index" for name, type_ in columns.items()))
    kinds = dict.fromkeys("bcdefgh", "BTREE") | {"a": "INVERTED", "i": "VECTOR"}
    assert _wanted(plan) == {"id": "BTREE"} | kinds
    assert plan.unbuilt == ()


def test_key_implies_an_index() -> None:
    assert _wanted(_node("a: I64 @key")) == {"id": "BTREE", "a": "BTREE"}
    assert _wanted(_node("a: String @key @index")) == {"id": "BTREE", "a": "INVERTED"}


def test_composite_key_is_covered_by_the_id() -> None:
    plan = _node("a: I64 b: I64 @key(a, b)")
    assert _wanted(plan) == {"id": "BTREE"}
    assert plan.unbuilt == ()


def test_both_spellings_are_one_index() -> None:
    assert _wanted(_node("a: I64 @index @index(a)")) == {"id": "BTREE", "a": "BTREE"}


def test_composite_and_list_indexes_are_unsupported() -> None:
    plan = _node("a: I64 b: I64 l: [I64] @index(b, a) @index(l)")
    assert [(each.columns, each.status) for each in plan.unbuilt] == [
        (("a", "b"), NotBuilt.UNSUPPORTED),
        (("l",), NotBuilt.UNSUPPORTED),
    ]
    assert all(each.reason for each in plan.unbuilt)


def test_edge_property_index_is_pending() -> None:
    plan = _edge("a: I64 @index b: I64 @index(src) @index(src, b)")
    assert [(each.columns, each.status) for each in plan.unbuilt] == [
        (("a",), NotBuilt.PENDING),
        (("b", "src"), NotBuilt.UNSUPPORTED),
    ]
    assert {index.kind for index in plan.wanted} == {IndexKind.BTREE}
