"""Finds the operation of a method and a path below a graph.

A path is split before it is decoded, so an encoded slash never makes two segments of one. A segment that is written out
in the table goes before one that is a name in braces, and there is no way back: ``DELETE /branches/merge`` is a wrong
method.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote_to_bytes

from omnigraph.errors import InvalidRequest, NotFoundError

_BELOW = "graphs are below /graphs/{graph_id}/"

#: For a path that goes on behind a name.
_SLASH = "write / in a name as %2F"


@dataclass(slots=True)
class _Node:
    words: dict[bytes, _Node] = field(default_factory=dict)
    any: _Node | None = None
    methods: dict[str, Any] = field(default_factory=dict)
    names: tuple[str, ...] = ()


class RouteTable:
    """What is served under which path.

    Args:
        routes: method, path with ``{names}``, and what is there.
    """

    def __init__(self, routes: Iterable[tuple[str, str, Any]]) -> None:
        self._root = _Node()
        for method, path, target in routes:
            node, names = self._root, []
            for segment in path.removeprefix("/").split("/"):
                if segment.startswith("{"):
                    names.append(segment.strip("{}"))
                    node.any = node.any or _Node()
                    node = node.any
                else:
                    node = node.words.setdefault(segment.encode(), _Node())
            node.methods[method] = target
            node.names = tuple(names)

    def find(self, method: str, segments: Iterable[bytes]) -> tuple[Any, Mapping[str, str]]:
        """What serves a request, and the parts of its path by name.

        Raises:
            NotFoundError: nothing has this path.
            InvalidRequest: it does not take the method, or a part is not UTF-8.
        """
        node = self._root
        values: list[bytes] = []
        for segment in segments:
            below = node.words.get(segment)
            if below is None:
                if node.any is None or not segment:
                    raise no_such_path(_SLASH if values else _BELOW)
                below = node.any
                values.append(segment)
            node = below
        if not node.methods:
            raise no_such_path()
        target = node.methods.get(method)
        if target is None:
            raise wrong_method(method, node.methods)
        return target, {name: decoded(value) for name, value in zip(node.names, values, strict=True)}


def no_such_path(hint: str = _BELOW) -> NotFoundError:
    return NotFoundError("there is nothing at this path", hint=hint)


def wrong_method(method: str, known: Iterable[str]) -> InvalidRequest:
    allowed = ", ".join(sorted(known))
    return InvalidRequest(f"this path does not take {method}", hint=f"it takes {allowed}", status=405, allow=allowed)


def decoded(segment: bytes) -> str:
    """One segment of a path without percent signs.

    Raises:
        InvalidRequest: it is not UTF-8.
    """
    try:
        return unquote_to_bytes(segment).decode()
    except UnicodeDecodeError:
        raise InvalidRequest("a part of the path is not UTF-8") from None
