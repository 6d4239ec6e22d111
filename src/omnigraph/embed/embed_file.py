"""Fills the vectors in a JSONL file, before it is loaded. Knows nothing of a graph.

Lines that nobody selected go through letter by letter. The output appears as a whole when everything is embedded; until
then it is a file with ``.tmp`` at the end of its name.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO

from omnigraph import given as checked
from omnigraph import limits
from omnigraph.embed.embed_spec import EmbeddedType, EmbedPlan, EmbedSpec, plan_of_files, plan_of_seed
from omnigraph.embed.embedder import Embedder
from omnigraph.embed.embedding_settings import settings_from
from omnigraph.errors import InputError, InvalidRecord, ResourceLimitExceeded
from omnigraph.ids import did_you_mean

#: Records that are held at a time; several requests to a provider.
_HELD_RECORDS = 1_024


@dataclass(frozen=True, slots=True)
class EmbedFileResult:
    """What happened to a file.

    Attributes:
        records: lines that are records of a type; edges are none.
        selected_records: those of the types in the spec that the selection means.
        mode: ``fill_missing``, ``reembed_selected``, ``reembed_all`` or ``clean``.
        model: empty when nothing was embedded on purpose.
    """

    input: str
    output: str
    records: int
    selected_records: int
    embedded_records: int
    cleaned_records: int
    mode: str
    dimension: int
    model: str

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return asdict(self)


def embed_file(
    input: str | Path | None = None,
    output: str | Path | None = None,
    spec: str | Path | Mapping[str, Any] | None = None,
    *,
    seed: str | Path | None = None,
    reembed_all: bool = False,
    clean: bool = False,
    types: Sequence[str] | None = None,
    select: Sequence[str] | None = None,
) -> EmbedFileResult:
    """Fill the vectors of the records of a JSONL file, by the provider of the environment.

    Args:
        input: the file to read.
        output: the file to write; it may be the same.
        spec: ``{"dimension": n, "types": {"T": {"target": "vec", "fields": ["title"]}}}``, or a JSON file with it.
        seed: a manifest in YAML that names all three, in their place.
        reembed_all: also records that have a vector; by default only those without.
        clean: remove the vectors instead; asks no provider.
        types: only records of these types.
        select: only records where one of ``field=value`` or ``Type:field=value`` holds; they get a new vector.

    Raises:
        InputError: a file or the spec is wrong; nothing was written.
        EmbeddingError: a text could not be embedded; nothing was written.
    """
    plan = _plan(input, output, spec, seed)
    if reembed_all and clean:
        raise InputError("reembed_all and clean exclude each other", hint="choose one of them")
    chosen = _Selection.of(plan.spec, types, select)
    mode = "clean" if clean else "reembed_all" if reembed_all else "reembed_selected" if select else "fill_missing"
    work = _Work(plan, chosen, mode, None if clean else Embedder(settings_from()))
    return work.run()


def _plan(input: Any, output: Any, spec: Any, seed: Any) -> EmbedPlan:
    if seed is not None:
        if input is not None or output is not None or spec is not None:
            raise InputError("a seed manifest names input, output and spec itself", hint="leave them out")
        return plan_of_seed(seed)
    if input is None or output is None or spec is None:
        raise InputError("input, output and spec belong together", hint="give all three, or a seed manifest")
    return plan_of_files(input, output, spec)


@dataclass(frozen=True, slots=True)
class _Selection:
    """Which records are meant."""

    types: frozenset[str]
    tests: tuple[tuple[str | None, str, str], ...]

    @classmethod
    def of(cls, spec: EmbedSpec, types: Sequence[str] | None, select: Sequence[str] | None) -> _Selection:
        named = checked.texts(types, "types") if types else list(spec.types)
        for name in named:
            if name not in spec.types:
                raise InputError(f"the spec does not name the type '{name}'", hint=did_you_mean(name, spec.types))
        return cls(frozenset(named), tuple(map(_test, checked.texts(select, "select") if select else ())))

    def means(self, type_name: str, data: Mapping[str, Any]) -> bool:
        if type_name not in self.types:
            return False
        return not self.tests or any(
            owner in (None, type_name) and field in data and _plain(data[field]) == value
            for owner, field, value in self.tests
        )


def _test(text: str) -> tuple[str | None, str, str]:
    name, equals, value = text.partition("=")
    owner, colon, field = name.rpartition(":")
    if not equals or not field or (colon and not owner):
        raise InputError(f"'{text}' selects nothing", hint="write field=value or Type:field=value")
    return owner or None, field, value


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


@dataclass(slots=True)
class _Record:
    """One line, and the text that it waits for the vector of."""

    line: bytes
    whole: dict[str, Any] | None = None
    text: str | None = None
    target: str = ""


class _Work:
    """The way of all lines from one file to the other."""

    def __init__(self, plan: EmbedPlan, chosen: _Selection, mode: str, embedder: Embedder | None) -> None:
        self._plan = plan
        self._chosen = chosen
        self._mode = mode
        self._embedder = embedder
        self._records = self._selected = self._embedded = self._cleaned = 0

    def run(self) -> EmbedFileResult:
        output = self._plan.output
        unfinished = output.with_name(f"{output.name}.tmp")
        try:
            if output.is_dir():
                raise InputError(f"{output} is a directory, and a file is needed", file=str(output))
            with self._plan.input.open("rb") as source:
                output.parent.mkdir(parents=True, exist_ok=True)
                with unfinished.open("wb") as target:
                    self._copy(source, target)
                    target.flush()
                    os.fsync(target.fileno())
            os.replace(unfinished, output)
        except OSError as error:
            name = error.filename or output
            raise InputError(f"cannot embed {name}: {error.strerror or error}", file=str(name)) from None
        finally:
            with contextlib.suppress(OSError):
                unfinished.unlink()
        return EmbedFileResult(
            str(self._plan.input),
            str(output),
            self._records,
            self._selected,
            self._embedded,
            self._cleaned,
            self._mode,
            self._plan.spec.dimension,
            self._embedder.model if self._embedder is not None else "",
        )

    def _copy(self, source: BinaryIO, target: BinaryIO) -> None:
        held: list[_Record] = []
        waiting = 0
        for number, line in self._lines(source):
            record = self._record(number, line)
            held.append(record)
            waiting += record.text is not None
            if waiting == _HELD_RECORDS or len(held) == _HELD_RECORDS * 8:
                self._write(held, target)
                held, waiting = [], 0
        self._write(held, target)

    def _lines(self, source: BinaryIO) -> Iterator[tuple[int, bytes]]:
        number = 0
        while line := source.readline(limits.LOAD_LINE_BYTES + 2):
            number += 1
            if len(line) > limits.LOAD_LINE_BYTES + 1:
                raise ResourceLimitExceeded(
                    f"bytes of line {number} of {self._plan.input}", len(line), limits.LOAD_LINE_BYTES
                )
            text = line.removeprefix(b"\xef\xbb\xbf").strip() if number == 1 else line.strip()
            if text:
                yield number, text

    def _record(self, number: int, line: bytes) -> _Record:
        whole = self._parse(number, line)
        type_name = whole.get("type")
        if "type" not in whole:
            return _Record(line)
        data = whole.get("data")
        if not isinstance(type_name, str) or not isinstance(data, dict):
            raise self._wrong(number, "a record with 'type' needs an object 'data'")
        self._records += 1
        if not self._chosen.means(type_name, data):
            return _Record(line)
        self._selected += 1
        wanted = self._plan.spec.types[type_name]
        if self._mode == "clean":
            if wanted.target not in data:
                return _Record(line)
            del data[wanted.target]
            self._cleaned += 1
            return _Record(line, whole)
        if self._mode == "fill_missing" and data.get(wanted.target) not in (None, []):
            return _Record(line)
        return _Record(line, whole, _text(type_name, wanted, data), wanted.target)

    def _parse(self, number: int, line: bytes) -> dict[str, Any]:
        def refuse(word: str) -> None:
            raise ValueError(f"{word} is no number of JSON")

        try:
            whole = json.loads(line.decode(), parse_constant=refuse)
        except UnicodeDecodeError:
            raise self._wrong(number, "is not UTF-8 text") from None
        except RecursionError:
            raise self._wrong(number, "is nested too deeply") from None
        except ValueError as error:
            raise self._wrong(number, f"is not JSON: {error}") from None
        if not isinstance(whole, dict):
            raise self._wrong(number, "is not a JSON object")
        return whole

    def _wrong(self, number: int, what: str) -> InvalidRecord:
        name = str(self._plan.input)
        return InvalidRecord(f"line {number}: {what}", hint=f"correct {name}:{number}", file=name, line=number)

    def _write(self, held: list[_Record], target: BinaryIO) -> None:
        waiting = [record for record in held if record.text is not None]
        if waiting and self._embedder is not None:
            texts = [record.text or "" for record in waiting]
            vectors = self._embedder.documents(texts, self._plan.spec.dimension)
            for record, vector in zip(waiting, vectors, strict=True):
                assert record.whole is not None
                # Nine digits are enough to get the same 32 bits again.
                record.whole["data"][record.target] = [float(f"{each:.9g}") for each in vector.tolist()]
            self._embedded += len(waiting)
        for record in held:
            target.write(record.line if record.whole is None else _json(record.whole))
            target.write(b"\n")


def _text(type_name: str, wanted: EmbeddedType, data: Mapping[str, Any]) -> str:
    """``type: Note``, then a line for each field that says something."""
    values = {name: _value(data.get(name)) for name in wanted.fields}
    return "\n".join([f"type: {type_name}", *(f"{name}: {value}" for name, value in values.items() if value)])


def _value(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, list):
        return ", ".join(filter(None, map(_value, value)))
    return _plain(value).strip()


def _json(whole: dict[str, Any]) -> bytes:
    try:
        return json.dumps(whole, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:  # half of a character can only be written as an escape
        return json.dumps(whole, separators=(",", ":")).encode()
