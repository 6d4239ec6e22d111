"""The attempts at one merge of rows into a branch: each is computed and staged against one state of the target.

What is merged, and what both sides have in common, is given; so a merge of branches, a revert and a restore are the
same work. Nothing is staged, and no table is forked, before it is certain that there is no conflict.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from omnigraph.errors import MergeConflict, OmniGraphError, OutcomeUnknown, RecoveryRequired
from omnigraph.history.merge.compute import ComputedMerge, compute
from omnigraph.history.merge.engine import MergeEngine, MergeEngines
from omnigraph.history.merge.merge_result import summary
from omnigraph.history.merge.merge_source import MergeBase, MergeSource
from omnigraph.history.merge.resolution import Resolve, example
from omnigraph.schema_registry import SchemaRegistry
from omnigraph.storage.commit.preparation import Merged, Prepared, Workspace
from omnigraph.storage.commit.protocol import Committed, Write, run
from omnigraph.storage.graph_store import GraphStore
from omnigraph.storage.metadata.manifest import ManifestSnapshot
from omnigraph.storage.metadata.reclaimed import require_kept

#: What the source and a state of the target have in common.
BaseOf: TypeAlias = Callable[[GraphStore, MergeSource, ManifestSnapshot], MergeBase]


@dataclass(slots=True)
class Attempts:
    """The attempts at one merge.

    Attributes:
        refusal: begins the sentence that refuses it: ``branch 'x' cannot be merged into 'main'``.
        details: further fields of that error.
        joins: the commit has the source as its second parent.
        labels: kept in the commit.
    """

    schemas: SchemaRegistry
    source: MergeSource
    engines: MergeEngines
    base_of: BaseOf
    resolve: Resolve | None
    refusal: str
    details: Mapping[str, str]
    joins: bool = False
    labels: Mapping[str, str] = field(default_factory=dict)
    _made: list[MergeEngine] = field(default_factory=list)

    @property
    def engine(self) -> str:
        """Name of the engine that looked at the rows last."""
        return self._made[-1].engine

    def compute(self, workspace: Workspace) -> ComputedMerge:
        engine = self.engines(workspace, self.source)
        self._made.append(engine)
        catalog = self.schemas.of(workspace.snapshot).catalog
        base = self.base_of(workspace.store, self.source, workspace.snapshot)
        return compute(workspace, catalog, self.source, base, self.resolve, engine)

    def prepare(self, workspace: Workspace) -> Prepared[ComputedMerge]:
        computed = self.compute(workspace)
        if computed.conflicts:
            raise self._refused(computed)
        if computed.outcome == "already_up_to_date":
            return Prepared(computed)
        if computed.pointers:  # a cleanup that gave the source up has moved the target; so it is seen here
            require_kept(workspace.store.objects, self.source.snapshot)
        moving = [change for key, change in computed.changes.items() if key not in computed.pointers]
        return Prepared(
            computed,
            tables=self._made[-1].stage(workspace, moving),
            pointers=computed.pointers,
            pointed=computed.pointed,
            merged=Merged(self.source.head, computed.missing) if self.joins else None,
            labels=self.labels,
            made_for=self.schemas.of(workspace.snapshot).hash,
        )

    def commit(self, store: GraphStore, write: Write[ComputedMerge]) -> Committed[ComputedMerge]:
        """Commit what `prepare` gives, and remove what was staged in vain."""
        try:
            with store.lasting(self.source.snapshot, "merge"):
                done = run(store, write)
        except (OutcomeUnknown, RecoveryRequired):
            raise  # the commit may still come true
        except OmniGraphError:
            self._discard(self._made)
            raise
        self._discard(self._made[:-1] if done.commit is not None else self._made)
        return done

    def _discard(self, engines: list[MergeEngine]) -> None:
        for engine in engines:
            engine.discard()

    def _refused(self, computed: ComputedMerge) -> MergeConflict:
        found = computed.conflicts
        return MergeConflict(
            f"{self.refusal}: {summary(found)}",
            hint=f"decide each of them, as in resolve={example(found, self.resolve)}",
            **self.details,
            count=len(found),
            conflicts=[each.to_dict() for each in found],
        )
