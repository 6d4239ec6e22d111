"""Every route below a graph, with the right that it needs and a request that a server takes.

Written by hand, from what the routes are for: the tables of the server are compared with this one.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

ZERO_COMMIT = "00000000000000000000000000"
_ASK = "query q() { match { $p: Person } return { $p.name } }"
_PUT = 'query q() { delete Person where name = "nobody at all" }'
_LINE = '{"type": "Person", "data": {"name": "Routed"}}\n'
NDJSON, ARROW, PARTS = (
    "application/x-ndjson",
    "application/vnd.apache.arrow.stream",
    "application/vnd.omnigraph.load",
)
_CONDITION = {"Omnigraph-If-Graph-Commit": ZERO_COMMIT}


@dataclass(frozen=True)
class Route:
    """One request.

    Attributes:
        needs: the action that a policy has to grant first.
        hidden: a caller without that right is told 404, as if there were nothing.
    """

    method: str
    template: str
    needs: str
    body: Any = None
    type: str = "application/json"
    headers: dict[str, str] = field(default_factory=dict)
    path: str = ""
    hidden: bool = False

    @property
    def name(self) -> str:
        return f"{self.method} {self.template}"

    @property
    def content(self) -> bytes | None:
        if self.body is None or isinstance(self.body, bytes):
            return self.body
        return json.dumps(self.body).encode()

    @property
    def target(self) -> str:
        return self.path or self.template


ROUTES = (
    Route("GET", "/snapshot", "read"),
    Route("POST", "/query", "read", {"query": _ASK}),
    Route("POST", "/read", "read", {"query_source": _ASK}),
    Route("POST", "/explain", "read", {"query": _ASK}),
    Route("POST", "/lint", "read", {"query": _ASK}),
    Route("POST", "/search", "read", {"words": "ana"}),
    Route("POST", "/rows", "read", {"type": "Person"}),
    Route("GET", "/stats", "read"),
    Route("POST", "/mutate", "change", {"query": _PUT}),
    Route("POST", "/mutate/if-graph-commit", "change", {"query": _PUT}, headers=_CONDITION),
    Route("POST", "/change", "change", {"query": _PUT}),
    Route("GET", "/queries", "read"),
    Route("POST", "/queries/{name}", "invoke_query", {}, path="/queries/people", hidden=True),
    Route(
        *("POST", "/queries/{name}/if-graph-commit", "invoke_query", {"params": {"name": "x"}}),
        headers=_CONDITION,
        path="/queries/rename/if-graph-commit",
        hidden=True,
    ),
    Route("GET", "/schema", "read"),
    Route("POST", "/schema/plan", "schema_apply", {"schema_source": "node Person { name: String @key }"}),
    Route("POST", "/schema/apply", "schema_apply", {"schema_source": "node Person {"}),
    Route("POST", "/load", "change", {"data": _LINE}),
    Route("POST", "/load/ndjson", "change", _LINE.encode(), NDJSON),
    Route("POST", "/load/arrow", "change", b"", ARROW, path="/load/arrow?type=Person"),
    Route("POST", "/load/parts", "change", b"", PARTS),
    Route("POST", "/ingest", "change", {"data": _LINE}),
    Route("POST", "/export", "export", {}),
    Route("GET", "/branches", "read"),
    Route("POST", "/branches", "branch_create", {"name": "main"}),
    Route("POST", "/branches/rename", "branch_delete", {"name": "not-there", "new_name": "nor-this"}),
    Route("DELETE", "/branches/{branch}", "branch_delete", path="/branches/not-there"),
    Route("POST", "/branches/merge", "branch_merge", {"source": "main"}),
    Route("GET", "/tags", "read"),
    Route("POST", "/tags", "change", {"name": "a tag", "at": "tag:none"}),
    Route("DELETE", "/tags/{tag}", "change", path="/tags/not-there"),
    Route("GET", "/commits", "read"),
    Route("GET", "/commit-graph", "read"),
    Route("GET", "/commits/{commit_id}", "read", path=f"/commits/{ZERO_COMMIT}"),
    Route("GET", "/commits/{commit_id}/changes", "read", path=f"/commits/{ZERO_COMMIT}/changes", hidden=True),
    Route("POST", "/revert", "change", {"commit": ZERO_COMMIT}),
    Route("POST", "/restore", "change", {"at": ZERO_COMMIT}),
    Route("POST", "/diff", "read", {"from": "main", "to": "main"}),
    Route("GET", "/changes", "read"),
    Route("POST", "/changes/baseline", "export", {}),
    Route("GET", "/blob", "read", path="/blob?entity=node&type=Person&id=Ana&property=photo"),
    Route("HEAD", "/blob", "read", path="/blob?entity=node&type=Person&id=Ana&property=photo"),
)
