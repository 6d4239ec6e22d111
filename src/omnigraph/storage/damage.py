"""Tells a damaged table from a store that fails, and names the file.

What a library says about a file that is gone, or shorter than it was written, does not always name it. Then the files
of the table are tried one by one; that is only done once a read has failed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

import lance

from omnigraph.storage.interrupts import raise_interrupt

_READ_CHARACTERS = 2_000

#: Files that hold rows of a table, or say where they are.
_FILE = r"(?P<file>[^\s,]*/(?:data|_deletions|_indices)/[^\s,]+)"
_MISSING = re.compile(rf"not found: {_FILE}|{_FILE.replace('file', 'object')} not found", re.I)
_CUT = re.compile(
    r"Invalid range \S+ for object of size"
    r"|failed to fill whole buffer"
    r"|returned \d+ bytes, expected \d+ bytes"
    r"|Range Not Satisfiable"
    r"|file size is too small"
    r"|does not appear to be a Lance file",
    re.I,
)
_NAMED = re.compile(_FILE)

#: What reading one fragment may raise.
_FAILURES = (OSError, RuntimeError, ValueError)


def damage_in(error: BaseException, handles: Iterable[Any] = ()) -> str | None:
    """What is wrong with which file, or None when the error says nothing of a damaged file."""
    text = str(error)[:_READ_CHARACTERS]
    missing = _MISSING.search(text)
    if missing:
        return f"file {missing['file'] or missing['object']} is missing"
    if not _CUT.search(text):
        return None
    named = _NAMED.search(text)
    name = named["file"] if named else next((name for handle in handles for name in _unreadable(handle)), None)
    return f"file {name} is cut or damaged" if name else "one of its files is cut or damaged"


def is_cut(error: BaseException) -> bool:
    """Whether a file is shorter than it was written."""
    return _CUT.search(str(error)[:_READ_CHARACTERS]) is not None


def is_gone(handle: Any) -> bool:
    """Whether a table, or the branch of it that is open, was removed as a whole; another one may have its place."""
    try:
        now = lance.dataset(handle.uri, version=handle.version, storage_options=handle._storage_options)
        return _files(now) != _files(handle)
    except _FAILURES as error:
        return "not found" in str(error).lower()


def _files(handle: Any) -> set[str]:
    return {file.path for fragment in handle.get_fragments() for file in fragment.metadata.files}


def _unreadable(handle: Any) -> Iterator[str]:
    """The data files of each fragment whose first row cannot be read by somebody who remembers nothing of it."""
    try:
        whole = lance.dataset(handle.uri, version=handle.version, storage_options=handle._storage_options)
        fragments = whole.get_fragments()
    except _FAILURES:
        return
    for fragment in fragments:
        try:
            whole.scanner(fragments=[fragment], limit=1).to_table()
        except _FAILURES as error:
            raise_interrupt(error)
            yield f"{' or '.join(file.path for file in fragment.metadata.files)} of table {handle.uri}"
