"""The audit log: one line for each decision and each commit, whole or not at all, and nothing that is secret."""

from __future__ import annotations

import io
import json
import logging
import os
import threading
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.errors import AuditFailed, InputError, PolicyDenied
from omnigraph.policy.audit_log import REQUEST_ID
from tests.policy.verbs import PEOPLE, RENAME, granting, staff

KEYS = [
    *("time", "kind", "request_id", "actor", "action", "branch", "target_branch"),
    *("types", "decision", "rule", "commit"),
]


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def test_decisions_and_commits_are_recorded(tmp_path: Path) -> None:
    place, log = staff(tmp_path), tmp_path / "audit.jsonl"
    with place.open(policy=granting("read", "change", scope="unprotected"), audit=log) as graph:
        graph.query(PEOPLE, branch="x")
        done = graph.mutate(RENAME, branch="x", message="a secret message").commit
        with pytest.raises(PolicyDenied):
            graph.mutate(RENAME)
        with pytest.raises(PolicyDenied):
            graph.branches.create("y", "x")
    assert done is not None
    found = lines(log)
    assert [list(record) for record in found] == [KEYS] * 5
    told = [[record[key] for key in KEYS[1:]] for record in found]
    assert told == [
        ["decision", None, "act-bo", "read", "x", None, None, "allow", "may-read", None],
        ["decision", None, "act-bo", "change", "x", None, None, "allow", "may-change", None],
        ["write", None, "act-bo", "change", "x", None, ["Person"], None, None, done.id],
        ["decision", None, "act-bo", "change", "main", None, None, "deny", None, None],
        ["decision", None, "act-bo", "branch_create", "x", "y", None, "deny", None, None],
    ]
    text = log.read_text("utf-8")
    assert "secret message" not in text and "match" not in text and "ana" not in text
    assert log.stat().st_mode & 0o777 == 0o600


def test_a_denial_by_type_names_the_type(tmp_path: Path) -> None:
    place, log = staff(tmp_path), tmp_path / "audit.jsonl"
    with (
        place.open(policy=granting("change", types=("Person", "Knows")), audit=log) as graph,
        pytest.raises(PolicyDenied),
    ):
        graph.mutate('query q() { delete Person where handle = "ana" }')
    assert [(record["decision"], record["types"]) for record in lines(log)] == [("allow", None), ("deny", ["Earns"])]


def test_a_log_without_a_policy_records_what_was_done(tmp_path: Path) -> None:
    place, log = staff(tmp_path), tmp_path / "audit.jsonl"
    with place.open(audit=log) as graph:
        graph.mutate(RENAME)
        graph.branches.delete("x", force=True)
    told = [(record["kind"], record["action"], record["decision"]) for record in lines(log)]
    assert told == [("decision", "change", None), ("write", "change", None), ("decision", "branch_delete", None)]


def test_the_request_that_is_served_stands_in_its_records(tmp_path: Path) -> None:
    place, log = staff(tmp_path), tmp_path / "audit.jsonl"
    with place.open(policy=granting("read"), audit=og.AuditLog(log)) as graph:
        token = REQUEST_ID.set("req-1")
        graph.branches.list()
        REQUEST_ID.reset(token)
        graph.branches.list()
    assert [record["request_id"] for record in lines(log)] == ["req-1", None]


def test_writes_that_are_published_together_are_recorded_for_their_own_requests(tmp_path: Path) -> None:
    place, log = staff(tmp_path), tmp_path / "audit.jsonl"
    made: dict[str, str] = {}

    def write(graph: og.Graph, name: str) -> None:
        token = REQUEST_ID.set(name)
        done = graph.mutate(f'query q() {{ insert Person {{ handle: "{name}", name: "N" }} }}', branch="x").commit
        REQUEST_ID.reset(token)
        assert done is not None
        made[name] = done.id

    with place.open(policy=granting("read", "change"), audit=log) as graph:
        threads = [threading.Thread(target=write, args=(graph, f"req-{number}")) for number in range(24)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    told = {each["request_id"]: each["commit"] for each in lines(log) if each["kind"] == "write"}
    assert len(made) == 24
    assert told == made


def test_a_log_that_cannot_be_written_stops_a_write_before_it_begins(tmp_path: Path) -> None:
    place = staff(tmp_path)
    with place.open() as free:
        before = free.commits.head().id
    with place.open(policy=granting("read", "change"), audit=tmp_path / "no" / "audit.jsonl") as graph:
        for call in (lambda: graph.mutate(RENAME), lambda: graph.query(PEOPLE), lambda: graph.transaction()):
            with pytest.raises(AuditFailed, match="the audit log cannot be written: No such file or directory"):
                call()
    with place.open() as free:
        assert free.commits.head().id == before


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no file that is always full")
def test_a_full_disk_stops_a_write_before_it_begins(tmp_path: Path) -> None:
    full = staff(tmp_path).open(policy=granting("change"), audit="/dev/full")
    with full as graph, pytest.raises(AuditFailed, match="No space left"):
        graph.mutate(RENAME)


def test_a_commit_stands_when_only_its_own_record_is_lost(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    class Closing(io.StringIO):
        def write(self, text: str, /) -> int:
            if '"kind":"write"' in text:
                raise OSError(28, "No space left on device")
            return super().write(text)

    with staff(tmp_path).open(policy=granting("change", "read"), audit=Closing()) as graph:
        with caplog.at_level(logging.ERROR, "omnigraph.policy"):
            done = graph.mutate(RENAME).commit
        assert done is not None and graph.commits.head().id == done.id
    assert f"the record of commit {done.id} is missing" in caplog.text


def test_records_of_several_threads_never_mix(tmp_path: Path) -> None:
    log = og.AuditLog(tmp_path / "audit.jsonl")

    def write_some() -> None:
        for _ in range(50):
            log.write("decision", actor="a" * 3_000)

    threads = [threading.Thread(target=write_some) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(lines(tmp_path / "audit.jsonl")) == 200


def test_a_log_that_was_moved_away_is_made_again(tmp_path: Path) -> None:
    log = og.AuditLog(tmp_path / "audit.jsonl")
    log.write("decision")
    os.rename(tmp_path / "audit.jsonl", tmp_path / "audit.1")
    log.write("decision")
    assert len(lines(tmp_path / "audit.jsonl")) == len(lines(tmp_path / "audit.1")) == 1


def test_records_may_go_to_the_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    og.AuditLog("-").write("decision", actor="é\n\u2028")
    out = capsys.readouterr().out
    assert out.count("\n") == 1 and json.loads(out)["actor"] == "é\n\u2028"
    with pytest.raises(InputError, match="an audit log is a path"):
        og.AuditLog(17)  # type: ignore[arg-type]
