"""`.gq` text → `QueryFile`: the entry of the parser, query heads, and the parts of a read behind `match`.

Recursive descent over `Cursor`; clauses, expressions and write statements have files of their own. Any text gives
either a tree or a `QuerySyntaxError` with a place.
"""

from __future__ import annotations

from omnigraph.query.syntax.clauses import block
from omnigraph.query.syntax.cursor import Cursor
from omnigraph.query.syntax.expressions import expression, variable
from omnigraph.query.syntax.statements import STARTS, write_body
from omnigraph.query.syntax.tokens import END, INTEGER, TYPE_NAME, VARIABLE, WORD, tokenize
from omnigraph.query.syntax.tree import (
    Direction,
    Literal,
    LiteralKind,
    NameRef,
    NearestCall,
    Ordering,
    ParamDecl,
    Projection,
    QueryDecl,
    QueryFile,
    ReadBody,
    Source,
    VariableRef,
    WriteBody,
)
from omnigraph.schema.catalog import PropertyType, Scalar

_BASE_TYPES = {str(scalar): scalar for scalar in Scalar if scalar is not Scalar.VECTOR}
_NOTES = ("description", "instruction")


def parse_queries(text: str, file: str | None = None) -> QueryFile:
    """Read all queries of a text.

    Args:
        text: the `.gq` source.
        file: a name for messages.

    Raises:
        QuerySyntaxError: the text does not follow the grammar.

    Example:
        >>> parse_queries("query q() { match { $p: Person } return { $p.name } }").queries[0].name
        'q'
    """
    source = Source(text, file)
    at = Cursor(tokenize(source))
    queries = []
    while at.kind != END:
        queries.append(_query(at, source))
    return QueryFile(tuple(queries), source)


def _query(at: Cursor, source: Source) -> QueryDecl:
    offset = at.offset
    if not at.accept_word("query"):
        at.fail_expected("`query name(…) { … }`", hint="every read and every write is a named query")
    name = at.take_name("a query name")
    at.expect("(", "after the query name")
    params: list[ParamDecl] = []
    if at.kind != ")":
        params.append(_parameter(at))
        while at.accept(","):
            params.append(_parameter(at))
    at.expect(")", "or `,` after the parameter")
    notes = _query_notes(at, name)
    at.expect("{", "before the body of the query")
    body: ReadBody | WriteBody
    if at.at_word("match"):
        body = _read_body(at)
        closing = "after the query (`order`, `limit` and `offset` come at most once, `order` first)"
    elif at.kind == WORD and at.text in STARTS:
        body, closing = write_body(at), "or another `insert`, `update` or `delete`"
    else:
        at.fail_expected("`match`, `insert`, `update` or `delete`")
    at.expect("}", closing)
    return QueryDecl(name, tuple(params), body, *notes, source=source, offset=offset)


def _query_notes(at: Cursor, query: str) -> tuple[str | None, str | None]:
    notes: dict[str, str] = {}
    while at.kind == "@":
        offset = at.offset
        at.advance()
        note = at.text
        if at.kind != WORD or note not in _NOTES:
            at.fail_expected("`@description(…)` or `@instruction(…)`")
        if note in notes:
            at.fail(f"query `{query}` cannot include duplicate @{note} annotations", offset=offset)
        at.advance()
        at.expect("(", f"after `@{note}`")
        notes[note] = at.take_string(f"the text of `@{note}` in quotes")
        at.expect(")", f"after the text of `@{note}`")
    return notes.get("description"), notes.get("instruction")


def _parameter(at: Cursor) -> ParamDecl:
    offset = at.offset
    name = at.take_variable("a parameter such as `$name: String`")
    at.expect(":", "and a type after the parameter")
    return ParamDecl(name, _parameter_type(at), offset=offset)


def _parameter_type(at: Cursor) -> PropertyType:
    is_list = at.accept("[")
    if at.kind == TYPE_NAME and at.text == Scalar.VECTOR and not is_list:
        at.advance()
        at.expect("(", "and a dimension after `Vector`")
        dimension = at.take_count("the dimension of the vector")
        at.expect(")", "after the dimension")
        return PropertyType(Scalar.VECTOR, nullable=at.accept("?"), dimension=dimension)
    scalar = _BASE_TYPES.get(at.text) if at.kind == TYPE_NAME else None
    if scalar is None:
        known = ", ".join(_BASE_TYPES)
        hint = "an enum property takes a String parameter" if at.at_word("enum") else None
        at.fail_expected(f"a parameter type ({known}, Vector(n) or a list such as [String])", hint=hint)
    at.advance()
    if is_list:
        at.expect("]", "after the element type")
    return PropertyType(scalar, nullable=at.accept("?"), list=is_list)


def _read_body(at: Cursor) -> ReadBody:
    offset = at.offset
    at.advance()
    match = block(at, "after `match`")
    at.expect_word("return", "after the match block")
    distinct = at.accept_word("distinct")
    projections = _projections(at)
    order = _order(at) if at.at_word("order") else ()
    limit = skip = None
    while True:
        if limit is None and at.accept_word("limit"):
            limit = _row_count(at, "limit")
        elif skip is None and at.accept_word("offset"):
            skip = _row_count(at, "offset")
        else:
            return ReadBody(match, projections, distinct, order, limit, skip, offset=offset)


def _projections(at: Cursor) -> tuple[Projection, ...]:
    at.expect("{", "after `return`")
    found = [_projection(at)]
    while not at.accept("}"):
        found.append(_projection(at))
    return tuple(found)


def _projection(at: Cursor) -> Projection:
    offset = at.offset
    expr = expression(at)
    alias = at.take_name("an alias") if at.accept_word("as") else None
    at.accept(",")
    return Projection(expr, alias, offset=offset)


def _order(at: Cursor) -> tuple[Ordering, ...]:
    at.advance()
    at.expect("{", "after `order`")
    found = [_ordering(at)]
    while at.accept(","):
        found.append(_ordering(at))
    at.expect("}", "or `,` after the order key")
    return tuple(found)


def _ordering(at: Cursor) -> Ordering:
    offset = at.offset
    if at.at_word("null") and at.kind_ahead() != "(":  # a column may be called so; the literal is no order key
        at.advance()
        return Ordering(NameRef("null", offset=offset), _direction(at), offset=offset)
    expr = expression(at)
    direction_offset = at.offset
    direction = _direction(at)
    if direction is not None and isinstance(expr, NearestCall):
        at.fail("`nearest` takes no direction: it orders by distance, nearest first", offset=direction_offset)
    return Ordering(expr, direction, offset=offset)


def _direction(at: Cursor) -> Direction | None:
    for direction in Direction:
        if at.accept_word(direction):
            return direction
    return None


def _row_count(at: Cursor, what: str) -> Literal | VariableRef:
    offset = at.offset
    if at.kind == VARIABLE:
        return variable(at, what)
    if at.kind != INTEGER:
        at.fail_expected(f"a whole number or a parameter after `{what}`")
    count = at.take_count(f"`{what}`")
    return Literal(LiteralKind.INTEGER, count, offset=offset)
