"""Commands that write: what they say, what they change, and what they refuse."""

from __future__ import annotations

import json
import os
import threading

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


def test_a_schema_may_come_through_a_pipe(shell: CommandLine) -> None:
    pipe, text = shell.folder / "schema.pipe", "node Place { name: String @key }\n"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=(text, "utf-8"), daemon=True)
    writer.start()
    shell.ok("init", "--schema", "schema.pipe", "piped.omni")
    writer.join()
    assert shell.ok("schema", "show", "piped.omni").out == text


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
    changed, actor, commit = ended.out.splitlines()
    assert (changed, actor) == ("changed main via add: 1 nodes, 0 edges", "actor_id: act-ed")
    assert ended.err == ""
    (shell.folder / "params.json").write_text('{"handle": "ed", "name": "Ed"}', "utf-8-sig")
    done = shell.ok(*ADD, "--params-file", "params.json", "--json").json
    assert (done["affected_nodes"], done["query_name"], done["actor_id"]) == (1, "add", None)
    newest, before, *_ = shell.ok("commit", "list", "people.omni").out.splitlines()
    version = done["commit"]["graph_manifest_version"]
    id_, of = done["commit"]["graph_commit_id"], f"graph_branch=main graph_manifest_version={version}"
    assert newest.startswith(f"{id_} {of} created_at=")
    assert before.startswith(commit.removeprefix("commit_id: "))
    assert " actor=act-ed created_at=" in before and before.endswith(" mutation: Person +1")
    lost = shell.run(*ADD, "--params", '{"handle": "fe", "name": "Fe"}', "--if-commit", before.split()[0], "--json")
    assert lost.code == 4
    assert lost.json["precondition_failure"] == {
        "expected": before.split()[0],
        "actual": done["commit"]["graph_commit_id"],
    }
    with og.open(shell.folder / "people.omni", mode="ro") as graph:
        assert graph.snapshot().count("Person") == 5


def test_the_history_shows_what_was_done_and_why(shell: CommandLine) -> None:
    shell.ok(*ADD, "--params", '{"handle": "di", "name": "Di"}', "-m", "Di joins\nbecause")
    (shell.folder / "more.jsonl").write_text('{"type":"Person","data":{"handle":"ed","name":"Ed"}}\n', "utf-8")
    words = ("load", "people.omni", "--data", "more.jsonl", "--mode", "merge", "--branch", "x", "--from", "main")
    shell.ok(*words, "--message", "the second file", "--quiet")
    shell.ok("branch", "merge", "x", *STORE, "--quiet", "-m", "in")
    merged, added, *_ = shell.ok("commit", "list", "people.omni", "--json").json["commits"]
    assert (merged["kind"], merged["message"]) == ("merge", "in")
    person = {"node:Person": {"inserted": 1, "updated": 0, "deleted": 0}}
    assert (added["kind"], added["message"], added["rows"]) == ("mutation", "Di joins\nbecause", person)
    shown = shell.ok("commit", "list", "people.omni", "--branch", "x").out.splitlines()
    assert shown[0].endswith(' load: Person +1 "the second file"')
    assert shown[1].endswith(' mutation: Person +1 "Di joins …"')
    assert "message: in\n" in shell.ok("commit", "show", merged["graph_commit_id"], *STORE).out
    long = shell.run("branch", "merge", "x", *STORE, "--quiet", "-m", "x" * 5_000)
    assert (long.code, "bytes of a commit's message" in long.err) == (1, True)


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


def test_a_merge_may_keep_columns_and_round_times(shell: CommandLine) -> None:
    (shell.folder / "Person.csv").write_text("handle,age\nana,35\n", "utf-8")
    words = ("load", "people.omni", "--data", "Person.csv", "--mode", "merge", "--quiet")
    missing = shell.run(*words)
    assert missing.err == "error: Person.csv: column 'name' is missing, and every row of 'node:Person' needs it\n"
    shell.ok(*words, "--columns", "keep")
    exported = shell.ok("export", "people.omni", "--type", "Person").out
    assert '"age":35,"handle":"ana","name":"Ana' in exported
    wrong = shell.run("load", "people.omni", "--data", "Person.csv", "--mode", "append", "--columns", "keep", "--quiet")
    assert wrong.err == "error: --columns keep needs --mode merge: the other modes change no stored row\n"
    (shell.folder / "at.pg").write_text("node T { k: String @key  at: DateTime }", "utf-8")
    (shell.folder / "T.csv").write_text("k,at\na,2024-01-01T00:00:00.1235Z\n", "utf-8")
    shell.ok("init", "at.omni", "--schema", "at.pg")
    words = ("load", "at.omni", "--data", "T.csv", "--mode", "append", "--quiet")
    assert shell.run(*words).err.endswith("hint: round it; a load does with --times round\n")
    shell.ok(*words, "--times", "round")
    assert '"at":1704067200124' in shell.ok("export", "at.omni").out


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


def test_a_branch_is_renamed(shell: CommandLine) -> None:
    shell.ok("branch", "create", "draft", *STORE)
    renamed = shell.ok("branch", "rename", "draft", "review/x", *STORE, "-m", "ready")
    assert renamed.out == "renamed branch draft to review/x\n"
    assert shell.ok("branch", "list", *STORE).out == "main\nreview/x\n"
    assert 'rename "ready"' in shell.ok("commit", "list", "--branch", "review/x", *STORE).out
    again = shell.ok("--as", "act-ed", "branch", "rename", "review/x", "draft", "--json", *STORE).json
    assert (again["from"], again["name"], again["actor_id"]) == ("review/x", "draft", "act-ed")


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
    (ours,) = [line for line in refused.err.splitlines() if line.startswith("    ours: ")]
    assert json.loads(ours.removeprefix("    ours: "))["name"] == "Ana R."
    assert "    --resolve node:Person/ana=ours\n    --resolve node:Person/ana=theirs\n" in refused.err
    assert "hint: settle each by one of its --resolve options" in refused.err and "resolve=" not in refused.err
    plan = shell.run("branch", "merge", "x", *STORE, "--dry-run")
    assert (plan.code, plan.err) == (1, "")
    assert plan.out.startswith("cannot merge x into main: one conflict\n  DivergentUpdate: node:Person/ana: ")
    plan = shell.run("branch", "merge", "x", *STORE, "--dry-run", "--json")
    assert (plan.code, plan.json["outcome"], plan.json["conflicts"][0]["ours"]["name"]) == (1, "conflicts", "Ana R.")
    rule = ("--resolve", "ours", "--resolve", "theirs")
    assert "is resolved in two ways" in shell.run("branch", "merge", "x", *STORE, *rule).err
    rule = ("--resolve", "ours", "--resolve", "node:Person/ana=theirs")
    assert "'abacus' is not one of" in shell.run("branch", "merge", "x", *STORE, *rule, "--engine", "abacus").err
    merged = shell.ok("branch", "merge", "x", *STORE, "--quiet", *rule, "--engine", "embedded")
    assert merged.out == "merged x into main: merged\n"
    asked = shell.ok("query", "person", *STORE, "--query", "people.gq", "--params", '{"who": "ana"}', "--json")
    assert asked.json["rows"] == [{"name": "Anna"}]


def test_a_commit_is_reverted_and_a_state_is_restored(shell: CommandLine) -> None:
    added = shell.ok(*ADD, "--params", '{"handle": "di", "name": "Di"}', "--json").json["commit"]["graph_commit_id"]
    undone = shell.ok("revert", added, *STORE, "-m", "not yet")
    first, counts, commit = undone.out.splitlines()
    assert (first, counts) == (
        f"reverted commit {added} on main",
        "  node:Person: 0 inserted, 0 updated, 1 deleted",
    )
    newest = shell.ok("commit", "list", "people.omni", "--limit", "1").out
    assert newest.startswith(commit.removeprefix("commit_id: ")) and newest.endswith('revert: Person -1 "not yet"\n')
    assert shell.ok("revert", added, *STORE, "--quiet").out == "nothing to do: main has these rows already\n"
    done = shell.ok("restore", added, *STORE, "--quiet", "--json").json
    assert (done["undone_commit_id"], done["commit"]["kind"], done["commit"]["labels"]) == (
        *(added, "restore"),
        {"restores": added},
    )
    early = shell.run("restore", "1990-01-01", *STORE, "--quiet")
    assert (early.code, "has no commit at or before 1990-01-01T00:00:00+00:00" in early.err) == (1, True)
    assert "Traceback" not in shell.run("revert", "nope", *STORE, "--quiet").err


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
    planned = shell.run("schema", "plan", "people.omni", "--schema", "bad.pg")
    assert (planned.code, planned.out.splitlines()[1]) == (1, "supported: no")
    unsupported = shell.run("schema", "plan", "people.omni", "--schema", "bad.pg", "--json")
    assert (unsupported.code, unsupported.json["supported"], unsupported.json["uri"]) == (1, False, "people.omni")
    assert unsupported.json["steps"][0]["kind"] == "unsupported_change"
    refused = shell.run("schema", "apply", "people.omni", "--schema", "bad.pg", "--quiet")
    assert (refused.code, refused.out) == (1, "")
    assert refused.err.startswith("error: ")


def test_unknown_annotations_are_warned_of_and_misspelt_ones_refused(shell: CommandLine) -> None:
    (shell.folder / "odd.pg").write_text("node A { a: String @key  b: String? @note }\n", "utf-8")
    (shell.folder / "wrong.pg").write_text("node A { a: String @kee }\n", "utf-8")
    (shell.folder / "none.gq").write_text("query q() { match { $a: A } return { $a.a } }\n", "utf-8")
    odd = "@note is kept as it is and has no effect"
    assert shell.ok("init", "odd.omni", "--schema", "odd.pg").err == f"warning: node:A.b: {odd}\n"
    assert shell.ok("schema", "plan", "odd.omni", "--schema", "odd.pg").err == f"warning: node:A.b: {odd}\n"
    assert odd in shell.ok("lint", "--query", "none.gq", "--schema", "odd.pg").out
    for command in (
        ("init", "wrong.omni", "--schema", "wrong.pg"),
        ("schema", "plan", "odd.omni", "--schema", "wrong.pg"),
        ("lint", "--query", "none.gq", "--schema", "wrong.pg"),
    ):
        refused = shell.run(*command)
        assert refused.code == 1
        assert refused.err.startswith("error: wrong.pg:1:20: parse error: unknown annotation @kee on node:A.a\n")
        assert refused.err.endswith("hint: did you mean '@key'? --allow-unknown-annotations keeps it as it is\n")
    assert shell.ok("init", "wrong.omni", "--schema", "wrong.pg", "--allow-unknown-annotations").out
    assert shell.ok("schema", "show", "wrong.omni").out == "node A { a: String @kee }\n"


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
    assert (marked.code, marked.err) == (0, "")
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
