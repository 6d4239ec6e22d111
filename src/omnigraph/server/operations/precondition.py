"""The header that makes a write conditional: it names the commit that must still be the head of the branch."""

from __future__ import annotations

import re

from omnigraph.errors import InputError
from omnigraph.server.operation import Call

HEADER = "Omnigraph-If-Graph-Commit"

#: One raw id, also of a state without a record. Quotes, lists and ``*`` belong to entity tags, which this is none of.
_ID = re.compile(r"(?!W/)[A-Za-z0-9][A-Za-z0-9:._/-]{0,511}")


def expected_head(call: Call) -> str:
    """The commit that a conditional route was given.

    Raises:
        InputError: the header is missing, repeated, or no single raw id.
    """
    given = call.headers.get(HEADER.lower(), [])
    if not given:
        raise InputError(f"the header {HEADER} is missing", hint="give the id of the commit that was read")
    if len(given) > 1:
        raise InputError(f"the header {HEADER} is given {len(given)} times", hint="give one id")
    text = given[0].strip()
    if _ID.fullmatch(text) is None:
        raise InputError(f"the header {HEADER} holds no single commit id", hint="give the raw id, without quotes")
    return text


def refuse_condition(call: Call) -> None:
    """On a route that knows no condition the header would be passed over, and the write done although it was lost.

    Raises:
        InputError: it is there.
    """
    if HEADER.lower() in call.headers:
        raise InputError(f"this route takes no header {HEADER}", hint="use the path that ends in /if-graph-commit")
