"""Commits in answers: the same object wherever one is shown."""

from __future__ import annotations

from typing import Any

from omnigraph.storage.metadata.manifest import Commit


def shown_commit(commit: Commit) -> dict[str, Any]:
    """A commit as every answer has it."""
    return {**commit.to_dict(), "readable": commit.readable}


def commit_or_null(commit: Commit | None) -> dict[str, Any] | None:
    """The commit of a write, which may have had nothing to do."""
    return None if commit is None else shown_commit(commit)
