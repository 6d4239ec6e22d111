"""The command `search`: words in, nodes of any type out, with the part of the text that matched."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from itertools import groupby
from typing import TYPE_CHECKING, Annotated

import typer

from omnigraph.cli.addressing import Accepts
from omnigraph.cli.command import Invocation, Json, command
from omnigraph.cli.printing import counted, print_json, shown_text
from omnigraph.cli.read import BranchOption, SnapshotOption, moment

if TYPE_CHECKING:
    from omnigraph import SearchHit, SearchMatch, SearchResult

_BOLD = ("\x1b[1m", "\x1b[0m")
_PLAIN = ("", "")


def register_search(app: typer.Typer) -> None:
    @command(app, "search", Accepts.READ)
    def search(
        cli: Invocation,
        words: Annotated[str, typer.Argument(metavar="WORDS", help="What to look for.")],
        types: Annotated[
            list[str] | None, typer.Option("--type", metavar="TYPE", help="Only this node type; may be repeated.")
        ] = None,
        hops: Annotated[int, typer.Option("--hops", metavar="N", help="Also show what is this near to a hit.")] = 0,
        limit: Annotated[int, typer.Option("--limit", metavar="N", help="The most hits.")] = 10,
        branch: BranchOption = None,
        snapshot: SnapshotOption = None,
        json: Json = False,
    ) -> None:
        """Find nodes of any type by words, in all texts that have an index."""
        state = moment(branch, snapshot)
        with cli.graph(cli.address(how="--store URI")) as graph:
            found = graph.search(words, types or None, hops=hops, limit=limit, **state)
        if json:
            print_json(found.to_dict())
        else:
            sys.stdout.writelines(f"{line}\n" for line in _lines(found, _BOLD if _is_coloured() else _PLAIN))


def _is_coloured() -> bool:
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def _lines(found: SearchResult, bold: tuple[str, str]) -> Iterator[str]:
    yield f"{counted(len(found), 'hit')} for {shown_text(found.words)}"
    for number, hit in enumerate(found, start=1):
        yield ""
        yield f"{number}. {hit.type} {shown_text(hit.id)}  (score {hit.score:.4f})"
        width = max(len(match.property) for match in hit.matches)
        for match in hit.matches:
            yield f"   {match.property:<{width}}  {_marked(match, bold)}"
        yield from _nearby(hit)


def _marked(match: SearchMatch, bold: tuple[str, str]) -> str:
    """The snippet with what matched between the two signs."""
    pieces, end = [], 0
    for begin, last in match.marks:
        pieces += [shown_text(match.snippet[end:begin]), bold[0], shown_text(match.snippet[begin:last]), bold[1]]
        end = last
    return "".join([*pieces, shown_text(match.snippet[end:])])


def _nearby(hit: SearchHit) -> Iterator[str]:
    for (hops, edge, type_), near in groupby(hit.neighbours, key=lambda each: (each.hops, each.edge, each.type)):
        yield f"   {counted(hops, 'hop')} by {edge}: {type_} {', '.join(shown_text(each.id) for each in near)}"
    more = hit.neighbour_count - len(hit.neighbours)
    if more:
        yield f"   and {more:,} more"
