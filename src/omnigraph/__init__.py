"""OmniGraph: a typed property graph on Lance, with git-like branches and atomic commits over the whole graph.

    import omnigraph as og

    graph = og.init("people.omni", "node Person { handle: String @key  name: String }")
    graph.mutate('query add() { insert Person { handle: "ana", name: "Ana" } }')
    graph.query("query all() { match { $p: Person } return { $p.name as name } }").rows()

`Graph` holds every verb, `errors` every error; the other names are what the verbs take and answer with. Bulk data:
`omnigraph.spark`, which needs pyspark and Java. Graphs behind servers, for coroutines: `omnigraph.aio`.

A name is loaded when it is first used: `import omnigraph` alone costs nothing, and a command that only prints the
version never loads Arrow or Lance.
"""

import importlib as _importlib

__version__ = "0.1.0"

TYPE_CHECKING = False  # type checkers take it for true; importing `typing` would double the start of the interpreter
if TYPE_CHECKING:
    from omnigraph import aio as aio
    from omnigraph import errors as errors
    from omnigraph import spark as spark
    from omnigraph.choices import AbsentColumns as AbsentColumns
    from omnigraph.choices import CommitKind as CommitKind
    from omnigraph.choices import Engine as Engine
    from omnigraph.choices import ExportFormat as ExportFormat
    from omnigraph.choices import LoadFormat as LoadFormat
    from omnigraph.choices import LoadMode as LoadMode
    from omnigraph.choices import OnBadRow as OnBadRow
    from omnigraph.choices import OpenMode as OpenMode
    from omnigraph.choices import TooFineTimes as TooFineTimes
    from omnigraph.client.open_anywhere import open_anywhere
    from omnigraph.client.remote_graph import RemoteBlob as RemoteBlob
    from omnigraph.client.remote_graph import RemoteBranches as RemoteBranches
    from omnigraph.client.remote_graph import RemoteCommitChanges as RemoteCommitChanges
    from omnigraph.client.remote_graph import RemoteCommits as RemoteCommits
    from omnigraph.client.remote_graph import RemoteDiff as RemoteDiff
    from omnigraph.client.remote_graph import RemoteGraph as RemoteGraph
    from omnigraph.client.remote_graph import RemoteSchema as RemoteSchema
    from omnigraph.client.remote_graph import RemoteSnapshot as RemoteSnapshot
    from omnigraph.client.remote_graph import RemoteTags as RemoteTags
    from omnigraph.embed.embed_file import EmbedFileResult as EmbedFileResult
    from omnigraph.embed.embed_file import embed_file as embed_file
    from omnigraph.embed.managed.embed_result import EmbedResult as EmbedResult
    from omnigraph.embed.managed.embedding_status import EmbeddingStatus as EmbeddingStatus
    from omnigraph.engine.explanation import Explanation as Explanation
    from omnigraph.engine.query_result import Result as Result
    from omnigraph.engine.search.search_result import SearchHit as SearchHit
    from omnigraph.engine.search.search_result import SearchMatch as SearchMatch
    from omnigraph.engine.search.search_result import SearchNeighbour as SearchNeighbour
    from omnigraph.engine.search.search_result import SearchResult as SearchResult
    from omnigraph.errors import Conflict as Conflict
    from omnigraph.errors import OmniGraphError as OmniGraphError
    from omnigraph.graph import Graph as Graph
    from omnigraph.graph import Snapshot as Snapshot
    from omnigraph.graph import init as init
    from omnigraph.graph.blob_value import Blob as Blob
    from omnigraph.graph.copies import backup as backup
    from omnigraph.graph.copies import clone as clone
    from omnigraph.graph.schema_control import SchemaControl as SchemaControl
    from omnigraph.graph.transaction import Transaction as Transaction
    from omnigraph.history.branches import Branch as Branch
    from omnigraph.history.commit_graph import CommitNode as CommitNode
    from omnigraph.history.control import Branches as Branches
    from omnigraph.history.control import Commits as Commits
    from omnigraph.history.diff import Diff as Diff
    from omnigraph.history.diff import DiffStats as DiffStats
    from omnigraph.history.entity_changes import ChangeBatch as ChangeBatch
    from omnigraph.history.entity_changes import EntityChange as EntityChange
    from omnigraph.history.export import ExportResult as ExportResult
    from omnigraph.history.feed.baseline import Baseline as Baseline
    from omnigraph.history.feed.commit_changes import CommitChanges as CommitChanges
    from omnigraph.history.feed.commit_changes import CommitPage as CommitPage
    from omnigraph.history.feed.page import ChangeBlock as ChangeBlock
    from omnigraph.history.feed.page import ChangePage as ChangePage
    from omnigraph.history.merge.merge_result import MergedRows as MergedRows
    from omnigraph.history.merge.merge_result import MergeResult as MergeResult
    from omnigraph.history.merge.merge_result import RowConflict as RowConflict
    from omnigraph.history.schema_apply import SchemaApplied as SchemaApplied
    from omnigraph.history.tags import Tag as Tag
    from omnigraph.history.tags import Tags as Tags
    from omnigraph.history.undo import UndoResult as UndoResult
    from omnigraph.ids import new_commit_id as new_commit_id
    from omnigraph.policy.access_policy import Policy as Policy
    from omnigraph.policy.audit_log import AuditLog as AuditLog
    from omnigraph.policy.bundle import Bundle as Bundle
    from omnigraph.policy.bundle import Rule as Rule
    from omnigraph.policy.decision import AccessDecision as AccessDecision
    from omnigraph.policy.decision import AccessRequest as AccessRequest
    from omnigraph.policy.policy_cases import CaseReport as CaseReport
    from omnigraph.policy.policy_cases import Mismatch as Mismatch
    from omnigraph.progress import Progress as Progress
    from omnigraph.progress import ProgressListener as ProgressListener
    from omnigraph.query.lint_queries import LintFinding as LintFinding
    from omnigraph.query.lint_queries import LintReport as LintReport
    from omnigraph.query.lint_queries import LintResult as LintResult
    from omnigraph.query.lint_queries import Operation as Operation
    from omnigraph.query.lint_queries import ResultColumn as ResultColumn
    from omnigraph.query.lint_queries import SchemaSource as SchemaSource
    from omnigraph.query.lint_queries import TypeUse as TypeUse
    from omnigraph.query.plan.explain import PlanLine as PlanLine
    from omnigraph.schema.catalog import Annotation as Annotation
    from omnigraph.schema.catalog import Cardinality as Cardinality
    from omnigraph.schema.catalog import Catalog as Catalog
    from omnigraph.schema.catalog import CheckRule as CheckRule
    from omnigraph.schema.catalog import EdgeType as EdgeType
    from omnigraph.schema.catalog import Embed as Embed
    from omnigraph.schema.catalog import InterfaceType as InterfaceType
    from omnigraph.schema.catalog import NodeType as NodeType
    from omnigraph.schema.catalog import Property as Property
    from omnigraph.schema.catalog import PropertyType as PropertyType
    from omnigraph.schema.catalog import RangeRule as RangeRule
    from omnigraph.schema.catalog import Scalar as Scalar
    from omnigraph.schema.evolve import SchemaPlan as SchemaPlan
    from omnigraph.schema.evolve.migration_steps import AddIndex as AddIndex
    from omnigraph.schema.evolve.migration_steps import AddProperty as AddProperty
    from omnigraph.schema.evolve.migration_steps import AddType as AddType
    from omnigraph.schema.evolve.migration_steps import DropIndex as DropIndex
    from omnigraph.schema.evolve.migration_steps import DropProperty as DropProperty
    from omnigraph.schema.evolve.migration_steps import DropType as DropType
    from omnigraph.schema.evolve.migration_steps import ExtendEnum as ExtendEnum
    from omnigraph.schema.evolve.migration_steps import RelaxProperty as RelaxProperty
    from omnigraph.schema.evolve.migration_steps import RenameProperty as RenameProperty
    from omnigraph.schema.evolve.migration_steps import RenameType as RenameType
    from omnigraph.schema.evolve.migration_steps import UnsupportedChange as UnsupportedChange
    from omnigraph.schema.evolve.migration_steps import UpdateFulltext as UpdateFulltext
    from omnigraph.schema.evolve.migration_steps import UpdatePropertyMetadata as UpdatePropertyMetadata
    from omnigraph.schema.evolve.migration_steps import UpdateTypeMetadata as UpdateTypeMetadata
    from omnigraph.schema.evolve.migration_steps import WidenProperty as WidenProperty
    from omnigraph.schema.schema_warnings import SchemaFinding as SchemaFinding
    from omnigraph.schema.schema_warnings import SchemaWarning as SchemaWarning
    from omnigraph.storage.metadata.commit_note import RowCounts as RowCounts
    from omnigraph.storage.metadata.manifest import Commit as Commit
    from omnigraph.storage.metadata.manifest import Pin as Pin
    from omnigraph.storage.metadata.retention_rule import RetentionRule as RetentionRule
    from omnigraph.storage.objects.object_store import Location as Location
    from omnigraph.storage.recovery.audit import Recovery as Recovery
    from omnigraph.storage.recovery.audit import TableOutcome as TableOutcome
    from omnigraph.storage.tables.pinned_dataset import PinnedDataset as PinnedDataset
    from omnigraph.storage.tables.table_layout import IndexCoverage as IndexCoverage
    from omnigraph.tokenizer import NGrams as NGrams
    from omnigraph.tokenizer import Tokenizer as Tokenizer
    from omnigraph.upkeep.cleanup.cleanup_result import CleanupResult as CleanupResult
    from omnigraph.upkeep.cleanup.cleanup_result import TableCleanup as TableCleanup
    from omnigraph.upkeep.clone.copy_graph import CloneResult as CloneResult
    from omnigraph.upkeep.clone.relocate_graph import RelocateResult as RelocateResult
    from omnigraph.upkeep.clone.relocate_graph import relocate as relocate
    from omnigraph.upkeep.drift import DriftClass as DriftClass
    from omnigraph.upkeep.drift import DriftKind as DriftKind
    from omnigraph.upkeep.indexes import IndexReport as IndexReport
    from omnigraph.upkeep.indexes import PendingIndex as PendingIndex
    from omnigraph.upkeep.optimize.optimize_report import OptimizedDataset as OptimizedDataset
    from omnigraph.upkeep.optimize.optimize_report import OptimizedTable as OptimizedTable
    from omnigraph.upkeep.optimize.optimize_report import OptimizeReport as OptimizeReport
    from omnigraph.upkeep.repair import RepairReport as RepairReport
    from omnigraph.upkeep.repair import TableRepair as TableRepair
    from omnigraph.upkeep.retention import Retention as Retention
    from omnigraph.upkeep.stats.graph_stats import GraphStats as GraphStats
    from omnigraph.upkeep.stats.graph_stats import ManifestStats as ManifestStats
    from omnigraph.upkeep.stats.graph_stats import PendingWrite as PendingWrite
    from omnigraph.upkeep.stats.graph_stats import StoredFiles as StoredFiles
    from omnigraph.upkeep.stats.graph_stats import TableDrift as TableDrift
    from omnigraph.upkeep.stats.graph_stats import TableStats as TableStats
    from omnigraph.upkeep.upkeep_runs import Upkeep as Upkeep
    from omnigraph.upkeep.upkeep_runs import UpkeepRun as UpkeepRun
    from omnigraph.upkeep.upkeep_runs import UpkeepTask as UpkeepTask
    from omnigraph.upkeep.verify.report import Problem as Problem
    from omnigraph.upkeep.verify.report import VerifyCheck as VerifyCheck
    from omnigraph.upkeep.verify.report import VerifyReport as VerifyReport
    from omnigraph.write.change import Change as Change
    from omnigraph.write.change import Mode as Mode
    from omnigraph.write.load.load_result import LoadResult as LoadResult
    from omnigraph.write.mutation_result import MutationResult as MutationResult
    from omnigraph.write.stage_changes import WriteResult as WriteResult

    open = open_anywhere

#: The public names by the module that defines them. The imports above say the same to type checkers.
_HOMES = {
    # the graph
    "omnigraph.errors": "Conflict OmniGraphError",
    "omnigraph.graph": "Graph Snapshot init",
    "omnigraph.client.open_anywhere": "open",
    "omnigraph.graph.schema_control": "SchemaControl",
    "omnigraph.history.control": "Branches Commits",
    "omnigraph.storage.objects.object_store": "Location",
    "omnigraph.storage.metadata.manifest": "Commit Pin",
    "omnigraph.storage.metadata.commit_note": "RowCounts",
    "omnigraph.history.commit_graph": "CommitNode",
    "omnigraph.history.branches": "Branch",
    "omnigraph.history.tags": "Tag Tags",
    # reading
    "omnigraph.engine.query_result": "Result",
    "omnigraph.storage.tables.pinned_dataset": "PinnedDataset",
    "omnigraph.graph.blob_value": "Blob",
    "omnigraph.engine.search.search_result": "SearchHit SearchMatch SearchNeighbour SearchResult",
    "omnigraph.engine.explanation": "Explanation",
    "omnigraph.query.plan.explain": "PlanLine",
    "omnigraph.query.lint_queries": "LintFinding LintReport LintResult Operation ResultColumn SchemaSource TypeUse",
    "omnigraph.history.export": "ExportResult",
    # writing
    "omnigraph.ids": "new_commit_id",
    "omnigraph.graph.transaction": "Transaction",
    "omnigraph.write.change": "Change Mode",
    "omnigraph.write.stage_changes": "WriteResult",
    "omnigraph.write.mutation_result": "MutationResult",
    "omnigraph.write.load.load_result": "LoadResult",
    "omnigraph.progress": "Progress ProgressListener",
    # merging
    "omnigraph.history.merge.merge_result": "MergeResult MergedRows RowConflict",
    "omnigraph.history.undo": "UndoResult",
    # changes between states
    "omnigraph.history.diff": "Diff DiffStats",
    "omnigraph.history.entity_changes": "ChangeBatch EntityChange",
    "omnigraph.history.feed.page": "ChangeBlock ChangePage",
    "omnigraph.history.feed.commit_changes": "CommitChanges CommitPage",
    "omnigraph.history.feed.baseline": "Baseline",
    # schema
    "omnigraph.schema.catalog": (
        "Annotation Cardinality Catalog CheckRule EdgeType Embed InterfaceType NodeType Property PropertyType "
        "RangeRule Scalar"
    ),
    "omnigraph.tokenizer": "NGrams Tokenizer",
    "omnigraph.schema.evolve": "SchemaPlan",
    "omnigraph.schema.evolve.migration_steps": (
        "AddIndex AddProperty AddType DropIndex DropProperty DropType ExtendEnum RelaxProperty RenameProperty "
        "RenameType UnsupportedChange UpdateFulltext UpdatePropertyMetadata UpdateTypeMetadata WidenProperty"
    ),
    "omnigraph.schema.schema_warnings": "SchemaFinding SchemaWarning",
    "omnigraph.history.schema_apply": "SchemaApplied",
    # upkeep
    "omnigraph.upkeep.clone.copy_graph": "CloneResult",
    "omnigraph.graph.copies": "backup clone",
    "omnigraph.upkeep.clone.relocate_graph": "RelocateResult relocate",
    "omnigraph.upkeep.indexes": "IndexReport PendingIndex",
    "omnigraph.upkeep.optimize.optimize_report": "OptimizeReport OptimizedDataset OptimizedTable",
    "omnigraph.upkeep.cleanup.cleanup_result": "CleanupResult TableCleanup",
    "omnigraph.storage.metadata.retention_rule": "RetentionRule",
    "omnigraph.upkeep.retention": "Retention",
    "omnigraph.upkeep.upkeep_runs": "Upkeep UpkeepRun UpkeepTask",
    "omnigraph.upkeep.stats.graph_stats": "GraphStats ManifestStats PendingWrite StoredFiles TableDrift TableStats",
    "omnigraph.upkeep.drift": "DriftClass DriftKind",
    "omnigraph.upkeep.repair": "RepairReport TableRepair",
    "omnigraph.storage.tables.table_layout": "IndexCoverage",
    "omnigraph.upkeep.verify.report": "Problem VerifyCheck VerifyReport",
    "omnigraph.storage.recovery.audit": "Recovery TableOutcome",
    # embeddings
    "omnigraph.embed.embed_file": "EmbedFileResult embed_file",
    "omnigraph.embed.managed.embed_result": "EmbedResult",
    "omnigraph.embed.managed.embedding_status": "EmbeddingStatus",
    # policy and audit
    "omnigraph.policy.access_policy": "Policy",
    "omnigraph.policy.audit_log": "AuditLog",
    "omnigraph.policy.bundle": "Bundle Rule",
    "omnigraph.policy.decision": "AccessDecision AccessRequest",
    "omnigraph.policy.policy_cases": "CaseReport Mismatch",
    # a graph behind a server
    "omnigraph.client.remote_graph": (
        "RemoteBlob RemoteBranches RemoteCommitChanges RemoteCommits RemoteDiff RemoteGraph RemoteSchema "
        "RemoteSnapshot RemoteTags"
    ),
    # types of arguments
    "omnigraph.choices": (
        "AbsentColumns CommitKind Engine ExportFormat LoadFormat LoadMode OnBadRow OpenMode TooFineTimes"
    ),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names.split()}

__all__ = sorted([*_HOME_OF, "errors"])


def __getattr__(name: str) -> object:
    if name in ("aio", "errors", "spark"):
        value: object = _importlib.import_module(f"omnigraph.{name}")
    elif name in _HOME_OF:
        value = getattr(_importlib.import_module(_HOME_OF[name]), "open_anywhere" if name == "open" else name)
    else:
        raise AttributeError(f"module 'omnigraph' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "aio", "spark", "__version__", "__doc__", "__file__", "__name__", "__path__"])


del TYPE_CHECKING
