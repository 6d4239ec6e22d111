"""Literals of the schema language as text: how they are written in a schema, and how the compiled schema keeps them."""

from __future__ import annotations

from decimal import Decimal

from omnigraph.schema.catalog import Annotation, Literal, RangeRule

_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"})


def literal_text(value: Literal) -> str:
    """A value as it is written in the language.

    >>> literal_text("a"), literal_text(2.0), literal_text(True)
    ('"a"', '2.0', 'true')
    """
    return f'"{value.translate(_ESCAPES)}"' if isinstance(value, str) else plain_text(value)


def plain_text(value: Literal) -> str:
    """A value without quotes: what an annotation is kept as, which does not tell ``3`` from ``"3"``.

    >>> plain_text("a"), plain_text(2.0), plain_text(True)
    ('a', '2.0', 'true')
    """
    match value:
        case bool():
            return "true" if value else "false"
        case float():
            digits = format(Decimal(repr(value)), "f")  # the language has no exponents
            return digits if "." in digits else f"{digits}.0"
    return str(value)


def annotation_text(annotation: Annotation) -> str:
    """An annotation as it is written.

    >>> annotation_text(Annotation("fulltext", "german", (("stem", False),)))
    '@fulltext("german", stem=false)'
    """
    if annotation.value is None:
        return f"@{annotation.name}"
    keywords = (f", {name}={literal_text(value)}" for name, value in annotation.keywords)
    return f"@{annotation.name}({literal_text(annotation.value)}{''.join(keywords)})"


def bounds_text(bounds: RangeRule) -> str:
    """The bounds of a ``@range`` as they are written: ``0..9``, ``0.5..``."""
    low, high = ("" if bound is None else literal_text(bound) for bound in (bounds.low, bounds.high))
    return f"{low}..{high}"
