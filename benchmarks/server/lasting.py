"""What a server holds after many requests."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import count

from benchmarks.options import Options
from benchmarks.report import Goal, Row
from benchmarks.server.load_client import load
from benchmarks.server.processes import graph_server, resident
from benchmarks.server.reading import POINT
from benchmarks.server.writing import PUT
from benchmarks.storage.graphs import fsync, new_graph

CONNECTIONS = 32
FIRST, ALL = 1_000, 100_000
#: One request in this many commits a row, and one asks for the history.
SELDOM = 200


def memory_of_many_requests(options: Options) -> Sequence[Row]:
    """Queries with ever new parameters, and now and then another request."""
    first, all_ = options.size(FIRST, 50), options.size(ALL, 200)
    people = options.size(10_000, 100)
    new_graph(options, "lasting", rows=people).close()
    with fsync(False), graph_server(options.place / "lasting") as (target, process):
        numbers = count(1)

        def request() -> bytes:
            number = next(numbers)
            if number % SELDOM == 0:
                body = {"query": PUT, "params": {"h": f"new-{number}"}}
                return target.request("POST", "/graphs/lasting/mutate", json.dumps(body).encode())
            if number % SELDOM == 1:
                return target.request("GET", "/graphs/lasting/commits?limit=10")
            body = {"query": POINT, "params": {"h": f"person-{number % people:08d}"}}
            return target.request("POST", "/graphs/lasting/query", json.dumps(body).encode())

        load(target, request, CONNECTIONS, first)
        before = resident(process)
        load(target, request, CONNECTIONS, all_ - first)
        after = resident(process)
    return [
        Row(f"memory of the server after {all_:,} requests", after, before, f"after {first:,}", "bytes", goal=Goal(1.1))
    ]
