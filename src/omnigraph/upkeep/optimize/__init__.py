"""Keeps a graph as fast as on its first day: joins small fragments, drops deleted rows, builds what is missing of the
indexes. Content never changes, history stays. `optimize_branch.py` does the work, `optimize_report.py` is what comes
out.
"""

from __future__ import annotations

from collections.abc import Sequence

from omnigraph import ids
from omnigraph.errors import TypeNotFound
from omnigraph.ids import did_you_mean
from omnigraph.schema_registry import SchemaRegistry
from omnigraph.storage.graph_store import BranchRef, GraphStore
from omnigraph.upkeep.optimize.internal_datasets import optimize_datasets
from omnigraph.upkeep.optimize.optimize_branch import BranchOptimization, OptimizeRequest, settle
from omnigraph.upkeep.optimize.optimize_report import OptimizedDataset, OptimizedTable, OptimizeReport

__all__ = ["OptimizeReport", "OptimizeRequest", "OptimizedDataset", "OptimizedTable", "optimize"]


def optimize(
    store: GraphStore, schemas: SchemaRegistry, branch: str | None, request: OptimizeRequest
) -> OptimizeReport:
    """Optimize a branch, or all of them.

    Raises:
        BranchNotFound: there is no such branch.
        TypeNotFound: none of the branches has a type of that name.
        RecoveryRequired: an interrupted write can be neither finished nor dropped; nothing was done.
    """
    refs = [store.branch_ref(branch)] if branch is not None else _branches(store)
    _check_types(store, refs, request.types)
    for ref in refs:
        settle(store, ref.name)
    works = [BranchOptimization(store, schemas, ref.name, request) for ref in refs]
    for work in works:
        work.run()
    return OptimizeReport(
        tuple(commit for work in works for commit in work.commits),
        tuple(table for work in works for table in work.tables),
        tuple(optimize_datasets(store, refs)),
        max((work.engine for work in works if work.engine is not None), default=None),
    )


def _branches(store: GraphStore) -> list[BranchRef]:
    return [ref for ref in store.branch_refs() if ref.name != ids.SCHEMA_APPLY_LOCK]


def _check_types(store: GraphStore, refs: Sequence[BranchRef], types: frozenset[str] | None) -> None:
    if types is None:
        return
    known = {key.partition(":")[2] for ref in refs for key in store.snapshot(ref.name).pins}
    for name in sorted(types - known):
        raise TypeNotFound(f"unknown type '{name}'", hint=did_you_mean(name, known), type=name)
