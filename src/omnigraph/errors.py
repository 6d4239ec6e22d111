"""Every error OmniGraph raises, as one tree.

Branches are named after what the caller should do next. Each class has a stable ``code`` that clients may match on;
the message names the thing, the place and the next step, and never holds a secret or a stack trace.

OmniGraphError
├── InputError                    fix the request (also a ValueError)
│   ├── SourceError               a text in one of the two languages is wrong; knows line and column
│   │   ├── SchemaSyntaxError     .pg text does not parse
│   │   ├── SchemaError           .pg text parses but breaks a rule of the language
│   │   ├── CatalogError          the declarations of a schema do not fit together
│   │   ├── SchemaIdentityError   a @rename_from hint cannot be followed
│   │   ├── QuerySyntaxError      .gq text does not parse
│   │   └── QueryTypeError        .gq text does not fit the schema
│   ├── ParameterError            a query parameter is missing or has the wrong type
│   ├── UnsupportedSchemaChange   a schema change that is not safe, or not known to be
│   ├── ChangeCursorRejected      a cursor or page token is damaged or belongs to another feed
│   ├── InvalidName               a branch, actor or graph name breaks the naming rules
│   ├── InvalidUri                a graph address cannot be understood
│   ├── InvalidRow                a row does not fit its type
│   │   ├── InvalidRecord         a line of a file is no record of the graph
│   │   ├── MissingValue          a required property is null
│   │   ├── IdMismatch            an explicit id differs from the key
│   │   ├── RangeViolation        @range
│   │   ├── CheckViolation        @check
│   │   └── EnumViolation         enum(...)
│   └── InvalidRowSet             rows that are fine alone break a rule together
│       ├── UniqueViolation       @key or @unique
│       ├── EndpointMissing       an edge points at a node that is not there
│       └── CardinalityViolation  @card
├── ConflictError                 read again, then decide
│   ├── ChangeSchemaBoundary      two states whose properties differ cannot be compared row by row
│   ├── CommitWithoutParent       the changes of a first commit were asked for; it has nothing to compare with
│   ├── ExpectedVersionMismatch   a table moved since it was read
│   ├── RowLevelCasContention     the publish lost its race more often than it may retry
│   ├── ReadSetChanged            head, branch identity or schema moved before any effect
│   │   └── SchemaChanged         the schema is another one than the write was made for
│   ├── PreconditionFailed        the caller's own if_commit did not hold
│   ├── UncoveredDrift            a table is ahead of the graph and nothing explains it
│   ├── SchemaApplyBlocked        a schema change met other branches than main
│   ├── SchemaFilesDisagree       the three schema files do not belong together
│   ├── KeyConflict               a strict insert met an id that exists
│   ├── AlreadyInitialized        init found a graph
│   ├── BranchExists              create found the name taken
│   ├── BranchInUse               delete found the branch still needed
│   ├── MergeConflict             a merge found entities that both sides changed, or a result that breaks a rule
│   └── MergeSchemaMismatch       a merge met tables of different schemas
├── NotFoundError
│   ├── GraphNotFound
│   ├── BranchNotFound
│   ├── CommitNotFound
│   ├── ChangeFeedGap             a change feed needs history that was cleaned up; start again from a baseline
│   ├── TypeNotFound
│   ├── QueryNotFound
│   └── HistoricalVersionReclaimed
├── DeniedError
│   └── ReadOnly                  a write through a read-only handle
├── LimitError
│   ├── ResourceLimitExceeded
│   └── LockTimeout               another writer held the commit section for too long
├── StorageError                  the store failed or holds something we must not touch
│   ├── StoreUnavailable          not reachable, no permission, no space
│   ├── CorruptGraph              a file of the graph contradicts the format
│   ├── ForkedProcess             forked from a process that used the store: start a new process (spawn)
│   ├── NewerFormat               written by newer software: upgrade
│   └── UnreadableSidecar         a recovery record cannot be understood; kept for the operator
├── RecoveryRequired              an interrupted write must be resolved first
├── OutcomeUnknown                the write may or may not have happened; look before retrying
├── MissingExtra                  install an optional package (also an ImportError)
└── InternalError                 a bug in OmniGraph
"""

from __future__ import annotations

from omnigraph.error_base import Conflict as Conflict
from omnigraph.error_base import Located
from omnigraph.error_base import OmniGraphError as OmniGraphError


class InputError(OmniGraphError, ValueError):
    code = "input"


class SourceError(Located, InputError):
    code = "source"


class SchemaSyntaxError(SourceError):
    code = "schema.syntax"


class SchemaError(SourceError):
    code = "schema.rule"


class CatalogError(SourceError):
    code = "schema.catalog"


class SchemaIdentityError(SourceError):
    code = "schema.identity"


class QuerySyntaxError(SourceError):
    code = "query.syntax"


class QueryTypeError(SourceError):
    code = "query.type"


class ParameterError(InputError):
    code = "query.parameter"


class UnsupportedSchemaChange(InputError):
    code = "schema.unsupported_change"


class ChangeCursorRejected(InputError):
    code = "change_cursor"

    def __init__(self, reason: str) -> None:
        super().__init__(f"change cursor rejected: {reason}", hint="start again from a baseline", reason=reason)


class InvalidName(InputError):
    code = "name"


class InvalidUri(InputError):
    code = "uri"


class InvalidRow(InputError):
    code = "row"


class InvalidRecord(InvalidRow):
    code = "row.record"


class MissingValue(InvalidRow):
    code = "row.missing_value"


class IdMismatch(InvalidRow):
    code = "row.id_mismatch"


class RangeViolation(InvalidRow):
    code = "row.range"


class CheckViolation(InvalidRow):
    code = "row.check"


class EnumViolation(InvalidRow):
    code = "row.enum"


class InvalidRowSet(InputError):
    code = "rows"


class UniqueViolation(InvalidRowSet):
    code = "rows.unique"


class EndpointMissing(InvalidRowSet):
    code = "rows.endpoint"


class CardinalityViolation(InvalidRowSet):
    code = "rows.cardinality"


class ConflictError(OmniGraphError):
    code = "conflict"


class ChangeSchemaBoundary(ConflictError):
    code = "conflict.schema_boundary"


class CommitWithoutParent(ConflictError):
    code = "conflict.parentless_commit"


class ExpectedVersionMismatch(ConflictError):
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
    code = "conflict.contention"


class ReadSetChanged(ConflictError):
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
    code = "conflict.schema_changed"


class PreconditionFailed(ConflictError):
    code = "conflict.precondition"


class UncoveredDrift(ConflictError):
    code = "conflict.drift"

    def __init__(self, table_key: str, head: int, pin: int) -> None:
        super().__init__(
            f"table '{table_key}' is at version {head} but the graph shows {pin}: other software wrote to it",
            hint="take that back with recover(discard=True) or `omnigraph recover --discard`, then write it here again",
            table_key=table_key,
            head=head,
            pin=pin,
        )


class SchemaApplyBlocked(ConflictError):
    code = "conflict.schema_apply"


class SchemaFilesDisagree(ConflictError):
    code = "conflict.schema_files"


class KeyConflict(ConflictError):
    code = "conflict.key"


class AlreadyInitialized(ConflictError):
    code = "conflict.initialized"


class BranchExists(ConflictError):
    code = "conflict.branch_exists"


class BranchInUse(ConflictError):
    code = "conflict.branch_in_use"


class MergeConflict(ConflictError):
    """Nothing was written. ``conflicts`` holds every one of them, by table and id."""

    code = "conflict.merge"

    @property
    def conflicts(self) -> tuple[Conflict, ...]:
        return tuple(Conflict(**each) for each in self.details.get("conflicts", ()))


class MergeSchemaMismatch(ConflictError):
    code = "conflict.merge_schema"


class NotFoundError(OmniGraphError):
    code = "not_found"


class GraphNotFound(NotFoundError):
    code = "not_found.graph"


class BranchNotFound(NotFoundError):
    code = "not_found.branch"


class CommitNotFound(NotFoundError):
    code = "not_found.commit"


class ChangeFeedGap(NotFoundError):
    code = "not_found.feed_gap"


class TypeNotFound(NotFoundError):
    code = "not_found.type"


class QueryNotFound(NotFoundError):
    code = "not_found.query"


class HistoricalVersionReclaimed(NotFoundError):
    code = "not_found.reclaimed"


class DeniedError(OmniGraphError):
    code = "denied"


class ReadOnly(DeniedError):
    code = "denied.read_only"


class LimitError(OmniGraphError):
    code = "limit"


class ResourceLimitExceeded(LimitError):
    code = "limit.resource"

    def __init__(self, resource: str, actual: int, limit: int, *, hint: str | None = None) -> None:
        super().__init__(
            f"resource limit exceeded for {resource}: actual {actual}, limit {limit}",
            hint=hint,
            resource=resource,
            actual=actual,
            limit=limit,
        )


class LockTimeout(LimitError):
    code = "limit.lock_timeout"


class StorageError(OmniGraphError):
    code = "storage"


class StoreUnavailable(StorageError):
    code = "storage.unavailable"


class CorruptGraph(StorageError):
    code = "storage.corrupt"


class ForkedProcess(StorageError):
    code = "storage.forked"


class NewerFormat(StorageError):
    code = "storage.newer_format"


class UnreadableSidecar(StorageError):
    code = "storage.unreadable_sidecar"


class RecoveryRequired(OmniGraphError):
    code = "recovery_required"


class OutcomeUnknown(OmniGraphError):
    code = "outcome_unknown"


class MissingExtra(OmniGraphError, ImportError):
    code = "missing_extra"


class InternalError(OmniGraphError):
    code = "internal"
