"""What a tool is: its name, what it says of itself, its arguments and the function that does the work.

The class of the arguments is the schema that an agent reads and the check of what it sends, in one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from omnigraph.errors import InputError
from omnigraph.ids import did_you_mean
from omnigraph.mcp.desk import Desk


class ToolArguments(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """Arguments of a tool; names are in camel case outside."""


@dataclass(frozen=True, slots=True)
class AgentTool:
    """One tool.

    Attributes:
        arguments: their class, each field with a description.
        run: gives an answer in the shapes of the HTTP interface. It runs on a thread and may block.
        writes: it may change the graph.
        destroys: what it changes may be lost for the newest state: rows replaced or deleted, branches deleted.
        repeatable: doing it again changes nothing more.
    """

    name: str
    title: str
    description: str
    arguments: type[ToolArguments]
    run: Callable[[Desk, Any], Mapping[str, Any]]
    writes: bool = False
    destroys: bool = False
    repeatable: bool = False

    def schema(self) -> dict[str, Any]:
        """The JSON schema of the arguments."""
        _, parts = msgspec.json.schema_components([self.arguments])
        found = parts[self.arguments.__name__]
        shown: dict[str, Any] = {"type": "object", "properties": {}}
        for name, property in found.get("properties", {}).items():
            shown["properties"][name] = _plain(property)
        if found.get("required"):
            shown["required"] = found["required"]
        return {**shown, "additionalProperties": False}

    def call(self, desk: Desk, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """Check the arguments and do the work.

        Raises:
            InputError: an argument is missing, unknown or of another kind.
        """
        return self.run(desk, self._checked(arguments))

    def _checked(self, arguments: Mapping[str, Any]) -> ToolArguments:
        known = self.arguments.__struct_encode_fields__
        for name in arguments:
            if name not in known:
                hint = did_you_mean(str(name), known) if known else "it takes none"
                raise InputError(f"tool '{self.name}' has no argument '{name}'", hint=hint)
        try:
            return msgspec.convert(dict(arguments), self.arguments)
        except msgspec.ValidationError as error:
            raise InputError(f"the arguments of tool '{self.name}' are wrong: {error}") from None


def _plain(property: Mapping[str, Any]) -> dict[str, Any]:
    """A property as agents read it best: what may be left out is not also said to be null."""
    shown = {name: value for name, value in property.items() if name != "default" or value is not None}
    kinds = [kind for kind in shown.get("anyOf", []) if kind != {"type": "null"}]
    if len(kinds) == 1:
        del shown["anyOf"]
        shown = {**kinds[0], **shown}
    return shown
