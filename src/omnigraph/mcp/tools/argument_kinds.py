"""Kinds of arguments that several tools have, with what they say to an agent."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from msgspec import Meta

from omnigraph import limits

ReadBranch: TypeAlias = Annotated[
    str | None,
    Meta(
        description="Branch to read. Leave it out to read your own branch once it exists, and the base branch before."
    ),
]
WriteBranch: TypeAlias = Annotated[
    str | None,
    Meta(
        description="Branch to write to. Leave it out to write to your own branch, which is made from the base branch "
        "when it does not exist yet; name another one only if you were told to."
    ),
]
QueryText: TypeAlias = Annotated[
    str,
    Meta(
        description="Text in the query language, for example: query q($h: String) { match { $p: Person { handle: $h } "
        "} return { $p.name as name } }. Use the type and property names of schema_get; the resource "
        "omnigraph://best-practices/queries explains the language."
    ),
]
QueryName: TypeAlias = Annotated[
    str | None, Meta(description="Which query of the text to run; needed when the text holds several.")
]
Params: TypeAlias = Annotated[
    dict[str, Any] | None,
    Meta(description='Parameters by name without $, for example {"h": "ana"}. Put values here, not into the text.'),
]
State: TypeAlias = Annotated[
    str | None,
    Meta(description="An earlier state: a commit id or tag:NAME. Not together with branch."),
]
MaxRows: TypeAlias = Annotated[
    int,
    Meta(
        ge=1,
        le=limits.MCP_MOST_ROWS,
        description=f"Most rows of the answer, up to {limits.MCP_MOST_ROWS:,}. The answer says when there were more.",
    ),
]
CommitId: TypeAlias = Annotated[str, Meta(description="A commit id, as graph_commit_id of answers, or tag:NAME.")]
IfGraphCommit: TypeAlias = Annotated[
    str | None,
    Meta(
        description="Only write if this commit is still the head of the branch: the graph_commit_id of the answer that "
        "the write is based on. Otherwise nothing is done and the status is 412; read again then."
    ),
]
PageToken: TypeAlias = Annotated[
    str | None, Meta(description="next_page_token of the answer before, to get what comes next.")
]
ChangeLimit: TypeAlias = Annotated[
    int, Meta(ge=1, le=limits.FEED_PAGE_MAX_CHANGES, description="Most changes of the answer.")
]
Kinds: TypeAlias = Annotated[list[Literal["node", "edge"]] | None, Meta(description="Only changes of these kinds.")]
Types: TypeAlias = Annotated[list[str] | None, Meta(description="Only changes of these node and edge types.")]
Ops: TypeAlias = Annotated[
    list[Literal["insert", "update", "delete"]] | None, Meta(description="Only these kinds of change.")
]
