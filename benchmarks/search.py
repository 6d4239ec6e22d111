"""Search: the best texts and the nearest vectors, against raw Lance with its indexes, tantivy, faiss and NumPy.

Texts are words in the frequencies of a language, vectors lie in clusters; for comparison also without clusters. The raw
side searches a Lance table of the same rows; the others hold them in memory. All answer with the key and the score of
ten rows. The sum of raw calls is two searches behind the filter and a look-up of the edges of what they found.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from itertools import count, cycle
from pathlib import Path
from typing import Any

import lance
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

import omnigraph as og
from benchmarks import child
from benchmarks.measure import Action, in_turns, seconds_of
from benchmarks.options import Options
from benchmarks.report import Goal, Report, Row
from benchmarks.storage.graphs import settle
from omnigraph.write.change import Change, Mode

SCHEMA = """
node Doc { slug: String @key  body: String @index  part: I32  vec: Vector(384) @index }
node Person { name: String @key }
edge Wrote: Person -> Doc
"""
WORDS = 40
SIZE = 384
PARTS = 10
ROUNDS = 40

BEST = """query q($t: String) { match { $d: Doc }
    return { $d.slug as slug, bm25($d.body, $t) as score } order { bm25($d.body, $t) } limit 10 }"""
NEAREST = """query q($v: Vector(384)) { match { $d: Doc }
    return { $d.slug as slug, nearest($d.vec, $v) as far } order { nearest($d.vec, $v) } limit 10 }"""
FILTERED = NEAREST.replace("$d: Doc", "$d: Doc { part: 3 }")
HYBRID = """query q($t: String, $v: Vector(384)) { match { $d: Doc { part: 3 }  $p wrote $d }
    return { $d.slug as slug, $p.name as author }
    order { rrf(bm25($d.body, $t), nearest($d.vec, $v)) } limit 10 }"""


def run(options: Options) -> Report:
    """Build both sides once, and ask them in turns."""
    table = _documents(options.size(100_000, 500))
    raw = _raw(table, options.place / "raw.lance")
    slugs = table.column("slug")
    authors = pa.array([f"p{number % 1_000:04}" for number in range(table.num_rows)])
    wrote = pa.table({"from": authors, "to": slugs})
    edges = lance.write_dataset(wrote, options.place / "wrote.lance")
    edges.create_scalar_index("to", "BTREE")
    with og.init(options.place / "graph", SCHEMA) as graph:
        graph.load({"Doc": table, "Person": pa.table({"name": authors.unique()}), "Wrote": wrote}, "append")
        built = seconds_of(lambda: graph.query(BEST, {"t": "first"}))
        vectors = _matrix(table)
        rounds = options.size(ROUNDS, 3)
        rows = [
            *_texts(graph, raw, table, rounds),
            *_vectors(graph, raw, vectors, rounds),
            *_behind_filter(graph, table, vectors, rounds),
            *_hybrid(graph, (raw, edges), table, rounds),
            *_after_commit(graph, table, rounds),
            *_without_clusters(options, rounds),
        ]
        uri = graph.uri
    rows.append(_memory(uri, raw.uri, options.size(200, 3)))
    return Report("search", tuple(rows), facts=(("first text search, index built", f"{built:.1f} s"),))


def _raw(table: pa.Table, place: Path) -> Any:
    raw = lance.write_dataset(table, place)
    if "body" in table.column_names:
        raw.create_scalar_index("body", "INVERTED")
        raw.create_scalar_index("part", "BTREE")
    return raw.create_index("vec", "IVF_FLAT", num_partitions=max(1, int(table.num_rows**0.5)), metric="l2")


def _matrix(table: pa.Table) -> npt.NDArray[np.float32]:
    return np.asarray(table.column("vec").combine_chunks().values).reshape(-1, SIZE)


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


def _compared(
    measure: str, peers: dict[str, Goal | None], sides: dict[str, Callable[[], Any]], rounds: int
) -> list[Row]:
    taken = {name: found.median for name, found in in_turns(
        {name: Action(run) for name, run in sides.items()}, rounds
    ).items()}  # fmt: skip
    return [Row(measure, taken["ours"], taken[name], name, goal=goal) for name, goal in peers.items() if name in taken]


def _asked(table: pa.Table) -> Callable[[], str]:
    """Three words that occur, others each time, again after sixteen."""
    words = " ".join(table.column("body").slice(0, 200).to_pylist()).split()
    random = np.random.default_rng(5)
    return cycle([" ".join(random.choice(words, 3)) for _ in range(16)]).__next__


def _texts(graph: og.Graph, raw: Any, table: pa.Table, rounds: int) -> list[Row]:
    query = _asked(table)

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

    query = _asked(table)
    for measure, text, params in (
        ("right after a 1-row commit: best 10 texts", BEST, lambda: {"t": query()}),
        ("right after a 1-row commit: nearest 10", NEAREST, lambda: {"v": given}),
    ):

        def ask(text: str = text, params: Callable[[], dict[str, Any]] = params) -> Any:
            return graph.query(text, params())

        taken = in_turns({"after": Action(ask, before=commit), "warm": Action(ask)}, rounds)
        rows.append(Row(measure, taken["after"].median, taken["warm"].median, "warm", goal=Goal(2)))
    return rows


def _hybrid(graph: og.Graph, raw: tuple[Any, Any], table: pa.Table, rounds: int) -> list[Row]:
    """Two searches behind a filter, fused, and one hop."""
    query, given = _asked(table), table.column("vec")[7].as_py()
    documents, edges = raw
    point = np.asarray(given, np.float32)

    def called() -> Any:
        sought = lance.query.MatchQuery(query(), "body")
        chosen: dict[str, Any] = {"columns": ["slug"], "filter": "part = 3", "prefilter": True}
        texts = documents.scanner(**chosen, full_text_query=sought, limit=10).to_table()
        near = documents.scanner(**chosen, nearest={"column": "vec", "q": point, "k": 10}).to_table()
        found = pa.concat_tables([texts.select(["slug"]), near.select(["slug"])]).column("slug").unique()
        return edges.scanner(filter=pc.field("to").isin(found)).to_table()

    sides = {"ours": lambda: graph.query(HYBRID, {"t": query(), "v": given}), "raw calls": called}
    return _compared("best 10 by text and vector, filter and hop", {"raw calls": Goal(1.2)}, sides, rounds)


def _without_clusters(options: Options, rounds: int) -> list[Row]:
    """Vectors whose numbers are of falling weight, as those of language models are: no bound spares a row."""
    random = np.random.default_rng(2)
    rows = options.size(100_000, 500)
    vectors = (random.normal(size=(rows, SIZE)) / np.sqrt(np.arange(1, SIZE + 1))).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    table = pa.table({
        "slug": [f"d{number:07}" for number in range(rows)],
        "vec": pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), SIZE),
    })  # fmt: skip
    raw = _raw(table, options.place / "even.lance")
    with og.init(options.place / "even", "node Doc { slug: String @key  vec: Vector(384) @index }") as graph:
        graph.load({"Doc": table}, "append")
        point = vectors[7] + np.float32(0.01)
        given, nearest = point.tolist(), {"column": "vec", "q": point, "k": 10, "nprobes": 16}
        sides: dict[str, Callable[[], Any]] = {
            "ours": lambda: graph.query(NEAREST, {"v": given}),
            "raw Lance, which may miss some": lambda: raw.scanner(
                columns=["slug", "_distance"], nearest=nearest
            ).to_table(),
        }
        measure = "nearest 10 of 100,000 vectors without clusters"
        return _compared(measure, {"raw Lance, which may miss some": None}, sides, rounds)


def _memory(uri: str, raw: str, searches: int) -> Row:
    """The most memory of a process that searches texts and vectors many times."""
    ours = child.run("benchmarks.search:search_graph", uri=uri, searches=searches)
    theirs = child.run("benchmarks.search:search_raw", uri=raw, searches=searches)
    return Row("memory of many searches", ours, theirs, "raw Lance", unit="bytes", goal=Goal(1.5))


def search_graph(uri: str, searches: int) -> int:
    """Runs in the child: most bytes held."""
    random = np.random.default_rng(3)
    with og.open(uri, mode="ro") as graph:
        for number in range(searches):
            graph.query(BEST, {"t": f"word{number}"})
            graph.query(NEAREST, {"v": random.normal(size=SIZE).tolist()})
    return child.peak_memory()


def search_raw(uri: str, searches: int) -> int:
    """Runs in the child: the same for raw Lance."""
    random = np.random.default_rng(3)
    raw = lance.dataset(uri)
    for number in range(searches):
        sought = lance.query.MatchQuery(f"word{number}", "body")
        raw.scanner(columns=["slug", "_score"], full_text_query=sought, limit=10).to_table()
        point = random.normal(size=SIZE).astype(np.float32)
        raw.scanner(columns=["slug", "_distance"], nearest={"column": "vec", "q": point, "k": 10}).to_table()
    return child.peak_memory()
