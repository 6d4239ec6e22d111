"""What callers give for arguments of a plain kind, or an error that says what belongs there.

Only for what would otherwise fail somewhere deep with the words of Python. Names of branches and actors have rules of
their own, in `ids.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from omnigraph.errors import InputError


def text(value: object, what: str) -> str:
    """A text.

    >>> text("a", "the id of a commit")
    'a'
    """
    if not isinstance(value, str):
        raise InputError(f"{what} is a text, not {_kind(value)}")
    return value


def texts(value: object, what: str) -> list[str]:
    """Several texts; a single one stands for itself.

    >>> texts("a", "types"), texts(("a", "b"), "types")
    (['a'], ['a', 'b'])
    """
    if isinstance(value, str):
        return [value]
    if not isinstance(value, Iterable):
        raise InputError(f"{what} is a list of texts, not {_kind(value)}")
    return [text(each, f"each of {what}") for each in value]


def named_query(
    name: str | Mapping[str, object] | None, params: Mapping[str, object] | None
) -> tuple[str | None, Mapping[str, object] | None]:
    """The name of a query and its parameters, which may stand in the place of the name.

    >>> named_query("q", {"a": 1}), named_query({"a": 1}, None)
    (('q', {'a': 1}), (None, {'a': 1}))
    """
    if name is None or isinstance(name, str):
        return name, params
    if not isinstance(name, Mapping):
        raise InputError(f"the name of a query is a text, not {type(name).__name__}", hint="pass params={...}")
    if params is not None:
        raise InputError("parameters are given twice, in the place of the name and as params", hint="give them once")
    return None, name


def whole_number(value: object, what: str) -> int:
    """A whole number; a truth value is none.

    >>> whole_number(-3, "a version")
    -3
    """
    if isinstance(value, bool) or not isinstance(value, int):
        raise InputError(f"{what} is a whole number, not {_kind(value)}")
    return value


def count(value: object, what: str) -> int:
    """A whole number that is not less than zero.

    >>> count(3, "limit")
    3
    """
    value = whole_number(value, what)
    if value < 0:
        raise InputError(f"{what} is {value}, which is less than 0")
    return value


def _kind(value: object) -> str:
    return "None" if value is None else f"{value!r:.40} of type {type(value).__name__}"
