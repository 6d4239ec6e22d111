"""Commands that read: every format, piped and on a terminal, and their main errors."""

from __future__ import annotations

import json
import shutil

import omnigraph as og
from tests.cli.conftest import DATA
from tests.support.command_line import CommandLine

PEOPLE = ("query", "people", "--store", "people.omni", "--query", "people.gq")


def test_a_read_is_a_table_unless_told_otherwise(reader: CommandLine) -> None:
    ended = reader.ok(*PEOPLE)
    assert ended.out == (
        "3 rows from branch main via people\n"
        "p.handle | name             | age\n"
        "---------+------------------+-----\n"
        "ana      | Ana Ruiz 🎉      | 34\n"
        'bo       | Bo "B" Chen, jr. | null\n'
        "cy       | Cy\\nDiaz         | 7\n"
    )
    assert ended.err == ""
    assert reader.on_terminal(*PEOPLE).out == ended.out


def test_csv_quotes_what_needs_it(reader: CommandLine) -> None:
    assert reader.ok(*PEOPLE, "--format", "csv").out == (
        'p.handle,name,age\nana,Ana Ruiz 🎉,34\nbo,"Bo ""B"" Chen, jr.",\ncy,"Cy\nDiaz",7\n'
    )


def test_json_lines_start_with_what_was_asked(reader: CommandLine) -> None:
    first, *rows = map(json.loads, reader.ok(*PEOPLE, "--format", "jsonl").out.splitlines())
    assert first == {
        "kind": "metadata",
        "query_name": "people",
        "target": {"branch": "main", "snapshot": None},
        "row_count": 3,
    }
    assert [row["name"] for row in rows] == ["Ana Ruiz 🎉", 'Bo "B" Chen, jr.', "Cy\nDiaz"]


def test_json_is_the_envelope_that_python_gives(reader: CommandLine) -> None:
    ended = reader.ok(*PEOPLE, "--json")
    with og.open(reader.folder / "people.omni", mode="ro") as graph:
        result = graph.query(reader.folder / "people.gq", "people")
    assert ended.json == result.to_dict()
    assert ended.out == json.dumps(result.to_dict(), indent=2, ensure_ascii=False) + "\n"


def test_key_and_value_lines_show_one_row_after_the_other(reader: CommandLine) -> None:
    ended = reader.ok(*PEOPLE, "--format", "kv")
    assert ended.out.startswith(
        "3 rows from branch main via people\nrow 1\np.handle: ana\nname: Ana Ruiz 🎉\nage: 34\n\n"
    )
    one = ("--params", '{"who": "nobody"}', "--format", "kv")
    none = reader.ok("query", "person", "--store", "people.omni", "--query", "people.gq", *one)
    assert none.out == "0 rows from branch main via person\n(no rows)\n"


def test_the_past_is_read_by_commit_version_and_time(shell: CommandLine) -> None:
    before = shell.ok("commit", "list", "people.omni", "--json").json["commits"][0]
    rename = ("mutate", "rename", "--store", "people.omni", "--query", "people.gq")
    shell.ok(*rename, "--params", '{"handle": "ana", "name": "Anna"}')
    ask = ("query", "person", "--store", "people.omni", "--query", "people.gq", "--params", '{"who": "ana"}', "--json")
    assert shell.ok(*ask).json["rows"] == [{"name": "Anna"}]
    for moment in (before["graph_commit_id"], str(before["graph_manifest_version"])):
        past = shell.ok(*ask, "--snapshot", moment).json
        assert past["rows"] == [{"name": "Ana Ruiz 🎉"}]
        assert past["target"] == {"branch": None, "snapshot": moment}
    assert shell.run(*ask, "--snapshot", "1999-01-01").code == 1
    both = shell.run(*ask, "--snapshot", "1", "--branch", "main")
    assert (both.code, both.json["code"]) == (2, "usage")


def test_a_wrong_query_shows_where_it_is_wrong(reader: CommandLine) -> None:
    (reader.folder / "wrong.gq").write_text(
        "query q() {\n    match { $p: Persn }\n    return { $p.name }\n}\n", "utf-8"
    )
    ended = reader.run("query", "--store", "people.omni", "--query", "wrong.gq")
    assert (ended.code, ended.out) == (1, "")
    assert ended.err == (
        "error: wrong.gq:2:13: type error: T1: unknown node type `Persn`\n      match { $p: Persn }\n              ^\n"
        "hint: did you mean 'Person'?\n"
    )


def test_reads_that_cannot_be_meant_say_so_in_one_sentence(reader: CommandLine) -> None:
    store = ("--store", "people.omni")
    cases = [
        (("query", *store, "--query", "missing.gq"), 1, "error: missing.gq does not exist\n"),
        (("query", *store, "-e", "  "), 2, "error: the query text given with -e is blank\n"),
        (("query", "stored", *store), 2, "error: 'query' needs a query text: stored queries belong to a server"),
        (("query", *store, "-e", "x", "--query", "people.gq"), 2, "error: --query and -e both give a query text\n"),
        ((*PEOPLE, "--params", "[1]"), 2, "error: --params must be a JSON object"),
        ((*PEOPLE, "--branch", "gone"), 1, "error: there is no branch 'gone'"),
        (("query", "person", *store, "--query", "people.gq"), 1, "error: "),
        (("query", "add", *store, "--query", "people.gq"), 1, "error: "),
        ((*PEOPLE, "--format", "xml"), 2, "Usage: omnigraph query"),
        (("query", "people", "--store", "nothing.omni", "--query", "people.gq"), 1, "error: there is no graph at "),
    ]
    for words, code, said in cases:
        ended = reader.run(*words)
        assert (ended.code, ended.out) == (code, ""), words
        assert ended.err.startswith(said), ended.err
        assert "Traceback" not in ended.err


def test_debug_shows_the_stack_trace(reader: CommandLine) -> None:
    ended = reader.run(
        "--debug", "query", "--store", "nothing.omni", "-e", "query q() { match { $p: P } return { $p.x } }"
    )
    assert ended.code == 1
    assert "Traceback (most recent call last)" in ended.err
    assert ended.err.splitlines()[-2].startswith("error: there is no graph at ")


def test_explain_shows_the_steps_and_with_run_what_they_did(reader: CommandLine) -> None:
    words = ("explain", "people", "--store", "people.omni", "--query", "people.gq")
    assert "scan $p: Person" in reader.ok(*words).out
    ran = reader.ok(*words, "--run", "--json").json
    assert ran["row_count"] == 3
    assert ran["steps"][0]["rows"] == 3


def test_lint_checks_a_file_against_a_graph_or_a_schema(reader: CommandLine) -> None:
    good = reader.ok("lint", "--query", "people.gq", "people.omni")
    assert good.out.splitlines()[0] == "OK people [read]"
    assert good.out.splitlines()[-1] == "4 queries: 0 errors, 1 warnings, 0 infos"
    (reader.folder / "bad.gq").write_text("query q() {\n  match { $p: Persn }\n  return { $p.name }\n}\n", "utf-8")
    bad = reader.run("lint", "--schema", "people.pg", "--query", "bad.gq", "--json")
    assert (bad.code, bad.json["status"], bad.json["errors"]) == (1, "error", 1)
    assert bad.json["schema_source"] == {"kind": "file", "path": "people.pg"}
    shown = reader.run("lint", "--schema", "people.pg", "--query", "bad.gq")
    assert shown.code == 1
    assert shown.out.startswith("ERROR q: type error: T1: unknown node type `Persn` (bad.gq:2:11)\n")


def test_an_export_is_what_a_load_reads(shell: CommandLine) -> None:
    ended = shell.ok("export", "people.omni")
    assert [json.loads(line).get("edge") for line in ended.out.splitlines()[:2]] == ["Follows", "MemberOf"]
    (shell.folder / "out.jsonl").write_text(ended.out, "utf-8")
    shell.ok("init", "copy.omni", "--schema", "people.pg")
    shell.ok("load", "copy.omni", "--data", "out.jsonl", "--mode", "append", "--quiet")
    assert shell.ok("export", "copy.omni").out == ended.out
    assert len(ended.out.splitlines()) == len(DATA.splitlines())
    only = shell.ok("export", "people.omni", "--type", "Team")
    assert only.out == '{"type":"Team","data":{"id":"c1","code":"c1","kind":"core"}}\n'
    csv = shell.ok("export", "people.omni", "--type", "Team", "--format", "csv")
    assert csv.out == 'id,code,kind\n"c1","c1","core"\n'
    assert shell.ok("export", "people.omni", "--type", "Team", "--out", "team.csv").out == ""
    assert (shell.folder / "team.csv").read_text() == csv.out
    shell.ok("export", "people.omni", "--out", "out", "--format", "parquet")
    assert sorted(path.name for path in (shell.folder / "out").iterdir())[:2] == ["Follows.parquet", "MemberOf.parquet"]
    several = shell.run("export", "people.omni", "--out", "all.csv")
    assert several.err.startswith("error: all.csv holds rows of one type in format csv, and there are 4 to export\n")
    unknown = shell.run("export", "people.omni", "--type", "Nothing")
    assert (unknown.code, unknown.out) == (1, "")
    assert unknown.err == "error: unknown export type 'Nothing'\nhint: known: Follows, MemberOf, Person, Team\n"


def test_snapshot_and_verify_say_what_a_graph_consists_of(reader: CommandLine) -> None:
    lines = reader.ok("snapshot", "people.omni").out.splitlines()
    assert lines[0] == "graph_branch: main"
    assert lines[2] == f"internal_schema_version: {og_layout()}"
    assert lines[-1] == "node type 'Team' published_dataset_version=2 native_dataset_branch=main entities=1"
    shown = reader.ok("snapshot", "people.omni", "--json").json
    kinds = [(table["entity_kind"], table["type_name"], table["entity_count"]) for table in shown["datasets"]]
    assert kinds == [("edge", "Follows", 1), ("edge", "MemberOf", 1), ("node", "Person", 3), ("node", "Team", 1)]
    assert reader.ok("verify", "people.omni", "--json").json["ok"] is True
    deep = reader.ok("verify", "--deep", "people.omni", "--json").json
    assert deep["problems"] == []
    assert [check["count"] for check in deep["checks"] if check["name"] == "digests"] == [4]


def test_recover_mends_what_verify_says_it_does(shell: CommandLine) -> None:
    shutil.rmtree(shell.folder / "people.omni" / "_graph_commits.lance")
    told = shell.ok("verify", "people.omni").out
    assert "leftover (mirrors) on branch 'main'" in told and "`omnigraph recover`" in told
    ended = shell.ok("recover", "people.omni")
    assert ended.out == "no interrupted write is left, the copies of the commits are complete\n"
    assert ended.err == "omnigraph recover → people.omni (direct, local)\n"
    assert shell.ok("verify", "--store", "people.omni", "--json").json["problems"] == []
    assert shell.ok("recover", "people.omni", "--json", "--quiet").json == {"ok": True}


def og_layout() -> int:
    from omnigraph import limits

    return limits.INTERNAL_SCHEMA_VERSION
