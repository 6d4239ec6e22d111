"""Requests that are generated from the OpenAPI document, one at a time and in sequences along its links.

Whatever is sent, the answer is one that the document describes, and never an error of the server. Most texts that are
generated mean nothing to a graph, so those that do are mixed in by name (`LIKELY`); they change nothing of the rules.
"""

from __future__ import annotations

import copy
import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from schemathesis.generation.stateful import run_state_machine_as_test
from schemathesis.specs.openapi.checks import (
    allow_header_conformance,
    negative_data_rejection,
    positive_data_acceptance,
    unsupported_method,
    use_after_free,
)

import omnigraph as og
from omnigraph.errors import BranchInUse
from omnigraph.server.openapi import OpenApi
from omnigraph.server.operations import OPERATIONS
from omnigraph.wire import load_parts
from tests.support.served import Served, served

GRAPH, TOKEN = "people", "a-token"
SCHEMA = (
    "node Person { name: String @key  age: I32?  text: String? @index  photo: Blob? }\nedge Knows: Person -> Person\n"
)
ASK = "query ask() { match { $p: Person } return { $p.name, $p.age } limit 5 }"
PUT = 'query put() { insert Person { name: "Put", age: 1 } }'
QUERIES = f"{ASK}\nquery older($name: String) {{ update Person set {{ age: 9 }} where name = $name }}\n"
LINES = '{"type": "Person", "data": {"name": "Line"}}\n{"edge": "Knows", "from": "Line", "to": "Ana"}\n'
POLICY = """
version: 1
groups: {all: [act-all]}
rules:
  - id: data
    allow: {actors: {group: all}, actions: [read, export, change]}
  - id: branches
    allow: {actors: {group: all}, actions: [schema_apply, branch_create, branch_delete, branch_merge]}
  - id: queries
    allow: {actors: {group: all}, actions: [invoke_query, admin]}
"""
SERVER_POLICY = """
version: 1
groups: {all: [act-all]}
rules:
  - id: listing
    allow: {actors: {group: all}, actions: [graph_list]}
"""

#: Values that mean something, by the name of the parameter or of the key of a body.
LIKELY: Mapping[str, list[Any]] = {
    "branch": ["main", "draft"],
    "source": ["draft", "main"],
    "target": ["main"],
    "from": ["main", "tag:first"],
    "to": ["draft", "tag:first", 1],
    "at": ["tag:first", 1, 2],
    "query": [ASK, PUT],
    "query_source": [ASK, PUT],
    "schema_source": [SCHEMA, SCHEMA.replace("age: I32?", "age: I32?  city: String?")],
    "data": [LINES],
    "type": ["Person", "Knows"],
    "types": [["Person"]],
    "type_names": [["Person"]],
    "entity": ["node"],
    "id": ["Ana"],
    "property": ["photo"],
    "words": ["ana"],
    "name": ["ask", "older", "draft", "first"],
    "start": ["now", "beginning"],
    "tag": ["first"],
    "commit": ["tag:first"],
    "since": ["1"],
    "limit": [1, 10],
    "params": [{"name": "Ana"}],
}

#: The same for whole bodies, by the name of their class.
LIKELY_BODIES: Mapping[str, list[dict[str, Any]]] = {
    "QueryRequest": [{"query": ASK}, {"query": ASK, "branch": "draft"}, {"query": ASK, "at": "tag:first"}],
    "OlderReadRequest": [{"query_source": ASK}],
    "ExplainRequest": [{"query": ASK}, {"query": ASK, "run": True}],
    "ChangeRequest": [{"query": PUT}, {"query": PUT, "branch": "draft"}],
    "RowsRequest": [{"type": "Person"}, {"type": "Knows", "columns": ["src"]}],
    "DiffRequest": [{"from": "tag:first", "to": "main"}, {"from": "main", "to": "draft", "summary": True}],
    "SchemaApplyRequest": [{"schema_source": SCHEMA}],
    "BranchCreateRequest": [{"name": "one"}, {"name": "two", "from": "draft"}],
    "BranchRenameRequest": [{"name": "one", "new_name": "two"}],
    "BranchMergeRequest": [{"source": "draft"}, {"source": "main", "target": "draft", "dry_run": True}],
    "TagCreateRequest": [{"name": "second"}, {"name": "third", "at": 1}],
    "RevertRequest": [{"commit": "tag:first", "branch": "draft"}],
    "RestoreRequest": [{"at": "tag:first", "branch": "draft"}],
}

EXCLUDED = [
    # Texts that are valid JSON and no valid query, branch or cursor are refused.
    positive_data_acceptance,
    # A key that nobody knows is passed over, and a number may stand for a text in an address.
    negative_data_rejection,
    # Both ask for further requests that have tests of their own.
    unsupported_method,
    allow_header_conformance,
]
TORTURE = 5_000
_QUIET = settings(
    deadline=None,
    derandomize=os.environ.get("HYPOTHESIS_PROFILE") == "ci",
    database=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.generate],
)
SHORT = settings(_QUIET, max_examples=20)
LONG = settings(_QUIET, max_examples=TORTURE)


def guided(document: dict[str, Any]) -> dict[str, Any]:
    """The document with likely values beside those that its schemas allow; answers stay as they are."""
    document = copy.deepcopy(document)
    for methods in document["paths"].values():
        for described in methods.values():
            for parameter in described.get("parameters", ()):
                parameter["schema"] = _likely(parameter["name"], parameter["schema"])
            for media in described.get("requestBody", {}).get("content", {}).values():
                for one in (media["schema"], *media["schema"].get("anyOf", ())):
                    if "$ref" in one:
                        name = one["$ref"].rpartition("/")[2]
                        _guide(document["components"]["schemas"][name])
                        bodies = LIKELY_BODIES.get(name)
                        if bodies is not None:
                            media["schema"] = {"anyOf": [{"enum": bodies}, media["schema"]]}
    return document


def _guide(schema: dict[str, Any]) -> None:
    if not schema.get("x-guided"):
        schema["x-guided"] = True
        schema["properties"] = {name: _likely(name, one) for name, one in schema["properties"].items()}


def _likely(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    if name == "graph_id":
        return {"enum": [GRAPH]}
    values = LIKELY.get(name)
    if values is None:
        return schema
    if schema.get("type") == "array":
        values = [value if isinstance(value, list) else [value] for value in values]
    # Three of four draws are a likely value.
    return {"anyOf": [{"enum": values}, {"enum": values}, {"enum": values}, schema]}


def _arrow() -> bytes:
    sink = pa.BufferOutputStream()
    table = pa.table({"name": ["Arrow"]})
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    made: bytes = sink.getvalue().to_pybytes()
    return made


def _parts() -> bytes:
    head = load_parts.PartHead("people.jsonl", None, "file")
    return b"".join(load_parts.written([(head, iter([LINES.encode()]))]))


@cache
def api() -> Any:
    """The document as schemathesis knows it."""
    for media_type, likely in (
        ("application/x-ndjson", LINES.encode()),
        ("application/vnd.apache.arrow.stream", _arrow()),
        (load_parts.MEDIA_TYPE, _parts()),
    ):
        schemathesis.openapi.media_type(media_type, st.one_of(st.just(likely), st.binary(max_size=200)))
    text = guided(json.loads(OpenApi(OPERATIONS, with_tokens=True).text()))
    return schemathesis.openapi.from_dict(text)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("generated")
    _make(folder)
    with served(
        {GRAPH: folder / GRAPH},
        tokens={"act-all": TOKEN},
        policy=folder / "policy.yaml",
        server_policy=folder / "server.yaml",
        queries=folder / "queries.gq",
    ) as found:
        yield found


def _make(folder: Path) -> None:
    with og.init(folder / GRAPH, SCHEMA) as graph:
        _load(graph)
        graph.tags.create("first")
        graph.branches.create("draft")
    for name, text in (("queries.gq", QUERIES), ("policy.yaml", POLICY), ("server.yaml", SERVER_POLICY)):
        (folder / name).write_text(text, "utf-8")


#: How often an operation had an answer of a status.
ANSWERED: Counter[tuple[str, int]] = Counter()


def _check(server: Served, case: Any) -> None:
    headers = {"Authorization": f"Bearer {TOKEN}"}
    answer = case.call_and_validate(base_url=server.url, headers=headers, excluded_checks=EXCLUDED, timeout=60)
    ANSWERED[case.operation.label, answer.status_code] += 1


@api().parametrize()  # type: ignore[untyped-decorator]
@SHORT
def test_every_operation_answers_as_it_is_described(case: Any, server: Served) -> None:
    _check(server, case)


@pytest.mark.torture
@pytest.mark.timeout(3_600)
@api().parametrize()  # type: ignore[untyped-decorator]
@LONG
def test_every_operation_answers_so_many_times(case: Any, server: Served) -> None:
    _check(server, case)


def _begin_again(graph: og.Graph) -> None:
    """What can be asked next depends on what is there, so every sequence begins with the same graph."""
    first = graph.commits.list(limit=None)[-1]
    for tag in graph.tags.list():
        graph.tags.delete(tag.name)
    while branches := graph.branches.list()[1:]:
        for branch in branches:
            with suppress(BranchInUse):  # of one that was made from it, which goes first then
                graph.branches.delete(branch)
    graph.schema.apply(SCHEMA, True)
    _load(graph)
    graph.tags.create("first", at=first.id)
    graph.branches.create("draft")


def _load(graph: og.Graph) -> None:
    people = [{"name": "Ana", "age": 3, "photo": b"pix"}, {"name": "Bo"}]
    graph.load({"Person": people, "Knows": [{"from": "Ana", "to": "Bo"}]}, "overwrite")


def _machine(server: Served) -> type[Any]:
    graph = server.app.opened.graphs[GRAPH].graph.acting_as("act-all")

    class Sequences(api().as_state_machine()):  # type: ignore[misc]
        def setup(self) -> None:
            _begin_again(graph)

        def get_call_kwargs(self, case: Any) -> dict[str, Any]:
            headers = {"Authorization": f"Bearer {TOKEN}"}
            return {"base_url": server.url, "headers": headers, "timeout": 60}

        def validate_response(self, response: Any, case: Any, additional_checks: Any = None, **options: Any) -> None:
            ANSWERED[case.operation.label, response.status_code] += 1
            # A branch or a tag that was deleted may be there again, by the name that another step gave it.
            excluded = [*EXCLUDED, use_after_free]
            case.validate_response(response, excluded_checks=excluded, transport_kwargs=options, recorder=self.recorder)

    return Sequences


def test_sequences_along_the_links_are_answered_as_described(server: Served) -> None:
    run_state_machine_as_test(_machine(server), settings=settings(SHORT, stateful_step_count=6))
    assert api().statistic.transitions.total >= 20


def test_what_was_generated_was_no_nonsense() -> None:
    """Follows the tests above: requests that are all refused would prove little."""
    asked = {label for label, _ in ANSWERED}
    succeeded = {label for label, status in ANSWERED if status == 200}
    if len(asked) > 40:
        assert len(succeeded) >= 35, sorted(asked - succeeded)


@pytest.mark.torture
@pytest.mark.timeout(3_600)
def test_long_sequences_along_the_links(server: Served) -> None:
    run_state_machine_as_test(_machine(server), settings=settings(_QUIET, max_examples=1_000, stateful_step_count=30))
    assert api().statistic.transitions.total >= 20
