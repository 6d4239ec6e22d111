"""Servers that the security tests attack: processes with a log that is kept, and answers that are remembered."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import omnigraph as og
from tests.support import http_call
from tests.support.http_call import Reply
from tests.support.light_python import run_module
from tests.support.waiting import wait_until

GRAPH = "staff"
BELOW = f"/graphs/{GRAPH}"
SCHEMA = """
node Person { name: String @key  age: I32?  text: String? @index  photo: Blob? }
edge Knows: Person -> Person
"""
QUERIES = """
query people() { match { $p: Person } return { $p.name } order { $p.name asc } }
query rename($name: String, $text: String) { update Person set { text: $text } where name = $name }
"""

#: Who has a token, and what the policy lets them do.
TOKENS = {
    "act-all": "token-of-all-3f9a71",
    "act-reader": "token-of-reader-82c4d0",
    "act-writer": "token-of-writer-5b6e2f",
    "act-exporter": "token-of-exporter-c07d95",
    "act-stranger": "token-of-stranger-e11a48",
}
POLICY = """
version: 1
groups:
  everything: [act-all]
  readers: [act-reader, act-writer]
  writers: [act-writer]
  exporters: [act-exporter]
protected_branches: [main]
rules:
  - id: all-data
    allow: {actors: {group: everything}, actions: [read, export, change], branch_scope: any}
  - id: all-branches
    allow:
      actors: {group: everything}
      actions: [branch_create, branch_delete, branch_merge, schema_apply]
      target_branch_scope: any
  - id: all-queries
    allow: {actors: {group: everything}, actions: [invoke_query, admin]}
  - id: reading
    allow: {actors: {group: readers}, actions: [read]}
  - id: writing-unprotected
    allow: {actors: {group: writers}, actions: [change], branch_scope: unprotected}
  - id: exporting
    allow: {actors: {group: exporters}, actions: [export]}
"""
SERVER_POLICY = """
version: 1
groups: {everything: [act-all]}
rules:
  - id: listing
    allow: {actors: {group: everything}, actions: [graph_list]}
"""

#: A value that is in the graph, and must be in no log.
PRIVATE = "zq-private-value-77"
_SECONDS = 60
_ADDRESS = re.compile(r"OMNIGRAPH_LISTEN_ADDR=127\.0\.0\.1:(\d+)")


@dataclass
class Place:
    """A running server.

    Attributes:
        folder: everything that belongs to it lies in here.
        tokens: of the actors; empty for a server that is open.
        seen: statuses and bodies of all answers.
    """

    folder: Path
    process: int
    port: int
    tokens: dict[str, str]
    seen: list[tuple[str, Reply]] = field(default_factory=list)

    def ask(
        self,
        method: str,
        target: str,
        body: object = None,
        headers: Mapping[str, str] | tuple[tuple[str, str], ...] = (),
        *,
        actor: str | None = "act-all",
        token: str | None = None,
    ) -> Reply:
        """A request in the hands of an actor, or with this very token."""
        shown = token if token is not None else self.tokens.get(actor or "")
        reply = http_call.call(self.port, method, target, body, headers, token=shown)
        self.seen.append((f"{method} {target}", reply))
        return reply

    def raw(self, sent: bytes, *, ends: bool = False) -> bytes:
        return http_call.raw(self.port, sent, ends=ends)

    def head(self, branch: str = "main") -> str:
        """The newest commit of a branch."""
        reply = self.ask("GET", f"{BELOW}/commits?branch={branch}&limit=1")
        commits: list[dict[str, Any]] = reply.json()["commits"]
        return str(commits[0]["graph_commit_id"])

    @property
    def log(self) -> str:
        return (self.folder / "server.log").read_text("utf-8", "replace")

    @property
    def uri(self) -> str:
        return str(self.folder / f"{GRAPH}.omni")


def make_graph(folder: Path) -> None:
    """A graph with people, a branch, and stored queries beside it."""
    with og.init(folder / f"{GRAPH}.omni", SCHEMA) as graph:
        people = [{"name": "Ana", "age": 30, "text": PRIVATE, "photo": b"pix"}, {"name": "Bo"}]
        graph.load({"Person": people, "Knows": [{"from": "Ana", "to": "Bo"}]}, "append")
        graph.branches.create("draft")
    (folder / "queries.gq").write_text(QUERIES, "utf-8")


@contextmanager
def place(folder: Path, *, tokens: bool, policy: bool, limits: Mapping[str, object] | None = None) -> Iterator[Place]:
    """A server of one graph, in one of the three states."""
    make_graph(folder)
    wanted: dict[str, Any] = {"version": 1, "bind": "127.0.0.1:0"}
    graph: dict[str, str] = {"uri": f"{GRAPH}.omni", "queries": "queries.gq"}
    if tokens:
        (folder / "tokens.json").write_text(json.dumps(TOKENS), "utf-8")
        wanted["tokens"] = {"file": "tokens.json"}
    if policy:
        (folder / "policy.yaml").write_text(POLICY, "utf-8")
        (folder / "server-policy.yaml").write_text(SERVER_POLICY, "utf-8")
        graph["policy"] = "policy.yaml"
        wanted["policy"] = "server-policy.yaml"
    wanted["graphs"] = {GRAPH: graph}
    if limits is not None:
        wanted["limits"] = dict(limits)
    # JSON is YAML.
    (folder / "server.yaml").write_text(json.dumps(wanted), "utf-8")
    flags = [] if tokens else ["--unauthenticated"]
    with started(folder, ["serve", "--config", str(folder / "server.yaml"), *flags]) as (process, port):
        yield Place(folder, process, port, dict(TOKENS) if tokens else {})


@contextmanager
def started(folder: Path, words: list[str]) -> Iterator[tuple[int, int]]:
    """The command as a process, and its port."""
    import subprocess

    with (folder / "server.log").open("wb") as log:
        child = subprocess.Popen(
            run_module("omnigraph", *words), stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=os.environ
        )
    try:

        def listens() -> bool:
            return child.poll() is not None or bool(_ADDRESS.search((folder / "server.log").read_text("utf-8")))

        wait_until(listens, timeout=_SECONDS, what="the server to listen")
        told = (folder / "server.log").read_text("utf-8")
        found = _ADDRESS.search(told)
        assert found is not None, f"the server did not start:\n{told}"
        yield child.pid, int(found[1])
    finally:
        if child.poll() is None:
            child.send_signal(signal.SIGTERM)
            try:
                child.wait(20)
            except subprocess.TimeoutExpired:
                child.kill()
        child.wait()
