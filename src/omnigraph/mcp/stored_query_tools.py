"""Every stored query as a tool of its own: its parameters become the JSON schema of the tool."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from omnigraph import Result, limits
from omnigraph.errors import InputError
from omnigraph.ids import did_you_mean
from omnigraph.mcp.answer_bounds import read_answer
from omnigraph.mcp.desk import Desk, StoredCall
from omnigraph.mcp.tools import TOOLS
from omnigraph.mcp.tools.ask_tools import require_one_state

if TYPE_CHECKING:
    from omnigraph import MutationResult

_TAKEN = frozenset(tool.name for tool in TOOLS)
_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]+")
_LONGEST_NAME = 120

_KINDS: Mapping[str, Mapping[str, Any]] = {
    "string": {"type": "string"},
    "bool": {"type": "boolean"},
    "int": {"type": "integer"},
    "bigint": {"type": ["integer", "string"], "description": "A whole number; as decimal text if it is large."},
    "float": {"type": "number"},
    "date": {"type": "string", "format": "date", "description": "YYYY-MM-DD."},
    "datetime": {"type": "string", "format": "date-time", "description": "An instant, as 2026-02-14T10:00:00Z."},
    "blob": {"type": "string", "description": "The address of a blob."},
}
_BRANCH = "Leave it out to work on your own branch."
_READS: Mapping[str, Any] = {
    "branch": {"type": "string", "description": f"Branch to read. {_BRANCH}"},
    "snapshot": {"type": "string", "description": "An earlier state: a commit id or tag:NAME. Not with branch."},
    "maxRows": {
        "type": "integer",
        "minimum": 1,
        "maximum": limits.MCP_MOST_ROWS,
        "default": limits.MCP_ROWS,
        "description": "Most rows of the answer.",
    },
}
_WRITES: Mapping[str, Any] = {
    "branch": {"type": "string", "description": f"Branch to write to. {_BRANCH}"},
    "ifGraphCommit": {
        "type": "string",
        "description": "Only write if this commit is still the head of the branch.",
    },
}


@dataclass(frozen=True, slots=True)
class StoredQueryTool:
    """The tool of one stored query.

    Attributes:
        entry: what the catalog of stored queries says of it.
    """

    name: str
    entry: Mapping[str, Any]

    @property
    def writes(self) -> bool:
        return bool(self.entry["mutation"])

    @property
    def description(self) -> str:
        """What the query says of itself."""
        said = [str(self.entry[key]) for key in ("description", "instruction") if self.entry.get(key)]
        kind = "Stored write query" if self.writes else "Stored read query"
        return " ".join([f"{kind} '{self.entry['name']}'.", *said])

    def schema(self) -> dict[str, Any]:
        """The JSON schema of the arguments: the parameters of the query below ``params``."""
        declared = self.entry["params"]
        needed = [each["name"] for each in declared if not each["nullable"]]
        properties: dict[str, Any] = {}
        if declared:
            params: dict[str, Any] = {
                "type": "object",
                "description": "The parameters of the query.",
                "properties": {each["name"]: _kind_of(each) for each in declared},
                "additionalProperties": False,
            }
            properties["params"] = {**params, "required": needed} if needed else params
        properties |= _WRITES if self.writes else _READS
        schema: dict[str, Any] = {"type": "object", "properties": properties, "additionalProperties": False}
        return {**schema, "required": ["params"]} if needed else schema

    def call(self, desk: Desk, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """Check the arguments and call the query."""
        given = self._checked(arguments)
        name, params, branch = self.entry["name"], given.get("params"), given.get("branch")
        if self.writes:
            done, branch, made = desk.writing(
                branch,
                lambda to: _written(
                    desk.surroundings.invoke(StoredCall(name, True, params, to, if_commit=given.get("ifGraphCommit")))
                ),
            )
            return {**done, "branch": branch, "branch_created": made}
        rows, at = given.get("maxRows", limits.MCP_ROWS), given.get("snapshot")
        require_one_state(branch, at)
        if at is not None:
            return _read(desk.surroundings.invoke(StoredCall(name, False, params, at=at)), rows, desk)
        answer, branch = desk.reading(
            branch, lambda of: _read(desk.surroundings.invoke(StoredCall(name, False, params, of)), rows, desk)
        )
        return {**answer, "branch": branch}

    def _checked(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        known = self.schema()["properties"]
        given = {name: value for name, value in arguments.items() if value is not None}
        for name, value in given.items():
            if name not in known:
                hint = did_you_mean(name, known)
                raise InputError(f"tool '{self.name}' has no argument '{name}'", hint=hint)
            wanted = known[name]["type"]
            if not _fits(value, wanted):
                raise InputError(f"argument '{name}' of tool '{self.name}' must be of type {wanted}")
        rows = given.get("maxRows", 1)
        if not 1 <= rows <= limits.MCP_MOST_ROWS:
            raise InputError(f"maxRows is from 1 to {limits.MCP_MOST_ROWS}, not {rows}")
        return given


def stored_query_tools(entries: Iterable[Mapping[str, Any]]) -> dict[str, StoredQueryTool]:
    """Tools by name. A name that a tool has already gets ``stored_`` before it."""
    found: dict[str, StoredQueryTool] = {}
    for entry in entries:
        name = _UNSAFE.sub("_", str(entry.get("tool_name") or entry["name"]))[:_LONGEST_NAME]
        if name in _TAKEN:
            name = f"stored_{name}"
        found.setdefault(name, StoredQueryTool(name, entry))
    return found


def _fits(value: object, wanted: str) -> bool:
    kinds: dict[str, type] = {"string": str, "object": dict, "integer": int}
    return isinstance(value, kinds[wanted]) and not isinstance(value, bool)


def _kind_of(parameter: Mapping[str, Any]) -> dict[str, Any]:
    kind = parameter["kind"]
    if kind == "vector":
        size = parameter.get("vector_dim")
        bounds = {} if size is None else {"minItems": size, "maxItems": size}
        return {"type": "array", "items": {"type": "number"}, **bounds}
    if kind == "list":
        return {"type": "array", "items": dict(_KINDS.get(parameter.get("item_kind", ""), {}))}
    return dict(_KINDS.get(kind, {}))


def _read(answer: Result | MutationResult, rows: int, desk: Desk) -> dict[str, Any]:
    return read_answer(answer, rows, desk.size.bytes) if isinstance(answer, Result) else answer.to_dict()


def _written(answer: Result | MutationResult) -> dict[str, Any]:
    return answer.to_dict()
