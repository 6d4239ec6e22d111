"""How commits look in a terminal: one line each, or drawn as a graph with a lane for every line of history.

    *   01J…  (main) merge
    ├─╮
    │ * 01J…  load
    * │ 01J…  mutation
    ├─╯
    * 01J…  init

A lane waits for the commit that comes next on it. Lanes that wait for the same commit join above it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from omnigraph.cli.printing import local_time

if TYPE_CHECKING:
    from omnigraph import Commit, CommitNode


def commit_line(commit: Commit) -> str:
    """A commit as the list shows it."""
    actor = f" actor={commit.actor}" if commit.actor is not None else ""
    head = f"{commit.id} graph_branch={commit.branch} graph_manifest_version={commit.version}{actor}"
    return f"{head} created_at={local_time(commit.created_at)} {commit.summary}{_gone(commit)}".rstrip()


def _gone(commit: Commit) -> str:
    """Says of a commit that its state cannot be read any more."""
    return "" if commit.readable else " (cleaned up)"


def drawn_lines(nodes: Iterable[CommitNode]) -> Iterator[str]:
    """Commits, children before parents, beside the lines that lead from one to the next."""
    lanes = _Lanes()
    for node in nodes:
        place, others = lanes.meet(node.commit.id)
        if others:
            yield lanes.joined(place, others)
        yield f"{lanes.marked(place)} {_beside(node)}"
        lanes.follow(place, node.parents[0] if node.parents else None)
        for parent in node.parents[1:]:
            yield lanes.parted(place, parent)


def _beside(node: CommitNode) -> str:
    commit = node.commit
    heads = f"({', '.join(node.heads)})" if node.heads else ""
    said = (
        commit.id,
        heads,
        local_time(commit.created_at),
        commit.actor or "",
        f"{commit.summary}{_gone(commit)}".strip(),
    )
    return " ".join(part for part in said if part)


class _Lanes:
    """The lanes from left to right, each with the id that it waits for; None is a free place between others."""

    def __init__(self) -> None:
        self._waiting: list[str | None] = []

    def meet(self, commit_id: str) -> tuple[int, list[int]]:
        """The lane of a commit, and others that end at it; a commit that nobody waited for begins one."""
        places = [place for place, waits in enumerate(self._waiting) if waits == commit_id]
        if not places:
            return self._begin(commit_id), []
        return places[0], places[1:]

    def _begin(self, commit_id: str) -> int:
        place = self._waiting.index(None) if None in self._waiting else len(self._waiting)
        self._waiting[place : place + 1] = [commit_id]
        return place

    def follow(self, place: int, parent: str | None) -> None:
        self._waiting[place] = parent
        self._trim()

    def marked(self, place: int) -> str:
        return self._row({place: "*"}, place, place)

    def joined(self, place: int, others: list[int]) -> str:
        """The row above a commit where other lanes come in from the right."""
        last = others[-1]
        row = self._row({place: "├", **dict.fromkeys(others, "┴"), last: "╯"}, place, last)
        for other in others:
            self._waiting[other] = None
        self._trim()
        return row

    def parted(self, place: int, parent: str) -> str:
        """The row below a commit where a line goes out to another parent, into its lane or a new one."""
        is_new = parent not in self._waiting
        other = self._begin(parent) if is_new else self._waiting.index(parent)
        to_right = other > place
        end = ("╮" if to_right else "╭") if is_new else ("┤" if to_right else "├")
        return self._row({place: "├" if to_right else "┤", other: end}, *sorted((place, other)))

    def _row(self, signs: dict[int, str], first: int, last: int) -> str:
        """All lanes, with a line from the first to the last of those that something happens to."""
        drawn = []
        for place, waits in enumerate(self._waiting):
            crossed = first < place < last
            straight = "┼" if crossed else "│"
            drawn.append(signs.get(place) or (straight if waits is not None else "─" if crossed else " "))
            drawn.append("─" if first <= place < last else " ")
        return "".join(drawn).rstrip()

    def _trim(self) -> None:
        while self._waiting and self._waiting[-1] is None:
            self._waiting.pop()
