"""The OpenAPI 3.1 document of a server, made from the tables of its operations.

Schemas come from the classes of bodies, query parameters and answers; what those do not tell is in
`operation_notes.py`. Nothing in here is served by hand: an operation that is in a table is in the document.
"""

from __future__ import annotations

import re
import types
from collections.abc import Iterable, Mapping
from typing import Any, Union, get_args, get_origin

import msgspec

import omnigraph
from omnigraph.server.operation import HttpOperation
from omnigraph.server.operation_notes import (
    ANSWER_HEADERS,
    BLOB_ANSWERS,
    BLOBS,
    ERRORS,
    FOLLOWS,
    OF_EVERY_BODY,
    OF_EVERY_GRAPH,
    OF_TOKENS,
    REQUEST_HEADERS,
    TAGS,
    Follows,
)
from omnigraph.wire import CONTRACT_VERSION
from omnigraph.wire.error_answer import ErrorOutput

BELOW = "/graphs/{graph_id}"
PREFIX = "cluster_"
SCHEME = "bearer_token"
GRAPH_ID = {"type": "string", "pattern": "^[a-zA-Z0-9-]{1,64}$", "minLength": 1, "maxLength": 64}

_JSON = "application/json"
_SCHEMAS = "#/components/schemas/{name}"
_OPTIONAL = (types.UnionType, Union)


class OpenApi:
    """The document as it is served.

    Args:
        operations: below a graph.
        with_tokens: callers must show a token; otherwise nothing of tokens is in the document.
    """

    def __init__(self, operations: Iterable[HttpOperation], *, with_tokens: bool) -> None:
        self._operations = {operation.id: operation for operation in operations}
        self._with_tokens = with_tokens
        self._schemas = _schemas_of(self._operations.values())

    def document(self) -> dict[str, Any]:
        """The document as values of JSON."""
        paths: dict[str, dict[str, Any]] = {}
        for path, method, described in [*self._flat(), *map(self._below_a_graph, self._operations.values())]:
            paths.setdefault(path, {})[method] = described
        return {
            "openapi": "3.1.0",
            "info": {
                "title": "Omnigraph API",
                "version": CONTRACT_VERSION,
                "description": f"Graphs over HTTP. Served by OmniGraph {omnigraph.__version__}.",
                "license": {"name": "MIT", "identifier": "MIT"},
            },
            "servers": [{"url": "/"}],
            "tags": [{"name": name, "description": text} for name, text in TAGS.items()],
            "paths": paths,
            "components": self._components(),
        }

    def text(self) -> bytes:
        """The document as JSON."""
        return msgspec.json.encode(self.document())

    def _components(self) -> dict[str, Any]:
        parts: dict[str, Any] = {
            "schemas": dict(sorted(self._schemas.items())),
            "headers": {name: _header(text) for name, text in ANSWER_HEADERS.items()}
            | {"X-Request-Id": _header("Names the request, also in the logs of the server.")},
            "responses": {f"Error{status}": _error(status, with_body=True) for status in ERRORS}
            | {f"Status{status}": _error(status, with_body=False) for status in ERRORS},
        }
        if self._with_tokens:
            parts["securitySchemes"] = {SCHEME: {"type": "http", "scheme": "bearer"}}
        return parts

    def _flat(self) -> Iterable[tuple[str, str, dict[str, Any]]]:
        """What is not below a graph."""
        text = {"text/plain": {"schema": {"type": "string"}}}
        yield "/healthz", "get", _flat_one("health", "health", "Whether the server lives", _json(_HEALTH))
        ready = _flat_one("ready", "health", "Whether the server takes requests", _json(_READY))
        ready["responses"]["503"] = _success("The server is stopping.", _json(_READY))
        yield "/readyz", "get", ready
        metrics = _flat_one("metrics", "health", "The figures of the server, for Prometheus", text)
        graphs = _flat_one("listGraphs", "management", "List the graphs that are served", _json(_GRAPHS))
        for one, errors in ((metrics, (401,)), (graphs, (401, 403))):
            self._guarded(one)
            one["responses"] |= _errors(errors if self._with_tokens else errors[1:])
        yield "/metrics", "get", metrics
        yield "/graphs", "get", graphs

    def _below_a_graph(self, operation: HttpOperation) -> tuple[str, str, dict[str, Any]]:
        described: dict[str, Any] = {
            "operationId": PREFIX + operation.id,
            "tags": [operation.tag],
            "summary": operation.summary,
            "parameters": [
                _parameter("graph_id", "path", GRAPH_ID, required=True),
                *(_parameter(name, "path", {"type": "string", "minLength": 1}, True) for name in names_in(operation)),
                *_query_parameters(operation.query),
                *(
                    _parameter(header.name, "header", dict(header.schema), header.required, header.text)
                    for header in REQUEST_HEADERS.get(operation.id, ())
                ),
            ],
            "responses": self._responses(operation),
        }
        if operation.successor is not None:
            described["deprecated"] = True
            described["description"] = f"Use `{operation.successor.strip('<>')}`."
        body = _request_body(operation)
        if body is not None:
            described["requestBody"] = body
        self._guarded(described)
        return BELOW + operation.path, operation.method.lower(), described

    def _guarded(self, described: dict[str, Any]) -> None:
        if self._with_tokens:
            described["security"] = [{SCHEME: []}]

    def _responses(self, operation: HttpOperation) -> dict[str, Any]:
        has_body = operation.body is not None or operation.raw_body is not None
        statuses = {
            *OF_EVERY_GRAPH,
            *(OF_EVERY_BODY if has_body else ()),
            *(OF_TOKENS if self._with_tokens else ()),
            *operation.statuses,
        }
        errors = _errors(sorted(statuses), with_body=operation.method != "HEAD")
        if operation.id in BLOBS:
            content = {"application/octet-stream": {"schema": _BINARY}}
            good = {
                str(status): _success(
                    text, content if status in (200, 206) and operation.method != "HEAD" else {}, headers
                )
                for status, (text, headers) in BLOB_ANSWERS.items()
                if status != 206 or operation.method != "HEAD"
            }
            return good | errors
        headers = ("Deprecation", "Link") if operation.successor is not None else ()
        success = _success("Done.", _content_of(operation), headers)
        links = self._links(operation)
        if links:
            success["links"] = links
        return {"200": success} | errors

    def _links(self, operation: HttpOperation) -> dict[str, Any]:
        found = {}
        for follows in FOLLOWS.get(operation.id, ()):
            target = self._operations.get(follows.operation)
            if target is not None:
                found[f"{follows.operation}_after_{operation.id}"] = _link(operation, follows, target)
        return found


def names_in(operation: HttpOperation) -> list[str]:
    """The names of the parts of a path."""
    return re.findall(r"\{(\w+)\}", operation.path)


_BINARY = {"type": "string", "format": "binary"}
_TEXT = {"type": "string"}
_HEALTH = {
    "type": "object",
    "properties": {
        "status": {"const": "ok"},
        "version": _TEXT,
        "internal_schema_version": {"type": "integer"},
        "source_version": _TEXT,
    },
    "required": ["status", "version", "internal_schema_version"],
}
_READY = {
    "type": "object",
    "properties": {
        "ready": {"type": "boolean"},
        "status": {"enum": ["ready", "draining"]},
        "served_graph_count": {"type": "integer"},
        "quarantined_graph_count": {"type": "integer"},
    },
    "required": ["ready", "status"],
}
_GRAPHS = {
    "type": "object",
    "properties": {
        "graphs": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"graph_id": _TEXT, "uri": _TEXT},
                "required": ["graph_id", "uri"],
            },
        }
    },
    "required": ["graphs"],
}


def _flat_one(name: str, tag: str, summary: str, content: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "operationId": name,
        "tags": [tag],
        "summary": summary,
        "responses": {"200": _success("Done.", content)},
    }


def _json(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {_JSON: {"schema": schema}}


def _header(text: str) -> dict[str, Any]:
    return {"description": text, "schema": {"type": "string"}}


def _success(text: str, content: Mapping[str, Any], headers: Iterable[str] = ()) -> dict[str, Any]:
    made: dict[str, Any] = {"description": text, "headers": _headers(headers)}
    if content:
        made["content"] = dict(content)
    return made


def _headers(names: Iterable[str]) -> dict[str, Any]:
    return {name: {"$ref": f"#/components/headers/{name}"} for name in ("X-Request-Id", *names)}


def _errors(statuses: Iterable[int], with_body: bool = True) -> dict[str, Any]:
    kind = "Error" if with_body else "Status"
    return {str(status): {"$ref": f"#/components/responses/{kind}{status}"} for status in statuses}


def _error(status: int, *, with_body: bool) -> dict[str, Any]:
    headers = {416: ("Content-Range",), 429: ("Retry-After",)}.get(status, ())
    content = _json({"$ref": _SCHEMAS.format(name="ErrorOutput")}) if with_body else {}
    return _success(ERRORS[status], content, headers)


def _parameter(
    name: str, place: str, schema: Mapping[str, Any], required: bool = False, text: str | None = None
) -> dict[str, Any]:
    made: dict[str, Any] = {"name": name, "in": place, "required": required, "schema": dict(schema)}
    if text is not None:
        made["description"] = text
    return made


def _query_parameters(kind: type[msgspec.Struct] | None) -> list[dict[str, Any]]:
    """One parameter for each field. What may be missing is missing: a query string has no null."""
    if kind is None:
        return []
    (_,), schemas = msgspec.json.schema_components([kind], schema_hook=_anything, ref_template=_SCHEMAS)
    own = schemas[kind.__name__]
    required = set(own.get("required", ()))
    return [
        _parameter(name, "query", _without_null(schema), name in required, schema.get("description"))
        for name, schema in own["properties"].items()
    ]


def _without_null(schema: Mapping[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in schema.items() if key not in ("default", "description")}
    choices = [choice for choice in kept.get("anyOf", ()) if choice != {"type": "null"}]
    if len(choices) == 1:
        del kept["anyOf"]
        kept |= choices[0]
    if schema.get("default") is not None:
        kept["default"] = schema["default"]
    return kept


def _request_body(operation: HttpOperation) -> dict[str, Any] | None:
    if operation.raw_body is not None:
        return {
            "required": True,
            "content": {operation.raw_body: {"schema": _BINARY if _is_arrow(operation) else _TEXT}},
        }
    if operation.body is None:
        return None
    schema: dict[str, Any] = {"$ref": _SCHEMAS.format(name=operation.body.__name__)}
    if operation.body_optional:
        schema = {"anyOf": [schema, {"type": "null"}]}
    return {"required": not operation.body_optional, "content": _json(schema)}


def _is_arrow(operation: HttpOperation) -> bool:
    return operation.raw_body is not None and "arrow" in operation.raw_body


def _content_of(operation: HttpOperation) -> dict[str, Any]:
    made: dict[str, Any] = {}
    members = _members(operation.answer)
    if members:
        references = [{"$ref": _SCHEMAS.format(name=member.__name__)} for member in members]
        made |= _json(references[0] if len(references) == 1 else {"anyOf": references})
    for media_type in operation.media_types:
        made.setdefault(media_type, {"schema": _BINARY if "arrow" in media_type else _TEXT})
    return made or _json({})


def _members(answer: Any) -> list[type[msgspec.Struct]]:
    """The classes of an answer that is one of several."""
    if answer is None:
        return []
    return list(get_args(answer)) if get_origin(answer) in _OPTIONAL else [answer]


def _schemas_of(operations: Iterable[HttpOperation]) -> dict[str, Any]:
    kinds: dict[type[msgspec.Struct], None] = {ErrorOutput: None}
    for operation in operations:
        kinds |= dict.fromkeys(_members(operation.answer))
        if operation.body is not None:
            kinds[operation.body] = None
    _, schemas = msgspec.json.schema_components(kinds, schema_hook=_anything, ref_template=_SCHEMAS)
    return schemas


def _anything(kind: type) -> dict[str, Any]:
    """``object`` is any value of JSON."""
    if kind is object:
        return {"description": "any value"}
    raise NotImplementedError(f"a value of {kind} has no form in JSON")


def _link(operation: HttpOperation, follows: Follows, target: HttpOperation) -> dict[str, Any]:
    parameters = {"path.graph_id": "$request.path.graph_id"}
    if follows.path is not None:
        own = names_in(operation)
        parameters[f"path.{names_in(target)[-1]}"] = follows.path.format(own=own[-1] if own else "")
    parameters |= {f"query.{name}": value for name, value in follows.query.items()}
    parameters |= {f"header.{name}": value for name, value in follows.headers.items()}
    made: dict[str, Any] = {"operationId": PREFIX + target.id, "parameters": parameters}
    if follows.body is not None:
        made["requestBody"] = follows.body
    return made
