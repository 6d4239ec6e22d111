"""Expressions, literals and values.

A word followed by `(` is a function; `FUNCTIONS` lists them all. A word without it is `true`, `false`, `null` or the
name of an output column.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from omnigraph.ids import closest
from omnigraph.query.syntax.token_stream import FLOAT, INTEGER, STRING, VARIABLE, WORD, TokenStream, shorten
from omnigraph.query.syntax.tree import (
    AggregateCall,
    Bm25Call,
    Expr,
    ListLiteral,
    Literal,
    LiteralKind,
    NameRef,
    NearestCall,
    NowCall,
    PropertyAccess,
    RrfCall,
    TextCall,
    Value,
    VariableRef,
)

_CONSTANTS: dict[str, tuple[LiteralKind, bool | None]] = {
    "true": (LiteralKind.BOOLEAN, True),
    "false": (LiteralKind.BOOLEAN, False),
    "null": (LiteralKind.NULL, None),
}
_ANY_EXPRESSION = "a value: `$x`, `$x.property`, a literal or a function"
_ANY_VALUE = "a literal, a parameter or `now()`"
_ANY_LITERAL = "a literal"


def expression(at: TokenStream) -> Expr:
    """Any expression."""
    if at.kind == VARIABLE:
        return _variable_or_property(at)
    if at.kind == WORD and at.text not in _CONSTANTS:
        if at.kind_ahead() == "(":
            return _call(at)
        name = NameRef(at.text, offset=at.offset)
        at.advance()
        return name
    return literal(at, _ANY_EXPRESSION)


def value(at: TokenStream) -> Value:
    """What may be assigned or tested: a literal, a parameter or ``now()``."""
    if at.kind == VARIABLE:
        return variable(at, _ANY_VALUE)
    if at.at_word("now") and at.kind_ahead() == "(":
        return _now(at, at.offset)
    return literal(at, _ANY_VALUE)


def choices(at: TokenStream) -> Expr:
    """What may stand behind ``in``: a list of values, a parameter or a list property."""
    return _list(at, value) if at.kind == "[" else expression(at)


def variable(at: TokenStream, what: str) -> VariableRef:
    offset = at.offset
    return VariableRef(at.take_variable(what), offset=offset)


def literal(at: TokenStream, what: str = _ANY_LITERAL) -> Literal | ListLiteral:
    """A constant. ``what`` says in a message what else would have been welcome here."""
    offset = at.offset
    if at.kind == STRING:
        return Literal(LiteralKind.STRING, at.take_string(what), offset=offset)
    if at.kind == INTEGER:
        return Literal(LiteralKind.INTEGER, at.take_integer(what), offset=offset)
    if at.kind == FLOAT:
        return _float(at)
    if at.kind == "[":
        return _list(at, literal)
    if at.kind == WORD and at.text in _CONSTANTS:
        kind, constant = _CONSTANTS[at.text]
        at.advance()
        return Literal(kind, constant, offset=offset)
    if at.kind == WORD and at.text in _TEMPORAL and at.kind_ahead() == "(":
        return _temporal(at)
    at.fail_expected(what)


def _variable_or_property(at: TokenStream) -> VariableRef | PropertyAccess:
    offset, name = at.offset, at.text
    at.advance()
    if not at.accept("."):
        return VariableRef(name, offset=offset)
    return PropertyAccess(name, at.take_name("a property name"), offset=offset)


def _float(at: TokenStream) -> Literal:
    number = float(at.text)
    if not math.isfinite(number):
        at.fail(f"number {shorten(at.text)} does not fit in 64 bits")
    found = Literal(LiteralKind.FLOAT, number, offset=at.offset)
    at.advance()
    return found


def _list(at: TokenStream, item: Callable[[TokenStream], Value]) -> ListLiteral:
    offset = at.offset
    at.descend()
    at.advance()
    items: list[Value] = []
    if at.kind != "]":
        items.append(item(at))
        while at.accept(","):
            items.append(item(at))
    at.expect("]", "or `,` in the list")
    at.ascend()
    return ListLiteral(tuple(items), offset=offset)


_TEMPORAL = {"date": LiteralKind.DATE, "datetime": LiteralKind.DATETIME}


def _temporal(at: TokenStream) -> Literal:
    offset, word = at.offset, at.text
    at.advance()
    at.expect("(", f"after `{word}`")
    text = at.take_string(f"the text of the {word} in quotes")
    at.expect(")", f"after the text of the {word}")
    return Literal(_TEMPORAL[word], text, offset=offset)


def _call(at: TokenStream) -> Expr:
    name, offset = at.text, at.offset
    if name in _TEMPORAL:
        return _temporal(at)
    parse = FUNCTIONS.get(name)
    if parse is None:
        close = closest(name, [*FUNCTIONS, *_TEMPORAL])
        known = f"there are {', '.join(FUNCTIONS)}, date and datetime"
        at.fail(f"unknown function `{shorten(name)}`", hint=f"did you mean `{close}`?" if close else known)
    at.descend()
    found = parse(at, offset)
    at.ascend()
    return found


def _open(at: TokenStream) -> str:
    """Step over ``name (`` and give the name."""
    name = at.text
    at.advance()
    at.expect("(", f"after `{name}`")
    return name


def _next_argument(at: TokenStream, name: str) -> Expr:
    at.expect(",", f"and one more argument in `{name}`")
    return expression(at)


def _now(at: TokenStream, offset: int) -> NowCall:
    _open(at)
    at.expect(")", "after `now(`; it takes no arguments")
    return NowCall(offset=offset)


def _text(at: TokenStream, offset: int) -> TextCall:
    name = _open(at)
    field = expression(at)
    query = _next_argument(at, name)
    max_edits = expression(at) if name == "fuzzy" and at.accept(",") else None
    at.expect(")", f"after the arguments of `{name}`")
    return TextCall(name, field, query, max_edits, offset=offset)


def _nearest(at: TokenStream, offset: int) -> NearestCall:
    _open(at)
    start = at.offset
    target = expression(at)
    if not isinstance(target, PropertyAccess):
        at.fail("the first argument of `nearest` is a vector property such as `$x.embedding`", offset=start)
    query = _next_argument(at, "nearest")
    at.expect(")", "after the arguments of `nearest`")
    return NearestCall(target, query, offset=offset)


def _bm25(at: TokenStream, offset: int) -> Bm25Call:
    _open(at)
    field = expression(at)
    query = _next_argument(at, "bm25")
    at.expect(")", "after the arguments of `bm25`")
    return Bm25Call(field, query, offset=offset)


def _rrf(at: TokenStream, offset: int) -> RrfCall:
    _open(at)
    first = _arm(at)
    at.expect(",", "and the second ranking in `rrf`")
    second = _arm(at)
    k = expression(at) if at.accept(",") else None
    at.expect(")", "after the arguments of `rrf`")
    return RrfCall(first, second, k, offset=offset)


def _arm(at: TokenStream) -> NearestCall | Bm25Call:
    offset = at.offset
    if at.kind_ahead() == "(":
        if at.at_word("nearest"):
            return _nearest(at, offset)
        if at.at_word("bm25"):
            return _bm25(at, offset)
    at.fail_expected("`nearest(…)` or `bm25(…)` as a ranking of `rrf`")


def _aggregate(at: TokenStream, offset: int) -> AggregateCall:
    name = _open(at)
    distinct = at.at_word("distinct") and at.kind_ahead() != ")"
    if distinct and name != "count":
        at.fail(f"`{name}` takes no `distinct`", hint="only `count(distinct …)` does")
    if distinct:
        at.advance()
    argument = expression(at)
    at.expect(")", f"after the argument of `{name}`")
    return AggregateCall(name, argument, distinct, offset=offset)


FUNCTIONS: dict[str, Callable[[TokenStream, int], Expr]] = {
    "now": _now,
    "nearest": _nearest,
    "search": _text,
    "fuzzy": _text,
    "match_text": _text,
    "bm25": _bm25,
    "rrf": _rrf,
    **dict.fromkeys(("count", "sum", "avg", "min", "max"), _aggregate),
}
