"""Every kind of writer, as an operation that a ledger can hold against what the graph shows afterwards.

What an operation adds and removes are marks of rows, names of branches and names of properties; each value names its
operation, so that no value is ever added twice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

import omnigraph as og
from omnigraph import failpoints
from omnigraph.errors import RecoveryRequired
from omnigraph.write.change import Change, Mode
from tests.support.crash_graph import edges, marks, people
from tests.support.ledger import Ledger, Values

PERSON, KNOWS, BRANCH, PROPERTY = "node:Person", "edge:Knows", "branch", "property"

ADD = "query add($m: String) { insert Person { name: $m, mark: $m } insert Knows { from: $m, to: $m, mark: $m } }"
CHANGE = """query change($old: String, $new: String) { update Person set { mark: $new } where name = $old }"""
DROP = "query drop($m: String) { delete Person where name = $m }"


@dataclass(frozen=True, slots=True)
class Operation:
    """A write under test.

    Attributes:
        arrange: what has to be there first, done while the store behaves; noted in the ledger as its own operation.
        run: the write itself, with its mark.
    """

    run: Callable[[og.Graph, str], object]
    adds: Callable[[str], Values] = field(default=lambda mark: {})
    removes: Callable[[str], Values] = field(default=lambda mark: {})
    arrange: Callable[[og.Graph, Ledger, str], None] = field(default=lambda graph, ledger, mark: None)


def present(graph: og.Graph) -> dict[str, list[str]]:
    """Every value that main shows now."""
    own = [name for name in graph.catalog.nodes["Company"].properties if name.startswith("p_")]
    return {**marks(graph, "main"), BRANCH: [name for name in graph.branches.list() if name != "main"], PROPERTY: own}


def pair(mark: str) -> list[Change]:
    """A person who knows itself."""
    return [Change(PERSON, people([mark])), Change(KNOWS, edges([mark], mark, mark))]


def _pair_values(mark: str) -> Values:
    return {PERSON: [mark], KNOWS: [mark]}


def _old(mark: str) -> str:
    return f"{mark}-old"


def _noted(ledger: Ledger, name: str, adds: Values, run: Callable[[], object]) -> None:
    ledger.start(name, adds)
    run()
    ledger.acknowledge(name)


def _arrange_pair(graph: og.Graph, ledger: Ledger, mark: str) -> None:
    old = _old(mark)
    _noted(ledger, old, _pair_values(old), lambda: graph.write(pair(old)))


def _replace(graph: og.Graph, mark: str) -> object:
    old = _old(mark)
    changes = [Change(PERSON, people([mark], [old]), Mode.MERGE), Change(KNOWS, remove=pa.array([old]))]
    return graph.write(changes)


def _load(graph: og.Graph, mark: str) -> object:
    edge = pa.table({"id": [mark], "from": [mark], "to": [mark], "mark": [mark]})
    return graph.load({"Person": people([mark]), "Knows": edge}, "merge", engine="embedded")


def _arrange_branch(graph: og.Graph, ledger: Ledger, mark: str) -> None:
    """A branch whose name is the old mark, and rows of the new mark on it."""
    name = _old(mark)
    _noted(ledger, name, {BRANCH: [name]}, lambda: graph.branches.create(name))
    graph.write(pair(mark), branch=name)


def _arrange_conflict(graph: og.Graph, ledger: Ledger, mark: str) -> None:
    """A person that main and a branch changed differently."""
    row, name = _old(mark), f"{mark}-branch"
    _noted(ledger, row, {PERSON: [row]}, lambda: graph.write([Change(PERSON, people([row]))]))
    _noted(ledger, name, {BRANCH: [name]}, lambda: graph.branches.create(name))
    graph.write([Change(PERSON, people([mark], [row]), Mode.MERGE)], branch=name)
    graph.write(
        [Change(PERSON, pa.table({"name": [row], "mark": [row], "age": pa.array([1], pa.int32())}), Mode.MERGE)]
    )


def _apply_schema(graph: og.Graph, mark: str) -> object:
    text = graph.schema.text
    place = text.index("node Company {") + len("node Company {")
    return graph.schema.apply(f"{text[:place]} {_property(mark)}: String? {text[place:]}")


def _property(mark: str) -> str:
    return f"p_{mark.replace('-', '_')}"


def _arrange_dead_write(graph: og.Graph, ledger: Ledger, mark: str) -> None:
    """A write that stopped between its tables and its publish; nobody heard how it ended."""
    ledger.start(f"{mark}-dead", _pair_values(_old(mark)))
    failpoints.arm("write.after_all_table_commits=raise")
    try:
        graph.write(pair(_old(mark)))
    except RecoveryRequired:
        return
    finally:
        failpoints.arm("")
    raise AssertionError("the write did not stop")


def _reopen(graph: og.Graph, mark: str) -> object:
    with og.open(graph._store.location) as other:
        return other


OPERATIONS: Mapping[str, Operation] = {
    "insert": Operation(lambda graph, mark: graph.write(pair(mark)), _pair_values),
    "replace": Operation(
        _replace,
        lambda mark: {PERSON: [mark]},
        lambda mark: {PERSON: [_old(mark)], KNOWS: [_old(mark)]},
        _arrange_pair,
    ),
    "mutate": Operation(lambda graph, mark: graph.mutate(ADD, params={"m": mark}), _pair_values),
    "update": Operation(
        lambda graph, mark: graph.mutate(CHANGE, params={"old": _old(mark), "new": mark}),
        lambda mark: {PERSON: [mark]},
        lambda mark: {PERSON: [_old(mark)]},
        _arrange_pair,
    ),
    "delete": Operation(
        lambda graph, mark: graph.mutate(DROP, params={"m": _old(mark)}),
        removes=lambda mark: _pair_values(_old(mark)),
        arrange=_arrange_pair,
    ),
    "load": Operation(_load, _pair_values),
    "merge": Operation(
        lambda graph, mark: graph.branches.merge(_old(mark), engine="embedded"), _pair_values, arrange=_arrange_branch
    ),
    "resolve": Operation(
        lambda graph, mark: graph.branches.merge(f"{mark}-branch", resolve="theirs", engine="embedded"),
        lambda mark: {PERSON: [mark]},
        lambda mark: {PERSON: [_old(mark)]},
        _arrange_conflict,
    ),
    "branch_create": Operation(lambda graph, mark: graph.branches.create(mark), lambda mark: {BRANCH: [mark]}),
    "branch_delete": Operation(
        lambda graph, mark: graph.branches.delete(_old(mark)),
        removes=lambda mark: {BRANCH: [_old(mark)]},
        arrange=_arrange_branch,
    ),
    "branch_rename": Operation(
        lambda graph, mark: graph.branches.rename(_old(mark), mark),
        lambda mark: {BRANCH: [mark]},
        lambda mark: {BRANCH: [_old(mark)]},
        arrange=_arrange_branch,
    ),
    "ensure_indices": Operation(lambda graph, mark: graph.ensure_indices(), arrange=_arrange_pair),
    "recover": Operation(lambda graph, mark: graph.recover(), arrange=_arrange_dead_write),
    "reopen": Operation(_reopen, arrange=_arrange_dead_write),
    "schema_apply": Operation(_apply_schema, lambda mark: {PROPERTY: [_property(mark)]}),
}
