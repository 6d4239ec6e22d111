"""Bodies and query parameters of the routes, with their names on the wire.

An optional field may be missing or null; both mean that it is not given. A field or parameter that nobody knows is an
error: a misspelt ``branch`` would otherwise write to main. What a field means is said in its class; the
names that older clients use are further fields, of which one may be given.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from omnigraph.choices import CommitKind
from omnigraph.errors import InputError

LoadModeName = Literal["overwrite", "append", "merge"]
Params = dict[str, object]


def _one_of(first: str | None, second: str | None, names: str) -> str | None:
    if first is not None and second is not None:
        raise InputError(f"{names} mean the same", hint="give one of them")
    return first if first is not None else second


class QueryRequest(msgspec.Struct, forbid_unknown_fields=True):
    """A read query. `name` is needed where the text holds several; `snapshot` is a commit id and excludes `branch`.
    `at` is a commit id, `tag:NAME`, a version or a time; `timeout_ms`, `max_rows` and `max_bytes`
    may be less than what the server gives."""

    query: str
    name: str | None = None
    params: Params | None = None
    branch: str | None = None
    snapshot: str | None = None
    at: str | int | None = None
    timeout_ms: int | None = None
    max_rows: int | None = None
    max_bytes: int | None = None


class OlderReadRequest(msgspec.Struct, forbid_unknown_fields=True):
    """A read query by the names of older clients."""

    query_source: str
    query_name: str | None = None
    params: Params | None = None
    branch: str | None = None
    snapshot: str | None = None


class ChangeRequest(msgspec.Struct, forbid_unknown_fields=True):
    """A write query. `query_source` and `query_name` are other names of `query` and `name`. The commit gets `message`
    and the id `commit_id`, a new ULID: the same request sent again is then done once."""

    query: str | None = None
    query_source: str | None = None
    name: str | None = None
    query_name: str | None = None
    params: Params | None = None
    branch: str | None = None
    message: str | None = None
    commit_id: str | None = None
    timeout_ms: int | None = None

    @property
    def text(self) -> str:
        """The text of the query, by whichever name."""
        text = _one_of(self.query, self.query_source, "query and query_source")
        if text is None:
            raise InputError("the body has another shape: object missing required field `query`")
        return text

    @property
    def chosen(self) -> str | None:
        """The name of the query, by whichever name."""
        return _one_of(self.name, self.query_name, "name and query_name")


class InvokeRequest(msgspec.Struct, forbid_unknown_fields=True):
    """Parameters of a stored query. `snapshot` and `at` are for reads, `message` and `commit_id` for mutations;
    `expect_mutation` refuses a query of the other kind."""

    params: Params | None = None
    branch: str | None = None
    snapshot: str | None = None
    expect_mutation: bool | None = None
    at: str | int | None = None
    timeout_ms: int | None = None
    message: str | None = None
    commit_id: str | None = None


class ExplainRequest(msgspec.Struct, forbid_unknown_fields=True):
    """A read query whose plan is wanted; `run` also runs it and tells rows and times of each step."""

    query: str
    name: str | None = None
    params: Params | None = None
    branch: str | None = None
    at: str | int | None = None
    run: bool | None = None
    timeout_ms: int | None = None
    max_rows: int | None = None
    max_bytes: int | None = None


class LintRequest(msgspec.Struct, forbid_unknown_fields=True):
    """Queries that are checked against the schema, without running them."""

    query: str


class SearchRequestBody(msgspec.Struct, forbid_unknown_fields=True):
    """Words to look for in all texts with an index, or in those of some node types; with neighbours up to `hops`."""

    words: str
    types: list[str] | None = None
    hops: int | None = None
    limit: int | None = None
    branch: str | None = None
    at: str | int | None = None
    timeout_ms: int | None = None
    max_bytes: int | None = None


class SchemaPlanRequest(msgspec.Struct, forbid_unknown_fields=True):
    """A wanted schema; nothing is changed."""

    schema_source: str
    allow_data_loss: bool | None = None
    allow_unknown_annotations: bool | None = None


class SchemaApplyRequest(msgspec.Struct, forbid_unknown_fields=True):
    """A wanted schema. `if_hash` refuses unless the graph still has the schema of this hash."""

    schema_source: str
    allow_data_loss: bool | None = None
    if_hash: str | None = None
    message: str | None = None
    allow_unknown_annotations: bool | None = None


class IngestRequest(msgspec.Struct, forbid_unknown_fields=True):
    """Records as NDJSON text. A branch that does not exist is made from `from`. `on_error: reject` leaves bad records
    out, at most `max_rejects`; `columns: keep` leaves alone what a merge does not bring; `times: round` rounds them."""

    data: str
    branch: str | None = None
    from_: str | None = msgspec.field(name="from", default=None)
    mode: LoadModeName | None = None
    message: str | None = None
    commit_id: str | None = None
    on_error: Literal["fail", "reject"] | None = None
    max_rejects: int | None = None
    columns: Literal["replace", "keep"] | None = None
    times: Literal["exact", "round"] | None = None


class LoadQuery(msgspec.Struct, forbid_unknown_fields=True):
    """How the body of a load is meant; see `IngestRequest`."""

    branch: str | None = None
    from_: str | None = msgspec.field(name="from", default=None)
    mode: LoadModeName | None = None
    message: str | None = None
    commit_id: str | None = None
    on_error: Literal["fail", "reject"] | None = None
    max_rejects: int | None = None
    columns: Literal["replace", "keep"] | None = None
    times: Literal["exact", "round"] | None = None


class LoadArrowQuery(LoadQuery, kw_only=True):
    """The same for rows of one type as an Arrow stream."""

    type: str


class LoadPartsQuery(LoadQuery, kw_only=True):
    """The same for files and rows as `wire/load_parts.py` lays them out. `shape` is `mapping` when each part names its
    type; `type` and `format` are those of all parts otherwise."""

    type: str | None = None
    format: str | None = None
    shape: Literal["mapping"] | None = None


class RowsRequest(msgspec.Struct, forbid_unknown_fields=True):
    """Rows of one type as they are stored."""

    type: str
    columns: list[str] | None = None
    branch: str | None = None
    at: str | int | None = None


class ExportRequest(msgspec.Struct, forbid_unknown_fields=True):
    """One state, whole or some types of it. Other keys are errors: a misspelt one would export too much."""

    branch: str | None = None
    type_names: list[str] | None = None
    at: str | int | None = None
    format: Literal["jsonl"] | None = None


class BranchCreateRequest(msgspec.Struct, forbid_unknown_fields=True):
    """A branch from the newest state of another one or of a `tag:NAME`, or with `at` from an earlier state."""

    name: str
    from_: str | None = msgspec.field(name="from", default=None)
    at: str | int | None = None


class BranchRenameRequest(msgspec.Struct, forbid_unknown_fields=True):
    """Another name for a branch."""

    name: str
    new_name: str
    message: str | None = None


class BranchMergeRequest(msgspec.Struct, forbid_unknown_fields=True):
    """A merge of one branch into another, main by default. `resolve` decides conflicts: `ours`, `theirs`, or by entity;
    `dry_run` only tells what would happen."""

    source: str
    target: str | None = None
    delete_branch: bool | None = None
    dry_run: bool | None = None
    resolve: Literal["ours", "theirs"] | dict[str, object] | None = None
    message: str | None = None


class TagCreateRequest(msgspec.Struct, forbid_unknown_fields=True):
    """A name for a state that stays readable."""

    name: str
    at: str | int | None = None
    branch: str | None = None
    message: str | None = None


class RevertRequest(msgspec.Struct, forbid_unknown_fields=True):
    """A commit to undo, by id or `tag:NAME`; rows that were changed again since are decided by `resolve`."""

    commit: str
    branch: str | None = None
    resolve: Literal["ours", "theirs"] | dict[str, object] | None = None
    message: str | None = None


class RestoreRequest(msgspec.Struct, forbid_unknown_fields=True):
    """An older state whose rows a branch shall have again."""

    at: str | int
    branch: str | None = None
    message: str | None = None


class DiffRequest(msgspec.Struct, forbid_unknown_fields=True):
    """Two states: branches, commit ids, `tag:NAME`, versions or times of `branch`. `summary` only counts."""

    from_: str | int = msgspec.field(name="from")
    to: str | int
    branch: str | None = None
    kinds: list[str] | None = None
    types: list[str] | None = None
    ops: list[str] | None = None
    summary: bool | None = None


class BaselineRequest(msgspec.Struct, forbid_unknown_fields=True):
    """A whole branch with the cursor that goes on from there; the filters are those of the later polls."""

    branch: str | None = None
    kind: list[str] | None = None
    type: list[str] | None = None
    op: list[str] | None = None


class StateQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Which state: the newest of a branch, or an earlier one."""

    branch: str | None = None
    at: str | None = None


class StatsQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Figures of a branch; `embeddings` also counts vectors."""

    branch: str | None = None
    embeddings: bool | None = None


class BranchDeleteQuery(msgspec.Struct, forbid_unknown_fields=True):
    """`force` deletes the tags on its states too."""

    force: bool | None = None


class CommitsQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Which commits of a branch. `since` and `until` are commit ids, versions or times."""

    branch: str | None = None
    limit: int | None = None
    before: str | None = None
    actor: list[str] | None = None
    kind: list[CommitKind] | None = None
    message: list[str] | None = None
    made_on: list[str] | None = None
    since: str | None = None
    until: str | None = None


class CommitGraphQuery(msgspec.Struct, forbid_unknown_fields=True):
    """The same for several branches and what was merged into them; without `branch` for all."""

    branch: list[str] | None = None
    limit: int | None = None
    actor: list[str] | None = None
    kind: list[CommitKind] | None = None
    message: list[str] | None = None
    made_on: list[str] | None = None
    since: str | None = None
    until: str | None = None


class CommitChangesQuery(msgspec.Struct, forbid_unknown_fields=True):
    """A page of the changes of a commit. `kind`, `type` and `op` may be repeated."""

    page_token: str | None = None
    limit: int | None = None
    max_bytes: int | None = None
    kind: list[str] | None = None
    type: list[str] | None = None
    op: list[str] | None = None


class ChangeFeedQuery(msgspec.Struct, forbid_unknown_fields=True):
    """A page of the feed of a branch. At most one of `cursor`, `start` and `page_token` is given; without one it begins
    `now`. `start` is `now`, `beginning` or `after:<commit id>`."""

    branch: str | None = None
    cursor: str | None = None
    start: str | None = None
    page_token: str | None = None
    limit: int | None = None
    max_bytes: int | None = None
    max_commits: int | None = None
    kind: list[str] | None = None
    type: list[str] | None = None
    op: list[str] | None = None


class BlobQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Which value: of a node or an edge, by type, id and property; of a branch now, or of `snapshot`, a commit id."""

    entity: Literal["node", "edge"]
    type: str
    id: str
    property: str
    branch: str | None = None
    snapshot: str | None = None
