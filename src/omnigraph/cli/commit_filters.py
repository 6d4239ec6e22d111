"""Which commits `commit list` shows: its options, and what they mean to `Commits.list`."""

from __future__ import annotations

from collections import defaultdict
from typing import Annotated, Any, get_args

import typer

from omnigraph import ids
from omnigraph.choices import CommitKind
from omnigraph.cli.error_text import UsageError
from omnigraph.errors import InvalidName

CommitFilters = Annotated[
    list[str] | None,
    typer.Option(
        "--filter",
        metavar="KEY=TEXT",
        help="Only commits with this actor=, kind=, branch= or a message= that holds the text; may be repeated.",
    ),
]
_MOMENT = "a commit id, tag:NAME, a version or a time (UTC unless it has a zone)"
Since = Annotated[str | None, typer.Option("--since", metavar="WHEN", help=f"Only later commits: {_MOMENT}.")]
Until = Annotated[str | None, typer.Option("--until", metavar="WHEN", help="Only this and earlier commits, likewise.")]

#: Arguments of `Commits.list` by the key that a filter has here.
_KEYS = {"actor": "actor", "kind": "kind", "message": "message", "branch": "made_on"}


def commit_filters(given: list[str] | None, since: str | None, until: str | None, *, several: bool) -> dict[str, Any]:
    """The arguments that stand for the options. Filters with the same key are alternatives.

    Args:
        several: commits of several branches are listed, where a version number means nothing.

    Raises:
        UsageError: an option cannot be meant; nothing was read yet.
    """
    chosen: dict[str, Any] = defaultdict(list)
    for each in given or ():
        key, is_filter, text = each.partition("=")
        if not is_filter:
            raise UsageError(f"--filter is KEY=TEXT, not '{each}'", hint="as in --filter kind=load")
        if key not in _KEYS:
            raise UsageError(f"commits cannot be filtered by '{key}'", hint=ids.did_you_mean(key, _KEYS))
        if not text.strip():
            raise UsageError(f"--filter {key}= is blank", hint="leave it out to list all commits")
        _refuse_unknown(key, text)
        chosen[_KEYS[key]].append(text)
    for option, bound in (("since", since), ("until", until)):
        if bound is not None:
            chosen[option] = _moment(option, bound, several)
    return dict(chosen)


def _refuse_unknown(key: str, text: str) -> None:
    """Refuse what no commit can have. That nobody wrote under a name, or that a branch is gone, is no mistake."""
    if key == "kind" and text not in get_args(CommitKind):
        known = get_args(CommitKind)
        hint = ids.did_you_mean(text, known) or f"known: {', '.join(known)}"
        raise UsageError(f"there is no kind of commit '{text}'", hint=hint)
    if key == "branch":
        try:
            ids.known_branch(text)
        except InvalidName as error:
            raise UsageError(error.message, hint=error.hint) from None


def _moment(option: str, text: str, several: bool) -> str:
    found = ids.moment_in(text)
    if found is None:
        hint = "write a time like 2026-01-31 or 2026-01-31T12:00:00Z"
        raise UsageError(f"--{option} is a commit id, a tag, a version or a time, not '{text}'", hint=hint)
    if several and isinstance(found, int):
        raise UsageError(
            f"--{option} {found} is a version of one branch, and several are listed",
            hint="give a commit id or a time",
        )
    return text
