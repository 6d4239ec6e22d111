"""Commands that write: what they say, what they change, and what they refuse."""

from __future__ import annotations

import json

import omnigraph as og
from tests.support.command_line import CommandLine

STORE = ("--store", "people.omni")
ADD = ("mutate", "add", *STORE, "--query", "people.gq")


def test_init_makes_a_graph_once(shell: CommandLine) -> None:
    assert shell.ok("init", "--schema", "people.pg", "new.omni").out == "initialized new.omni\n"
    again = shell.run("init", "--schema", "people.pg", "new.omni")
    assert (again.code, again.out) == (1, "")
    assert again.err.startswith("error: there is already a graph at ") or "graph" in again.err.splitlines()[0]
    assert shell.ok("schema", "show", "new.omni").out == (shell.folder / "people.pg").read_text("utf-8")
    shown = shell.ok("schema", "get", "new.omni", "--json")
    assert shown.json == {"schema_source": (shell.folder / "people.pg").read_text("utf-8")}


def test_init_shows_where_a_schema_is_wrong(shell: CommandLine) -> None:
    (shell.folder / "wrong.pg").write_text("node Person {\n    name: Strng @key\n}\n", "utf-8")
    ended = shell.run("init", "--schema", "wrong.pg", "new.omni")
    assert ended.code == 1
    first, line, caret, *_ = ended.err.splitlines()
    assert first.startswith("error: wrong.pg:2:")
    assert line.endswith("name: Strng @key")
    assert caret.strip() == "^"
    assert not (shell.folder / "new.omni").exists()
    assert shell.run("init", "new.omni").code == 2


def test_a_mutation_is_one_commit_in_the_name_of_its_actor(shell: CommandLine) -> None:
    ended = shell.ok("--as", "act-ed", *ADD, "--params", '{"handle": "di", "name": "Di"}')
    assert ended.out == "changed main via add: 1 nodes, 0 edges\nactor_id: act-ed\n"
    assert ended.err == ""
    (shell.folder / "params.json").write_text('{"handle": "ed", "name": "Ed"}', "utf-8-sig")
    done = shell.ok(*ADD, "--params-file", "params.json", "--json").json
    assert (done["affected_nodes"], done["query_name"], done["actor_id"]) == (1, "add", None)
    newest, before, *_ = shell.ok("commit", "list", "people.omni").out.splitlines()
    version = done["commit"]["graph_manifest_version"]
    assert newest == f"{done['commit']['graph_commit_id']} graph_branch=main graph_manifest_version={version}"
    assert before.endswith(" actor=act-ed")
    lost = shell.run(*ADD, "--params", '{"handle": "fe", "name": "Fe"}', "--if-commit", before.split()[0], "--json")
    assert lost.code == 4
    assert lost.json["precondition_failure"] == {
        "expected": before.split()[0],
        "actual": done["commit"]["graph_commit_id"],
    }
    with og.open(shell.folder / "people.omni", mode="ro") as graph:
        assert graph.snapshot().count("Person") == 5


def test_a_load_says_what_it_loaded_and_shows_its_progress(shell: CommandLine) -> None:
    (shell.folder / "more.jsonl").write_text('{"type":"Person","data":{"handle":"di","name":"Di"}}\n', "utf-8")
    words = ("load", "people.omni", "--data", "more.jsonl", "--mode", "append")
    ended = shell.ok(*words, "--branch", "review/x", "--from", "main")
    assert ended.out == (
        "loaded people.omni on branch review/x with append: 1 entities in 1 node types, 0 edge types\n"
        "created branch review/x from main\n"
    )
    assert ended.err.splitlines()[0] == "omnigraph load → people.omni (direct, local)"
    again = shell.ok(*words, "--branch", "review/y", "--from", "main", "--json", "--quiet")
    assert again.err == ""
    assert again.json["nodes"] == [{"name": "Person", "entities_loaded": 1}]
    assert (again.json["base_branch"], again.json["branch_created"], again.json["uri"]) == ("main", True, "people.omni")
    twice = shell.run(*words, "--branch", "review/y", "--quiet")
    assert twice.code == 1
    assert twice.err.startswith("error: more.jsonl:1: node type 'Person' already has this id")


def test_bad_records_are_named_or_left_out(shell: CommandLine) -> None:
    lines = [{"handle": "di", "name": "Di", "age": age} for age in (7, 999)] + [{"handle": "ed"}]
    text = "".join(json.dumps({"type": "Person", "data": data}) + "\n" for data in lines[1:])
    (shell.folder / "bad.jsonl").write_text(text, "utf-8")
    words = ("load", "people.omni", "--data", "bad.jsonl", "--mode", "append", "--quiet")
    refused = shell.run(*words)
    assert (refused.code, refused.out) == (1, "")
    assert refused.err.splitlines() == [
        "error: bad.jsonl:2: non-nullable property 'name' has null or invalid values",
        "  also: @range violation on Person.age: value 999 > max 150 (bad.jsonl:1)",
    ]
    kept = shell.ok(*words, "--on-error", "reject", "--rejects", "rejects.jsonl", "--json")
    assert kept.json["rejected"] == 2
    assert kept.err == "warning: 2 bad records left out; they are in rejects.jsonl\n"
    rejects = [json.loads(line) for line in (shell.folder / "rejects.jsonl").read_text("utf-8").splitlines()]
    assert [(reject["line"], reject["code"]) for reject in rejects] == [(1, "row.range"), (2, "row.missing_value")]
    assert shell.run(*words, "--on-error", "reject", "--max-rejects", "1").code == 1
    assert shell.run(*words, "--max-rejects", "1").code == 2
    assert shell.run("load", "people.omni", "--data", "bad.jsonl").code == 2


def test_a_load_shows_a_bar_on_a_terminal(shell: CommandLine) -> None:
    (shell.folder / "more.jsonl").write_text('{"type":"Person","data":{"handle":"di","name":"Di"}}\n', "utf-8")
    shown = shell.on_terminal("load", "people.omni", "--data", "more.jsonl", "--mode", "append")
    assert shown.code == 0
    assert "━" in shown.out
    assert "loaded people.omni on branch main with append: 1 entities" in shown.out


def test_branches_are_made_listed_merged_and_deleted(shell: CommandLine) -> None:
    made = shell.ok("branch", "create", "review/x", "--uri", "people.omni")
    assert made.out == "created branch review/x from main\n"
    assert made.err == "omnigraph branch create → people.omni (direct, local)\n"
    assert shell.ok("branch", "list", *STORE).out == "main\nreview/x\n"
    shell.ok(*ADD, "--params", '{"handle": "di", "name": "Di"}', "--branch", "review/x")
    plan = shell.ok("branch", "merge", "review/x", "--dry-run", *STORE)
    assert plan.out == (
        "would merge review/x into main: fast_forward\n  node:Person: 1 inserted, 0 updated, 0 deleted\n"
    )
    done = shell.ok("--as", "act-ed", "branch", "merge", "review/x", "--delete-branch", "--json", *STORE).json
    assert (done["outcome"], done["branch_deleted"], done["actor_id"]) == ("fast_forward", True, "act-ed")
    assert shell.ok("branch", "list", *STORE, "--json").json == {"branches": ["main"]}
    again = shell.run("branch", "merge", "review/x", *STORE, "--quiet")
    assert (again.code, again.out) == (1, "")
    assert again.err.startswith("error: there is no branch 'review/x'")
    main = shell.run("branch", "delete", "main", *STORE, "--quiet")
    assert (main.code, main.err) == (1, "error: branch 'main' cannot be deleted\n")


def test_a_conflict_is_shown_and_can_be_resolved(shell: CommandLine) -> None:
    rename = ("mutate", "rename", *STORE, "--query", "people.gq", "--params")
    shell.ok("branch", "create", "x", *STORE, "--quiet")
    shell.ok(*rename, '{"handle": "ana", "name": "Anna"}', "--branch", "x")
    shell.ok(*rename, '{"handle": "ana", "name": "Ana R."}')
    diff = shell.ok("diff", "main", "x", *STORE)
    assert diff.out == "update node Person ana\n  name: Ana R. -> Anna\n"
    stats = shell.ok("diff", "main", "x", *STORE, "--stat", "--json", "--kind", "node").json["stats"]
    assert stats == {"inserts": 0, "updates": 1, "deletes": 0, "types_affected": ["Person"]}
    refused = shell.run("branch", "merge", "x", *STORE, "--quiet")
    assert (refused.code, refused.out) == (1, "")
    assert "  DivergentUpdate: node:Person/ana: both sides changed it differently\n" in refused.err
    assert "Traceback" not in refused.err
    rule = ("--resolve", "node:Person/ana=theirs")
    assert "'abacus' is not one of" in shell.run("branch", "merge", "x", *STORE, *rule, "--engine", "abacus").err
    merged = shell.ok("branch", "merge", "x", *STORE, "--quiet", *rule, "--engine", "embedded")
    assert merged.out == "merged x into main: merged\n"
    asked = shell.ok("query", "person", *STORE, "--query", "people.gq", "--params", '{"who": "ana"}', "--json")
    assert asked.json["rows"] == [{"name": "Anna"}]


def test_history_shows_commits_and_what_they_changed(shell: CommandLine) -> None:
    shell.ok(*ADD, "--params", '{"handle": "di", "name": "Di"}')
    newest = shell.ok("commit", "list", "people.omni", "--limit", "1", "--json").json["commits"]
    assert len(newest) == 1
    id_ = newest[0]["graph_commit_id"]
    assert f"graph_commit_id: {id_}\n" in shell.ok("commit", "show", id_, *STORE).out
    assert shell.ok("commit", "show", id_, *STORE, "--json").json == newest[0]
    changed = shell.ok("commit", "changes", id_, *STORE)
    assert changed.out == "insert node Person di\n  + age: <null>\n  + handle: di\n  + name: Di\n" or (
        sorted(changed.out.splitlines())
        == sorted(["insert node Person di", "  + age: <null>", "  + handle: di", "  + name: Di"])
    )
    document = shell.ok("commit", "changes", id_, *STORE, "--json").json
    assert document["cause"]["graph_commit_id"] == id_
    assert [(change["op"], change["id"]) for change in document["changes"]] == [("insert", "di")]
    missing = shell.run("commit", "show", "01ARZ3NDEKTSV4RRFFQ69G5FAV", *STORE)
    assert (missing.code, missing.out) == (1, "")
    assert missing.err.startswith("error: there is no commit '01ARZ3NDEKTSV4RRFFQ69G5FAV'\nhint: ")


def test_a_consumer_starts_with_a_baseline_and_follows(shell: CommandLine) -> None:
    began = shell.ok("changes", "baseline", "--out", "state.jsonl", *STORE, "--json").json
    assert len((shell.folder / "state.jsonl").read_text("utf-8").splitlines()) == 7
    nothing = shell.ok("changes", "poll", *STORE, "--cursor", began["resume_cursor"])
    assert nothing.out.startswith("(no new commits)\ncursor: ")
    shell.ok(*ADD, "--params", '{"handle": "di", "name": "Di"}')
    page = shell.ok("changes", "poll", *STORE, "--cursor", began["resume_cursor"], "--json").json
    assert [[change["id"] for change in block["changes"]] for block in page["blocks"]] == [["di"]]
    assert page["caught_up"] is True
    shown = shell.ok("changes", "poll", *STORE, "--start", f"after:{began['snapshot_commit_id']}", "--limit", "1")
    assert "\n  insert node Person di\n" in shown.out
    assert shown.out.endswith("caught_up: true\n")
    assert shell.run("changes", "poll", *STORE, "--start", "now", "--cursor", "x").code == 2


def test_a_schema_change_is_planned_and_applied(shell: CommandLine) -> None:
    text = (shell.folder / "people.pg").read_text("utf-8")
    (shell.folder / "next.pg").write_text(text.replace("age: I32?", "age: I32?  nick: String?"), "utf-8")
    plan = shell.ok("schema", "plan", "people.omni", "--schema", "next.pg")
    step = "- add property 'Person.nick' (String?) on node 'Person'\n"
    assert plan.out == f"schema plan for people.omni\nsupported: yes\n{step}"
    assert shell.ok("schema", "plan", "people.omni", "--schema", "people.pg").out.endswith("no schema changes\n")
    done = shell.ok("schema", "apply", "people.omni", "--schema", "next.pg")
    assert "applied: yes\n" in done.out
    assert done.out.endswith(step)
    assert done.err == "omnigraph schema apply → people.omni (direct, local)\n"
    (shell.folder / "bad.pg").write_text(text.replace("name: String", "name: I32  nick: String?"), "utf-8")
    unsupported = shell.ok("schema", "plan", "people.omni", "--schema", "bad.pg", "--json").json
    assert (unsupported["supported"], unsupported["uri"]) == (False, "people.omni")
    assert unsupported["steps"][0]["kind"] == "unsupported_change"
    refused = shell.run("schema", "apply", "people.omni", "--schema", "bad.pg", "--quiet")
    assert (refused.code, refused.out) == (1, "")
    assert refused.err.startswith("error: ")


def test_texts_with_windows_line_ends_and_byte_order_marks_are_understood(shell: CommandLine) -> None:
    folder = shell.folder
    for name in ("people.pg", "people.gq", "people.jsonl"):
        text = (folder / name).read_text("utf-8").replace("\n", "\r\n")
        mark = b"" if name.endswith(".jsonl") else b"\xef\xbb\xbf"
        (folder / f"dos-{name}").write_bytes(mark + text.encode("utf-8"))
    shell.ok("init", "dos 🎈.omni", "--schema", "dos-people.pg")
    shell.ok("load", "dos 🎈.omni", "--data", "dos-people.jsonl", "--mode", "append", "--quiet")
    (folder / "marked.jsonl").write_bytes(b"\xef\xbb\xbf" + (folder / "people.jsonl").read_bytes())
    marked = shell.run("load", "dos 🎈.omni", "--data", "marked.jsonl", "--mode", "merge", "--quiet")
    assert (marked.code, marked.out) == (1, "")
    assert marked.err == "error: marked.jsonl:1: invalid strict JSON at line 1: a byte order mark is not allowed\n"
    asked = shell.ok("query", "people", "--store", "dos 🎈.omni", "--query", "dos-people.gq", "--format", "csv")
    assert asked.out.splitlines()[1] == "ana,Ana Ruiz 🎉,34"
    shell.ok(
        "mutate", "add", "--store", "dos 🎈.omni", "--query", "dos-people.gq", "--params", '{"handle":"😀","name":"é"}'
    )
    emoji = ("query", "person", "--store", "dos 🎈.omni", "--query", "dos-people.gq", "--params", '{"who": "😀"}')
    assert shell.ok(*emoji, "--json", LC_ALL="C").json["rows"] == [{"name": "é"}]
    (folder / "latin.gq").write_bytes("query é() {}".encode("latin-1"))
    bad = shell.run("query", *STORE, "--query", "latin.gq")
    assert (bad.code, bad.err) == (1, "error: latin.gq is not UTF-8 text: byte 6 fits no character\n")
