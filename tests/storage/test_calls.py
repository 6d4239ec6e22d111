"""How often a small commit asks an object store. Each call takes tens of milliseconds there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

import omnigraph as og
from benchmarks.storage.calls import Tally, tally
from benchmarks.storage.proxy import CountingProxy
from omnigraph import limits
from tests.support.s3_server import S3Server
from tests.support.small_graphs import people, persons

pytestmark = pytest.mark.s3

#: The look at the branch, the section, the gate, the row, the record, the table, the publish, and the copy for others.
MOST_CALLS = 21


@pytest.fixture
def proxy(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[CountingProxy]:
    counting = CountingProxy(s3.endpoint)
    with counting.serve() as address:
        monkeypatch.setenv("AWS_ENDPOINT_URL", address)
        yield counting


def _calls_of_a_commit(graph: og.Graph, proxy: CountingProxy, name: str) -> Tally:
    graph._store.mirror.flush()
    proxy.take()
    graph.write([persons(name)])
    graph._store.mirror.flush()
    return tally(proxy.take())


def test_a_commit_asks_as_often_after_many_commits_as_after_few_and_reads_nothing(
    proxy: CountingProxy, s3_root: str
) -> None:
    graph = people(s3_root, "a", "b")
    few = _calls_of_a_commit(graph, proxy, "c")
    for number in range(limits.SMALL_FRAGMENTS + 2):  # small fragments are folded once
        graph.write([persons(f"p{number}")])
    many = _calls_of_a_commit(graph, proxy, "d")
    assert many.total() == few.total() <= MOST_CALLS
    methods = Counter(method for method, _ in many.elements())
    assert methods["GET"] == methods["HEAD"] == 0
