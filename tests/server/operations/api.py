"""A graph of people behind a server, and short ways to call its routes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import omnigraph as og
from tests.support.http_call import Reply, call
from tests.support.served import Served, served

SCHEMA = """
node Person {
    name: String @key  age: I32?  born: Date?  seen: DateTime?  big: U64?  ratio: F64?  tags: [String]?  photo: Blob?
}
node Company { name: String @key }
edge Knows: Person -> Person { since: Date? }
edge WorksAt: Person -> Company
"""
QUERIES = """
query find_person($name: String)
    @description("Finds a person") @instruction("Give the whole name")
{ match { $p: Person { name: $name } } return { $p.name, $p.age } }
query add_person($name: String, $age: I32?) { insert Person { name: $name, age: $age } }
query set_age($name: String, $age: I32) { update Person set { age: $age } where name = $name }
query kinds($i: I64, $l: [String]?, $d: Date, $t: DateTime?, $f: F32, $b: Bool) {
    match { $p: Person { name: "Alice" } } return { $p.name, $i as i, $l as l, $d as d, $t as t, $f as f, $b as b }
}
"""
ROWS: Mapping[str, list[dict[str, Any]]] = {
    "Person": [
        {"name": "Alice", "age": 30, "photo": b"hello world", "big": 2**64 - 1},
        {"name": "Bob", "age": 25},
        {"name": "Carol", "age": 35},
        {"name": "Dave"},
    ],
    "Company": [{"name": "Acme"}],
    "Knows": [
        {"id": f"k{place}", "from": a, "to": b}
        for place, (a, b) in enumerate([("Alice", "Bob"), ("Bob", "Carol"), ("Carol", "Dave")])
    ],
    "WorksAt": [{"id": "w1", "from": "Alice", "to": "Acme"}],
}
NAMES = "query names() { match { $p: Person } return { $p.name } order { $p.name } }"
ADD = "query add($name: String) { insert Person { name: $name } }"
ULID = 26


@dataclass(frozen=True, slots=True)
class Api:
    """One graph of a running server, in the hands of one actor."""

    server: Served
    token: str | None = None
    graph_id: str = "alpha"

    def send(self, method: str, path: str, body: object = None, **given: Any) -> Reply:
        return call(self.server.port, method, f"/graphs/{self.graph_id}{path}", body, token=self.token, **given)

    def get(self, path: str, headers: Mapping[str, str] | None = None, /, **query: object) -> Reply:
        return self.send("GET", path + (f"?{urlencode(query, doseq=True)}" if query else ""), headers=headers or {})

    def post(self, path: str, headers: Mapping[str, str] | None = None, /, **body: object) -> Reply:
        """A body by its keys; ``from_`` stands for ``from``."""
        content = {name.removesuffix("_"): value for name, value in body.items()}
        return self.send("POST", path, content, headers=headers or {})

    def done(self, path: str, /, **body: object) -> Any:
        """The answer of a body that is right."""
        reply = self.post(path, **body)
        assert reply.status == 200, reply.text
        return reply.json()

    def told(self, path: str, /, **query: object) -> Any:
        """The answer of a query string that is right."""
        reply = self.get(path, **query)
        assert reply.status == 200, reply.text
        return reply.json()

    def head(self, branch: str = "main") -> str:
        return str(self.told("/snapshot", branch=branch)["commit_id"])

    def names(self, **where: object) -> list[str]:
        return [row["p.name"] for row in self.done("/query", query=NAMES, **where)["rows"]]

    def as_(self, actor: str) -> Api:
        return Api(self.server, self.server.tokens[actor], self.graph_id)


def graph_at(folder: Path) -> Path:
    """A new graph with the rows of all types."""
    with og.init(folder / "alpha.omni", SCHEMA) as graph:
        graph.load(dict(ROWS), "append")
    return folder / "alpha.omni"


@contextmanager
def api(folder: Path, **options: Any) -> Iterator[Api]:
    """A server of one graph, with stored queries."""
    queries = folder / "queries.gq"
    queries.write_text(QUERIES)
    with served({"alpha": graph_at(folder)}, queries=queries, **options) as server:
        yield Api(server)


def lines(*records: Mapping[str, object]) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


def person(name: str, **values: object) -> dict[str, object]:
    return {"type": "Person", "data": {"name": name, **values}}


def refused(reply: Reply, status: int, code: str | None = None) -> dict[str, Any]:
    """The envelope of an error, after a look at its form."""
    assert reply.status == status, reply.text
    envelope = reply.json()
    assert isinstance(envelope["error"], str) and envelope["error"]
    assert envelope.get("code") == code
    assert set(envelope["problem"]) == {"code", "message", "hint", "details"}
    assert "Traceback" not in reply.text and 'File "' not in reply.text
    return dict(envelope)
