"""A process that dies while it publishes several writes together: all of them are there or none, each as its commit."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

import omnigraph as og
from tests.support.children import running
from tests.support.group_child import WRITERS
from tests.support.light_python import run_module

SCHEMA = "node Person { handle: String @key  name: String  age: I32? }\nnode Note { text: String }"

#: Where the child dies, counting from the first write, which goes alone and touches one table; and whether the group is
#: there afterwards.
POINTS = [
    ("group.after_stage=kill", False),
    ("write.after_gate_checks=kill@2", False),
    ("write.after_sidecar=kill@2", False),
    ("write.before_table_commit=kill@2", False),
    ("write.after_table_commit=kill@2", True),
    ("write.after_all_table_commits=kill@2", True),
    ("publish.before_commit=kill@2", True),
    ("publish.lost_ack=kill@2", True),
    ("write.after_publish_before_delete=kill@2", True),
]


@pytest.fixture(params=["disk", pytest.param("s3", marks=pytest.mark.s3)])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(tmp_path) if request.param == "disk" else str(request.getfixturevalue("s3_root"))


def test_a_group_is_there_as_a_whole_or_not_at_all(root: str, tmp_path: Path) -> None:
    for number, (armed, is_there) in enumerate(POINTS):
        uri, ledger = f"{root}/{number}.omni", tmp_path / f"{number}.ledger"
        with og.init(uri, SCHEMA) as graph:
            people = " ".join(f'insert Person {{ handle: "s{each}", name: "n" }}' for each in range(WRITERS))
            graph.mutate(f"query seed() {{ {people} }}")
        with running(run_module("tests.support.group_child", uri, str(ledger), armed), {}) as child:
            _, complaint = child.communicate(timeout=60)
        assert child.returncode == -signal.SIGKILL, (armed, complaint[-2000:])
        _require(uri, ledger, armed, is_there)


def _require(uri: str, ledger: Path, armed: str, is_there: bool) -> None:
    with og.open(uri) as graph:
        commits = [commit for commit in graph.commits.list() if commit.message]
        said = [commit.message for commit in commits]
        assert len(said) == (WRITERS if is_there else 1), (armed, said)
        assert len(set(said)) == len(said)
        acknowledged = ledger.read_text().split() if ledger.exists() else []
        assert set(acknowledged) <= {commit.id for commit in commits}
        notes = {row["text"] for row in graph.snapshot().arrow("Note").to_pylist()}
        ages = {row["handle"] for row in graph.snapshot().arrow("Person").to_pylist() if row["age"] is not None}
        assert notes == {message for message in said if message and int(message[1:]) % 2 == 0}
        assert ages == {f"s{message[1:]}" for message in said if message and int(message[1:]) % 2}
        counts = [graph.snapshot(at=commit.id).count("Note") for commit in reversed(commits)]
        assert counts == sorted(counts) and counts[-1] == len(notes)
        assert [len(graph.snapshot(at=commit.id).arrow("Note")) for commit in reversed(commits)] == counts
        assert graph.verify(deep=True).ok
        graph.mutate('query q() { insert Note { text: "after" } }')
    with og.open(uri) as again:
        assert again.snapshot().count("Note") == len(notes) + 1
