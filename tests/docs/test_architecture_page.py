"""Every file that the page on architecture names for an operation runs in that operation."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.source_tree import ROOT

PAGE = (ROOT / "docs" / "architecture.md").read_text("utf-8")
SOURCE = ROOT / "src" / "omnigraph"

TRACED = """
import json, sys, threading
import omnigraph as og

source, entered = sys.argv[1], {}

def enter(frame, event, argument):
    if event == "call" and frame.f_code.co_filename.startswith(source):
        current.add(frame.f_code.co_filename[len(source) + 1 :])

def traced(name, operation):
    global current
    current = entered.setdefault(name, set())
    threading.setprofile(enter)
    sys.setprofile(enter)
    try:
        operation()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)

schema = "node Person { handle: String @key  name: String }  edge Knows: Person -> Person"
read = "query q() { match { $p: Person  $p knows $q } return { $p.name, count($q) as n } order { n } limit 3 }"
update = 'query q() { update Person set { name: "%s" } where handle = "%s" }'
with open("people.jsonl", "w") as file:
    file.write('{"type":"Person","data":{"handle":"z","name":"Z"}}\\n{"edge":"Knows","from":"z","to":"a"}\\n')
with og.init("g.omni", schema) as graph:
    graph.mutate('query q() { insert Person { handle: "a", name: "A" } insert Person { handle: "b", name: "B" } }')
    insert = 'query q() { insert Person { handle: "c", name: "C" } insert Knows { from: "c", to: "a" } }'
    traced("A write", lambda: graph.mutate(insert))
    traced("A read", lambda: graph.query(read).rows())
    traced("A load", lambda: graph.load("people.jsonl", "append"))
    graph.branches.create("b")
    graph.mutate(update % ("AA", "a"), branch="b")
    graph.mutate(update % ("BB", "b"))
    traced("A merge", lambda: graph.branches.merge("b"))
print(json.dumps({name: sorted(files) for name, files in entered.items()}))
"""


@pytest.fixture(scope="module")
def entered(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """The files whose functions ran, by operation."""
    ended = subprocess.run(
        [sys.executable, "-c", TRACED, str(SOURCE)],
        cwd=tmp_path_factory.mktemp("traced"),
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    found: dict[str, list[str]] = json.loads(ended.stdout)
    return found


@pytest.mark.parametrize("operation", ["A write", "A read", "A load", "A merge"])
def test_the_files_that_the_page_names_run(entered: dict[str, list[str]], operation: str) -> None:
    section = PAGE.partition(f"## {operation}\n")[2].partition("\n## ")[0]
    table = "\n".join(line for line in section.splitlines() if line.startswith("|"))
    named = set(re.findall(r"`([\w/]+\.py)`", table))
    assert len(named) > 10
    assert named - set(entered[operation]) == set()


def test_every_path_of_the_page_exists() -> None:
    assert [name for name in re.findall(r"`([\w/]+\.py)`", PAGE) if not _exists(name)] == []


def _exists(name: str) -> bool:
    return Path(SOURCE, name).exists() or Path(ROOT, name).exists()
