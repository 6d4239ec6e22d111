"""The compiled schema: numbers, canonical form, hash, and the way back."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.errors import CorruptGraph, NewerFormat
from omnigraph.schema import Catalog, compile_schema
from omnigraph.schema.catalog import Annotation
from omnigraph.schema.ir import catalog_from_ir, ir_hash
from omnigraph.schema.stable_ids import fnv1a_32, fnv1a_64, prop_id, table_path, type_id
from tests.schema.library import LIBRARY
from tests.schema.strategies import Draft, drafts


@pytest.mark.parametrize(
    ("kind", "name", "path"),
    [
        ("node", "Person", "nodes/40d76f1f51639ec0"),
        ("node", "Company", "nodes/7cb4e55c59663b1c"),
        ("node", "Document", "nodes/a311a24c1471a974"),
        ("edge", "Knows", "edges/602a25a3bd0b455b"),
        ("edge", "WorksAt", "edges/844eefbe5068b644"),
        ("node", "person", "nodes/5bd49c0b7a0b61e0"),
        ("node", "Straße", "nodes/fdad232cfde89ed8"),
    ],
)
def test_table_path(kind: str, name: str, path: str) -> None:
    assert table_path(kind, name) == path


def test_published_hash_vectors() -> None:
    assert fnv1a_64("a") == 0xAF63DC4C8601EC8C
    assert fnv1a_64("foobar") == 0x85944171F73967E8
    assert fnv1a_32("foobar") == 0xBF9CF968


def test_stable_ids() -> None:
    assert type_id("node", "Person") == 3227219152
    assert type_id("edge", "Knows") == 2041814322
    assert prop_id("node", "Person", "name") == 1466009789


def test_ir_of_a_small_schema() -> None:
    ir = compile_schema(
        'node Person @instruction("i") @rename_from("Human") { v: Vector(3) name: String? @unique @rename_from("n") '
        "age: I32 k: enum(b, a) @key(k, age) @range(age, ..9) } edge Knows: Person -> Person @card(1..)"
    ).ir
    assert list(ir) == ["ir_version", "interfaces", "nodes", "edges"]
    assert (ir["ir_version"], ir["interfaces"]) == (1, [])
    (person,) = ir["nodes"]
    assert person["type_id"] == 3227219152
    assert person["annotations"] == [{"name": "instruction", "value": "i", "keywords": {}}]
    assert person["constraints"] == [
        {"Key": ["age", "k"]},
        {"Unique": ["name"]},
        {"Range": {"property": "age", "min": None, "max": 9}},
    ]
    assert [each["name"] for each in person["properties"]] == ["age", "k", "name", "v"]
    assert person["properties"][1]["type"]["enum_values"] == ["a", "b"]
    assert person["properties"][2] == {
        "name": "name",
        "prop_id": 1466009789,
        "type": {"scalar": "String", "nullable": True, "list": False, "enum_values": None},
        "annotations": [{"name": "unique", "value": None, "keywords": {}}],
    }
    assert person["properties"][3]["type"]["scalar"] == {"Vector": 3}
    (knows,) = ir["edges"]
    assert (knows["from_type"], knows["to_type"]) == ("Person", "Person")
    assert knows["cardinality"] == {"min": 1, "max": None}


def test_stored_text_has_the_hash_of_the_schema() -> None:
    compiled = compile_schema(LIBRARY)
    assert compiled.hash.startswith("sha256:")
    assert len(compiled.hash) == len("sha256:") + 64
    assert ir_hash(json.loads(compiled.ir_text)) == compiled.hash
    assert compiled.ir_text.startswith('{\n  "ir_version": 1,\n')


@pytest.mark.parametrize(
    "change",
    [
        ("year: I32", "year: I64"),
        ("year: I32", "year: I32?"),
        ("doi: String @key", "doi: String @key(doi)"),
        ("@card(1..3)", "@card(1..2)"),
        ("draft, ", ""),
        ('"A writer"', '"The writer"'),
        ("implements Titled {", "implements Titled { title: String @index"),
        ("@unique(src, dst)", ""),
        ("^10", "^11"),
        ("acme/embed-1", "acme/embed-2"),
    ],
)
def test_a_change_of_meaning_changes_the_hash(change: tuple[str, str]) -> None:
    changed = LIBRARY.replace(*change)
    assert changed != LIBRARY
    assert compile_schema(changed).hash != compile_schema(LIBRARY).hash


@pytest.mark.parametrize(
    "change",
    [
        ("// library of papers\n", ""),
        ("draft, in-review, final", "final, draft, in-review"),
        ("@key(last, first)", "@key(first, last)"),
        ("@unique(src, dst)", "@unique(dst, src)"),
        ("year: I32", 'year: I32 @rename_from("published")'),
        ("@range(score, 0.0..1.0)", "@range(score, 0..1)"),
        ("edge Cites: Paper -> Paper", "edge Cites: Paper -> Paper @card(0..) {}"),
    ],
)
def test_a_change_of_words_keeps_the_hash(change: tuple[str, str]) -> None:
    changed = LIBRARY.replace(*change)
    assert changed != LIBRARY
    assert compile_schema(changed).hash == compile_schema(LIBRARY).hash


@given(drafts(), st.integers())
def test_order_spaces_and_comments_keep_the_hash(draft: Draft, seed: int) -> None:
    one, other = compile_schema(draft.text()), compile_schema(draft.another_text(seed))
    assert other.hash == one.hash
    assert other.catalog == one.catalog


@given(drafts())
def test_catalog_survives_the_stored_form(draft: Draft) -> None:
    compiled = compile_schema(draft.text())
    assert catalog_from_ir(json.loads(compiled.ir_text)) == compiled.catalog


def test_catalog_from_stored_form_has_no_rename_hints() -> None:
    compiled = compile_schema('node A @rename_from("B") @note { p: String }')
    node = replace(compiled.catalog.nodes["A"], annotations=(Annotation("note"),))
    assert catalog_from_ir(compiled.ir) == Catalog({}, {"A": node}, {})


def test_stored_form_of_newer_software_is_refused() -> None:
    with pytest.raises(NewerFormat, match="version 2"):
        catalog_from_ir({"ir_version": 2})


@pytest.mark.parametrize(
    "ir",
    [
        {},
        {"ir_version": "1"},
        {"ir_version": 1},
        {"ir_version": 1, "interfaces": None, "nodes": [], "edges": []},
        {"ir_version": 1, "interfaces": [], "nodes": [{"name": "A"}], "edges": []},
        {"ir_version": 1, "interfaces": [{"name": "I", "properties": [7]}], "nodes": [], "edges": []},
    ],
)
def test_stored_form_with_missing_parts_is_refused(ir: dict[str, Any]) -> None:
    with pytest.raises(CorruptGraph, match="compiled schema"):
        catalog_from_ir(ir)
