"""One line of text → one JSON value, refusing everything that JSON does not promise to mean one thing.

No duplicate members, no numbers outside double range, no words for them, no lone surrogates, no raw control characters,
bounded structure. This is the slow and exact reader; lines that Arrow's reader can prove never come here.
"""

from __future__ import annotations

import codecs
import json
import re
from typing import Any, NoReturn

from omnigraph import limits
from omnigraph.errors import InvalidRecord, OmniGraphError, ResourceLimitExceeded

_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"?', re.DOTALL)
_DELIMITERS = b"{}[],:"
_LONGEST_INTEGER = 64
_LONGEST_SHOWN = 100


class _Refused(ValueError):
    """Why a text is no strict JSON."""


def parse_line(line: bytes, number: int) -> Any:
    """The value on a line.

    Raises:
        InvalidRecord: it is not strict JSON.
        ResourceLimitExceeded: it holds too many delimiters.
    """
    check_structure(line)
    if line.startswith(codecs.BOM_UTF8):
        raise _invalid(number, "a byte order mark is not allowed")
    try:
        value = _DECODER.decode(line.decode("utf-8"))
        if b"\\u" in line:
            json.dumps(value, ensure_ascii=False).encode("utf-8")
        return value
    except UnicodeDecodeError as error:
        raise _invalid(number, f"byte {error.start + 1} is not UTF-8") from None
    except UnicodeEncodeError:
        raise _invalid(number, "a string holds a lone surrogate") from None
    except RecursionError:
        raise _invalid(number, "it is nested too deeply") from None
    except json.JSONDecodeError as error:
        raise _invalid(number, f"{error.msg} at column {error.colno}") from None
    except _Refused as error:
        raise _invalid(number, str(error)) from None


def check_structure(line: bytes) -> None:
    """Refuse a line with too many delimiters outside its strings."""
    if len(line) <= limits.LOAD_LINE_SLOTS:
        return
    bare = _STRING.sub(b"", line)
    slots = sum(bare.count(sign) for sign in _DELIMITERS)
    if slots > limits.LOAD_LINE_SLOTS:
        raise ResourceLimitExceeded("graph_batch_json_structural_slots", slots, limits.LOAD_LINE_SLOTS)


def shown(value: Any) -> str:
    """A value as messages show it."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"


def _invalid(number: int, reason: str) -> OmniGraphError:
    return InvalidRecord(f"invalid strict JSON at line {number}: {reason}")


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        seen: set[str] = set()
        repeated = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise _Refused(f"duplicate JSON member {_quoted(repeated)}")
    return members


def _quoted(name: str) -> str:
    text = name.encode("utf-8", "replace").decode("utf-8")
    return f"'{text if len(text) <= _LONGEST_SHOWN else text[:_LONGEST_SHOWN] + '…'}'"


def _integer(text: str) -> int | float:
    """Exact, unless it is longer than any stored integer: then it can only be meant as a float."""
    return int(text) if len(text) <= _LONGEST_INTEGER else _real(text)


def _real(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise _Refused("number out of range")
    return value


def _word(text: str) -> NoReturn:
    raise _Refused(f"{text} is not a JSON number")


_DECODER = json.JSONDecoder(
    object_pairs_hook=_members, parse_int=_integer, parse_float=_real, parse_constant=_word, strict=True
)
