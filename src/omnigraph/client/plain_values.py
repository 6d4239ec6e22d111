"""What a caller gives → what JSON can hold, without losing what the server would say about it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import date, datetime, timedelta
from typing import Any

from omnigraph.errors import InputError, NotOffered, ParameterError
from omnigraph.history.state_at import At, moment_of
from omnigraph.ids import known_branch

_MOST_BITS = 63


def plain_params(params: Mapping[str, object] | None) -> dict[str, Any] | None:
    """Parameters of a query. Dates and instants become texts, numbers with more than 64 bits too.

    Raises:
        ParameterError: a value has no form in JSON.
    """
    if params is None:
        return None
    if not isinstance(params, Mapping):
        raise ParameterError("params must be a JSON object", hint='pass a mapping, as in params={"name": "Ana"}')
    return {str(name): _param(str(name), value) for name, value in params.items()}


def _param(name: str, value: object) -> Any:
    try:
        return plain_value(value)
    except ValueError as refused:
        raise ParameterError(f"param '{name}': {refused}", parameter=name) from None


def plain_value(value: Any) -> Any:
    """One value; NumPy scalars and arrays as what they hold.

    Raises:
        ValueError: it has no form in JSON.
    """
    if type(value).__module__ == "numpy":
        if value.dtype.kind == "M":
            value = value.astype("datetime64[D]" if value.dtype == "datetime64[D]" else "datetime64[ms]")
        value = value.tolist()
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            raise ValueError("the text holds half of a character") from None
        return str(value)
    if isinstance(value, int):
        return int(value) if value.bit_length() <= _MOST_BITS else str(int(value))
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"expected float, got {value}, which is not finite")
        return float(value)
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, list | tuple):
        return [plain_value(item) for item in value]
    if isinstance(value, Mapping):
        return {str(name): plain_value(item) for name, item in value.items()}
    raise ValueError(f"a {type(value).__name__} has no form that can be sent")


def plain_moment(at: At | None) -> str | None:
    """A commit id, a tag, a version or a time as a text.

    Raises:
        CommitNotFound, InputError: it cannot be one.
    """
    if at is None:
        return None
    moment = moment_of(at)
    return moment.isoformat() if isinstance(moment, datetime) else str(moment)


def branch_or_none(branch: str | None) -> str | None:
    """A branch that a caller may leave out, in its normal form."""
    return None if branch is None else known_branch(branch)


def milliseconds(timeout: float | timedelta | None) -> int | None:
    """A bound in seconds as the wire has it."""
    if timeout is None:
        return None
    from omnigraph.read_budget import read_budget

    read_budget(timeout)  # refuses what is no time
    seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
    return max(1, round(seconds * 1000))


def require_none(value: object, what: str, instead: str) -> None:
    """Refuse an argument that a server does not take."""
    if value is not None:
        raise NotOffered(f"{what} works on the storage of a graph, not on one behind a server", hint=instead)


def parameters(**given: object) -> tuple[tuple[str, str], ...]:
    """Parameters of an address; lists repeat their name, None is left out."""
    found: list[tuple[str, str]] = []
    for name, value in given.items():
        for each in value if isinstance(value, list | tuple) else [value]:
            if each is not None:
                text = ("true" if each else "false") if isinstance(each, bool) else str(each)
                found.append((name.rstrip("_"), _utf8(name, text)))
    return tuple(found)


def _utf8(name: str, text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InputError(f"{name} holds half of a character", hint="give it as UTF-8 text") from None
    return text
