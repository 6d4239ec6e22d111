"""Where two schemas first mean something different, in words. Spelling is no difference: see `earlier_spelling.py`."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from omnigraph.schema.catalog import Catalog
from omnigraph.schema.earlier_spelling import earlier_ir
from omnigraph.schema.ir import read_type
from omnigraph.schema.literals import plain_text

_NAMED = {"interfaces": "interface", "nodes": "node", "edges": "edge", "properties": "property"}
_ITEMS = {"annotations": "annotation", "constraints": "constraint"}
_UNSAID = frozenset({"name", "type_id", "prop_id", "inherited"})  # follow from names, or are not in every spelling


def first_difference(here: Catalog, there: Catalog) -> str | None:
    """The first thing that one schema says and another does not, from the view of ``here``; None when there is none.

    >>> from omnigraph.schema import compile_schema
    >>> here, there = (compile_schema(f"node A {{ p: {type_} }}").catalog for type_ in ("I32", "I64?"))
    >>> first_difference(here, there)
    'node A property p is I32, not I64?'
    """
    return next(_of_objects("", earlier_ir(here), earlier_ir(there)), None)


def _of_objects(place: str, here: Mapping[str, Any], there: Mapping[str, Any]) -> Iterator[str]:
    for key, value in here.items():
        if key in _NAMED:
            yield from _of_named(f"{place}{_NAMED[key]} ", value, there[key])
        elif key in _ITEMS:
            yield from _of_items(place, _ITEMS[key], value, there[key])
        elif key == "type" and value != there[key]:
            yield f"{place}is {read_type(value)}, not {read_type(there[key])}"
        elif key not in _UNSAID and value != there[key]:
            yield f"{place}has {key} {json.dumps(value)}, not {json.dumps(there[key])}"


def _of_named(place: str, here: Sequence[Mapping[str, Any]], there: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    ours, theirs = ({each["name"]: each for each in side} for side in (here, there))
    for name in sorted({*ours, *theirs}):
        if name in ours and name in theirs:
            yield from _of_objects(f"{place}{name} ", ours[name], theirs[name])
        else:
            yield f"{place}{name} {'exists' if name in ours else 'does not exist'}"


def _of_items(place: str, kind: str, here: Sequence[Any], there: Sequence[Any]) -> Iterator[str]:
    ours, theirs = (Counter(map(_text, side)) for side in (here, there))
    yield from (f"{place}has the {kind} {item}" for item in ours - theirs)
    yield from (f"{place}lacks the {kind} {item}" for item in theirs - ours)


def _text(item: Mapping[str, Any]) -> str:
    """An annotation or a constraint, with the value as the text that every spelling has."""
    value = item.get("value")
    return json.dumps(item if value is None else {**item, "value": plain_text(value)}, ensure_ascii=False)
