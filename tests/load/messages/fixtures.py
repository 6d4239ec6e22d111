"""Reads the fixtures of this folder: what a load is given, and what it says. Their form is at the top of each file."""

from __future__ import annotations

import codecs
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omnigraph.write.change import Mode

HERE = Path(__file__).parent

SCHEMA = """
node Person { handle: String @key  name: String  age: I32?  born: Date?  seen: DateTime? }
edge Knows: Person -> Person { since: Date? }
"""


@dataclass(frozen=True)
class Message:
    """One case. ``outcome`` is ``<class>: <message>``, or ``ok`` and the counts."""

    name: str
    schema: str
    stored: tuple[str, ...]
    files: dict[str, bytes]
    source: str
    mode: Mode
    options: dict[str, Any]
    outcome: str

    def __str__(self) -> str:
        return self.name

    def write_files(self, folder: Path) -> None:
        for name, content in self.files.items():
            (folder / name).write_bytes(content)


def messages(file: str = "*.txt") -> list[Message]:
    return [
        _message(block) for path in sorted(HERE.glob(file)) for block in path.read_text("utf-8").split("\n### ")[1:]
    ]


def _message(block: str) -> Message:
    name, *lines = block.strip("\n").split("\n")
    schema, stored, files = SCHEMA, [], dict[str, list[str]]()
    load = outcome = ""
    for line in lines:
        word, _, rest = line.partition(" ")
        if word == "schema":
            schema = rest
        elif word == "stored":
            stored.append(rest)
        elif word == "file":
            files[rest] = []
        elif word == "load":
            load = rest
        elif word == "=>":
            outcome = rest
        elif files:
            files[list(files)[-1]].append(line)
    source, mode, *options = load.split(" ")
    return Message(
        name,
        schema,
        tuple(stored),
        {each: _content(text) for each, text in files.items()},
        source,
        Mode(mode),
        dict(option.split("=", 1) for option in options),
        outcome,
    )


def _content(lines: list[str]) -> bytes:
    marked = [codecs.BOM_UTF8 + line[1:].encode() if line.startswith("^") else line.encode() for line in lines]
    return b"".join(line + b"\n" for line in marked)
