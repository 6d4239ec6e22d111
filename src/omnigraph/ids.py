"""Names and ids: ULIDs, branch names, actor ids, the times that go with them, and what a wrong name probably meant.

Everything that comes from outside is checked here, before any file call. A name that passes is safe as a path segment.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from omnigraph import limits
from omnigraph.errors import InputError, InvalidName, ResourceLimitExceeded

if TYPE_CHECKING:
    import pyarrow as pa

MAIN = "main"
SCHEMA_APPLY_LOCK = "__schema_apply_lock__"
RECOVERY_ACTOR = "omnigraph:recovery"
REPAIR_ACTOR = "omnigraph:repair"
FORCED_REPAIR_ACTOR = "omnigraph:repair:force"
SYSTEM_ACTOR = "omnigraph:system"
TAG_PREFIX = "tag:"

_BRANCH_SEGMENT = re.compile(r"[A-Za-z0-9._-]+")
_ULID = re.compile(r"[0-7][0-9A-HJKMNP-TV-Z]{25}")
_ULID_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_BITS_40 = 2**40 - 1
_VERSION_DIGITS = 18
_SYNTHETIC = re.compile(r"manifest:(?P<branch>[A-Za-z0-9._/-]+):v(?P<version>[0-9]{1,19})")


class _Ulids:
    """Numbers of ULIDs: 48 bits of milliseconds, 80 bits that are random at first and then grow within a process.

    Not the package `python-ulid`: it makes one id at a time, some ten microseconds each, and a load needs millions.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last = 0

    def reserve(self, count: int) -> int:
        """The first of so many numbers in a row, all greater than any before."""
        with self._lock:
            now = time.time_ns() // 1_000_000
            first = max(now << 80 | int.from_bytes(os.urandom(10)) >> 1, self._last + 1)
            self._last = first + count - 1
            return first


_ulids = _Ulids()


def _begin_anew() -> None:
    """A forked child draws its own random bits."""
    global _ulids
    _ulids = _Ulids()


os.register_at_fork(after_in_child=_begin_anew)


def new_ulid() -> str:
    """A fresh ULID: 26 upper-case characters. Within a process each sorts after those before."""
    number = _ulids.reserve(1)
    return "".join(_ULID_ALPHABET[number >> shift & 31] for shift in range(125, -1, -5))


def new_ulids(count: int) -> pa.Array:
    """That many ULIDs, made column-wise."""
    import numpy as np  # a process that makes no rows does without
    import pyarrow as pa

    first = _ulids.reserve(count)
    alphabet = np.frombuffer(_ULID_ALPHABET.encode(), np.uint8)
    low = np.arange(count, dtype=np.uint64) + np.uint64(first & _BITS_40)
    high = np.uint64(first >> 40 & _BITS_40) + (low >> np.uint64(40))
    text = np.empty((count, 26), np.uint8)
    text[:, :10] = alphabet[[first >> shift & 31 for shift in range(125, 75, -5)]]
    for place in range(8):
        shift = np.uint64(35 - 5 * place)
        text[:, 10 + place] = alphabet[(high >> shift & np.uint64(31)).astype(np.intp)]
        text[:, 18 + place] = alphabet[(low >> shift & np.uint64(31)).astype(np.intp)]
    offsets = pa.py_buffer(np.arange(0, 26 * (count + 1), 26, dtype=np.int32))
    return pa.Array.from_buffers(pa.string(), count, [None, offsets, pa.py_buffer(text)])


def is_ulid(text: str) -> bool:
    return _ULID.fullmatch(text) is not None


def now() -> datetime:
    """The current time in UTC. Everything that records a time uses this one clock."""
    return datetime.now(UTC)


def micros(moment: datetime) -> int:
    """Microseconds since the epoch, exact."""
    delta = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return (delta.days * 86_400 + delta.seconds) * 1_000_000 + delta.microseconds


def from_micros(value: int) -> datetime:
    seconds, rest = divmod(value, 1_000_000)
    return datetime.fromtimestamp(seconds, UTC).replace(microsecond=rest)


def branch_name(text: str) -> str:
    """The normal form of a branch name, or InvalidName.

    >>> branch_name(" review/anna-1 ")
    'review/anna-1'
    """
    return _name(text, "branch")


def tag_name(text: str) -> str:
    """The normal form of the name of a tag, or InvalidName. The rules are those of branches.

    >>> tag_name("2026-q3 ")
    '2026-q3'
    """
    return _name(text, "tag")


def tag_in(text: str) -> str | None:
    """The name in ``tag:NAME``; None for any other text.

    >>> tag_in("tag:2026-q3"), tag_in("main")
    ('2026-q3', None)
    """
    text = text.strip()
    return tag_name(text.removeprefix(TAG_PREFIX)) if text.startswith(TAG_PREFIX) else None


def _name(text: str, what: str) -> str:
    if not isinstance(text, str):
        raise InvalidName(f"{what} name {text!r} is not allowed: it is no text", name=str(text))
    name = text.strip()
    reason = _why_not_a_branch(name)
    if reason:
        raise InvalidName(f"{what} name {text!r} is not allowed: {reason}", name=str(text))
    return name


def known_branch(text: str) -> str:
    """A branch as a caller names it, in its normal form; main has one too.

    >>> known_branch(" main ")
    'main'
    """
    return MAIN if str(text).strip() == MAIN else branch_name(text)


def _why_not_a_branch(name: str) -> str | None:
    if not name:
        return "it is empty"
    if len(name.encode("utf-8", "surrogatepass")) > limits.BRANCH_NAME_BYTES:
        return f"it is longer than {limits.BRANCH_NAME_BYTES} bytes"
    if name.startswith("__"):
        return "names that start with two underscores are reserved"
    if ".." in name or name.endswith(".lock"):
        return "it may not contain '..' or end in '.lock'"
    if lineage_owner(name) is not None:
        return "it ends like the name of a lineage of a table"
    for segment in name.split("/"):
        if not segment:
            return "it may not begin or end with '/' or contain '//'"
        if segment == "." or not _BRANCH_SEGMENT.fullmatch(segment):
            return "segments are letters, digits, '.', '-' and '_' (ASCII only)"
    return None


def new_lineage(owner: str) -> str:
    """A fresh name for a Lance branch that belongs to the lineage ``owner``. Nobody ever had it before."""
    return f"{owner}.{new_ulid()}"


def lineage_owner(name: str) -> str | None:
    """Whose lineage a name is that `new_lineage` made; None for any other name.

    >>> lineage_owner("dev.01JZ8V6N3T5Y7Q2K4M9X0B1C2D")
    'dev'
    """
    owner, dot, ulid = name.rpartition(".")
    return owner if dot and owner and is_ulid(ulid) else None


def is_lineage_of(lineage: str | None, owner: str | None) -> bool:
    """Whether a lineage of a table belongs to the branch with this lineage of the manifest; None is the main one."""
    if lineage is None or owner is None:
        return lineage is owner
    return lineage == owner or lineage_owner(lineage) == owner


def overlapping(name: str, others: list[str]) -> str | None:
    """A name among ``others`` that is a path ancestor or descendant of ``name``: their directories would overlap."""
    for other in others:
        if other != name and (name.startswith(f"{other}/") or other.startswith(f"{name}/")):
            return other
    return None


def actor_id(text: str | None) -> str | None:
    """An actor id as given by a caller, or InvalidName."""
    if text is None:
        return None
    if not isinstance(text, str):
        raise InvalidName(f"actor id {text!r} is not allowed: it is no text", name=str(text))
    reason = None
    if not text.strip() or text != text.strip():
        reason = "it is blank or padded"
    elif len(text.encode("utf-8", "surrogatepass")) > limits.ACTOR_BYTES:
        reason = f"it is longer than {limits.ACTOR_BYTES} bytes"
    elif not text.isprintable():
        reason = "it holds control characters"
    elif text.startswith("omnigraph:"):
        reason = "the prefix 'omnigraph:' is reserved"
    if reason:
        raise InvalidName(f"actor id {text!r} is not allowed: {reason}", name=text)
    return text


def new_commit_id() -> str:
    """An id for a commit that is to be made: a ULID. Give it with the write, and with every repetition of the write.

    Example:
        >>> len(og.new_commit_id())
        26
    """
    return new_ulid()


def given_commit_id(text: str | None) -> str | None:
    """The id that a caller wants its commit to have, or InputError."""
    if text is None or is_ulid(str(text)):
        return text
    raise InputError(f"the id of a commit is a ULID, not {text!r}", hint="make one with omnigraph.new_commit_id()")


def commit_message(text: str | None) -> str | None:
    """What a caller says about a commit, or InputError."""
    if text is None:
        return None
    if not isinstance(text, str):
        raise InputError(f"the message of a commit is a text, not {type(text).__name__}")
    if not text.strip():
        raise InputError("the message of a commit is blank", hint="say something, or leave it out")
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise InputError("the message of a commit holds half of a character", hint="give it as UTF-8 text") from None
    if size > limits.COMMIT_MESSAGE_BYTES:
        raise ResourceLimitExceeded("bytes of a commit's message", size, limits.COMMIT_MESSAGE_BYTES)
    return text


def synthetic_commit_id(branch: str, version: int) -> str:
    """The id of a state that has no commit record: ``manifest:<branch>:v<version>``."""
    return f"manifest:{branch}:v{version}"


def parse_synthetic_commit_id(text: str) -> tuple[str, int] | None:
    match = _SYNTHETIC.fullmatch(text)
    return (match["branch"], int(match["version"])) if match else None


def moment_in(text: str) -> str | int | datetime | None:
    """What a text says about a moment: a commit id, ``tag:NAME``, a manifest version or a time; None when it is none
    of them.

    >>> moment_in("12"), moment_in("2026-01-31"), moment_in("soon")
    (12, datetime.datetime(2026, 1, 31, 0, 0), None)
    """
    text = text.strip()
    if is_ulid(text) or parse_synthetic_commit_id(text):
        return text
    tag = tag_in(text)
    if tag is not None:
        return f"{TAG_PREFIX}{tag}"
    if text.isascii() and text.isdigit() and len(text) <= _VERSION_DIGITS:
        return int(text)
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def did_you_mean(wrong: str, known: Iterable[str]) -> str | None:
    """A hint for a name that nobody knows: the one that looks like it, or all of them when they are few."""
    names = sorted(set(known))[: limits.NAMES_COMPARED]
    close = closest(wrong, names)
    if close is not None:
        return f"did you mean '{close}'?"
    return f"known: {', '.join(names)}" if 0 < len(names) <= limits.NAMES_LISTED else None


def closest(wrong: str, known: Iterable[str]) -> str | None:
    """The one of some names that looks most like a wrong one, if any does."""
    from difflib import get_close_matches

    by_fold = {name.casefold(): name for name in sorted(set(known))[: limits.NAMES_COMPARED]}
    close = get_close_matches(wrong[: limits.NAME_COMPARED_CHARACTERS].casefold(), list(by_fold), n=1)
    return by_fold[close[0]] if close else None
