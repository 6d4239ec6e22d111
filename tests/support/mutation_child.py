"""One process that mutates a shared graph: ``python -m tests.support.mutation_child <uri> <ledger> <number> <count>``.

Every operation is noted in the ledger before it starts and after it was acknowledged. Rows are marked with the
operation that wrote them, so the graph alone says what happened. `operations` is shared with the threads of a test.
"""

from __future__ import annotations

import sys

import omnigraph as og
from tests.support import ledger as ledgers
from tests.support.ledger import Ledger

SCHEMA = """
node Person { handle: String @key  mark: String }
node Board { name: String @key  last: String?  c0: I32?  c1: I32?  c2: I32?  c3: I32?
             c4: I32?  c5: I32?  c6: I32?  c7: I32? }
edge Knows: Person -> Person { mark: String }
"""
SHARED = "shared"

ADD = "query add($m: String) { insert Person { handle: $m, mark: $m } insert Knows { from: $m, to: $m, mark: $m } }"
DROP = "query drop($m: String) { delete Person where handle = $m }"
UPSERT = 'query upsert($m: String) { insert Board { name: "last", last: $m } }'


def count_own(column: int) -> str:
    """Sets one column of the shared row; the others belong to other writers."""
    return f'query count($n: I32) {{ update Board set {{ c{column}: $n }} where name = "{SHARED}" }}'


def init(uri: str) -> og.Graph:
    graph = og.init(uri, SCHEMA)
    graph.mutate('query seed() { insert Board { name: "shared" } insert Board { name: "last" } }')
    return graph


def operations(graph: og.Graph, ledger: Ledger, writer: int, count: int) -> None:
    """Inserts with an edge, deletes of the writer's own older rows, upserts of one row, updates of one column."""
    kept: list[str] = []
    for op in range(count):
        mark = ledgers.name(writer, op)
        tables = {"node:Person": [mark], "edge:Knows": [mark]}
        match op % 5:
            case 0 | 1:
                ledger.start(mark, tables)
                result = graph.mutate(ADD, params={"m": mark})
                assert (result.affected_nodes, result.affected_edges) == (1, 1)
                kept.append(mark)
            case 2:
                old = kept.pop(0)
                ledger.start(mark, {}, {"node:Person": [old], "edge:Knows": [old]})
                result = graph.mutate(DROP, params={"m": old})
                assert (result.affected_nodes, result.affected_edges) == (1, 1), f"{old} was not there"
            case 3:
                ledger.start(mark, {})
                result = graph.mutate(UPSERT, params={"m": mark})
                assert (result.affected_nodes, result.affected_edges) == (1, 0)
            case _:
                ledger.start(mark, {})
                result = graph.mutate(count_own(writer % 8), params={"n": op})
                assert (result.affected_nodes, result.affected_edges) == (1, 0)
                own = graph.snapshot().arrow("Board", ["name", f"c{writer % 8}"]).to_pylist()
                assert {"name": SHARED, f"c{writer % 8}": op} in own, f"{mark}: the update is not there: {own}"
        assert result.commit is not None
        ledger.acknowledge(mark, result.commit.id)


def main(uri: str, ledger: str, number: str, count: str) -> None:
    with og.open(uri) as graph:
        operations(graph, Ledger(ledger), int(number), int(count))


if __name__ == "__main__":
    main(*sys.argv[1:])
