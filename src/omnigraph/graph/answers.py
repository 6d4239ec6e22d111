"""What the verbs of a graph answer with, in one place for the rooms outside. Holds nothing of its own."""

from omnigraph.graph.offline import LintReport
from omnigraph.history.diff import Diff
from omnigraph.history.entity_changes import EntityChange
from omnigraph.history.feed.commit import CommitChanges, CommitPage
from omnigraph.history.feed.page import ChangePage
from omnigraph.history.merge.result import MergeResult
from omnigraph.schema.evolve import SchemaPlan
from omnigraph.write.load.result import LoadResult

__all__ = [
    "ChangePage",
    "CommitChanges",
    "CommitPage",
    "Diff",
    "EntityChange",
    "LintReport",
    "LoadResult",
    "MergeResult",
    "SchemaPlan",
]
