"""The pages of the documentation that are written from the code: public names and errors.

``python -m tests.docs.reference_pages`` writes them again after a change.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import omnigraph
from tests.support.source_tree import ROOT

#: Public names that carry no docstring of their own.
_ALIASES = {
    "ProgressListener": "A function that is told about the progress of a load; takes a `Progress`.",
    "errors": "Every error, as one tree of classes .",
}

_API_HEAD = """# Public names

Everything that `omnigraph` exports: what its functions and methods take, and what they answer with.
`help(omnigraph.Graph)` has the parameters and examples. Names that are not here are internal and may change with any
version. The names of `omnigraph.spark` are in [spark.md](spark.md).

This page is written by `python -m tests.docs.reference_pages`.
"""


def summary_of(value: Any) -> str:
    """The first sentence of a docstring, on one line."""
    text = " ".join((inspect.getdoc(value) or "").split("\n\n")[0].split())
    return re.split(r"(?<=[.]) (?=[A-Z`])", text)[0].replace("``", "`")


def api_page() -> str:
    """All public names by topic, one line each."""
    source = Path(omnigraph.__file__).read_text("utf-8")
    lines = [_API_HEAD]
    for topic, names in _topics(source):
        lines.append(f"\n## {topic.capitalize()}\n\n| name | what it is |\n|---|---|\n")
        for name in sorted(names, key=lambda name: (name[0].isupper(), name)):
            lines.append(f"| `{name}` | {_ALIASES.get(name) or summary_of(getattr(omnigraph, name))} |\n")
    return "".join(lines)


def _topics(source: str) -> Iterator[tuple[str, list[str]]]:
    """The comments in the table of the public names are the topics."""
    table = source.partition("_HOMES = {\n")[2].partition("\n}\n")[0]
    for part in table.split("    # ")[1:]:
        topic, _, entries = part.partition("\n")
        names = [
            name for module, names in omnigraph._HOMES.items() if f'"{module}":' in entries for name in names.split()
        ]
        yield topic, [*names, "errors"] if "OmniGraphError" in names else names


PAGES: dict[str, Callable[[], str]] = {"docs/api.md": api_page}


def main() -> None:
    for name, page in PAGES.items():
        (ROOT / name).write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
