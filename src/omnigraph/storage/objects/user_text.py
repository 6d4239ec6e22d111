"""A text that the user gives as it is, or as the path of a file that holds it: a schema, or queries."""

from __future__ import annotations

import os
from pathlib import Path

from omnigraph.errors import InputError


def text_of(given: str | os.PathLike[str], suffix: str) -> tuple[str, str | None]:
    """The text and, if it came from a file, the name of that file.

    Args:
        suffix: of files in this language; a text that is nothing but such a name was meant as a path.
    """
    if isinstance(given, os.PathLike):
        return _content(os.fspath(given)), os.fspath(given)
    if not isinstance(given, str):
        raise InputError(f"a text or a path is needed, not a {type(given).__name__}")
    if given.endswith(suffix) and len(given.split()) == 1:
        raise InputError(f"{given!r} is the name of a file, given as text", hint=f"pass pathlib.Path({given!r})")
    return given, None


def _content(name: str) -> str:
    try:
        return Path(name).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{name} is not UTF-8 text: byte {error.start} fits no character", file=name) from None
    except OSError as error:
        raise InputError(f"cannot read {name}: {error.strerror or error}", file=name) from None
    except ValueError:
        raise InputError(f"{name!r} is not the name of a file") from None
