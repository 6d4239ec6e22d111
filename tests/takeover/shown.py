"""What a graph shows after some cases, held against each of them: every mark has the number of its case."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable

import omnigraph as og
from tests.takeover.case import Case
from tests.takeover.writers import Ground

#: Number of a case → values by table.
Shown = dict[int, dict[str, list[str]]]

_NUMBER = re.compile(r"\d+")

#: Tables that an overwrite empties.
_OVERWRITTEN = tuple(f"{place} {table}" for place in ("main", "merged") for table in ("node:Person", "edge:Knows"))


def branches_of(names: Iterable[str], ground: Ground) -> list[str]:
    """The case's branch, under whatever name, if it is there."""
    return [name for name in names if name.partition("-")[0] == ground.branch]


def compare(graph: og.Graph, cases: list[Case]) -> None:
    """Everything that the graph shows of these cases is explained by them."""
    hold_against(shown(graph, (case.ground for case in cases)), cases)


def hold_against(found: Shown, cases: list[Case]) -> None:
    """Each case is told what does not fit it."""
    for case in cases:
        case.wrong += case.compare(found.get(case.ground.number, {}))
        if case.overwrote:
            case.wrong += _survivors(found, case)


def _survivors(found: Shown, case: Case) -> list[str]:
    """Rows of earlier cases that an overwrite should have taken."""
    return [
        f"{table}: {marks} of case {number} are there after an overwrite"
        for number, values in found.items()
        for table, marks in values.items()
        if number < case.ground.number and table in _OVERWRITTEN
    ]


def shown(graph: og.Graph, grounds: Iterable[Ground]) -> Shown:
    """Every value now: rows of main, own rows of the branches of these cases, merged rows, types, properties, tags."""
    found: Shown = defaultdict(lambda: defaultdict(list))
    _sort(found, "type", (name for name in graph.catalog.nodes if name.startswith("T_")))
    _sort(found, "property", (name for name in graph.catalog.nodes["Company"].properties if name.startswith("p_")))
    for table, marks in _marks(graph, "main"):
        _sort(found, f"main {table}", (mark for mark in marks if not mark.endswith("@")))
        _sort(found, f"merged {table}", (mark for mark in marks if mark.startswith("base")))
    for tag in graph.tags.list():
        assert graph.snapshot(at=f"tag:{tag.name}").count("Person"), f"{tag} shows nothing"
        _sort(found, "tag", [tag.name])
    names = graph.branches.list()
    for ground in grounds:
        for branch in branches_of(names, ground):
            for table, marks in _marks(graph, branch):
                own = [mark for mark in marks if mark.endswith("@") and number_of(mark) == ground.number]
                found[ground.number][f"{ground.branch} {table}"] += own
    return found


def number_of(mark: str) -> int:
    """Of the case whose mark this is; -1 when it is nobody's."""
    number = _NUMBER.search(mark)
    return int(number[0]) if number else -1


def _marks(graph: og.Graph, branch: str) -> Iterable[tuple[str, list[str]]]:
    snapshot = graph.snapshot(branch)
    for table in snapshot.tables:
        yield table, snapshot.arrow(table, ["mark"]).column("mark").to_pylist()


def _sort(found: Shown, name: str, marks: Iterable[str]) -> None:
    for mark in marks:
        found[number_of(mark)][name].append(mark)
