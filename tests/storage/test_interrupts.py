"""Ctrl-C is KeyboardInterrupt, whichever library it met; and a graph is whole after any number of them."""

from __future__ import annotations

import random
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from lance.fragment import write_fragments

import omnigraph as og
from omnigraph.errors import StoreUnavailable
from omnigraph.storage.objects.native_libraries import raise_interrupt, store_errors
from tests.support.small_graphs import people, start_child

SCHEMA = pa.schema([pa.field("id", pa.string())])

#: Works until it is interrupted, and says so each time; the last interrupt is not caught.
WORK = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
import pyarrow as pa
import omnigraph as og
from omnigraph.engine.version_cache import SHARED
from omnigraph.write.change import Change, Mode
root, verb, times = sys.argv[1], sys.argv[2], int(sys.argv[3])
graph = og.open(root)
names = [f"p{number}" for number in range(4_000)]
rows = pa.table({"handle": names, "email": [name * 20 for name in names]})

def load():
    graph.load(rows, "merge", type="Person")

def query():
    SHARED.clear()
    graph.query("query q() { match { $p: Person } return { $p.email as email } }").rows()
    graph.snapshot().arrow("Person")

load()
work = {"load": load, "query": query}[verb]
for left in reversed(range(times)):
    try:
        print("working", flush=True)
        while True:
            work()
    except KeyboardInterrupt:
        if left == 0:
            raise
"""


def _interrupted() -> Iterator[pa.RecordBatch]:
    yield pa.record_batch({"id": ["a"]}, schema=SCHEMA)
    raise KeyboardInterrupt


def test_an_interrupt_inside_a_stream_that_lance_reads_is_one(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), store_errors("write rows"):
        reader = pa.RecordBatchReader.from_batches(SCHEMA, _interrupted())
        write_fragments(reader, str(tmp_path / "t"), schema=SCHEMA)


@pytest.mark.parametrize(
    "text",
    [
        "External error: KeyboardInterrupt: ",
        "LanceError(Arrow): External error: KeyboardInterrupt: ",
        "LanceError(Arrow): C Data interface error: Unknown error: . Detail: Python exception: Traceback (most recent "
        'call last):\n  File "x.py", line 9, in gen\n    raise KeyboardInterrupt\nKeyboardInterrupt\n, /x/poll.rs:291',
    ],
)
def test_an_interrupt_in_disguise_is_recognised(text: str) -> None:
    for error in (OSError(text), RuntimeError(text), pa.ArrowInvalid(text)):
        with pytest.raises(KeyboardInterrupt), store_errors("do it"):
            raise error


@pytest.mark.parametrize(
    "text", ["could not read 'KeyboardInterrupt'", "Not found: g/KeyboardInterrupt/data/1.lance", ""]
)
def test_the_word_alone_is_no_interrupt(text: str) -> None:
    raise_interrupt(OSError(text))
    with pytest.raises((StoreUnavailable, og.errors.CorruptGraph)), store_errors("do it"):
        raise OSError(text)


@pytest.mark.parametrize("verb", ["query", "load"])
def test_a_child_that_is_interrupted_at_many_moments_always_ends_by_the_interrupt(verb: str, tmp_path: Path) -> None:
    people(tmp_path / "g").close()
    times, moments = 25, random.Random(verb)
    with start_child(WORK, str(tmp_path / "g"), verb, str(times), env={"OMNIGRAPH_FSYNC": "0"}) as child:
        try:
            assert child.stdout is not None
            for _ in range(times):
                assert child.stdout.readline() == "working\n"
                signal_later = threading.Timer(moments.uniform(0, 0.15), child.send_signal, (signal.SIGINT,))
                signal_later.start()
                signal_later.join()
            _, said = child.communicate(timeout=60)
        finally:
            child.kill()
    assert child.returncode == -signal.SIGINT, said
    assert said.rstrip().endswith("KeyboardInterrupt"), said
    with og.open(tmp_path / "g") as graph:
        assert graph.snapshot().count("Person") == 4_000
        assert graph.verify().ok
