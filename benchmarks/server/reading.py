"""Point queries and large answers over HTTP, against the same calls embedded and against a route that does nothing."""

from __future__ import annotations

import http.client
import json
import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from itertools import cycle

import pyarrow as pa

from benchmarks.measure import no_garbage_collection
from benchmarks.options import Options
from benchmarks.report import Goal, Row
from benchmarks.server.load_client import Target, load, one_answer
from benchmarks.server.processes import bare_server, graph_server
from benchmarks.storage.graphs import new_graph

PEOPLE = 100_000
ROWS = 1_000_000
KEYS = 1_000
TURNS = 5
#: Point queries of one turn: one after the other, and over many connections.
CALLS, REQUESTS = 400, 4_000
CONNECTIONS = 32
#: So much longer a call over HTTP may take, in seconds.
ALLOWED = 0.0015
#: The share of the requests of a bare route that a server answers, at least.
SHARE = 0.4

POINT = "query point($h: String) { match { $p: Person { handle: $h } } return { $p.handle, $p.name, $p.age } }"
ALL = "query all() { match { $p: Person } return { $p.handle, $p.name, $p.age } }"
ARROW = "application/vnd.apache.arrow.stream"


def point_queries(options: Options) -> Sequence[Row]:
    """One after the other against embedded; over 32 connections against a bare route with the same bytes."""
    people = options.size(PEOPLE, 500)
    handles = _handles(people)[: options.size(CALLS, 5)]
    with new_graph(options, "people", rows=people, indexed=True) as graph:
        place = options.place / "people"
        with graph_server(place) as (target, _):
            asked = _requests(target, "people", people)
            body = one_answer(target, next(asked))
            with bare_server(body, options.place) as bare:
                empty = bare.request("POST", "/same", _body("person-00000001"))

                def embedded() -> float:
                    return statistics.median(
                        _seconds(partial(graph.query, POINT, params={"h": handle})) for handle in handles
                    )

                one = _turns(
                    options,
                    lambda: load(target, lambda: next(asked), 1, options.size(CALLS, 5)).median,
                    embedded,
                )
                bare_one = load(bare, lambda: empty, 1, options.size(CALLS, 5)).median
                many = _turns(
                    options,
                    lambda: load(target, lambda: next(asked), CONNECTIONS, options.size(REQUESTS, CONNECTIONS)).each,
                    lambda: load(bare, lambda: empty, CONNECTIONS, options.size(REQUESTS, CONNECTIONS)).each,
                )
    over, inside = one
    ours, theirs = many
    return [
        Row(
            "point query over HTTP, p50, one client: time beyond the same call embedded",
            max(over - inside, 0.0),
            ALLOWED,
            "allowed",
            goal=Goal(1),
            note=f"{over * 1e3:.2f} ms over HTTP, {inside * 1e3:.2f} ms embedded, {bare_one * 1e3:.2f} ms a bare route",
        ),
        Row(
            f"point query over {CONNECTIONS} connections, one server process",
            ours,
            theirs,
            f"bare route with the same {len(body)} bytes",
            goal=Goal(1 / SHARE),
            note=f"{1 / ours:,.0f} and {1 / theirs:,.0f} requests a second, {theirs / ours:.2f} times as many",
        ),
    ]


def large_answer(options: Options) -> Sequence[Row]:
    """All rows of a table as Arrow."""
    rows = options.size(ROWS, 1_000)
    with new_graph(options, "large", rows=rows) as graph, graph_server(options.place / "large") as (target, _):
        body, headers = json.dumps({"query": ALL}), {"Accept": ARROW, "Content-Type": "application/json"}

        def over_http() -> None:
            # Arrow reads from the connection into its own buffers.
            with closing(http.client.HTTPConnection(target.host, target.port)) as connection:
                connection.request("POST", "/graphs/large/query", body, headers)
                with pa.ipc.open_stream(connection.getresponse()) as stream:
                    _expect(stream.read_all().num_rows, rows)

        def embedded() -> None:
            _expect(graph.query(ALL).to_arrow().num_rows, rows)

        ours, theirs = _turns(options, lambda: _seconds(over_http), lambda: _seconds(embedded))
    return [Row(f"Arrow answer of {rows:,} rows", ours, theirs, "Result.to_arrow", goal=Goal(2))]


def _turns(options: Options, ours: Callable[[], float], theirs: Callable[[], float]) -> tuple[float, float]:
    """Medians of two measures that take turns, after one turn that does not count."""
    found: tuple[list[float], list[float]] = ([], [])
    for turn in range(1 + options.size(TURNS, 1)):
        with no_garbage_collection():
            pair = ours(), theirs()
        if turn:
            found[0].append(pair[0])
            found[1].append(pair[1])
    return statistics.median(found[0]), statistics.median(found[1])


def _seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def _expect(found: int, wanted: int) -> None:
    if found != wanted:
        raise RuntimeError(f"{found} rows instead of {wanted}")


def _handles(people: int) -> list[str]:
    step = max(people // KEYS, 1)
    return [f"person-{number:08d}" for number in range(0, people, step)]


def _body(handle: str) -> bytes:
    return json.dumps({"query": POINT, "params": {"h": handle}}).encode()


def _requests(target: Target, graph: str, people: int) -> cycle[bytes]:
    return cycle([target.request("POST", f"/graphs/{graph}/query", _body(handle)) for handle in _handles(people)])
