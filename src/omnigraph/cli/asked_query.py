"""The query that `query`, `mutate` and `alias` run: a text that is given, or one that a server keeps under a name."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from omnigraph.cli.addressing import Address
from omnigraph.cli.arguments import QueryArguments
from omnigraph.cli.error_text import UsageError
from omnigraph.errors import InputError, QueryNotFound

if TYPE_CHECKING:
    from omnigraph import Graph, MutationResult, Result

#: Names the argument of a request that says whether a query writes, in what a server says about it.
_OTHER_KIND = "expect_mutation"

_PASS_TEXT = "pass --query FILE or -e TEXT"


@dataclass(frozen=True, slots=True)
class AskedQuery:
    """A query with its parameters.

    Attributes:
        text: the text, or the path of a file with it; None for a stored query.
        name: of the stored query, or which one of the text.
    """

    text: str | Path | None
    name: str | None
    params: dict[str, Any] | None

    @classmethod
    def of(cls, command: str, name: str | None, arguments: QueryArguments) -> AskedQuery:
        """What the options of a command ask for; refused, if it cannot be meant, before a graph is looked for."""
        return cls(arguments.given_source(command, name), name, arguments.values())

    def require_possible(self, command: str, address: Address) -> None:
        """Refuse to look for a stored query where there is none."""
        if self.text is not None:
            return
        if not address.is_served:
            raise UsageError(
                f"'{command}' needs a query text: stored queries belong to a server, this is a store", hint=_PASS_TEXT
            )
        if self.name is None:
            raise UsageError(
                f"'{command}' needs the name of a stored query, or a query text", hint=f"give NAME, or {_PASS_TEXT}"
            )

    def query(self, graph: Graph, state: dict[str, Any]) -> Result:
        """Run it as a read."""
        if self.text is not None:
            return graph.query(self.text, self.name, self.params, **state)
        return cast("Result", self._stored(graph, {**state, "expect_mutation": False}))

    def mutate(self, graph: Graph, options: dict[str, Any]) -> MutationResult:
        """Run it as a write."""
        if self.text is not None:
            return graph.mutate(self.text, self.name, self.params, **options)
        return cast("MutationResult", self._stored(graph, {**options, "expect_mutation": True}))

    def _stored(self, graph: Graph, options: dict[str, Any]) -> Any:
        try:
            return graph.stored(self.name, self.params, **options)  # type: ignore[attr-defined]
        except QueryNotFound as missing:
            missing.message = f"stored query '{self.name}' not found"
            missing.hint = "'omnigraph queries list' shows those that you may run"
            raise
        except InputError as refused:
            if _OTHER_KIND not in refused.message:
                raise
            kind, way = ("reads", "query") if options[_OTHER_KIND] else ("writes", "mutate")
            hint = f"use 'omnigraph {way} {self.name}'"
            raise InputError(f"stored query '{self.name}' {kind}", hint=hint) from None
