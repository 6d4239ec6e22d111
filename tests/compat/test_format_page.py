"""`docs/format.md` is enough to read a graph, and it names every field that is written."""

from __future__ import annotations

import ast
import fnmatch
import json
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pytest
import xxhash

import omnigraph as og
from omnigraph import failpoints, limits
from tests.compat import format_page as page
from tests.compat import format_reader
from tests.compat.format_reader import Reader, fnv1a_64
from tests.support.s3_server import S3Server
from tests.write.together import together

SCHEMA = """
interface Named { name: String }
node Person implements Named {
    handle: String @key
    name: String
    age: I32?
    @range(age, 0..150)
    photo: Blob?
    tags: [String]?
    v: Vector(3)? @embed("name", model="acme/one")
    born: Date?
    seen: DateTime?
    kind: enum(a, b)? @index
    ok: Bool?  i: I64?  u: U32?  w: U64?  f: F32?  d: F64?
}
node Team { code: String @key }
node Gone { code: String @key }
edge Follows: Person -> Person { since: Date? }
edge MemberOf: Person -> Team @card(0..2)
edge Likes: Person -> Person
"""
CHANGED = (
    SCHEMA.replace("node Gone { code: String @key }\n", "node Place { code: String @key }\n")
    .replace("age: I32?\n", "age: I64?\n    nick: String?\n")
    .replace("node Team {", 'node Group @rename_from("Team") {')
    .replace("Person -> Team", "Person -> Group")
    .replace("edge Likes: Person -> Person", 'edge Trusts: Person -> Person @rename_from("Likes") { how: I32? }')
)


def _person(number: int) -> dict[str, Any]:
    values: dict[str, Any] = {"handle": f"p{number}", "name": f"Ä {number}", "kind": "a"}
    values |= {"age": number if number % 2 else None}
    values |= {"tags": ["x", "y"][: number % 3], "v": [0.5, 1.5, float(number)], "photo": "base64:AAEC"}
    values |= {"born": "2020-01-02", "seen": "2025-01-01T00:00:01.5Z", "ok": bool(number % 2), "d": number / 3}
    return {"type": "Person", "data": values}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[og.Graph, Path, list[dict[str, Any]]]]:
    """A graph with everything in it, its directory, and every recovery record that was there at any moment."""
    folder = tmp_path_factory.mktemp("format")
    root = folder / "g.omni"
    records: dict[str, dict[str, Any]] = {}

    def look(name: str, *_: object) -> None:
        for file in (root / "__recovery").glob("*.json"):
            records[file.name] = json.loads(file.read_text())

    lines = [_person(number) for number in range(6)]
    lines += [{"type": "Team", "data": {"code": "c1"}}, {"type": "Gone", "data": {"code": "g"}}]
    lines += [{"edge": "Follows", "from": "p0", "to": "p1", "data": {"since": "2020-01-01"}}]
    (folder / "people.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines), "utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(failpoints, "reach", look)
        graph = og.init(root, SCHEMA, actor="act-anna")
        graph.load(folder / "people.jsonl", "append")
        graph.branches.create("review/x")
        rename = 'query q() { update Person set { name: "Bo" } where handle = "p1" }'
        graph.mutate(rename, branch="review/x", message="a better name")
        graph.mutate('query q() { insert Team { code: "c2" } }')
        graph.branches.merge("review/x", delete_branch=True)
        done = together(graph, [partial(graph.mutate, f'query q() {{ insert Gone {{ code: "{n}" }} }}') for n in "abc"])
        assert len({result.commit.version for result in done}) == 2
        graph.ensure_indices()
        graph.mutate('query q() { delete Person where handle = "p4" }')
        before = graph.commits.head().id
        graph.schema.apply(CHANGED)
        graph.optimize()
        graph.branches.create("dev")
        graph.mutate('query q() { insert Group { code: "c3" } }', branch="dev")
        graph.mutate('query q() { delete Follows where from = "p0" }', branch="dev")
        graph.branches.create("dev2", from_="dev")
        graph.mutate('query q() { insert Person { handle: "new", name: "New" } }')
        graph.branches.merge("main", into="dev")  # shows a version of main as it is
        graph.branches.delete("dev2")
        graph.branches.create("empty", at=before)
        graph.branches.create("draft")
        graph.branches.rename("draft", "named")
    yield graph, root, list(records.values())
    graph.close()


def test_the_reader_knows_nothing_of_our_code() -> None:
    for module in (page, format_reader):
        tree = ast.parse(Path(str(module.__file__)).read_text("utf-8"))
        names = [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
        names += [each.name for node in ast.walk(tree) if isinstance(node, ast.Import) for each in node.names]
        assert not [name for name in names if name.startswith("omnigraph")]
        assert {name.split(".")[0] for name in names} <= {
            *("__future__", "ast", "dataclasses", "hashlib", "json", "lance", "pathlib", "re", "tests", "typing"),
            "urllib",
        }


def by_id(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: str(row["id"]))


def test_the_page_alone_reads_every_branch(written: tuple[og.Graph, Path, Any]) -> None:
    graph, root, _ = written
    reader = Reader(root)
    assert reader.branches() == graph.branches.list() == ["main", "dev", "empty", "named"]
    for branch in reader.branches():
        ours, theirs = graph.snapshot(branch), reader.snapshot(branch)
        assert theirs == reader.fold(branch)
        assert (theirs.version, sorted(theirs.tables)) == (ours.version, sorted(ours.tables))
        assert theirs.dropped == (set() if branch == "empty" else {"node:Gone", "node:Team", "edge:Likes"})
        for key, pin in theirs.tables.items():
            type_ = key.partition(":")[2]
            assert by_id(reader.rows(pin)) == by_id(ours.arrow(type_).to_pylist())
    assert {row["id"] for row in reader.rows(reader.snapshot("dev").tables["node:Group"])} == {"c1", "c2", "c3"}


def test_the_page_alone_reads_every_commit_and_its_state(written: tuple[og.Graph, Path, Any]) -> None:
    graph, root, _ = written
    reader = Reader(root)
    for branch in reader.branches():
        ours = graph.commits.list(branch)
        theirs = reader.commits(branch)
        assert [(each["id"], each["branch"], each["version"]) for each in theirs] == [
            (each.id, each.branch, each.version) for each in ours
        ]
        for mine, other in zip(ours, theirs, strict=True):
            assert (mine.parent, mine.merged_parent) == (
                other.get("parent_commit_id"),
                other.get("merged_parent_commit_id"),
            )
            assert mine.to_dict()["created_at"] == other["created_at"]
            assert mine.actor == other.get("actor_id")
    merges = [each for each in reader.commits("dev") if "merged_parent_commit_id" in each]
    assert len(merges) == 2
    for commit, row in list(zip(graph.commits.list(), reader.commits(), strict=True))[:-1]:
        state = reader.snapshot("main", commit.version)
        snapshot = graph.snapshot(at=commit.id)
        assert reader.counts(row) == {key: snapshot.count(key.partition(":")[2]) for key in snapshot.tables}
        assert state.head is not None
        assert graph.catalog_of(at=commit.id).hash == state.head["schema_ir_hash"]


def test_the_page_alone_finds_the_schema_of_a_state(written: tuple[og.Graph, Path, Any]) -> None:
    graph, root, _ = written
    reader = Reader(root)
    first = graph.commits.list()[-2]
    assert reader.schema_text(reader.snapshot()) == graph.schema.text == CHANGED
    assert reader.schema_text(reader.snapshot(version=first.version)) == SCHEMA
    assert reader.live_hash() == graph.schema.hash


def test_the_copies_of_the_commits_are_as_the_page_says(written: tuple[og.Graph, Path, Any]) -> None:
    graph, root, _ = written
    reader = Reader(root)
    graph.close()
    for path, lead in (
        ("_graph_commits.lance", "`_graph_commits.lance` has one Lance branch per graph branch"),
        ("_graph_commit_actors.lance", "`_graph_commit_actors.lance`, never branched"),
    ):
        assert _columns(reader.dataset(path)) == page.columns_after(lead)
    rows = reader.dataset("_graph_commits.lance", "dev").to_table().to_pylist()
    assert {row["graph_commit_id"] for row in rows} == {each["id"] for each in reader.commits("dev")}


def _columns(dataset: Any) -> list[tuple[str, str, bool]]:
    return [(field.name, str(field.type), field.nullable) for field in dataset.schema]


def test_the_tables_have_the_columns_of_the_page(written: tuple[og.Graph, Path, Any]) -> None:
    _, root, _ = written
    reader = Reader(root)
    assert _columns(reader.dataset("__manifest")) == page.columns_after("### Columns of `__manifest`")
    arrow = {
        name: page.code_in(row[1])[0]
        for row in page.rows_after("| schema type | Arrow type |")
        for name in page.code_in(row[0])
    }
    person = {field.name: field for field in reader.dataset("nodes/" + fnv1a_64("Person")).schema}
    wanted = {"handle": "String", "kind": "enum(…)", "age": "I64", "ok": "Bool", "i": "I64", "u": "U32", "w": "U64"}
    wanted |= {"f": "F32", "d": "F64", "born": "Date", "seen": "DateTime", "v": "Vector(3)", "photo": "Blob"}
    wanted |= {"tags": "[String]"}
    assert {name: str(person[name].type) for name in wanted} == {name: arrow[type_] for name, type_ in wanted.items()}
    assert next(iter(person)) == "id"
    assert [name for name in person if not person[name].nullable] == ["id", "handle", "name"]
    follows = reader.dataset("edges/" + fnv1a_64("Follows")).schema
    assert follows.names == ["id", "src", "dst", "since"]
    known = page.names_after("| field metadata | on | value |")
    metadata = {key.decode() for field in person.values() for key in field.metadata or {}}
    assert metadata <= {*known, "lance-schema:unenforced-primary-key"}
    assert metadata >= {"omnigraph.stable_property_id", "omnigraph.blob"}


def test_the_examples_of_names_are_right() -> None:
    for name, path in page.rows_after("the prime is `0x100000001b3`."):
        assert path.strip("`").endswith(fnv1a_64(name.strip("`")))


def test_every_file_of_a_graph_is_on_the_page(written: tuple[og.Graph, Path, Any]) -> None:
    _, root, _ = written
    assert _unknown_files(root) == []
    assert len(list(root.rglob("*"))) > 100


def _unknown_files(root: Path) -> list[str]:
    patterns = [
        re.sub(r"<[^>]+>", "*", name).replace("**", "*") for name in page.names_after("## Files and directories")
    ]
    files = [str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()]
    return [name for name in files if not any(fnmatch.fnmatch(name, pattern) for pattern in patterns)]


def test_every_file_of_a_backup_is_on_the_page_and_a_moved_branch_names_what_the_page_says(
    written: tuple[og.Graph, Path, Any], tmp_path: Path
) -> None:
    _, root, _ = written
    og.backup(root, tmp_path / "safe")
    assert _unknown_files(tmp_path / "safe") == []
    claim = json.loads((tmp_path / "safe" / "__recovery" / "copy.claim").read_bytes())
    assert claim == {"kind": "backup", "source": str(root)}
    assert "`__recovery/copy.claim` has `kind` (`clone` or `backup`) and `source`" in page.TEXT
    for path, size, tag, stored in json.loads((tmp_path / "safe" / "__recovery" / "backup.files").read_bytes()):
        seen = (root / path).stat()
        assert (size, tag) == (seen.st_size, f"{seen.st_mtime_ns}-{seen.st_ino}")
        assert stored == (tmp_path / "safe" / path).stat().st_size
    moved = list((tmp_path / "safe").glob("*/**/tree/**/_versions/*.manifest"))
    assert moved
    for path in moved:
        content = path.read_bytes()
        position, magic = int.from_bytes(content[-16:-8], "little"), content[-4:]
        length = int.from_bytes(content[position : position + 4], "little")
        assert (position + 4 + length, magic) == (len(content) - 16, b"LANC")
        table = str(path).partition("/tree/")[0].encode()
        assert b'"' + bytes([len(table)]) + table in content[position:]
        assert str(root).encode() not in content[position:]


# What is written as JSON, held against the tables of the page.


def test_every_field_of_a_manifest_row_is_on_the_page(written: tuple[og.Graph, Path, Any]) -> None:
    _, root, _ = written
    rows = [
        row
        for branch in ("main", "dev")
        for row in Reader(root).manifest(branch).to_table().to_pylist()
        if row["metadata"] is not None
    ]
    found = {
        kind: {key for row in rows if row["object_type"] in kinds for key in json.loads(row["metadata"])}
        for kind, kinds in {
            "pin": (format_reader.TABLE, format_reader.VERSION),
            "commit": (format_reader.COMMIT,),
            "head": (format_reader.HEAD,),
        }.items()
    }
    pins = set(page.names_after("Fields of the `metadata` of a pin"))
    assert found["pin"] == pins
    commits = set(page.names_after("Fields of the `metadata` of a `graph_commit` row"))
    assert found["commit"] == commits - {"labels"}
    assert found["head"] == set(page.names_after("Fields of the `metadata` of a `graph_head` row"))
    assert {row["object_type"] for row in rows} <= set(page.names_after("### Rows of `__manifest`"))


def test_every_field_of_a_recovery_record_is_on_the_page(written: tuple[og.Graph, Path, Any]) -> None:
    _, _, records = written
    kinds = {record["writer_kind"] for record in records}
    assert kinds == set(page.names_after("| `writer_kind` | writer |"))
    seen: dict[str, set[str]] = {}

    def note(name: str, values: Any) -> None:
        for each in values if isinstance(values, list) else [values]:
            seen.setdefault(name, set()).update(each)

    for record in records:
        note("record", record)
        note("table", record["tables"])
        for table in record["tables"]:
            note("transaction", table["transactions"])
            note(f"operation {table['transactions'][0]['operation']['kind']}", table["transactions"][0]["operation"])
        note("registration", record.get("additional_registrations", []))
        note("tombstone", record.get("tombstones", []))
        note("pointer", record.get("pointers", []))
        note("intent", record["intent"])
        note("commit", record["intent"]["commit"])
        note("base", record["intent"]["base"])
        note("merged", record["intent"].get("merged_commits", []))
        note("schema", record.get("schema", []))
    operations = {page.code_in(row[0])[0]: page.code_in(row[1]) for row in page.rows_after("| `kind` of the operation")}
    assert seen.pop("record") == set(page.names_after("Fields marked *if*")) - {"decision"}
    assert seen.pop("table") == set(page.names_after("Fields of an element of `tables`:"))
    assert seen.pop("transaction") == set(page.names_after("Fields of a staged transaction:"))
    assert seen.pop("tombstone") == set(page.words_between("element of `tombstones`:", ", the version"))
    assert seen.pop("registration") <= set(page.words_between("element of `additional_registrations`:", "*if*"))
    assert seen.pop("pointer") == set(page.names_after("Fields of an element of `pointers`:"))
    intent = {page.code_in(row[0])[0]: set(page.code_in(row[1])) for row in page.rows_after("Fields of `intent`:")}
    assert seen.pop("intent") == set(intent)
    assert seen.pop("commit") == intent["commit"] - {"labels"}
    assert seen.pop("base") == intent["base"] - {"identity"}
    assert seen.pop("merged") == intent["merged_commits"] - {"labels"}
    assert seen.pop("schema") == set(page.names_after("Fields of `schema`:"))
    for name, fields in seen.items():
        kind = name.removeprefix("operation ")
        assert fields == {"kind", *operations[kind]}, name
    assert {name.removeprefix("operation ") for name in seen} == set(operations)


def test_every_field_of_a_branch_entry_is_on_the_page(written: tuple[og.Graph, Path, Any]) -> None:
    _, root, _ = written
    entries = [json.loads((root / f"__branches/{name}.json").read_text()) for name in ("dev", "named", "draft")]
    fields = page.names_after("Fields of a branch entry:")
    assert {name for entry in entries for name in entry} == set(fields)
    assert all(list(entry) == [name for name in fields if name in entry] for entry in entries)
    ref = json.loads((root / "__manifest/_refs/branches/dev.json").read_text())
    assert set(ref) == set(page.names_after("Fields of a Lance ref file"))


def test_every_field_of_the_schema_files_is_on_the_page(written: tuple[og.Graph, Path, Any]) -> None:
    _, root, _ = written
    state = json.loads((root / "__schema_state.json").read_text())
    assert list(state) == page.names_after("`__schema_state.json`:\n")
    keys = {row[0]: re.findall(r"`([a-z_]+)`", row[1]) for row in page.rows_after("Objects of the compiled schema")}
    compiled = json.loads((root / "_schema.ir.json").read_text())
    person = next(each for each in compiled["nodes"] if each["name"] == "Person")
    assert list(compiled) == keys["schema"]
    assert list(compiled["interfaces"][0]) == keys["interface"]
    assert list(person) == keys["node"]
    assert list(compiled["edges"][0]) == keys["edge"]
    assert list(compiled["edges"][0]["cardinality"]) == keys["cardinality"]
    assert list(person["properties"][0]) == keys["property"]
    assert list(person["properties"][0]["prop_type"]) == keys["type"]
    annotated = {each["name"]: each["annotations"] for each in person["properties"]}
    assert [list(annotated[name][0]) for name in ("handle", "v")] == [keys["annotation"][:2], keys["annotation"][:3]]


@pytest.mark.s3
def test_every_field_of_a_lease_and_a_claim_is_on_the_page(
    s3: S3Server, s3_root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    claims: list[bytes] = []
    bucket, _, prefix = s3_root.removeprefix("s3://").partition("/")
    client = s3.client()

    def look(name: str, *_: object) -> None:
        if name == "init.after_tables_created":
            claims.append(client.get_object(Bucket=bucket, Key=f"{prefix}/__recovery/init.claim")["Body"].read())

    monkeypatch.setattr(failpoints, "reach", look)
    with og.init(s3_root, "node A { x: String @key }") as graph:
        graph.mutate('query q() { insert A { x: "1" } }')
    lease = json.loads(client.get_object(Bucket=bucket, Key=f"{prefix}/__recovery/branch.main.lease")["Body"].read())
    assert list(lease) == page.names_after("changed by compare-and-swap only and never removed:")
    assert [list(json.loads(claim)) for claim in claims] == [["tables"]]
    assert "`__recovery/init.claim` has one field, `tables`" in page.TEXT


def test_the_digest_of_a_column_is_made_as_the_page_says(written: tuple[og.Graph, Path, Any]) -> None:
    _, root, _ = written
    reader = Reader(root)
    rows = reader.manifest("main").to_table().to_pylist()
    person = next(row for row in rows if row["object_id"] == f"node:Person${2:020d}")
    ((file, text),) = json.loads(person["metadata"])["digests"].items()
    dataset = reader.dataset("nodes/" + fnv1a_64("Person"), version=2)
    (fragment,) = dataset.get_fragments()
    assert fragment.metadata.files[0].path == file
    names = dataset.schema.names
    assert text.startswith("xxh3:")
    assert len(text) == len("xxh3:") + 16 * len(names)
    recorded = {name: text[5 + 16 * place : 21 + 16 * place] for place, name in enumerate(names)}
    values = dataset.to_table(columns=["id", "age", "tags"])
    assert recorded["id"] == _digest(6, b"", *_texts(values.column("id").to_pylist()))
    ages = values.column("age").to_pylist()
    nulls = np.array([place for place, age in enumerate(ages) if age is None], "<u8").tobytes()
    numbers = np.array([age for age in ages if age is not None], "<i4").tobytes()
    assert recorded["age"] == _digest(6, nulls, b"", numbers)
    tags = values.column("tags").to_pylist()
    items = [tag for each in tags for tag in each]
    lengths = np.array([len(each) for each in tags], "<i8").tobytes()
    assert recorded["tags"] == _digest(6, b"", lengths, b"", _digest(len(items), b"", *_texts(items)))


def _texts(values: list[str]) -> tuple[bytes, bytes]:
    encoded = [value.encode() for value in values]
    return np.array([len(each) for each in encoded], "<i8").tobytes(), b"".join(encoded)


def _digest(rows: int, nulls: bytes, lengths: bytes, content: bytes, *members: str) -> str:
    streams = b"".join(xxhash.xxh3_64(part).digest() for part in (nulls, lengths, content))
    whole = rows.to_bytes(8, "little") + streams + "".join(members).encode()
    return xxhash.xxh3_64_hexdigest(whole)


def test_the_numbers_of_the_page_are_those_of_the_code() -> None:
    assert f"the stamp **{limits.INTERNAL_SCHEMA_VERSION}**" in page.TEXT
    assert f"at most {limits.MANIFEST_RECENT_ROWS} rows of the past" in page.TEXT
    assert f"more than\n{limits.MANIFEST_FRAGMENTS} small fragments" in page.TEXT
    assert f"above {limits.MANIFEST_RECENT_CHARACTERS:,} characters" in page.TEXT
    assert f"at most {limits.BRANCH_NAME_BYTES} bytes" in page.TEXT


def test_a_topology_file_is_as_the_page_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "PERSISTED_EDGES", 1)
    with og.init(tmp_path / "g.omni", "node A { x: String @key }  edge E: A -> A") as graph:
        graph.mutate('query q() { insert A { x: "1" } insert A { x: "2" } insert E { from: "1", to: "2" } }')
        graph.ensure_indices()
    (file,) = (tmp_path / "g.omni/__topology").rglob("*.arrays")
    assert file.parent.name == f"edges.{fnv1a_64('E')}"
    raw = file.read_bytes()
    first, second, _ = raw.split(b"\n", 2)
    assert f"`{first.decode()}`" in page.TEXT
    described = json.loads(second)
    assert described["header"] == {"location": f"edges/{fnv1a_64('E')}", "version": int(file.stem)}
    assert set(described["arrays"]) == set(page.names_after("| array | content |"))
    start = -(-(len(first) + len(second) + 2) // 64) * 64
    arrays = {
        name: np.frombuffer(raw, place["type"], place["length"], start + place["offset"])
        for name, place in described["arrays"].items()
    }
    source = int(np.flatnonzero(np.diff(arrays["out_starts"]))[0])
    target = int(arrays["out_targets"][arrays["out_starts"][source]])
    dataset = lance.dataset(str(tmp_path / "g.omni/nodes" / fnv1a_64("A")))
    ids = {row["_rowid"]: row["id"] for row in dataset.to_table(columns=["id"], with_row_id=True).to_pylist()}
    assert ids[int(arrays["source_row_ids"][source])] == "1"
    assert ids[int(arrays["target_row_ids"][target])] == "2"
