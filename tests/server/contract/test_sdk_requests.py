"""The requests of the TypeScript client of line 0.10, one after the other, against a real server.

What is sent and what is read stands in `fixtures/sdk_0_10.yaml`; a further case is a few lines there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

import omnigraph as og
from tests.support.http_call import Reply, call
from tests.support.served import Served, served

FIXTURES = Path(__file__).parent / "fixtures" / "sdk_0_10.yaml"
STEPS: list[dict[str, Any]] = yaml.safe_load(FIXTURES.read_text("utf-8"))
KEYS = {
    *("call", "send", "anonymous", "headers", "type", "text", "body"),
    *("status", "has", "lacks", "content_type", "content", "headers_out", "lines", "save", "save_header"),
}
TOKEN = "ci-token"
ACCEPT = "application/json, application/x-ndjson"

SCHEMA = """
node Person { name: String @key  age: I32?  avatar: Blob? }
node Company { name: String @key }
edge Knows: Person -> Person { since: Date? }
edge WorksAt: Person -> Company
"""
ROWS: Mapping[str, list[dict[str, Any]]] = {
    "Person": [
        {"name": "Alice", "age": 30, "avatar": b"hello world"},
        {"name": "Bob", "age": 25},
        {"name": "Carol", "age": 35},
        {"name": "Dave"},
    ],
    "Company": [{"name": "Acme"}],
    "Knows": [{"from": "Alice", "to": "Bob"}, {"from": "Bob", "to": "Carol"}, {"from": "Carol", "to": "Dave"}],
    "WorksAt": [{"from": "Alice", "to": "Acme"}],
}
QUERIES = """
query find_person($name: String) { match { $p: Person { name: $name } } return { $p.name, $p.age } }
query add_person($name: String, $age: I32?) { insert Person { name: $name, age: $age } }
query set_age($name: String, $age: I32) { update Person set { age: $age } where name = $name }
query add_friend($from: String, $to: String) { insert Knows { from: $from, to: $to } }
"""
POLICY = """
version: 1
groups: {users: [default]}
rules:
  - id: data
    allow: {actors: {group: users}, actions: [read, export, change], branch_scope: any}
  - id: branches
    allow:
      actors: {group: users}
      actions: [schema_apply, branch_create, branch_delete, branch_merge]
      target_branch_scope: any
  - id: queries
    allow: {actors: {group: users}, actions: [invoke_query]}
"""
SERVER_POLICY = """
version: 1
groups: {users: [default]}
rules:
  - id: listing
    allow: {actors: {group: users}, actions: [graph_list]}
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("sdk")
    for name in ("alpha", "beta"):
        with og.init(folder / name, SCHEMA) as graph:
            graph.load(ROWS, "overwrite")
    for name, text in (("queries.gq", QUERIES), ("policy.yaml", POLICY), ("server.yaml", SERVER_POLICY)):
        (folder / name).write_text(text, "utf-8")
    with served(
        {name: folder / name for name in ("alpha", "beta")},
        tokens={"default": TOKEN},
        policy=folder / "policy.yaml",
        server_policy=folder / "server.yaml",
        queries=folder / "queries.gq",
    ) as found:
        yield found


def test_every_call_is_answered_as_the_client_reads_it(server: Served) -> None:
    saved: dict[str, Any] = {}
    wrong = []
    for step in STEPS:
        assert step.keys() <= KEYS, f"{step['call']}: {step.keys() - KEYS}"
        reply = _sent(server.port, step, saved)
        problems = list(_problems(step, reply, saved))
        if problems:
            wrong += ["", step["call"], f"{step['send']}: {reply.status} {reply.text[:1500]}", *problems]
            continue
        for name, place in step.get("save", {}).items():
            saved[name] = _at(reply.json(), place)
        for name, header in step.get("save_header", {}).items():
            saved[name] = reply.headers[header]
    assert not wrong, "\n".join(wrong)


def test_the_fixtures_have_every_method_of_the_client() -> None:
    methods = {step["call"].partition("(")[0] for step in STEPS}
    assert methods >= {
        *("health", "graphs.list", "snapshot", "query", "mutate", "load", "loadNdjson", "export"),
        *("branches.list", "branches.create", "branches.merge", "branches.delete"),
        *("commits.list", "commits.retrieve", "commits.changes", "changes.poll", "changes.baseline"),
        *("blobs.get", "blobs.stat", "queries.list", "queries.invoke", "schema.get", "schema.apply"),
    }


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ({"a": 1}, {"a": 2}),
        ({"a": "<ulid>"}, {"a": "x"}),
        ({"a": [1]}, {"a": [1, 2]}),
        ({"a": [1, "..."]}, {"a": []}),
        ({"a": {"b": "<int>"}}, {"a": {"b": True}}),
        ({"a": "<text>"}, {}),
    ],
)
def test_a_wrong_answer_is_found(wanted: Any, found: Any) -> None:
    assert list(_differences(wanted, found, "answer"))
    assert not list(_differences({"a": [1, "..."], "b": None}, {"a": [1, 2], "b": None, "c": 3}, "answer"))


def _sent(port: int, step: Mapping[str, Any], saved: Mapping[str, Any]) -> Reply:
    method, _, target = _filled(step["send"], saved).partition(" ")
    headers = {"Accept": ACCEPT, **{name: _filled(value, saved) for name, value in step.get("headers", {}).items()}}
    body = _filled(step["body"], saved) if "body" in step else None
    if "text" in step:
        headers["Content-Type"] = step["type"]
        body = step["text"].encode()
    return call(port, method, target, body, headers, token=None if step.get("anonymous") else TOKEN)


def _problems(step: Mapping[str, Any], reply: Reply, saved: Mapping[str, Any]) -> Iterator[str]:
    if reply.status != step.get("status", 200):
        yield f"status {reply.status} instead of {step.get('status', 200)}"
        return
    if not reply.headers.get("x-request-id"):
        yield "there is no request id"
    if "has" in step:
        yield from _differences(_filled(step["has"], saved), reply.json(), "answer")
    yield from (f"answer has {key}" for key in step.get("lacks", ()) if key in reply.json())
    if "content" in step and reply.text != step["content"]:
        yield "the content is another"
    if "content_type" in step and reply.headers["content-type"] != step["content_type"]:
        yield f"the content type is {reply.headers['content-type']}"
    for name, value in step.get("headers_out", {}).items():
        yield from _differences(_filled(value, saved), reply.headers.get(name), f"header {name}")
    if "lines" in step:
        yield from _line_problems(_filled(step["lines"], saved), [json.loads(line) for line in reply.body.splitlines()])


def _line_problems(wanted: Mapping[str, Any], lines: list[Any]) -> Iterator[str]:
    if "count" in wanted and len(lines) != wanted["count"]:
        yield f"{len(lines)} lines instead of {wanted['count']}"
    for each in wanted.get("has", ()):
        if all(list(_differences(each, line, "line")) for line in lines):
            yield f"no line is like {each}"
    if "last" in wanted:
        yield from _differences(wanted["last"], lines[-1], "last line")


_KINDS: Mapping[str, Any] = {
    "<any>": lambda value: value is not None,
    "<null>": lambda value: value is None,
    "<text>": lambda value: isinstance(value, str) and value,
    "<int>": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "<bool>": lambda value: isinstance(value, bool),
    "<list>": lambda value: isinstance(value, list),
    "<ulid>": lambda value: isinstance(value, str) and re.fullmatch("[0-9A-HJKMNP-TV-Z]{26}", value),
}


def _differences(wanted: Any, found: Any, place: str) -> Iterator[str]:
    """One sentence for each difference; what is not wanted may be there."""
    if isinstance(wanted, str) and wanted in _KINDS:
        if not _KINDS[wanted](found):
            yield f"{place} is {found!r}, not {wanted}"
    elif isinstance(wanted, dict) and isinstance(found, dict):
        for key, value in wanted.items():
            if key not in found:
                yield f"{place} has no {key}"
            else:
                yield from _differences(value, found[key], f"{place}.{key}")
    elif isinstance(wanted, list) and isinstance(found, list):
        is_begin = wanted[-1:] == ["..."]
        items = wanted[:-1] if is_begin else wanted
        if len(found) < len(items) + is_begin or (len(found) > len(items) and not is_begin):
            yield f"{place} has {len(found)} items"
        for number, (item, other) in enumerate(zip(items, found, strict=False)):
            yield from _differences(item, other, f"{place}.{number}")
    elif type(wanted) is not type(found) or wanted != found:
        yield f"{place} is {found!r}, not {wanted!r}"


def _filled(value: Any, saved: Mapping[str, Any]) -> Any:
    """A value with the saved ones in it. A text that is one name becomes the saved value, whatever it is."""
    if isinstance(value, dict):
        return {key: _filled(inner, saved) for key, inner in value.items()}
    if isinstance(value, list):
        return [_filled(inner, saved) for inner in value]
    if not isinstance(value, str):
        return value
    if value.startswith("{") and value[1:-1] in saved:
        return saved[value[1:-1]]
    return re.sub(r"\{(\w+)\}", lambda found: str(saved.get(found[1], found[0])), value)


def _at(value: Any, place: str) -> Any:
    for part in place.split("."):
        value = value[int(part)] if isinstance(value, list) else value[part]
    return value
