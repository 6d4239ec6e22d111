"""One call of a server as data: what is sent, how the answer is read, whether it may be sent again.

The verbs of a remote graph are generators of calls (`Flow`): they yield one, are sent its answer, and return what
the caller gets. So each verb is written once, and `server_connection.py` and `async_connection.py` only carry.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

import msgspec

from omnigraph.errors import InputError, UnknownAnswer

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

JSON = "application/json"
LINES = "application/x-ndjson"
ARROW = "application/vnd.apache.arrow.stream"


class Repeats(Enum):
    """When a call may be sent again."""

    ALWAYS = auto()  # it changes nothing
    BY_COMMIT_ID = auto()  # it is done once, because it names the commit that it makes
    UNSENT = auto()  # only when it certainly did not arrive


@dataclass(frozen=True, slots=True)
class AnswerHead:
    """An answer without its body; names of headers in lower case."""

    status: int
    headers: Mapping[str, str]


class AnswerReader(Protocol[T_co]):
    """Takes the body of a good answer piece by piece."""

    def begin(self, head: AnswerHead) -> None: ...

    def take(self, piece: bytes) -> None: ...

    def end(self) -> T_co:
        """What the answer is, once all of it is there."""
        ...

    def abandon(self) -> None:
        """There will be no more: leave nothing behind."""
        ...


class Body(Protocol):
    """A body that is not held in memory."""

    @property
    def media_type(self) -> str: ...

    @property
    def is_repeatable(self) -> bool: ...

    def pieces(self) -> Iterator[bytes]: ...


@dataclass(frozen=True, slots=True)
class WireCall(Generic[T]):
    """One call.

    Attributes:
        path: below the graph, with its parts quoted.
        reader: makes what reads the answer, for each attempt anew.
        query: parameters of the address.
        content: the JSON body; None for none.
        body: a body of another kind.
        writes: refused by a handle that is open read-only.
        commit_id, branch: what a write is looked for by, when its answer was lost.
        what: names the write in a message: ``the mutation``.
    """

    method: str
    path: str
    reader: Callable[[], AnswerReader[T]]
    query: tuple[tuple[str, str], ...] = ()
    content: Mapping[str, Any] | None = None
    body: Body | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    accept: str = JSON
    repeats: Repeats = Repeats.ALWAYS
    commit_id: str | None = None
    branch: str | None = None
    what: str = "the request"

    @property
    def writes(self) -> bool:
        return self.repeats is not Repeats.ALWAYS

    def encoded(self) -> bytes | None:
        """The JSON body as bytes.

        Raises:
            InputError: a text in it is no Unicode.
        """
        if self.content is None:
            return None
        given = {name: value for name, value in self.content.items() if value is not None}
        text = json.dumps(given, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        try:
            return text.encode()
        except UnicodeEncodeError:
            raise InputError(f"{self.what} holds half of a character", hint="give it as UTF-8 text") from None


#: A verb: yields calls, is sent their answers, returns its result.
Flow: TypeAlias = Generator[WireCall[Any], Any, T]


def ask(call: WireCall[T]) -> Flow[T]:
    """One call as a flow, so that its answer has a type."""
    answer: T = yield call
    return answer


class JsonReader(Generic[T]):
    """Reads an answer that is one JSON object.

    Attributes:
        actor: whom the answer to a write names as its author.
    """

    def __init__(self, make: Callable[[Any], T]) -> None:
        self.actor: str | None = None
        self._make = make
        self._pieces: list[bytes] = []
        self._head = AnswerHead(0, {})

    def begin(self, head: AnswerHead) -> None:
        self._head = head

    def take(self, piece: bytes) -> None:
        self._pieces.append(piece)

    def end(self) -> T:
        body = b"".join(self._pieces)
        try:
            found = msgspec.json.decode(body)
            self.actor = found.get("actor_id")
            return self._make(found)
        except (msgspec.DecodeError, KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
            raise unknown_answer(self._head, str(error)) from None

    def abandon(self) -> None:
        self._pieces.clear()


class HeadReader:
    """Reads the head of an answer and passes over its body."""

    def __init__(self) -> None:
        self._head = AnswerHead(0, {})

    def begin(self, head: AnswerHead) -> None:
        self._head = head

    def take(self, piece: bytes) -> None:
        pass

    def end(self) -> AnswerHead:
        return self._head

    def abandon(self) -> None:
        pass


class BytesReader:
    """Reads an answer of bytes."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._head = AnswerHead(0, {})

    def begin(self, head: AnswerHead) -> None:
        self._head = head

    def take(self, piece: bytes) -> None:
        self._pieces.append(piece)

    def end(self) -> tuple[AnswerHead, bytes]:
        return self._head, b"".join(self._pieces)

    def abandon(self) -> None:
        self._pieces.clear()


def unknown_answer(head: AnswerHead, why: str) -> UnknownAnswer:
    """The error for an answer that no server of graphs gives."""
    found = {"status": head.status, "request_id": head.headers.get("x-request-id")}
    return UnknownAnswer(
        f"the answer with status {head.status} cannot be understood: {why[:200]}",
        hint="is this the address of a server of graphs, and no proxy or login page before it?",
        **{name: value for name, value in found.items() if value is not None},
    )


def json_of(make: Callable[[Any], T]) -> Callable[[], AnswerReader[T]]:
    """Makes readers of one JSON document."""
    return lambda: JsonReader(make)


class LineSplitter:
    """Cuts pieces of an answer into its lines."""

    def __init__(self) -> None:
        self._rest: list[bytes] = []

    def lines(self, piece: bytes) -> list[bytes]:
        """The lines that are complete with this piece."""
        first, *others = piece.split(b"\n")
        self._rest.append(first)
        if not others:
            return []
        whole = [b"".join(self._rest), *others[:-1]]
        self._rest = [others[-1]]
        return [line for line in whole if line]

    def last(self) -> list[bytes]:
        """What stands behind the last line break."""
        line = b"".join(self._rest)
        return [line] if line else []
