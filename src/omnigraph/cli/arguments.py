"""What a command reads besides the graph: texts of the two languages, and parameters."""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from omnigraph import ids
from omnigraph.cli.error_text import UsageError
from omnigraph.errors import InputError, ParameterError

Name = Annotated[
    str | None, typer.Argument(metavar="NAME", help="Which query of the text; needed when it has several.")
]
QueryFile = Annotated[str | None, typer.Option("--query", metavar="FILE", help="File with the query text (.gq).")]
QueryText = Annotated[str | None, typer.Option("-e", "--query-string", metavar="GQ", help="The query text itself.")]
Params = Annotated[str | None, typer.Option("--params", metavar="JSON", help="Parameters as a JSON object.")]
ParamsFile = Annotated[str | None, typer.Option("--params-file", metavar="FILE", help="File with the parameters.")]


class Engine(StrEnum):
    """Who does the work."""

    AUTO = "auto"
    EMBEDDED = "embedded"
    SPARK = "spark"


@dataclass(frozen=True, slots=True)
class QueryArguments:
    """A query text with its parameters, as the options give them."""

    file: str | None
    text: str | None
    params: str | None
    params_file: str | None

    def source(self, command: str) -> str | Path:
        """The text, or the path of a file that holds it."""
        if self.file is not None and self.text is not None:
            raise UsageError("--query and -e both give a query text", hint="give one of them")
        if self.file is not None:
            return existing_text(self.file)
        if self.text is None:
            raise UsageError(
                f"'{command}' needs a query text: stored queries belong to a server, this is a store",
                hint="pass --query FILE or -e TEXT",
            )
        if not self.text.strip():
            raise UsageError("the query text given with -e is blank")
        if self.text.endswith(".gq") and len(self.text.split()) == 1:
            raise UsageError(f"-e takes the query text, not a file like {self.text}", hint=f"pass --query {self.text}")
        return self.text

    def values(self) -> dict[str, Any] | None:
        """Parameters by name."""
        if self.params is not None and self.params_file is not None:
            raise UsageError("--params and --params-file both give parameters", hint="give one of them")
        if self.params_file is not None:
            path = existing_text(self.params_file)
            return _object(path.read_text(encoding="utf-8-sig"), str(path))
        return _object(self.params, "--params") if self.params is not None else None


def moment_of(text: str) -> Any:
    """A moment as it is typed: a version, a commit id or a time; a branch name stays as it is."""
    if text.isdecimal():
        return int(text)
    if ids.is_ulid(text) or ids.parse_synthetic_commit_id(text):
        return text
    from datetime import datetime

    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return text


def existing_text(name: str) -> Path:
    """The path of a file that can be read as text."""
    path = Path(name)
    try:
        path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{name} is not UTF-8 text: byte {error.start} fits no character", file=name) from None
    except OSError as error:
        raise InputError(f"cannot read {name}: {error.strerror or error}", file=name) from None
    except ValueError:
        raise InputError(f"{name!r} is not the name of a file") from None
    return path


def _object(text: str, where: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise ParameterError(f"{where} is not JSON: {error}") from None
    except RecursionError:
        raise ParameterError(f"{where} is nested too deeply") from None
    if not isinstance(value, dict):
        raise ParameterError(f'{where} must be a JSON object, as in \'{{"name": "Ana"}}\'')
    return value
