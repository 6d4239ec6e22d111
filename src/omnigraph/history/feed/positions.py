"""Cursors and page tokens: small sealed notes that say where a consumer stands.

A note is JSON followed by its SHA-256, as base64url. The seal finds damage, it hides nothing; so there are no paths and
no physical versions in it. A note is bound to its graph, to the incarnation of its branch and to its filter, and one
that does not fit is refused with the reason, never reinterpreted.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

from omnigraph import given, limits
from omnigraph.errors import ChangeCursorRejected

_VERSION = 1
_SEAL_BYTES = 32
_PREFIX_BYTES = 64


@dataclass(frozen=True, slots=True)
class FeedBinding:
    """What a note belongs to.

    Attributes:
        graph: id of the first commit; no two graphs share it.
        branch: name of the branch.
        incarnation: changes when a branch is deleted and made again under the same name.
        filter: digest of the filter.
    """

    graph: str
    branch: str
    incarnation: str
    filter: str


@dataclass(frozen=True, slots=True)
class FeedCursor:
    """Everything up to and including this commit is consumed."""

    binding: FeedBinding
    commit: str


@dataclass(frozen=True, slots=True)
class FeedPosition:
    """The last change that was given out of a block.

    Attributes:
        table_key: kind and type.
        id: id of the entity, if it is short.
        id_prefix: else its first bytes in hexadecimal digits …
        id_digest: … and the digest of all of them.
    """

    table_key: str
    op: str
    id: str | None = None
    id_prefix: str | None = None
    id_digest: str | None = None

    @classmethod
    def of(cls, table_key: str, op: str, id_: str) -> FeedPosition:
        raw = id_.encode("utf-8")
        if len(raw) <= limits.FEED_TOKEN_ID_BYTES:
            return cls(table_key, op, id_)
        return cls(table_key, op, None, raw[:_PREFIX_BYTES].hex(), hashlib.sha256(raw).hexdigest())

    def is_at(self, id_: str) -> bool:
        """Whether an id is the one that is meant."""
        return FeedPosition.of(self.table_key, self.op, id_) == self


@dataclass(frozen=True, slots=True)
class PageToken:
    """Continue an answer inside a block.

    Attributes:
        commit: the block.
        cut: last commit of the whole answer.
        position: the last change that was given out.
    """

    binding: FeedBinding
    commit: str
    cut: str
    position: FeedPosition


Note = TypeVar("Note", FeedCursor, PageToken)

_KINDS: dict[type[Any], str] = {FeedCursor: "cursor", PageToken: "page"}


def seal(note: FeedCursor | PageToken) -> str:
    """The text of a note."""
    content = {"kind": _KINDS[type(note)], "v": _VERSION, **asdict(note)}
    raw = json.dumps(content, separators=(",", ":"), ensure_ascii=False).encode("utf-8")
    return _encoded(raw + hashlib.sha256(raw).digest())


def _encoded(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode("ascii").rstrip("=")


def unseal(text: str, kind: type[Note], binding: FeedBinding) -> Note:
    """Read a note that must be of this kind and belong here.

    Raises:
        ChangeCursorRejected: it is something else; the reason says what.
    """
    content = _content(text)
    if content.pop("kind", None) != _KINDS[kind]:
        raise ChangeCursorRejected(f"it is no {_word(kind)}")
    if content.pop("v", None) != _VERSION:
        raise ChangeCursorRejected("it was made by other software")
    try:
        note = _note(content, kind)
    except (TypeError, KeyError, AttributeError):
        raise ChangeCursorRejected("its content cannot be understood") from None
    _require(note.binding, binding)
    return note


def _content(text: str) -> dict[str, Any]:
    text = given.text(text, "a cursor or page token")
    if len(text) > limits.FEED_TOKEN_CHARACTERS:
        raise ChangeCursorRejected(f"it has more than {limits.FEED_TOKEN_CHARACTERS} characters")
    try:
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise ChangeCursorRejected("it is damaged") from None
    body, digest = raw[:-_SEAL_BYTES], raw[-_SEAL_BYTES:]
    if hashlib.sha256(body).digest() != digest or _encoded(raw) != text:  # one note has one text
        raise ChangeCursorRejected("it is damaged")
    try:
        content = json.loads(body)
    except (ValueError, RecursionError):
        raise ChangeCursorRejected("it is damaged") from None
    if not isinstance(content, dict):
        raise ChangeCursorRejected("it is damaged")
    return content


def _note(content: dict[str, Any], kind: type[Note]) -> Note:
    """Rebuild a note; every member must be there, a text, and nothing else."""
    members = dict(content)
    members["binding"] = FeedBinding(**_texts(members.pop("binding")))
    if kind is PageToken:
        position = members.pop("position")
        members["position"] = FeedPosition(
            **_texts({name: each for name, each in position.items() if each is not None})
        )
    _texts({name: each for name, each in members.items() if name not in ("binding", "position")})
    return kind(**members)


def _texts(members: dict[str, Any]) -> dict[str, str]:
    if not all(isinstance(value, str) for value in members.values()):
        raise TypeError
    return members


def _require(found: FeedBinding, wanted: FeedBinding) -> None:
    if found.graph != wanted.graph:
        raise ChangeCursorRejected("it belongs to another graph")
    if found.incarnation != wanted.incarnation:  # a branch that was renamed has its own as before
        if found.branch != wanted.branch:
            raise ChangeCursorRejected(f"it belongs to branch '{found.branch}'")
        raise ChangeCursorRejected(f"branch '{wanted.branch}' was deleted and made again since")
    if found.filter != wanted.filter:
        raise ChangeCursorRejected("it was made with another filter")


def _word(kind: type[Any]) -> str:
    return "cursor" if kind is FeedCursor else "page token"
