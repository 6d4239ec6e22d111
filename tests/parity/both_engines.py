"""One input through both engines, and what each of them makes of it, in a form that can be compared."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import omnigraph as og
from omnigraph import spark as ogs
from omnigraph.write.load.load_result import LoadResult

_MADE_UP = re.compile(r'"[0-9A-HJKMNP-TV-Z]{26}"')  # ids that a load makes differ every time


@dataclass(frozen=True)
class Outcome:
    """What a load did: an error with its place, or the counts, the rejects and the graph afterwards."""

    error: tuple[str, str, str | None, int | None] | None = None
    violations: list[tuple[str, str, int]] = field(default_factory=list)
    counts: tuple[Mapping[str, int], Mapping[str, int]] = field(default_factory=lambda: ({}, {}))
    rejects: list[Mapping[str, Any]] = field(default_factory=list)
    committed: bool = False
    export: list[str] = field(default_factory=list)


class Pair:
    """Two equal graphs, one for each engine."""

    def __init__(self, root: Path, schema: str | None, template: Path | None = None) -> None:
        self.root = root
        self._graphs = []
        for name in ("embedded", "spark"):
            if template is not None:
                shutil.copytree(template, root / name)
            else:
                og.init(root / name, schema or "").close()
            self._graphs.append(og.open(root / name))

    @property
    def embedded(self) -> og.Graph:
        return self._graphs[0]

    @property
    def spark(self) -> og.Graph:
        return self._graphs[1]

    def load(self, source: Any, mode: str, **options: Any) -> Outcome:
        """Load into both; they must agree. Returns what they agree on."""
        here = outcome(self.embedded, lambda: self.embedded.load(source, mode, engine="embedded", **options))  # type: ignore[arg-type]
        there = outcome(self.spark, lambda: ogs.load(self.spark, source, mode, **options))
        for name in ("error", "violations", "rejects", "counts", "committed", "export"):
            assert getattr(there, name) == getattr(here, name), (
                f"{name}: {getattr(there, name)}, not {getattr(here, name)}"
            )
        return here

    def load_lines(self, lines: list[str] | str | bytes, mode: str, **options: Any) -> Outcome:
        path = self.root / "input.jsonl"
        text = "\n".join(lines) if isinstance(lines, list) else lines
        path.write_bytes(text.encode("utf-8") if isinstance(text, str) else text)
        return self.load(path, mode, **options)


def outcome(graph: og.Graph, load: Any) -> Outcome:
    head = graph.commits.head().id
    try:
        result: LoadResult = load()
    except og.OmniGraphError as error:
        assert graph.commits.head().id == head, "a failed load left a commit"
        where = error.details
        shown = [(each["code"], each["message"], each["line"]) for each in where.get("violations", ())]
        place = (type(error).__name__, error.message, where.get("file"), where.get("line"))
        return Outcome(place, shown, export=exported(graph))
    if result.commit is not None:
        assert result.commit.parent == head, "not exactly one commit"
    return Outcome(
        counts=(result.nodes, result.edges),
        rejects=[{**row, "record": _MADE_UP.sub('"?"', row["record"])} for row in result.rejects.to_pylist()],
        committed=result.commit is not None,
        export=exported(graph),
    )


def exported(graph: og.Graph, branch: str = "main") -> list[str]:
    """The lines of an export, with ids that loads made up replaced."""
    text = graph.export(branch=branch).text
    assert text is not None
    return sorted(_MADE_UP.sub('"?"', line) for line in text.splitlines())
