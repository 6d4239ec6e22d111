"""What one route is: its path, its body, its answer, who may use it, and the function that does the work.

The tables in `operations/` are tuples of these. `asgi_app.py` serves them, `openapi.py` describes them; neither knows
what they do. A function gets a `Call` and gives an answer: a value that becomes JSON, or one of the classes below. It
runs on a thread, so it may block; it must not touch the web framework.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, TypeAlias

import msgspec

if TYPE_CHECKING:
    from omnigraph.graph import Graph
    from omnigraph.server.served_graph import ServedGraph


@dataclass(frozen=True, slots=True)
class Need:
    """A right that a call needs: an action of the policy, and the branches that it is about."""

    action: str
    branch: str | None = None
    target: str | None = None


@dataclass(frozen=True, slots=True)
class Call:
    """One request as its function sees it.

    Attributes:
        graph: the open graph in the hands of the actor; policy and audit log are in it.
        served: what the server knows of the graph besides: its id, stored queries, limits.
        actor: from the token; None on a server without tokens.
        path: parts of the path by name, decoded.
        query: the query parameters as the operation's class, or None.
        body: the JSON body as the operation's class, or None.
        raw: the body as a file, for operations that do not take JSON; it can be read once.
        headers: by lower-case name; of a repeated one the values in order.
        accepts: media types that the client takes, best first.
        is_cancelled: whether the client went away; long work asks now and then.
    """

    graph: Graph
    served: ServedGraph
    actor: str | None
    path: Mapping[str, str] = field(default_factory=dict)
    query: Any = None
    body: Any = None
    raw: BinaryIO | None = None
    headers: Mapping[str, list[str]] = field(default_factory=dict)
    accepts: tuple[str, ...] = ()
    is_cancelled: Callable[[], bool] = lambda: False


@dataclass(frozen=True, slots=True)
class Content:
    """An answer that is there as a whole.

    Attributes:
        body: its bytes.
        media_type: what they are.
        compressible: whether gzip or zstd may be laid over them.
    """

    body: bytes
    media_type: str = "application/json"
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    compressible: bool = True


@dataclass(frozen=True, slots=True)
class Streamed:
    """An answer that is written while it is sent. A failure before the first byte is an error answer as ever; a later
    one breaks the connection, so that nobody takes a part for the whole.

    Attributes:
        write: writes everything to a file that blocks while the client does not read.
        length: how many bytes that are, if it is known beforehand: a client takes them with fewer copies then.
    """

    write: Callable[[BinaryIO], None]
    media_type: str
    headers: Mapping[str, str] = field(default_factory=dict)
    status: int = 200
    compressible: bool = True
    length: int | None = None


@dataclass(frozen=True, slots=True)
class Pieces:
    """An answer of known length that is read piece by piece, such as a blob."""

    pieces: Iterator[bytes]
    length: int
    media_type: str = "application/octet-stream"
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


Answer: TypeAlias = Content | Streamed | Pieces | msgspec.Struct | Mapping[str, Any]

#: Where the work of an operation is done: with the reads, with the writes, or on a thread of its own while it streams.
Pool: TypeAlias = Literal["read", "write", "stream"]


@dataclass(frozen=True, slots=True)
class HttpOperation:
    """One method of one path.

    Attributes:
        id: the operation id in the OpenAPI document.
        path: below the graph, with ``{names}`` for single segments: ``/branches/{branch}``.
        run: does the work.
        needs: the rights that are checked before the work is counted and begun. The graph itself asks again.
        body: class of the JSON body; None for none.
        body_optional: the body may be missing or ``null``; then ``body`` is the class's default value.
        query: class of the query parameters, each a text, or a list of texts where it may be repeated; None for none.
        raw_body: media type of a body that is not JSON; then `Call.raw` is given.
        answer: class of the answer, for the description; the function may give a mapping of the same shape.
        media_types: other forms in which the answer can be had.
        pool: where it runs.
        admitted: counted among the running writes of its actor.
        writes: whether one call writes, where the path does not say it; such a call runs with the writes, counted.
        weight: bytes that admission counts for a call; by default those of the body.
        body_limit: most bytes of the body.
        statuses: statuses of errors that it can answer with, besides those that every operation has.
        successor: the operation that replaces this one, as a link relative to the path; then it is deprecated.
    """

    method: Literal["GET", "HEAD", "POST", "DELETE"]
    path: str
    id: str
    tag: str
    summary: str
    run: Callable[[Call], Answer]
    needs: Callable[[Call], tuple[Need, ...]] = lambda call: ()
    body: type[msgspec.Struct] | None = None
    body_optional: bool = False
    query: type[msgspec.Struct] | None = None
    raw_body: str | None = None
    answer: Any = None
    media_types: tuple[str, ...] = ()
    pool: Pool = "read"
    admitted: bool = False
    writes: Callable[[Call], bool] | None = None
    weight: Callable[[Call], int] | None = None
    body_limit: int | None = None
    statuses: tuple[int, ...] = ()
    successor: str | None = None
