"""The compiled schema: numbers, canonical form, hash, and the way back."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.errors import CorruptGraph, NewerFormat
from omnigraph.schema import compile_schema
from omnigraph.schema.earlier_spelling import earlier_ir
from omnigraph.schema.ir import catalog_from_ir, ir_hash, ir_of
from omnigraph.schema.schema_difference import first_difference
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
    assert person["annotations"] == [{"name": "instruction", "value": "i"}, {"name": "rename_from", "value": "Human"}]
    assert person["constraints"] == [
        {"Key": ["age", "k"]},
        {"Range": {"property": "age", "min": None, "max": {"Integer": 9}}},
        {"Unique": ["name"]},
    ]
    assert [each["name"] for each in person["properties"]] == ["age", "k", "name", "v"]
    assert person["properties"][1]["prop_type"]["enum_values"] == ["a", "b"]
    assert person["properties"][2] == {
        "name": "name",
        "prop_id": 1466009789,
        "prop_type": {"scalar": "String", "nullable": True, "list": False, "enum_values": None},
        "annotations": [{"name": "rename_from", "value": "n"}, {"name": "unique", "value": None}],
    }
    assert person["properties"][3]["prop_type"]["scalar"] == {"Vector": 3}
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
        ("year: I32", 'year: I32 @rename_from("published")'),
        ("@range(score, 0.0..1.0)", "@range(score, 0..1)"),
        ("@unique(src, dst)", ""),
        ("^10", "^11"),
        ("acme/embed-1", "acme/embed-2"),
    ],
)
def test_a_change_that_is_compiled_changes_the_hash(change: tuple[str, str]) -> None:
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
        ("implements Titled {", "implements Titled { title: String @index"),
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
def test_schema_survives_its_stored_forms(draft: Draft) -> None:
    compiled = compile_schema(draft.text())
    again = catalog_from_ir(json.loads(compiled.ir_text))
    assert ir_of(again) == compiled.ir
    assert first_difference(again, compiled.catalog) is None
    earlier = catalog_from_ir(json.loads(json.dumps(earlier_ir(compiled.catalog))))
    assert first_difference(earlier, compiled.catalog) is None


_EVERYTHING = """
interface Named { name: String @index }
node Person @owner(7) @owner("hr", team="x") implements Named {
    handle: String @key @rename_from("nick")  ratio: F64?  age: I32? @index
    @index(handle) @range(ratio, 0..1) @range(age, ..150)  @check(handle, "^[a-zé]+$")
}
"""


def test_spelling_of_what_is_easily_missed() -> None:
    compiled = compile_schema(_EVERYTHING)
    person = compiled.ir["nodes"][0]
    assert list(person) == ["name", "type_id", "annotations", "implements", "properties", "constraints"]
    assert person["annotations"] == [
        {"name": "owner", "value": "7"},
        {"name": "owner", "value": "hr", "keywords": {"team": "x"}},
    ]
    assert [each["name"] for each in person["properties"]] == ["age", "handle", "name", "ratio"]
    assert list(person["properties"][0]) == ["name", "prop_id", "prop_type", "annotations"]
    assert person["properties"][1]["annotations"] == [
        {"name": "key", "value": None},
        {"name": "rename_from", "value": "nick"},
    ]
    assert person["constraints"] == [
        {"Check": {"property": "handle", "pattern": "^[a-zé]+$"}},
        {"Index": ["age"]},
        {"Index": ["handle"]},  # repeats the key
        {"Index": ["name"]},
        {"Key": ["handle"]},
        {"Range": {"property": "age", "min": None, "max": {"Integer": 150}}},
        {"Range": {"property": "ratio", "min": {"Integer": 0}, "max": {"Integer": 1}}},  # as it was written
    ]
    assert compiled.ir_text.endswith("}") and "é" in compiled.ir_text
    assert compiled.hash == "sha256:179d4b3f1247a8fbe535d19d61238ce9ea52d9d4097fa23007f4b455dae3911e"


def test_hashes_of_the_earlier_spelling_are_known() -> None:
    small = (
        'node Person @note(3) { name: String @key @rename_from("title") score: F64? rank: I32? @index @index(name) '
        "@range(score, 0..1) @range(rank, ..9) }"
    )
    for text, earlier in (
        (LIBRARY, "sha256:e04b7843c6b32782fda87e64afca69df97ffc948ecb3f2b8f23ff9d1d523698d"),
        (small, "sha256:c7750c6838cb653c06d9c0dc75b4c8521c9a2dc3077874b7200c28934d074c71"),
    ):
        compiled = compile_schema(text)
        assert compiled.hashes == (compiled.hash, earlier)
        named = compiled.named(earlier)
        assert named is not None
        assert (named.hash, named.catalog.hash, ir_hash(json.loads(named.ir_text))) == (earlier,) * 3
        assert named.named(compiled.hash) == compiled
    assert compile_schema(LIBRARY).named("sha256:00") is None


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
