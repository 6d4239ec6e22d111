"""How many files one insert goes through, from `Graph.mutate` to its publish, and which; the page lists them."""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import omnigraph as og
from tests.support.source_tree import ROOT

PACKAGE = str(ROOT / "src/omnigraph") + "/"
PAGE = ROOT / "docs/architecture.md"
MOST_FILES = 33

SCHEMA = "node Person { name: String @key  age: I32? }\nedge Knows: Person -> Person"
INSERT = "query add($n: String) { insert Person { name: $n } }"


class Calls:
    """Functions of the package that are entered, until the publish returns.

    Attributes:
        files: paths below the package.
        loops: how often the loop that tries a write again was entered.
        callbacks: the deepest nesting of functions that were handed to the commit protocol.
    """

    def __init__(self) -> None:
        self.files: set[str] = set()
        self.loops = 0
        self.callbacks = 0
        self.published = False

    def note(self, frame: FrameType, event: str, argument: object) -> None:
        path = frame.f_code.co_filename
        if self.published or not path.startswith(PACKAGE) or frame.f_code.co_name == "<module>":
            return
        file, name = path.removeprefix(PACKAGE), frame.f_code.co_name
        if event == "call":
            self.files.add(file)
            self.loops += (file, name) == ("storage/commit/protocol.py", "run")
            self.callbacks = max(self.callbacks, _prepares_on_the_stack(frame))
        elif event == "return" and (file, name) == ("storage/commit/publish.py", "publish"):
            self.published = True


def _prepares_on_the_stack(frame: FrameType | None) -> int:
    count = 0
    while frame is not None:
        count += frame.f_code.co_name == "prepare" and frame.f_code.co_filename.startswith(PACKAGE)
        frame = frame.f_back
    return count


@contextmanager
def traced() -> Iterator[Calls]:
    calls = Calls()
    threading.setprofile(calls.note)
    sys.setprofile(calls.note)
    try:
        yield calls
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def trace_insert(graph: og.Graph, text: str = INSERT) -> Calls:
    with traced() as calls:
        graph.mutate(text, params={"n": "Ann"})
    assert calls.published
    return calls


def listed() -> set[str]:
    section = PAGE.read_text("utf-8").partition("## The files of one insert")[2].partition("\n## ")[0]
    return set(re.findall(r"`((?!tests/)[a-z_/]+\.py)`", section))


def test_an_insert_goes_through_the_files_that_the_page_lists_and_through_no_more(tmp_path: Path) -> None:
    with og.init(tmp_path / "g.omni", SCHEMA) as graph:
        graph.mutate(INSERT, params={"n": "Bob"})
        calls = trace_insert(graph)
    assert calls.files == listed()
    assert len(calls.files) <= MOST_FILES


def test_an_insert_is_tried_again_in_one_loop_and_prepared_by_one_callback(tmp_path: Path) -> None:
    with og.init(tmp_path / "g.omni", SCHEMA) as graph:
        calls = trace_insert(graph)
    assert (calls.loops, calls.callbacks) == (1, 1)


def test_a_text_that_is_new_is_parsed_and_checked_too(tmp_path: Path) -> None:
    with og.init(tmp_path / "g.omni", SCHEMA) as graph:
        graph.mutate(INSERT, params={"n": "Bob"})
        first = trace_insert(graph, INSERT.replace("add", "add_another"))
    more = first.files - listed()
    assert all(file.startswith("query/") for file in more)
    assert "query/syntax/query_parser.py" in first.files
