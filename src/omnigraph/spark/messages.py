"""What tasks tell the driver: one frozen dataclass for each kind of message, sent as its name and a JSON text.

Rows of the graph stay with the executors, except the few that broke a rule (`RowsFetched`). An input that is wrong is a
message and not a failure of the task, so that Spark does not run the task four times.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

import pyarrow as pa

from omnigraph import errors
from omnigraph.errors import OmniGraphError
from omnigraph.write.load.violations import Violation

MESSAGE = pa.schema([("kind", pa.string()), ("body", pa.string())])
MESSAGE_DDL = "kind string, body string"

_Kind = TypeVar("_Kind")


@dataclass(frozen=True, slots=True)
class TaskError:
    """An error of this package. Its class is found again by its code."""

    code: str
    message: str
    hint: str | None
    details: Mapping[str, Any]

    @classmethod
    def of(cls, error: OmniGraphError) -> TaskError:
        details: dict[str, Any] = json.loads(json.dumps(error.details, default=str))
        return cls(error.code, error.message, error.hint, details)

    def rebuilt(self) -> OmniGraphError:
        """The same error on this side."""
        kind = _by_code().get(self.code, errors.InternalError)
        error = kind.__new__(kind)
        OmniGraphError.__init__(error, self.message, hint=self.hint, **self.details)
        return error


class StagingMessage:
    """What a task that stages tells. ``split`` is the number of a split or of a partition."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class SplitRead(StagingMessage):
    """A split is done: how many lines it had, and how many rows of each table key."""

    split: int
    lines: int
    rows: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class SplitFailed(StagingMessage):
    """A split cannot be read."""

    split: int
    error: TaskError


@dataclass(frozen=True, slots=True)
class RowRefused(StagingMessage):
    """A row breaks a rule by itself."""

    split: int
    file: str
    line: int
    table_key: str | None
    error: TaskError
    record: str

    @classmethod
    def of(cls, split: int, violation: Violation) -> RowRefused:
        error = TaskError.of(violation.error)
        return cls(split, violation.file, violation.line, violation.table_key, error, violation.record)

    def violation(self) -> Violation:
        return Violation(self.file, self.line, self.table_key, self.error.rebuilt(), self.record)


@dataclass(frozen=True, slots=True)
class RowRange:
    """Consecutive rows of one type in one split.

    Attributes:
        first: number of the first among the rows of the type in the split.
        fresh_ids: their ids were made by the load, so nothing else has them.
    """

    split: int
    first: int
    rows: int
    fresh_ids: bool


@dataclass(frozen=True, slots=True)
class FragmentStaged(StagingMessage):
    """A fragment was staged: its metadata, and where its rows came from."""

    table_key: str
    fragment: str
    rows: int
    ranges: tuple[RowRange, ...]


class ReplaceMessage:
    """What a task tells that makes rows of a load replace stored rows."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class FragmentsWritten(ReplaceMessage):
    """A task wrote these fragments, in place of the staged fragment or for the chunk of rows with this number."""

    number: int
    fragments: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RowsDeleted(ReplaceMessage):
    """A stored fragment lost rows; ``left`` is its new metadata, None when no row is left."""

    fragment: int
    rows: int
    left: str | None


@dataclass(frozen=True, slots=True)
class ConflictFound:
    """A row of a merge breaks a rule by itself."""

    row_id: str | None
    kind: str
    message: str


@dataclass(frozen=True, slots=True)
class RowsFetched:
    """Rows of a table for the driver, as a stream of Arrow's IPC format."""

    table_key: str
    rows: int
    stream: bytes

    @classmethod
    def of(cls, table_key: str, rows: pa.Table) -> RowsFetched:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, rows.schema) as writer:
            writer.write_table(rows)
        return cls(table_key, rows.num_rows, sink.getvalue().to_pybytes())

    def table(self) -> pa.Table:
        return pa.ipc.open_stream(self.stream).read_all()


@dataclass(frozen=True, slots=True)
class LinesFound:
    """Lines that rows came from.

    Attributes:
        task: number of the split among those asked about.
        positions: of the rows among those of their type in the split; ``lines`` has the line of each.
    """

    task: int
    table_key: str
    positions: tuple[int, ...]
    lines: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class WorkDone:
    """A piece of upkeep is done: its number, and the metadata of the files that it wrote."""

    number: int
    text: str


def encode(messages: Iterable[object]) -> pa.RecordBatch:
    """Messages as a task of `mapInArrow` answers with them."""
    told = list(messages)
    columns = {"kind": [type(each).__name__ for each in told], "body": [json.dumps(_plain(each)) for each in told]}
    return pa.RecordBatch.from_pydict(columns, schema=MESSAGE)


def encode_group(messages: Iterable[object]) -> pa.Table:
    """Messages as a task of `applyInArrow` answers with them."""
    return pa.Table.from_batches([encode(messages)])


def decode(rows: Iterable[Any], kind: type[_Kind]) -> Iterator[_Kind]:
    """Collected rows as messages, which are all of one kind."""
    for row in rows:
        message = _rebuilt(_KINDS[row["kind"]], json.loads(row["body"]))
        assert isinstance(message, kind), f"{row['kind']} is not a {kind.__name__}"
        yield message


_KINDS: dict[str, type[Any]] = {
    each.__name__: each
    for each in (
        TaskError,
        *(SplitRead, SplitFailed, RowRefused, FragmentStaged),
        *(FragmentsWritten, RowsDeleted),
        *(ConflictFound, RowsFetched, LinesFound, WorkDone),
    )
}


def _plain(value: Any) -> Any:
    """A value of a message as JSON has it."""
    if is_dataclass(value):
        return {each.name: _plain(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value


def _rebuilt(type_: Any, value: Any) -> Any:
    """The reverse of `_plain`, by the types of the fields."""
    if isinstance(type_, type) and is_dataclass(type_):
        return type_(**{name: _rebuilt(hint, value[name]) for name, hint in _hints(type_).items()})
    if get_origin(type_) is tuple:
        return tuple(_rebuilt(get_args(type_)[0], each) for each in value)
    return base64.b64decode(value) if type_ is bytes else value


@cache
def _hints(type_: type[Any]) -> dict[str, Any]:
    return get_type_hints(type_)


@cache
def _by_code() -> dict[str, type[OmniGraphError]]:
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, OmniGraphError)]
    return {kind.code: kind for kind in kinds}
