"""A search for words across all types: one ranking per property with a full-text index, fused into one.

Each property ranks its rows by BM25, equal scores by id. A node's score is the sum of ``1 / (60 + rank + 1)`` over the
rankings that it is in, as with ``rrf``: scores of different types say nothing about each other, places do. Nodes are
positions until it is known which ones are shown.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph import given, limits
from omnigraph.engine.fetch_values import fetch_values
from omnigraph.engine.graph_view import GraphView
from omnigraph.engine.position_deltas import Positions
from omnigraph.engine.search.neighbourhood import neighbourhood
from omnigraph.engine.search.search_result import SearchHit, SearchMatch
from omnigraph.engine.search.snippets import snippet_of
from omnigraph.engine.search.text_search import TextSearch
from omnigraph.engine.table_rows import TableRows
from omnigraph.errors import InputError, TypeNotFound
from omnigraph.ids import did_you_mean
from omnigraph.read_budget import UNBOUNDED, ReadBudget
from omnigraph.schema.catalog import Catalog, NodeType
from omnigraph.schema.index_plan import IndexKind, index_plan

#: What ranks are counted from in a fused score.
_K = 60

_Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """What to look for: words, names of node types or None for all, hops from each hit, number of hits."""

    words: str
    types: Sequence[str] | None
    hops: int
    limit: int

    @staticmethod
    def of(words: object, types: object, hops: object, limit: object) -> SearchRequest:
        """What a caller gave, checked."""
        text = given.text(words, "what to search for")
        if not text.strip():
            raise InputError("there are no words to search for")
        if any("\ud800" <= character <= "\udfff" for character in text):
            raise InputError("what to search for expects Unicode text, got a lone surrogate")
        names = None if types is None else given.texts(types, "types")
        return SearchRequest(
            text,
            names,
            _at_most(given.count(hops, "hops"), limits.SEARCH_HOPS, "hops"),
            _at_most(given.count(limit, "limit"), limits.SEARCH_HITS, "limit"),
        )


def _at_most(number: int, most: int, what: str) -> int:
    if number > most:
        raise InputError(f"{what} is {number}, which is more than {most:,}")
    return number


def search_graph(view: GraphView, request: SearchRequest, budget: ReadBudget = UNBOUNDED) -> list[SearchHit]:
    """The best hits, in order.

    Raises:
        TypeNotFound: there is no such node type.
        InputError: no type, or not this one, has a full-text index.
    """
    found = []
    for node, columns in searched_types(view.catalog, request.types):
        budget.check()
        found.append(_ranked(view, node, columns, request, budget))
    table = pa.concat_tables([each.table() for each in found])
    first = [("score", "descending"), ("bm25", "descending"), ("type", "ascending"), ("id", "ascending")]
    best = table.take(pc.sort_indices(table, sort_keys=first)[: request.limit])
    by_type = {each.node.name: each for each in found}
    hits = []
    for row in best.to_pylist():
        budget.check()
        hits.append(by_type[row["type"]].hit(view, row, request, budget))
    return hits


def searched_types(catalog: Catalog, names: Sequence[str] | None) -> list[tuple[NodeType, tuple[str, ...]]]:
    """The node types that are searched, each with its properties that have a full-text index."""
    for name in names or ():
        if name not in catalog.nodes:
            raise TypeNotFound(f"there is no node type '{name}'", hint=did_you_mean(name, catalog.nodes), type=name)
    every = {node.name: (node, tuple(_columns(node))) for node in catalog.nodes.values()}
    for name in names or ():
        if not every[name][1]:
            raise InputError(
                f"type '{name}' has no text with an index", hint="write @index behind a property of type String"
            )
    chosen = [each for name, each in every.items() if each[1] and (names is None or name in names)]
    if not chosen:
        raise InputError("no type has a text with an index", hint="write @index behind a property of type String")
    return chosen


def _columns(node: NodeType) -> Iterator[str]:
    wanted = (index.column for index in index_plan(node).wanted if index.kind is IndexKind.INVERTED)
    return iter(dict.fromkeys(wanted))


def _ranked(
    view: GraphView, node: NodeType, columns: tuple[str, ...], request: SearchRequest, budget: ReadBudget
) -> _RankedType:
    rows = view.nodes(node.name)
    searches = {name: _search_in(view, rows, node.name, name, budget) for name in columns}
    places, shares, scores = [np.zeros(0, np.int64)], [np.zeros(0)], [np.zeros(0)]
    for search in searches.values():
        budget.check()
        hits = search.ranked(request.words, limits.SEARCH_HITS)
        assert hits.scores is not None
        ids = rows.values("id", hits.positions)
        order = np.asarray(
            pc.sort_indices(
                pa.table({"score": hits.scores, "id": ids}), sort_keys=[("score", "descending"), ("id", "ascending")]
            )
        )[: limits.SEARCH_HITS]
        places.append(hits.positions[order])
        shares.append(1 / (_K + 1 + np.arange(len(order))))
        scores.append(hits.scores[order])
    positions, where = np.unique(np.concatenate(places), return_inverse=True)
    best = np.zeros(len(positions))
    np.maximum.at(best, where, np.concatenate(scores))
    fused = np.bincount(where, np.concatenate(shares), len(positions)).astype(np.float64, copy=False)
    return _RankedType(node, searches, positions, rows.values("id", positions), fused, best)


def _search_in(view: GraphView, rows: TableRows, type_name: str, name: str, budget: ReadBudget) -> TextSearch:
    def texts(positions: Positions) -> pa.Array:
        return fetch_values(rows, name, positions, budget)

    return TextSearch(view.text_index(type_name, name), texts, len(rows), budget)


@dataclass(frozen=True, slots=True)
class _RankedType:
    """The rows of one type that were found: fused score and best BM25 score of each."""

    node: NodeType
    searches: dict[str, TextSearch]
    positions: Positions
    ids: pa.Array
    fused: _Numbers
    best: _Numbers

    def table(self) -> pa.Table:
        names = pa.array([self.node.name] * len(self.positions), pa.string())
        return pa.table(
            {"type": names, "id": self.ids, "score": self.fused, "bm25": self.best, "position": self.positions}
        )

    def hit(self, view: GraphView, row: dict[str, object], request: SearchRequest, budget: ReadBudget) -> SearchHit:
        position = np.array([row["position"]], np.int64)
        matches = tuple(sorted(self._matches(view, position, request.words), key=lambda each: -each.bm25))
        nearby, count = neighbourhood(view, self.node.name, position, request.hops, budget)
        return SearchHit(self.node.name, str(row["id"]), float(str(row["score"])), matches, nearby, count)

    def _matches(self, view: GraphView, position: Positions, words: str) -> Iterator[SearchMatch]:
        for name, search in self.searches.items():
            score = float(search.scores(words, position)[0])
            if not np.isnan(score):
                text = view.nodes(self.node.name).values(name, position)[0].as_py()
                snippet = snippet_of(text, words, search.index.tokenizer)
                yield SearchMatch(name, score, snippet.text, snippet.marks)
