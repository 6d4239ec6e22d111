"""What a command reads besides the graph: texts of the two languages, and parameters."""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import typer

from omnigraph.cli.error_text import UsageError
from omnigraph.errors import InputError, ParameterError

Name = Annotated[
    str | None, typer.Argument(metavar="NAME", help="Which query of the text, or a stored query of a server.")
]
QueryFile = Annotated[str | None, typer.Option("--query", metavar="FILE", help="File with the query text (.gq).")]
QueryText = Annotated[str | None, typer.Option("-e", "--query-string", metavar="GQ", help="The query text itself.")]
Params = Annotated[str | None, typer.Option("--params", metavar="JSON", help="Parameters as a JSON object.")]
ParamsFile = Annotated[str | None, typer.Option("--params-file", metavar="FILE", help="File with the parameters.")]
Message = Annotated[
    str | None, typer.Option("-m", "--message", metavar="TEXT", help="What to say about it in the history.")
]
Resolve = Annotated[
    list[str] | None,
    typer.Option(
        "--resolve",
        metavar="RULE",
        help="'ours' or 'theirs' for all other conflicts, node:Type/id=ours for one; may be repeated.",
    ),
]
_RULES = ("ours", "theirs")

AllowUnknown = Annotated[
    bool,
    typer.Option("--allow-unknown-annotations", help="Take also unknown annotations that look like a known one."),
]


#: Characters that make a name a pattern for many.
_PATTERN = frozenset("*?[")

#: How many files beside a missing one are looked at.
_FILES_BESIDE = 1000


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

    def source(self, command: str, name: str | None) -> str | Path:
        """The text, or the path of a file that holds it; the name says which of its queries is meant."""
        source = self.given_source(command, name)
        if source is None:
            raise UsageError(f"'{command}' needs a query text", hint="pass --query FILE or -e TEXT")
        return source

    def given_source(self, command: str, name: str | None) -> str | Path | None:
        """Likewise; None when there is no text, because the name is that of a stored query."""
        if name is not None and not name.isidentifier() and Path(name).is_dir():
            hint = f"pass --store {name}"
            raise UsageError(f"'{name}' is a directory, and '{command}' takes the name of a query there", hint=hint)
        if self.file is not None and self.text is not None:
            raise UsageError("--query and -e both give a query text", hint="give one of them")
        if self.file is not None:
            return existing_text(self.file)
        if self.text is None:
            return None
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
        try:
            return _object(self.params, "--params") if self.params is not None else None
        except ParameterError as error:
            raise UsageError(error.message) from None


def rules_of(given: list[str] | None) -> Any:
    """A rule for every conflict, rules by entity, or both."""
    if not given:
        return None
    if len(given) == 1 and given[0] in _RULES:
        return given[0]
    rules: dict[str, str] = {}
    for each in given:
        entity, _, rule = each.rpartition("=") if each not in _RULES else ("*", "", each)
        if rules.get(entity, rule) != rule:
            what = "every other conflict" if entity == "*" else f"'{entity}'"
            raise UsageError(f"{what} is resolved in two ways", hint="give one --resolve for it")
        if rule not in _RULES or not entity:
            hint = "write ours, theirs or node:Person/Eve=theirs"
            raise UsageError(f"'{each}' is no way to resolve a conflict", hint=hint)
        rules[entity] = rule
    return rules


def existing_text(name: str) -> Path:
    """The path of a file that can be read as text. A pipe is not looked into: it can be read only once."""
    path = existing_data(name)
    try:
        if not (path.is_fifo() or path.is_char_device()):
            path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{name} is not UTF-8 text: byte {error.start} fits no character", file=name) from None
    except IsADirectoryError:
        raise InputError(f"{name} is a directory, and a file is needed", file=name) from None
    except OSError as error:
        raise InputError(f"cannot read {name}: {error.strerror or error}", file=name) from None
    return path


def existing_data(name: str) -> Path:
    """The path of a file or directory that exists. Patterns and other machines are looked at later."""
    if not name.strip():
        raise UsageError("the name of a file is blank")
    try:
        path = Path(name)
        if "://" in name or _PATTERN.intersection(name) or path.exists():
            return path
    except OSError as error:
        raise InputError(f"cannot read {name}: {error.strerror or error}", file=name) from None
    except ValueError:
        raise InputError(f"{name!r} is not the name of a file") from None
    raise InputError(f"{name} does not exist", hint=nearest(path), file=name)


def nearest(path: Path) -> str | None:
    """What lies beside something missing and may be meant, or the directory that is missing, as a hint."""
    if not path.parent.is_dir():
        return f"there is no directory {path.parent}"
    from difflib import get_close_matches

    with contextlib.suppress(OSError):
        beside = [each.name for each in islice(path.parent.iterdir(), _FILES_BESIDE)]
        close = get_close_matches(path.name, beside, n=1)
        return f"did you mean {path.parent / close[0]}?" if close else None
    return None


def writable_file(name: str) -> None:
    """Make sure, before the work begins, that its result will have a place."""
    path = Path(name)
    if "://" in name:
        return
    if path.is_dir():
        raise InputError(f"{name} is a directory, and a file is needed", file=name)
    if not path.parent.is_dir():
        raise InputError(f"cannot write {name}: there is no directory {path.parent}", file=name)


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
