"""The native storage libraries, Lance and obstore: where they may be used, and what their errors mean.

Threads do not survive a fork, so a process that was forked after the libraries had been used is refused. They report
through `OSError`, `ValueError`, `RuntimeError` and classes of their own, with Rust source places in the text; nobody
outside `storage/` sees those. A missing or cut file is told from a store that fails; if the error does not name the
file, the files of the table are tried one by one. A wrapped Ctrl-C is raised as what it is.
"""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import lance
from lance.commit import CommitConflictError
from obstore.exceptions import BaseError
from pyarrow import ArrowInvalid

from omnigraph.errors import CorruptGraph, ForkedProcess, HistoricalVersionReclaimed, OmniGraphError, StoreUnavailable

# The patterns of this module are texts: `re` compiles one when the first error is held against it, and most processes
# meet none.
_INTERRUPTED = (
    r"(?sm)\A(?:External error: |LanceError\(\w+\): )*KeyboardInterrupt\b|Python exception: .*^KeyboardInterrupt\b"
)


def raise_interrupt(error: BaseException) -> None:
    """Raise KeyboardInterrupt if an error is nothing else; do nothing otherwise."""
    if re.search(_INTERRUPTED, str(error)):
        raise KeyboardInterrupt from None


_READ_CHARACTERS = 2_000

#: Files that hold rows of a table, or say where they are.
_FILE = r"(?P<file>[^\s,]*/(?:data|_deletions|_indices)/[^\s,]+)"
_MISSING = rf"(?i)not found: {_FILE}|{_FILE.replace('file', 'object')} not found"
_CUT = (
    r"(?i)Invalid range \S+ for object of size"
    r"|failed to fill whole buffer"
    r"|returned \d+ bytes, expected \d+ bytes"
    r"|Range Not Satisfiable"
    r"|file size is too small"
    r"|does not appear to be a Lance file"
)

#: What reading one fragment may raise.
_FAILURES = (OSError, RuntimeError, ValueError)


def damage_in(error: BaseException, handles: Iterable[Any] = ()) -> str | None:
    """What is wrong with which file, or None when the error says nothing of a damaged file."""
    text = str(error)[:_READ_CHARACTERS]
    missing = re.search(_MISSING, text)
    if missing:
        return f"file {missing['file'] or missing['object']} is missing"
    if not re.search(_CUT, text):
        return None
    named = re.search(_FILE, text)
    name = named["file"] if named else next((name for handle in handles for name in _unreadable(handle)), None)
    return f"file {name} is cut or damaged" if name else "one of its files is cut or damaged"


def is_cut(error: BaseException) -> bool:
    """Whether a file is shorter than it was written."""
    return re.search(_CUT, str(error)[:_READ_CHARACTERS]) is not None


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


#: What a store call may raise for reasons that are not a bug of ours.
STORE_EXCEPTIONS: tuple[type[Exception], ...] = (OSError, RuntimeError, BaseError)

_LIBRARY_EXCEPTIONS: tuple[type[Exception], ...] = (ValueError, *STORE_EXCEPTIONS)

#: What reading something that may not be there, or not be readable, may raise.
READ_EXCEPTIONS: tuple[type[Exception], ...] = (ValueError, TypeError, AttributeError, *STORE_EXCEPTIONS)

__all__ = [
    "READ_EXCEPTIONS",
    "STORE_EXCEPTIONS",
    "CommitConflictError",
    "is_damage",
    "is_outage",
    "is_refusal",
    "panics_as_damage",
    "reason",
    "store_errors",
]

#: How Lance says through Arrow that a scan could not read a file; any other ArrowInvalid is about values.
_SCAN_FAILED = r"LanceError\(IO\)|External error: Not found"

#: How the libraries say that the store failed, as opposed to that something is not there.
_STORE_FAILED = r"Generic (?!N/A)\S+ error"

#: How Lance says that a request is wrong, whatever the store does.
_REFUSED = "Invalid user input: "

#: How they say that an object ends before the place that was asked for.
_TOO_SHORT = r"(?i)invalid range|range not satisfiable|\b416\b"

_PATH = r"[^\s<>]*/[^\s<>]*"

_SOURCE_PLACE = r",?\s*(?:location: )?\S*\.rs:\d+(?::\d+)?"
_WORDS = (
    ("no space left|storagefull|disk quota", "the disk is full"),
    ("read-only file system|readonlyfilesystem", "the file system is read-only"),
    (
        "requesttimetooskewed|time and the (?:server's|current) time",
        "the clock of this machine differs from the store's",
    ),
    (r"permission denied|access ?denied|forbidden|\b403\b", "permission was denied"),
    ("nosuchbucket|bucket does not exist", "the bucket does not exist"),
    (
        "connection refused|tcp connect error|error sending request|connect error|dns error",
        "the endpoint does not answer",
    ),
    ("timed? ?out", "the store timed out"),
    (r"status code: 5\d\d", "the store answered with a server error"),
)


def reason(error: BaseException) -> str:
    """One short phrase for what went wrong, without source places or internals."""
    text = str(error)[:_READ_CHARACTERS]
    known = _known_reason(text)
    if known:
        return known
    first = re.sub(_SOURCE_PLACE, "", text.split("\n", 1)[0]).strip().rstrip(".,: ")
    return first[:200] or type(error).__name__


def is_outage(error: BaseException) -> bool:
    """Whether the store itself failed. Lance opens a table with a ValueError for this too."""
    text = str(error)[:_READ_CHARACTERS]
    return _known_reason(text) is not None or (not is_cut(error) and re.search(_STORE_FAILED, text) is not None)


def is_damage(error: Exception) -> bool:
    """Whether a read failed because of what lies in the store, and not because the store failed."""
    cause = error.__cause__ if isinstance(error, StoreUnavailable) else error
    return cause is not None and (re.search(_TOO_SHORT, str(cause)) is not None or not is_outage(cause))


def is_refusal(error: Exception) -> bool:
    """Whether Lance did not take a transaction because it does not fit the version that it is for; it never will."""
    cause = error.__cause__ if isinstance(error, StoreUnavailable) else error
    return cause is not None and re.match(_REFUSED, str(cause)) is not None


def _known_reason(text: str) -> str | None:
    """The phrase for a text that says what failed. Names of files and addresses in it say nothing."""
    said = re.sub(_PATH, "", text)
    return next((words for pattern, words in _WORDS if re.search(pattern, said, re.I)), None)


@contextmanager
def store_errors(action: str, *handles: Any) -> Iterator[None]:
    """Run store calls; whatever they raise becomes ``could not <action>: <reason>``.

    Args:
        handles: open tables that are read; a damaged file is looked for in them.

    Raises:
        CorruptGraph: a file of a table is missing, or shorter than it was written.
        HistoricalVersionReclaimed: so is the whole table, or its branch.
        StoreUnavailable: anything else that is no bug of ours.
        KeyboardInterrupt: somebody pressed Ctrl-C.
    """
    try:
        yield
    except OmniGraphError:
        raise
    except _LIBRARY_EXCEPTIONS as error:
        raise_interrupt(error)
        damage = damage_in(error, handles)
        if damage is not None:
            if any(map(is_gone, handles)):
                raise HistoricalVersionReclaimed(f"could not {action}: it was removed meanwhile") from error
            raise CorruptGraph(f"could not {action}: {damage}") from error
        if isinstance(error, ValueError) and not (
            isinstance(error, ArrowInvalid) and re.search(_SCAN_FAILED, str(error))
        ):
            raise
        raise StoreUnavailable(f"could not {action}: {reason(error)}") from error


@contextmanager
def panics_as_damage(what: str = "the reader gave up") -> Iterator[None]:
    """Lance may stop at damaged bytes with a panic, which Python does not count among exceptions."""
    try:
        yield
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise CorruptGraph(what) from error


_ARENA_MAX = -8  # M_ARENA_MAX of malloc.h

_used = False
_is_forked = False


def use_storage() -> None:
    """Call before the libraries are used.

    Raises:
        ForkedProcess: they were used before this process was forked.
    """
    global _used
    if _is_forked:
        raise ForkedProcess(
            "this process was forked from one that had used the storage libraries, whose threads do not survive a fork",
            hint="start a new process (spawn)",
        )
    if not _used:
        _used = True
        _bound_arenas()


def _bound_arenas() -> None:
    """One region of the C library's memory per processor.

    By default it makes eight, one for each thread of the libraries as they come, and hardly returns anything from them:
    a process that commits all day grows by that. Whoever set a number is left alone.
    """
    mallopt = _of_the_c_library("mallopt")
    if mallopt is not None and not {"MALLOC_ARENA_MAX", "GLIBC_TUNABLES"} & os.environ.keys():
        mallopt(_ARENA_MAX, max(2, os.cpu_count() or 1))


def return_memory() -> None:
    """Give back to the system what the C library keeps of memory that nobody uses. Takes some milliseconds."""
    malloc_trim = _of_the_c_library("malloc_trim")
    if malloc_trim is not None:
        malloc_trim(0)


def _of_the_c_library(name: str) -> Any | None:
    """A function that only the GNU C library has; None elsewhere."""
    return getattr(ctypes.CDLL(None), name, None)


def is_forked() -> bool:
    """Whether the storage libraries were used before this process was forked."""
    return _is_forked


def _after_fork() -> None:
    global _is_forked
    _is_forked = _used


os.register_at_fork(after_in_child=_after_fork)
