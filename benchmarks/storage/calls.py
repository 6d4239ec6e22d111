"""Counts the calls to an object store that a commit, a read and an open make, at several lengths of history.

The S3 server runs on loopback; a proxy in front of it notes each call. What counts is the number, not the time.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import parse_qs, unquote, urlsplit

import omnigraph as og
from benchmarks.options import Options
from benchmarks.report import Goal, Grid, Row
from benchmarks.storage.graphs import PEOPLE, fresh_numbers, people, person, settle
from benchmarks.storage.proxy import Call, CountingProxy
from omnigraph import limits
from omnigraph.write.change import Change

SHALLOW, DEEP, DEEPEST = 10, 100, 1_000

#: Two rounds of folding small fragments, so that the median commit does not depend on where a round began.
COMMITS = 2 * (limits.SMALL_FRAGMENTS + 1)
REPEATS = 5

#: What a file of a single row holds is read with its footer. A table of such files alone, as the first commits of an
#: empty graph leave it, would be read without a call for its rows, which no real table is.
ROWS_BEFORE = 100

#: The number of calls may not grow with the history at all.
CONSTANT = Goal(1)
METHODS = ("GET", "HEAD", "LIST", "PUT", "DELETE")

#: Calls of a kind of object, found by the first pattern that fits its name below the graph.
KINDS: tuple[tuple[str, str], ...] = (
    ("manifest: version files", r"__manifest/(tree/.*/)?_versions"),
    ("manifest: transactions", r"__manifest/(tree/.*/)?_transactions"),
    ("manifest: branch refs", r"__manifest/_refs"),
    ("manifest: rows", r"__manifest"),
    ("commit mirrors, in the background", r"_graph_commit(s|_actors|_recoveries)\.lance"),
    ("sidecars and leases", r"__recovery"),
    ("schema files", r"_schema|__schema"),
    ("tables: version files", r"(nodes|edges)/[^/]+/(tree/.*/)?_versions"),
    ("tables: transactions", r"(nodes|edges)/[^/]+/(tree/.*/)?_transactions"),
    ("tables: indexes", r"(nodes|edges)/[^/]+/(tree/.*/)?_indices"),
    ("tables: rows", r"(nodes|edges)"),
    ("listings of the root", r"$"),
)

#: Method and kind of object → number of calls.
Tally = Counter[tuple[str, str]]


def count_calls(options: Options) -> tuple[list[Row], list[Grid]]:
    """Rows that compare depths, and one grid per operation."""
    try:
        from tests.support.moto_server import moto_server
    except ImportError as error:
        return [Row(f"storage calls ({error.name} is not installed)", None, None, "", "calls", CONSTANT)], []
    depths = _depths(options)
    with moto_server() as server:
        proxy = CountingProxy(server.endpoint)
        with proxy.serve() as address:
            counter = _Counter(proxy, address, options)
            tallies = {depth: counter.at_depth(f"{server.url}/depth-{depth}", depth) for depth in depths}
    operations = list(tallies[depths[0]])
    rows = [
        Row(
            f"storage calls of {operation} after {depth:,} commits",
            tallies[depth][operation].total(),
            tallies[depths[0]][operation].total(),
            f"after {depths[0]}",
            "calls",
            CONSTANT,
        )
        for operation in operations
        for depth in depths[1:]
    ]
    return rows, [_grid(operation, {depth: tallies[depth][operation] for depth in depths}) for operation in operations]


def _depths(options: Options) -> list[int]:
    depths = [SHALLOW, options.size(DEEP, 20)]
    return [*depths, DEEPEST] if options.full else depths


@dataclass(frozen=True, slots=True)
class _Counter:
    """Counts the calls of operations; each is repeated."""

    proxy: CountingProxy
    address: str
    options: Options

    def at_depth(self, graph_address: str, depth: int) -> dict[str, Tally]:
        """The calls of every operation on a new graph after so many commits."""
        with og.init(graph_address, PEOPLE) as graph:
            graph.write([Change("node:Person", people(range(depth, depth + ROWS_BEFORE)))])
            for number in range(depth):
                graph.write([person(number)])
        with _endpoint(self.address), og.open(graph_address) as graph:
            numbers = fresh_numbers()

            def commit() -> None:
                graph.write([person(numbers())])
                settle(graph)

            # What only reads comes first: commits make the history longer.
            found = {
                "a snapshot": self.typical(graph.snapshot),
                "a snapshot and reading a table": self.typical(lambda: graph.snapshot().arrow("Person")),
                "an open (rw)": self.typical(lambda: og.open(graph_address).close()),
                "an open (ro)": self.typical(lambda: og.open(graph_address, mode="ro").close()),
            }
            commit()
            return {"a 1-row commit": self.typical(commit, self.options.size(COMMITS, 3)), **found}

    def typical(self, operation: Callable[[], object], repeats: int = REPEATS) -> Tally:
        """The tally of the run with the median number of calls; now and then a commit also folds small parts."""
        tallies = []
        for _ in range(repeats):
            self.proxy.take()
            operation()
            tallies.append(tally(self.proxy.take()))
        return sorted(tallies, key=Counter.total)[repeats // 2]


def tally(calls: list[Call]) -> Tally:
    """Sort calls by method and kind of object."""
    return Counter((_method(call), _kind(call)) for call in calls)


def _method(call: Call) -> str:
    if call.method == "GET" and _listed(call) is not None:
        return "LIST"
    return "DELETE" if _deletes_many(call) else call.method


def _deletes_many(call: Call) -> bool:
    return call.method == "POST" and "delete" in urlsplit(call.target).query


def _listed(call: Call) -> str | None:
    """The prefix that a listing asks for; None when the call is no listing."""
    query = parse_qs(urlsplit(call.target).query, keep_blank_values=True)
    return query.get("prefix", [""])[0] if "list-type" in query else None


def _kind(call: Call) -> str:
    below_graph = _name(call).partition("/")[2]
    return next((kind for kind, pattern in KINDS if re.match(pattern, below_graph)), f"other: {below_graph}")


def _name(call: Call) -> str:
    """The object that a call is about, or the prefix, or the first of many."""
    if _deletes_many(call):
        keys = re.findall(r"<Key>(.*?)</Key>", call.body.decode("utf-8"))
        return keys[0] if keys else ""
    listed = _listed(call)
    return listed if listed is not None else unquote(urlsplit(call.target).path).lstrip("/").partition("/")[2]


def _grid(operation: str, tallies: dict[int, Tally]) -> Grid:
    depths = list(tallies)
    kinds = [kind for kind, _ in KINDS]
    keys = {key for counted in tallies.values() for key in counted}
    ordered = sorted(
        keys, key=lambda key: (kinds.index(key[1]) if key[1] in kinds else len(kinds), METHODS.index(key[0]))
    )
    lines = [(kind, method, *(str(tallies[depth][(method, kind)]) for depth in depths)) for method, kind in ordered]
    lines.append(("all", "", *(str(tallies[depth].total()) for depth in depths)))
    return Grid(
        f"Storage calls of {operation}", ("object", "method", *(f"after {depth:,}" for depth in depths)), tuple(lines)
    )


@contextmanager
def _endpoint(address: str) -> Iterator[None]:
    before = os.environ["AWS_ENDPOINT_URL"]
    os.environ["AWS_ENDPOINT_URL"] = address
    try:
        yield
    finally:
        os.environ["AWS_ENDPOINT_URL"] = before
