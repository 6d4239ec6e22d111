"""Every error OmniGraph raises, as one tree.

Branches are named after what the caller should do next. Each class has a stable ``code`` that clients may match on;
the message names the thing, the place and the next step, and never holds a secret or a stack trace. The first paragraph
of a docstring says when the error happens, the second what to do; docs/errors.md is written from them.

OmniGraphError
├── InputError
│   ├── SourceError
│   │   ├── SchemaSyntaxError
│   │   ├── SchemaError
│   │   ├── CatalogError
│   │   ├── SchemaIdentityError
│   │   ├── QuerySyntaxError
│   │   ├── QueryTypeError
│   │   ├── ServerFileError
│   │   └── PolicyError
│   ├── ParameterError
│   ├── EmbeddingSettingsError
│   ├── EmbeddingModelMismatch
│   ├── ExternalBlobSettingsError
│   ├── NotABlob
│   ├── BlobRangeError
│   ├── UnsupportedSchemaChange
│   ├── ChangeCursorRejected
│   ├── InvalidRequest
│   ├── InvalidName
│   ├── InvalidUri
│   ├── InvalidTransaction
│   ├── NotOffered
│   ├── InvalidRow
│   │   ├── InvalidRecord
│   │   ├── MissingValue
│   │   ├── IdMismatch
│   │   ├── RangeViolation
│   │   ├── CheckViolation
│   │   └── EnumViolation
│   └── InvalidRowSet
│       ├── UniqueViolation
│       ├── EndpointMissing
│       └── CardinalityViolation
├── ConflictError
│   ├── ChangeSchemaBoundary
│   ├── CommitWithoutParent
│   ├── ExpectedVersionMismatch
│   ├── RowLevelCasContention
│   ├── ReadSetChanged
│   │   └── SchemaChanged
│   ├── PreconditionFailed
│   ├── UncoveredDrift
│   ├── SchemaApplyBlocked
│   ├── SchemaFilesDisagree
│   ├── KeyConflict
│   ├── AlreadyInitialized
│   ├── BranchExists
│   ├── BranchInUse
│   ├── TagExists
│   ├── CleanupRefused
│   ├── MergeConflict
│   └── MergeSchemaMismatch
├── NotFoundError
│   ├── GraphNotFound
│   ├── BranchNotFound
│   ├── CommitNotFound
│   ├── TagNotFound
│   ├── ChangeFeedGap
│   ├── TypeNotFound
│   ├── QueryNotFound
│   ├── RowNotFound
│   ├── BlobNotFound
│   └── HistoricalVersionReclaimed
├── DeniedError
│   ├── ReadOnly
│   ├── ExternalBlobDenied
│   ├── PolicyDenied
│   └── Unauthenticated
├── LimitError
│   ├── ResourceLimitExceeded
│   ├── QueryTimeout
│   ├── SumOverflow
│   ├── LockTimeout
│   └── TooManyRequests
├── StorageError
│   ├── StoreUnavailable
│   ├── ServerUnavailable
│   ├── UnknownAnswer
│   ├── ExternalBlobUnavailable
│   ├── CorruptGraph
│   ├── ForkedProcess
│   ├── GraphClosed
│   ├── GraphMoved
│   ├── NewerFormat
│   ├── UnreadableSidecar
│   └── AuditFailed
├── EmbeddingError
│   ├── ProviderUnavailable
│   ├── ProviderRefused
│   └── InvalidEmbedding
├── QueryCancelled
├── RecoveryRequired
├── OutcomeUnknown
├── MissingExtra
└── InternalError
"""

from __future__ import annotations

from omnigraph.error_base import Conflict as Conflict
from omnigraph.error_base import Located
from omnigraph.error_base import OmniGraphError as OmniGraphError


class InputError(OmniGraphError, ValueError):
    """The request itself is wrong. Also a `ValueError`.

    Correct the request; the message names the argument or the place.
    """

    code = "input"


class SourceError(Located, InputError):
    """A text in the schema or query language is wrong. Knows file, line and column.

    Correct the text at the place that the message shows.
    """

    code = "source"


class SchemaSyntaxError(SourceError):
    """A schema text (`.pg`) does not parse.

    Correct the text at the place shown.
    """

    code = "schema.syntax"


class SchemaError(SourceError):
    """A schema text parses but breaks a rule of the language.

    Correct the declaration at the place shown.
    """

    code = "schema.rule"


class CatalogError(SourceError):
    """The declarations of a schema do not fit together.

    Correct the declarations that the message names.
    """

    code = "schema.catalog"


class SchemaIdentityError(SourceError):
    """A `@rename_from` hint cannot be followed.

    Correct or remove the hint.
    """

    code = "schema.identity"


class QuerySyntaxError(SourceError):
    """A query text (`.gq`) does not parse.

    Correct the text at the place shown.
    """

    code = "query.syntax"


class QueryTypeError(SourceError):
    """A query parses but does not fit the schema.

    Correct the query; `lint` checks a whole file.
    """

    code = "query.type"


class ServerFileError(SourceError):
    """The file that says what a server serves breaks a rule of its language.

    Correct the file at the place shown.
    """

    code = "server_file"


class PolicyError(SourceError):
    """A policy file, or a file of cases for one, breaks a rule of its language.

    Correct the file at the place shown; `omnigraph policy validate` checks it.
    """

    code = "policy"


class ParameterError(InputError):
    """A query parameter is missing, unknown or of the wrong type.

    Pass the parameters that the query declares.
    """

    code = "query.parameter"


class EmbeddingSettingsError(InputError):
    """The environment does not say how texts are embedded: an unknown provider, a missing key, an impossible dimension.

    Set the variables that the message names.
    """

    code = "embedding.settings"


class EmbeddingModelMismatch(InputError):
    """Vectors of two models would meet: the configured model is not the one of the property, or of its vectors.

    Set `OMNIGRAPH_EMBED_MODEL` to the model of the vectors, or embed all of them again.
    """

    code = "embedding.model"


class ExternalBlobSettingsError(InputError):
    """`OMNIGRAPH_EXTERNAL_BLOBS` holds something that is no base address, or two bases of which one lies in the other.

    Set it to absolute paths, `file://` or `s3://` addresses with blanks between them.
    """

    code = "blob.settings"


class NotABlob(InputError):
    """A blob was asked for, and the property of the type does not exist or is no `Blob`.

    Name a property that the schema declares as `Blob`.
    """

    code = "blob.property"


class BlobRangeError(InputError):
    """Bytes of a blob were asked for that begin behind its end; `details` has start, end and length.

    Ask for an offset up to the size of the blob.
    """

    code = "blob.range"

    def __init__(self, start: int, length: int | None, size: int) -> None:
        end = size if length is None else start + length
        super().__init__(
            f"the blob has {size} bytes, and byte {start} is behind its end", start=start, end=end, length=size
        )


class UnsupportedSchemaChange(InputError):
    """A schema change is not safe, or not known to be safe. Nothing changed.

    Read `schema.plan(...)`; change the schema in smaller steps, or move the data.
    """

    code = "schema.unsupported_change"


class ChangeCursorRejected(InputError):
    """A cursor or page token is damaged, or belongs to another graph, branch or filter.

    Begin again with `baseline`.
    """

    code = "change_cursor"

    def __init__(self, reason: str) -> None:
        super().__init__(f"change cursor rejected: {reason}", hint="start again from a baseline", reason=reason)


class InvalidRequest(InputError):
    """A server cannot take a request as it was sent: its body, a header, its method or its address.

    Correct the request; the message names the place.
    """

    code = "request"


class InvalidName(InputError):
    """A branch, actor or graph name breaks the naming rules.

    Choose another name.
    """

    code = "name"


class InvalidUri(InputError):
    """The address of a graph cannot be understood.

    Pass a directory, `file://` or `s3://bucket/prefix`.
    """

    code = "uri"


class InvalidTransaction(InputError):
    """A transaction is used where it cannot be: outside its `with` block, in another thread, or inside another one.

    Use it inside its own block, in the thread that entered it.
    """

    code = "transaction"


class NotOffered(InputError):
    """A verb or an argument that works on the storage of a graph was used on a graph behind a server.

    Open the graph by its storage address where that can be reached, or leave the argument out.
    """

    code = "not_offered"


class InvalidRow(InputError):
    """A row does not fit its type.

    Correct the row, or load with `on_error="reject"`.
    """

    code = "row"


class InvalidRecord(InvalidRow):
    """A line of a file is not a record of the graph.

    Correct the line, or load with `on_error="reject"`.
    """

    code = "row.record"


class MissingValue(InvalidRow):
    """A required property is null or missing.

    Give the property a value.
    """

    code = "row.missing_value"


class IdMismatch(InvalidRow):
    """An explicit id differs from the key of its row.

    Leave the id out, or make it equal to the key.
    """

    code = "row.id_mismatch"


class RangeViolation(InvalidRow):
    """A value lies outside the `@range` of its property.

    Correct the value.
    """

    code = "row.range"


class CheckViolation(InvalidRow):
    """A value does not match the `@check` of its property.

    Correct the value.
    """

    code = "row.check"


class EnumViolation(InvalidRow):
    """A value is not one of the `enum(...)` of its property.

    Correct the value, or extend the enum in the schema.
    """

    code = "row.enum"


class InvalidRowSet(InputError):
    """Rows that are valid one by one break a rule together.

    Correct the rows that the message names.
    """

    code = "rows"


class UniqueViolation(InvalidRowSet):
    """Two rows have the same `@key` or `@unique` value.

    Remove or correct one of them.
    """

    code = "rows.unique"


class EndpointMissing(InvalidRowSet):
    """An edge points at a node that does not exist.

    Write the node first, or in the same commit.
    """

    code = "rows.endpoint"


class CardinalityViolation(InvalidRowSet):
    """A node has more or fewer edges of a type than its `@card` allows.

    Add or remove edges.
    """

    code = "rows.cardinality"


class ConflictError(OmniGraphError):
    """The state of the graph does not allow the request.

    Read again, then decide.
    """

    code = "conflict"


class ChangeSchemaBoundary(ConflictError):
    """Two states cannot be compared row by row, because the properties of a type differ.

    Take a `baseline`, or go on after the commit that changed the schema.
    """

    code = "conflict.schema_boundary"


class CommitWithoutParent(ConflictError):
    """The changes of the first commit were asked for; it has no parent to compare with.

    Begin with `baseline`.
    """

    code = "conflict.parentless_commit"


class ExpectedVersionMismatch(ConflictError):
    """A table moved since it was read.

    Read again and retry.
    """

    code = "conflict.expected_version"

    def __init__(self, table_key: str, expected: int, actual: int) -> None:
        super().__init__(
            f"stale view of '{table_key}': expected manifest table version {expected} "
            f"but current is {actual} — refresh and retry",
            table_key=table_key,
            expected=expected,
            actual=actual,
        )


class RowLevelCasContention(ConflictError):
    """The publish lost its race against other writers more often than it may retry.

    Retry later, or write less often in parallel to one branch.
    """

    code = "conflict.contention"


class ReadSetChanged(ConflictError):
    """The head, the branch or the schema moved before anything was written.

    Read again and retry.
    """

    code = "conflict.read_set"

    def __init__(self, member: str, expected: object, actual: object) -> None:
        super().__init__(
            f"{member} changed while this write was prepared: expected {expected}, found {actual}",
            hint="read again and retry",
            member=member,
            expected=expected,
            actual=actual,
        )


class SchemaChanged(ReadSetChanged):
    """The schema is not the one that the write was made for.

    Read the schema again and retry.
    """

    code = "conflict.schema_changed"


class PreconditionFailed(ConflictError):
    """The `if_commit` or `if_hash` of the caller does not hold. Nothing changed.

    Read the newest state, then decide.
    """

    code = "conflict.precondition"


class UncoveredDrift(ConflictError):
    """A table is ahead of the graph: other software wrote rows to it.

    Look at it with `omnigraph repair`. Then adopt it with `repair --confirm --force`, or take it back with
    `repair --confirm --discard` and write the rows through OmniGraph.
    """

    code = "conflict.drift"

    def __init__(self, table_key: str, head: int, pin: int) -> None:
        super().__init__(
            f"table '{table_key}' is at version {head} but the graph shows {pin}: other software wrote to it",
            hint="look at it with repair(), take it back with repair(confirm=True, discard=True), or adopt it with "
            "repair(confirm=True, force=True)",
            table_key=table_key,
            head=head,
            pin=pin,
        )


class SchemaApplyBlocked(ConflictError):
    """A schema change met branches other than main.

    Merge or delete them first.
    """

    code = "conflict.schema_apply"


class SchemaFilesDisagree(ConflictError):
    """The three schema files do not belong together; somebody edited them.

    Restore them, or change the schema with `schema.apply`.
    """

    code = "conflict.schema_files"


class KeyConflict(ConflictError):
    """A strict insert met an id that exists.

    Use the mode `merge`, or another id.
    """

    code = "conflict.key"


class AlreadyInitialized(ConflictError):
    """`init` found a graph at the address.

    Open it, or choose another address.
    """

    code = "conflict.initialized"


class BranchExists(ConflictError):
    """`create` found the name taken.

    Choose another name, or delete the branch.
    """

    code = "conflict.branch_exists"


class BranchInUse(ConflictError):
    """`delete` found the branch still needed by another one, or by tags.

    Delete or merge that one first; delete the tags, or delete with `force`.
    """

    code = "conflict.branch_in_use"


class TagExists(ConflictError):
    """`tags.create` found the name taken.

    Choose another name, or delete the tag.
    """

    code = "conflict.tag_exists"


class CleanupRefused(ConflictError):
    """A cleanup cannot tell what has to stay; it removed nothing.

    Resolve what the message names, then run it again.
    """

    code = "conflict.cleanup"


class MergeConflict(ConflictError):
    """Both sides of a merge changed the same entity, or the merged graph breaks a rule. Nothing was written;
    `conflicts` holds every conflict by table and id.

    Merge again with `resolve`, or change one of the branches.
    """

    code = "conflict.merge"

    @property
    def conflicts(self) -> tuple[Conflict, ...]:
        return tuple(Conflict.of(each) for each in self.details.get("conflicts", ()))


class MergeSchemaMismatch(ConflictError):
    """A merge met tables of different schemas.

    Bring both branches to one schema first.
    """

    code = "conflict.merge_schema"


class NotFoundError(OmniGraphError):
    """Something that was named does not exist.

    Check the name; the hint offers similar ones.
    """

    code = "not_found"


class GraphNotFound(NotFoundError):
    """There is no graph at the address.

    Check the address, or make a graph with `init`.
    """

    code = "not_found.graph"


class BranchNotFound(NotFoundError):
    """There is no branch of this name.

    `branches.list()` shows the names.
    """

    code = "not_found.branch"


class CommitNotFound(NotFoundError):
    """There is no commit of this id, version or time.

    `commits.list()` shows the ids.
    """

    code = "not_found.commit"


class TagNotFound(NotFoundError):
    """There is no tag of this name.

    `tags.list()` shows the names.
    """

    code = "not_found.tag"


class ChangeFeedGap(NotFoundError):
    """A change feed needs history that was cleaned up.

    Begin again with `baseline`.
    """

    code = "not_found.feed_gap"


class TypeNotFound(NotFoundError):
    """There is no node or edge type of this name in this state.

    `catalog` shows the types.
    """

    code = "not_found.type"


class QueryNotFound(NotFoundError):
    """The text has no query of this name, or several and none was named.

    Pass the name of one of its queries.
    """

    code = "not_found.query"


class RowNotFound(NotFoundError):
    """A row that was to be updated, or whose blob was asked for, does not exist.

    Insert it, or correct its key.
    """

    code = "not_found.row"


class BlobNotFound(NotFoundError):
    """A blob was asked for, and the property of the row is null.

    Take null for an answer; an empty blob is none and has the size 0.
    """

    code = "not_found.blob"


class HistoricalVersionReclaimed(NotFoundError):
    """The files of an older state were cleaned up.

    Choose a newer state.
    """

    code = "not_found.reclaimed"


class DeniedError(OmniGraphError):
    """The request is not allowed.

    Ask for the permission, or consent with `--yes`.
    """

    code = "denied"


class ReadOnly(DeniedError):
    """A write through a handle that is open read-only.

    Open the graph with `mode="rw"`.
    """

    code = "denied.read_only"


class ExternalBlobDenied(DeniedError):
    """A blob is named by an address that lies below no base of `OMNIGRAPH_EXTERNAL_BLOBS`.

    Pass the bytes as `base64:…`, or allow a base above the address.
    """

    code = "denied.external_blob"


class PolicyDenied(DeniedError):
    """No rule of the policy that the graph was opened with allows this to the actor. Nothing was done.

    Ask whoever keeps the policy; `omnigraph policy explain` shows the decision.
    """

    code = "denied.policy"


class Unauthenticated(DeniedError):
    """A server wants a token, and none was given, or it knows no such token.

    Pass `token=…`, or set `OMNIGRAPH_BEARER_TOKEN`.
    """

    code = "denied.unauthenticated"


class LimitError(OmniGraphError):
    """A limit was reached.

    Make the request smaller, or wait.
    """

    code = "limit"


class ResourceLimitExceeded(LimitError):
    """A request is larger than a limit; `details` has the resource, the size and the limit.

    Split the request, or use Spark.
    """

    code = "limit.resource"

    def __init__(self, resource: str, actual: int, limit: int, *, hint: str | None = None) -> None:
        super().__init__(
            f"resource limit exceeded for {resource}: actual {actual}, limit {limit}",
            hint=hint,
            resource=resource,
            actual=actual,
            limit=limit,
        )


class QueryTimeout(LimitError):
    """A query took longer than its caller allows; `details` has the seconds. Nothing changed.

    Allow more time, or ask for less: a condition, fewer hops, a `limit`.
    """

    code = "limit.query_timeout"

    def __init__(self, seconds: float, *, hint: str | None = None) -> None:
        super().__init__(f"the query took longer than the {seconds} seconds it may take", hint=hint, seconds=seconds)


class SumOverflow(LimitError):
    """The exact sum of integers needs more than the 64 bits of its column.

    Sum smaller groups, or use `avg`.
    """

    code = "limit.sum"


class LockTimeout(LimitError):
    """Another writer held the commit section for longer than `OMNIGRAPH_LOCK_TIMEOUT`.

    Retry; look for a stopped process if it persists.
    """

    code = "limit.lock_timeout"


class TooManyRequests(LimitError):
    """A server has as much to do as it may have, for this actor or for all. The request was not begun.

    Wait as long as `details` says under `retry_after`, in seconds, then send it again.
    """

    code = "limit.requests"


class StorageError(OmniGraphError):
    """The storage failed, or holds something that must not be touched.

    See the message.
    """

    code = "storage"


class StoreUnavailable(StorageError):
    """The storage is not reachable, refuses access or has no space.

    Check network, credentials and space, then retry.
    """

    code = "storage.unavailable"


class ServerUnavailable(StorageError):
    """A server cannot be reached, broke off its answer, or is stopping. A write that this is raised for was not done.

    Check the address and the server, then retry.
    """

    code = "storage.server"


class UnknownAnswer(StorageError):
    """Something answered that does not speak as a server of graphs does: a proxy, a login page, another server.

    Check the address; `details` has the status and, if there was one, the id of the request.
    """

    code = "storage.answer"


class ExternalBlobUnavailable(StorageError):
    """The bytes at an allowed address of a blob cannot be read; `details` has the URI and the reason.

    Check that the file or object exists and may be read, then retry.
    """

    code = "storage.external_blob"


class CorruptGraph(StorageError):
    """A file of the graph contradicts the format.

    Run `verify`; restore the file from a copy.
    """

    code = "storage.corrupt"


class ForkedProcess(StorageError):
    """The process was forked from one that had used the storage.

    Start processes with `spawn`, or open the graph after the fork.
    """

    code = "storage.forked"


class GraphClosed(StorageError):
    """A handle was used after its `close`, or after its `with` block.

    Open the graph again.
    """

    code = "storage.closed"


class GraphMoved(StorageError):
    """The directory or prefix of a graph with branches was moved or copied, and its branches name the former place.

    Run `omnigraph relocate` on the graph; a copy of a graph is better made with `omnigraph clone`.
    """

    code = "storage.moved"


class NewerFormat(StorageError):
    """The graph was written by newer software.

    Upgrade OmniGraph.
    """

    code = "storage.newer_format"


class UnreadableSidecar(StorageError):
    """A recovery record cannot be understood; it is kept.

    Upgrade OmniGraph, or have an operator look at the record.
    """

    code = "storage.unreadable_sidecar"


class AuditFailed(StorageError):
    """The audit log cannot be written, so what it would have recorded was not begun.

    Make room or give another file, then retry.
    """

    code = "storage.audit"


class EmbeddingError(OmniGraphError):
    """Texts could not be embedded.

    Read the message of the class below.
    """

    code = "embedding"


class ProviderUnavailable(EmbeddingError):
    """The embedding provider could not be reached, was overloaded, or did not answer in time, at every attempt.

    Try again later; `OMNIGRAPH_EMBED_RETRY_ATTEMPTS` and `OMNIGRAPH_EMBED_DEADLINE_MS` say how long to try.
    """

    code = "embedding.unavailable"


class ProviderRefused(EmbeddingError):
    """The embedding provider refused a request: a wrong key, an unknown model, a text that is too long.

    Check key, model and address; the status says what the provider minds.
    """

    code = "embedding.refused"


class InvalidEmbedding(EmbeddingError):
    """The embedding provider answered with something that is no vector of the wanted dimension for each text.

    Check that the model makes vectors of the dimension of the property.
    """

    code = "embedding.invalid"


class QueryCancelled(OmniGraphError):
    """A query was stopped because its caller did not want it any more: `is_cancelled` said so. Nothing changed.

    Ask again if the answer is wanted after all.
    """

    code = "cancelled"


class RecoveryRequired(OmniGraphError):
    """An interrupted write must be resolved first.

    Open the graph with `mode="rw"`, or run `recover`.
    """

    code = "recovery_required"


class OutcomeUnknown(OmniGraphError):
    """The write may or may not have happened.

    Read the branch before you retry.
    """

    code = "outcome_unknown"


class MissingExtra(OmniGraphError, ImportError):
    """An optional package is not installed. Also an `ImportError`.

    Install the extra that the message names.
    """

    code = "missing_extra"


class InternalError(OmniGraphError):
    """A bug in OmniGraph.

    Report it with the message and the steps.
    """

    code = "internal"
