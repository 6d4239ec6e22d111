"""A command line in an empty directory, and small graphs to use it on."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

import omnigraph as og
from tests.support.command_line import CommandLine

SCHEMA = """// people and teams
node Person { handle: String @key  name: String  age: I32?  @range(age, 0..150) }
node Team { code: String @key  kind: enum(core, research) }
edge Follows: Person -> Person { since: Date? }
edge MemberOf: Person -> Team @card(0..2)
"""
QUERIES = """query people() {
    match { $p: Person }
    return { $p.handle, $p.name as name, $p.age as age }
    order { $p.handle }
}

query person($who: String) {
    match { $p: Person { handle: $who } }
    return { $p.name as name }
}

query add($handle: String, $name: String) {
    insert Person { handle: $handle, name: $name }
}

query rename($handle: String, $name: String) {
    update Person set { name: $name } where handle = $handle
}
"""
DATA = """{"type":"Person","data":{"handle":"ana","name":"Ana Ruiz 🎉","age":34}}
{"type":"Person","data":{"handle":"bo","name":"Bo \\"B\\" Chen, jr."}}
{"type":"Person","data":{"handle":"cy","name":"Cy\\nDiaz","age":7}}
{"type":"Team","data":{"code":"c1","kind":"core"}}
{"edge":"Follows","from":"ana","to":"bo","data":{"id":"f1","since":"2025-01-01"}}
{"edge":"MemberOf","from":"bo","to":"c1","data":{"id":"m1"}}
"""


@pytest.fixture(scope="session")
def people(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A graph on main and nothing else; copy it, or only read it."""
    folder = tmp_path_factory.mktemp("people")
    (folder / "people.pg").write_text(SCHEMA, "utf-8")
    (folder / "people.gq").write_text(QUERIES, "utf-8")
    (folder / "people.jsonl").write_text(DATA, "utf-8")
    with og.init(folder / "people.omni", SCHEMA, actor="act-first") as graph:
        graph.load(folder / "people.jsonl", "append")
    return folder


def shell_in(folder: Path) -> CommandLine:
    home = folder / "home"
    home.mkdir(exist_ok=True)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("OMNIGRAPH_", "AWS_"))}
    return CommandLine(folder, {**kept, "OMNIGRAPH_HOME": str(home), "OMNIGRAPH_FSYNC": "0"})


@pytest.fixture
def shell(tmp_path: Path, people: Path) -> CommandLine:
    """A command line beside a graph of its own: people.omni, people.pg, people.gq, people.jsonl."""
    shutil.copytree(people, tmp_path / "work")
    return shell_in(tmp_path / "work")


@pytest.fixture
def reader(people: Path) -> CommandLine:
    """A command line for commands that change nothing."""
    return shell_in(people)
