"""The files of this repository, for tests that read the source."""

from __future__ import annotations

import ast
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_NOT_OURS = {".git", ".venv", "__pycache__", "build", "dist", "demo-out", "bench-out"}


@dataclass(frozen=True)
class Source:
    """One text file and its path from the root of the repository, with forward slashes."""

    path: str
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text, filename=self.path)


def python_sources(under: str) -> list[Source]:
    """Every Python file below a folder of the repository, sorted by path."""
    return [
        Source(path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8"))
        for path in sorted((ROOT / under).rglob("*.py"))
        if "__pycache__" not in path.parts
    ]


def tracked_texts() -> list[Source]:
    """Every text file that is in git or would be added by ``git add .``."""
    found = []
    for path in _tracked_paths():
        try:
            text = (ROOT / path).read_text(encoding="utf-8")
        except (UnicodeDecodeError, FileNotFoundError):
            continue  # binary, or deleted but not yet committed
        found.append(Source(path, text))
    return found


def _tracked_paths() -> list[str]:
    if not (ROOT / ".git").exists():
        return sorted(_walk())
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    return sorted(name for name in listing.split("\0") if name)


def _walk() -> Iterator[str]:
    """The same for a source archive, which has no git."""
    for folder, names, files in os.walk(ROOT):
        names[:] = [name for name in names if name not in _NOT_OURS and not name.endswith("_cache")]
        for file in files:
            yield (Path(folder) / file).relative_to(ROOT).as_posix()
