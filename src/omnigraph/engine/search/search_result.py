"""What `Graph.search` gives: nodes in the order of their scores, what matched in each, and what lies around it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class SearchMatch:
    """A property of a hit that has some of the words.

    Attributes:
        bm25: its score among the texts of this property.
        snippet: the part of the text that has most of the words, on one line.
        marks: where in the snippet what matched begins and ends.
    """

    property: str
    bm25: float
    snippet: str
    marks: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class SearchNeighbour:
    """A node near a hit: its distance in edges, and the type of the last edge on the way."""

    type: str
    id: str
    hops: int
    edge: str


@dataclass(frozen=True, slots=True)
class SearchHit:
    """A node that a search found.

    Attributes:
        score: the sum of ``1 / (60 + rank + 1)`` over the properties that found it.
        matches: what matched, the best property first.
        neighbours: the nearest nodes. ``neighbour_count``: how many there are in all.
    """

    type: str
    id: str
    score: float
    matches: tuple[SearchMatch, ...]
    neighbours: tuple[SearchNeighbour, ...] = ()
    neighbour_count: int = 0


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The hits of a search, best first, and the state that was searched. Iterating gives the hits."""

    words: str
    hits: tuple[SearchHit, ...]
    branch: str | None
    commit_id: str | None

    def __iter__(self) -> Iterator[SearchHit]:
        return iter(self.hits)

    def __len__(self) -> int:
        return len(self.hits)

    def __repr__(self) -> str:
        best = f", best {self.hits[0].type} '{self.hits[0].id}'" if self.hits else ""
        return f"SearchResult({self.words!r:.60}: {len(self.hits)} hits{best})"

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {
            "words": self.words,
            "branch": self.branch,
            "graph_commit_id": self.commit_id,
            "hits": [_hit(each) for each in self.hits],
        }


def _hit(hit: SearchHit) -> dict[str, Any]:
    return {
        "type": hit.type,
        "id": hit.id,
        "score": hit.score,
        "matches": [
            {
                "property": each.property,
                "bm25": each.bm25,
                "snippet": each.snippet,
                "marks": [list(mark) for mark in each.marks],
            }
            for each in hit.matches
        ],
        "neighbours": [
            {"type": each.type, "id": each.id, "hops": each.hops, "edge": each.edge} for each in hit.neighbours
        ],
        "neighbour_count": hit.neighbour_count,
    }
