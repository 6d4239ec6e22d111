"""What the OpenAPI document says besides what the tables of the operations tell: headers, links, statuses, tags.

Everything is found by operation id. A name that is in no table of operations is a mistake; a test looks for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

#: Tags in the order of the page, with what they are about.
TAGS: Mapping[str, str] = {
    "health": "Whether the server lives, and its figures.",
    "management": "The graphs that are served.",
    "snapshots": "What a state of a graph consists of.",
    "blobs": "Large values, whole or in ranges.",
    "queries": "Reading: queries, stored queries, search, export.",
    "mutations": "Changing: statements and loads.",
    "schema": "The schema, and changes to it.",
    "branches": "Branches, tags, merges.",
    "commits": "The history.",
    "changes": "What changed, commit by commit.",
}

#: What an error status means.
ERRORS: Mapping[int, str] = {
    400: "The request is wrong: a body that cannot be read, an unknown type, a parameter of the wrong kind.",
    401: "The bearer token is missing or unknown.",
    403: "The policy denies it.",
    404: "There is no such graph, branch, commit, entity or stored query, or the caller may not know of it.",
    405: "The path has no such method.",
    408: "The body did not arrive in time.",
    409: "It contradicts what others did or what is there: read again and decide.",
    410: "The history that was asked for is cleaned up; take a baseline.",
    412: "The condition of the request does not hold; nothing was done.",
    413: "The request, its work or its answer is above a limit.",
    415: "The body is not of the media type that this operation takes.",
    416: "The range lies outside the value.",
    424: "A value that lies outside the graph could not be read.",
    429: "Too much at once; wait and try again.",
    431: "The headers are too large.",
    500: "The server or its storage failed.",
    503: "The graph waits for a recovery, or the server is stopping.",
}

#: Statuses of every operation on a graph, and of those with a body.
OF_EVERY_GRAPH = (400, 404, 429, 500, 503)
OF_EVERY_BODY = (408, 413, 415)
OF_TOKENS = (401, 403)


@dataclass(frozen=True, slots=True)
class RequestHeader:
    """A header that an operation reads."""

    name: str
    text: str
    required: bool = False
    schema: Mapping[str, Any] = field(default_factory=lambda: {"type": "string"})


_CONDITION = RequestHeader(
    "Omnigraph-If-Graph-Commit",
    "Id of the commit that must still be the head of the branch.",
    required=True,
    schema={"type": "string", "pattern": "^[0-9A-HJKMNP-TV-Z]{26}$"},
)
_BLOB = (
    RequestHeader("If-Match", "Strong entity tags, or `*`; otherwise 412."),
    RequestHeader("If-None-Match", "Entity tags, or `*`; 304 when one is that of the value."),
)
_RANGES = (
    RequestHeader("Range", "One range of bytes; several, and other units, are passed over."),
    RequestHeader("If-Range", "A strong entity tag; the range counts only if it is that of the value."),
)
REQUEST_HEADERS: Mapping[str, tuple[RequestHeader, ...]] = {
    "mutate_if_graph_commit": (_CONDITION,),
    "invoke_query_if_graph_commit": (_CONDITION,),
    "getBlob": (*_BLOB, *_RANGES),
    "headBlob": _BLOB,
}

#: Headers of answers, besides ``X-Request-Id`` which every answer has.
ANSWER_HEADERS: Mapping[str, str] = {
    "Retry-After": "Seconds to wait.",
    "Deprecation": "`true`: another operation replaces this one.",
    "Link": 'The operation that replaces this one, with `rel="successor-version"`.',
    "ETag": "Strong entity tag of the value.",
    "Accept-Ranges": "`bytes`",
    "Content-Range": "Which bytes of how many.",
    "Location": "Where the value lies.",
    "Cache-Control": "`no-store`",
    "Omnigraph-Snapshot-Id": "Opaque witness of the state that the value was read from.",
}

#: Answers of blobs: they are no JSON and have more than one status of success.
BLOB_ANSWERS: Mapping[int, tuple[str, tuple[str, ...]]] = {
    200: ("The value.", ("ETag", "Accept-Ranges", "Omnigraph-Snapshot-Id")),
    206: ("A range of the value.", ("ETag", "Accept-Ranges", "Content-Range", "Omnigraph-Snapshot-Id")),
    302: ("The value lies outside the graph.", ("Location", "Cache-Control", "Omnigraph-Snapshot-Id")),
    304: ("The client has it already.", ("ETag", "Omnigraph-Snapshot-Id")),
}
BLOBS = ("getBlob", "headBlob")


@dataclass(frozen=True, slots=True)
class Follows:
    """An operation that can be called with what another one answered.

    Attributes:
        operation: id of that operation.
        path: value of its last path parameter.
        query: values of query parameters by name.
        headers: values of headers by name.
        body: the JSON body, with expressions in it.
    """

    operation: str
    path: str | None = None
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Any = None


_COMMIT = "$response.body#/commit/graph_commit_id"
_FIRST_COMMIT = "$response.body#/commits/0/graph_commit_id"
_BRANCH = "$response.body#/name"
_OF_A_WRITE = (
    Follows("getCommit", path=_COMMIT),
    Follows("getCommitChanges", path=_COMMIT),
    Follows("getSnapshot", query={"branch": "$response.body#/branch"}),
)
FOLLOWS: Mapping[str, tuple[Follows, ...]] = {
    "createBranch": (
        Follows("deleteBranch", path=_BRANCH),
        Follows("getSnapshot", query={"branch": _BRANCH}),
        Follows("listCommits", query={"branch": _BRANCH}),
        Follows("pollChanges", query={"branch": _BRANCH}),
        Follows("mergeBranches", body={"source": _BRANCH}),
    ),
    "mutate": _OF_A_WRITE,
    "mutate_if_graph_commit": _OF_A_WRITE,
    "load": _OF_A_WRITE,
    "loadNdjson": _OF_A_WRITE,
    "invoke_query": (Follows("getCommit", path=_COMMIT),),
    "query": (
        Follows("mutate_if_graph_commit", headers={"Omnigraph-If-Graph-Commit": "$response.body#/graph_commit_id"}),
        Follows("getCommit", path="$response.body#/graph_commit_id"),
    ),
    "list_queries": (Follows("invoke_query", path="$response.body#/queries/0/name"),),
    "listCommits": (Follows("getCommit", path=_FIRST_COMMIT), Follows("getCommitChanges", path=_FIRST_COMMIT)),
    "getCommit": (Follows("getCommitChanges", path="$response.body#/graph_commit_id"),),
    "getCommitChanges": (
        Follows(
            "getCommitChanges",
            path="$request.path.{own}",
            query={"page_token": "$response.body#/next_page_token"},
        ),
    ),
    "pollChanges": (Follows("pollChanges", query={"cursor": "$response.body#/cursor"}),),
    "create_tag": (Follows("delete_tag", path=_BRANCH),),
}
