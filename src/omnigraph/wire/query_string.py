"""The query parameters of an address as the class of an operation.

Every parameter is a text on the wire. A field that is a list may be repeated, any other one may not; whole numbers and
truth values are told by the type of the field. Nothing else is guessed: ``branch=null`` is a branch called ``null``.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any, TypeVar, get_args, get_origin

import msgspec

from omnigraph.errors import InvalidRequest
from omnigraph.ids import did_you_mean

_Kind = TypeVar("_Kind", bound=msgspec.Struct)
_TRUTH = {"true": True, "false": False}

#: Digits of a whole number; longer ones fit nowhere.
_DIGITS = 18


def parameters(kind: type[_Kind], pairs: Iterable[tuple[str, str]]) -> _Kind:
    """The parameters as a value of a class.

    Args:
        pairs: names and values, decoded, in their order.

    Raises:
        InvalidRequest: a name is unknown, repeated or missing, or a value is none of its kind.
    """
    fields = _fields(kind)
    values: dict[str, Any] = {}
    for name, text in pairs:
        form = fields.get(name)
        if form is None:
            hint = did_you_mean(name, fields)
            raise InvalidRequest(f"there is no query parameter '{name[:80]}'", hint=hint, parameter=name[:80])
        if form is list:
            values.setdefault(name, []).append(text)
        elif name in values:
            raise InvalidRequest(f"the query parameter '{name}' occurs more than once", parameter=name)
        else:
            values[name] = _value(name, text, form)
    try:
        return msgspec.convert(values, kind)
    except msgspec.ValidationError as error:
        message, _, place = str(error).partition(" - at ")
        name = place.strip("`").removeprefix("$.")
        at = f" '{name}'" if name else ""
        raise InvalidRequest(f"a query parameter{at} is wrong: {message[:1].lower()}{message[1:]}") from None


def _value(name: str, text: str, form: type) -> object:
    if form is int:
        digits = text.removeprefix("-")
        if not (digits.isascii() and digits.isdigit() and len(digits) <= _DIGITS):
            raise InvalidRequest(f"query parameter '{name}' is a whole number, not {text[:40]!r}", parameter=name)
        return int(text)
    if form is bool:
        if text not in _TRUTH:
            raise InvalidRequest(f"query parameter '{name}' is true or false, not {text[:40]!r}", parameter=name)
        return _TRUTH[text]
    return text


@cache
def _fields(kind: type[msgspec.Struct]) -> dict[str, type]:
    """What a field holds, by its name on the wire: list, int, bool or str."""
    return {field.encode_name: _form(field.type) for field in msgspec.structs.fields(kind)}


def _form(annotation: Any) -> type:
    named = set(_named_in(annotation))
    return next((form for form in (list, bool, int) if form in named), str)


def _named_in(annotation: Any) -> Iterable[Any]:
    """A type, and the types that it is made of."""
    yield annotation
    yield get_origin(annotation)
    for part in get_args(annotation):
        yield from _named_in(part)
