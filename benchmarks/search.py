"""Search: the best texts and the nearest vectors, against raw Lance with its indexes, tantivy, faiss and NumPy.

Texts are words in the frequencies of a language, vectors lie in clusters. The raw side searches a Lance table of the
same rows; the others hold them in memory. All answer with the key and the score of ten rows.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from itertools import count
from typing import Any

import lance
import numpy as np
import numpy.typing as npt
import pyarrow as pa

import omnigraph as og
from benchmarks.measure import Action, in_turns, seconds_of
from benchmarks.options import Options
from benchmarks.report import Goal, Report, Row
from benchmarks.storage.graphs import settle
from omnigraph.write.change import Change, Mode

SCHEMA = "node Doc { slug: String @key  body: String @index  part: I32  vec: Vector(384) @index }"
WORDS = 40
SIZE = 384
PARTS = 10
ROUNDS = 40

BEST = """query q($t: String) { match { $d: Doc }
    return { $d.slug as slug, bm25($d.body, $t) as score } order { bm25($d.body, $t) } limit 10 }"""
NEAREST = """query q($v: Vector(384)) { match { $d: Doc }
    return { $d.slug as slug, nearest($d.vec, $v) as far } order { nearest($d.vec, $v) } limit 10 }"""
FILTERED = NEAREST.replace("$d: Doc", "$d: Doc { part: 3 }")


def run(options: Options) -> Report:
    """Build both sides once, and ask them in turns."""
    table = _documents(options.size(100_000, 500))
    raw = lance.write_dataset(table, options.place / "raw.lance")
    raw.create_scalar_index("body", "INVERTED")
    raw = raw.create_index("vec", "IVF_FLAT", num_partitions=max(1, int(table.num_rows**0.5)), metric="l2")
    with og.init(options.place / "graph", SCHEMA) as graph:
        graph.load({"Doc": table}, "append")
        built = seconds_of(lambda: graph.query(BEST, {"t": "first"}))
        vectors = np.asarray(table.column("vec").combine_chunks().values).reshape(-1, SIZE)
        rounds = options.size(ROUNDS, 3)
        rows = [
            *_texts(graph, raw, table, rounds),
            *_vectors(graph, raw, vectors, rounds),
            *_behind_filter(graph, table, vectors, rounds),
            *_after_commit(graph, table, rounds),
        ]
    return Report("search", tuple(rows), facts=(("first text search, index built", f"{built:.1f} s"),))


def _documents(rows: int) -> pa.Table:
    random = np.random.default_rng(1)
    letters = list("abcdefghijklmnopqrstuvwxyz")
    words = np.array(["".join(random.choice(letters, random.integers(3, 10))) for _ in range(30_000)])
    share = 1 / np.arange(1, len(words) + 1)
    chosen = words[random.choice(len(words), (rows, WORDS), p=share / share.sum())]
    middles = random.normal(size=(400, SIZE))
    vectors = (middles[random.integers(0, 400, rows)] + 0.6 * random.normal(size=(rows, SIZE))).astype(np.float32)
    return pa.table({
        "slug": [f"d{number:07}" for number in range(rows)],
        "body": [" ".join(each) for each in chosen],
        "part": pa.array(np.arange(rows) % PARTS, pa.int32()),
        "vec": pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), SIZE),
    })  # fmt: skip


def _compared(measure: str, peers: dict[str, Goal], sides: dict[str, Callable[[], Any]], rounds: int) -> list[Row]:
    taken = {name: found.median for name, found in in_turns(
        {name: Action(run) for name, run in sides.items()}, rounds
    ).items()}  # fmt: skip
    return [Row(measure, taken["ours"], taken[name], name, goal=goal) for name, goal in peers.items() if name in taken]


def _texts(graph: og.Graph, raw: Any, table: pa.Table, rounds: int) -> list[Row]:
    words = " ".join(table.column("body").slice(0, 200).to_pylist()).split()
    random = np.random.default_rng(5)
    asked = (" ".join(random.choice(words, 3)) for _ in count())
    queries = [next(asked) for _ in range(16)]
    number = count()

    def query() -> str:
        return queries[next(number) % len(queries)]

    def scanned() -> Any:
        sought = lance.query.MatchQuery(query(), "body")
        return raw.scanner(columns=["slug", "_score"], full_text_query=sought, limit=10).to_table()

    sides: dict[str, Callable[[], Any]] = {"ours": lambda: graph.query(BEST, {"t": query()}), "raw Lance": scanned}
    if find_spec("tantivy"):
        sides["tantivy"] = _tantivy(table, query)
    return _compared("best 10 texts of 100,000", {"raw Lance": Goal(1), "tantivy": Goal(5)}, sides, rounds)


def _tantivy(table: pa.Table, query: Callable[[], str]) -> Callable[[], Any]:
    import tantivy

    builder = tantivy.SchemaBuilder()
    builder.add_text_field("body", tokenizer_name="en_stem")
    index = tantivy.Index(builder.build())
    writer = index.writer(200_000_000)
    for body in table.column("body").to_pylist():
        writer.add_document(tantivy.Document(body=body))
    writer.commit()
    writer.wait_merging_threads()
    index.reload()
    searcher = index.searcher()
    return lambda: searcher.search(index.parse_query(query(), ["body"]), 10)


def _vectors(graph: og.Graph, raw: Any, vectors: npt.NDArray[np.float32], rounds: int) -> list[Row]:
    point = vectors[7] + np.float32(0.01)
    given = point.tolist()
    nearest = {"column": "vec", "q": point, "k": 10}
    sides: dict[str, Callable[[], Any]] = {
        "ours": lambda: graph.query(NEAREST, {"v": given}),
        "raw Lance": lambda: raw.scanner(columns=["slug", "_distance"], nearest=nearest).to_table(),
    }
    if find_spec("faiss"):
        import faiss

        found = faiss.IndexIVFFlat(faiss.IndexFlatL2(SIZE), SIZE, max(1, int(len(vectors) ** 0.5)))
        found.train(vectors)
        found.add(vectors)
        found.nprobe = 16
        sides["faiss"] = lambda: found.search(point[None], 10)
    return _compared("nearest 10 of 100,000 vectors", {"raw Lance": Goal(1), "faiss": Goal(3)}, sides, rounds)


def _behind_filter(graph: og.Graph, table: pa.Table, vectors: npt.NDArray[np.float32], rounds: int) -> list[Row]:
    point = vectors[7] + np.float32(0.01)
    given, rows = point.tolist(), np.flatnonzero(np.asarray(table.column("part")) == 3)

    def measured() -> Any:
        far = ((vectors[rows] - point) ** 2).sum(axis=1)
        return rows[np.argpartition(far, 9)[:10]]

    sides = {"ours": lambda: graph.query(FILTERED, {"v": given}), "NumPy": measured}
    return _compared("nearest 10 of 10,000 vectors behind a filter", {"NumPy": Goal(1.5)}, sides, rounds)


def _after_commit(graph: og.Graph, table: pa.Table, rounds: int) -> list[Row]:
    rows = []
    given = table.column("vec")[7].as_py()
    numbers = count()

    def commit() -> None:
        new = table.slice(next(numbers) % table.num_rows, 1)
        graph.write([Change("node:Doc", new, Mode.MERGE)])
        settle(graph)

    for measure, text, params in (
        ("right after a 1-row commit: best 10 texts", BEST, {"t": "first"}),
        ("right after a 1-row commit: nearest 10", NEAREST, {"v": given}),
    ):

        def ask(text: str = text, params: dict[str, Any] = params) -> Any:
            return graph.query(text, params)

        taken = in_turns({"after": Action(ask, before=commit), "warm": Action(ask)}, rounds)
        rows.append(Row(measure, taken["after"].median, taken["warm"].median, "warm", goal=Goal(2)))
    return rows
