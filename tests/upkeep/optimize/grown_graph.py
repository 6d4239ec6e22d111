"""A graph that was written to in many small commits, and what a user can see of it."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

import omnigraph as og
from omnigraph.write.change import Change, Mode

SCHEMA = """
node Person {
  handle: String @key  age: I32? @index  about: String? @index  face: Vector(2)? @index  photo: Blob?
}
edge Knows: Person -> Person { since: I32? }
"""

#: Each is answered by another way through the engine: a look-up, a filter, a traversal, an aggregation.
QUERIES = (
    'query a() { match { $p: Person { handle: "p7" } } return { $p.handle, $p.age, $p.about } }',
    "query b() { match { $p: Person  $p.age > 40 } return { $p.handle } order { $p.handle } }",
    "query c() { match { $p: Person  $q: Person  $p knows $q } return { $p.handle, $q.handle } "
    "order { $p.handle, $q.handle } }",
    "query d() { match { $p: Person  $q: Person  $p knows $q } return { $p.handle, count($q) as n } "
    "order { $p.handle } }",
)

#: What Lance is asked for through the indexes themselves, by anybody.
_WORDS = ("w3", "changed3", "w21", "common")


def people(start: int, count: int, word: str = "w") -> pa.Table:
    numbers = range(start, start + count)
    return pa.table(
        {
            "handle": [f"p{number}" for number in numbers],
            "age": pa.array([number if number % 5 else None for number in numbers], pa.int32()),
            "about": [f"{word}{number} common" for number in numbers],
            "face": [[float(number), 1.0] for number in numbers],
            "photo": pa.array([_photo(number) for number in numbers], pa.large_binary()),
        }
    )


def _photo(number: int) -> bytes | None:
    return (None, b"", bytes([number % 251]) * 9, bytes([number % 251]) * 70_000)[number % 4]


def put(start: int, count: int, word: str = "w") -> Change:
    return Change("node:Person", people(start, count, word), Mode.MERGE)


def knows(start: int, count: int) -> Change:
    numbers = range(start, start + count)
    ends = {"src": [f"p{number}" for number in numbers], "dst": [f"p{number + 1}" for number in numbers]}
    return Change("edge:Knows", pa.table({**ends, "since": pa.array(numbers, pa.int32())}))


def grown(uri: Any, commits: int = 8, **options: Any) -> og.Graph:
    """Small commits, some rows replaced and removed, indexes that cover a part."""
    graph = og.init(uri, SCHEMA, **options)
    for number in range(commits):
        graph.write([put(4 * number, 5), knows(4 * number, 3)])
        if number == commits // 2:
            graph.ensure_indices()
    graph.write([put(2, 3, "changed")])
    graph.write([Change("node:Person", remove=pa.array([f"p{4 * commits}"]))])
    return graph


def answers(graph: og.Graph, branch: str = "main", at: Any = None) -> list[Any]:
    """What queries, an export and searches through the indexes of Lance find."""
    found: list[Any] = [graph.query(query, branch=branch, at=at).to_arrow().to_pylist() for query in QUERIES]
    found.append(graph.export(branch=branch, at=at).text)
    if at is None:
        found += searched(graph, branch)
    return found


def searched(graph: og.Graph, branch: str = "main") -> list[Any]:
    store = graph.internals.reader()
    handle = store.table(store.snapshot(branch).pins["node:Person"])
    texts = [
        sorted(
            handle.scanner(columns=["handle", "_score"], full_text_query={"columns": ["about"], "query": word})
            .to_table()["handle"]
            .to_pylist()
        )
        for word in _WORDS
    ]
    near = [
        sorted(
            handle.scanner(columns=["handle", "_distance"], nearest={"column": "face", "q": [place, 1.0], "k": 3})
            .to_table()["handle"]
            .to_pylist()
        )
        for place in (3.0, 20.0)
    ]
    ages = [
        sorted(handle.scanner(columns=["handle"], filter=f"age = {age}").to_table()["handle"].to_pylist())
        for age in (3, 21)
    ]
    return [*texts, *near, *ages]


def layout(graph: og.Graph, branch: str = "main") -> dict[str, tuple[int, int, int]]:
    """Fragments, deleted rows and rows outside an index, by table."""
    tables = graph.stats(branch).tables
    return {
        table.table_key: (table.fragments, table.deleted_rows, sum(index.unindexed_rows for index in table.indexes))
        for table in tables
    }
