"""`.gq` text → `QueryFile`: the entry of the parser, query heads, the parts of a read behind `match`, and writes.

Recursive descent over `TokenStream`; match clauses and expressions have files of their own. Any text gives either a
tree or a `QuerySyntaxError` with a place.
"""

from __future__ import annotations

from omnigraph.query.syntax.parse_expressions import expression, value, variable
from omnigraph.query.syntax.parse_match import COMPARISONS, block, condition
from omnigraph.query.syntax.token_stream import END, INTEGER, TYPE_NAME, VARIABLE, WORD, TokenStream, shorten, tokenize
from omnigraph.query.syntax.tree import (
    Clause,
    Condition,
    Delete,
    DeleteFound,
    EveryProperty,
    Expr,
    Insert,
    Literal,
    LiteralKind,
    MatchChange,
    NameRef,
    NearestCall,
    OrderItem,
    ParamDecl,
    Projection,
    PropertyAssignment,
    QueryDecl,
    QueryFile,
    QueryText,
    ReadBody,
    SortDirection,
    Statement,
    Update,
    UpdateFound,
    VariableRef,
    WriteBody,
)
from omnigraph.schema.catalog import PropertyType, Scalar

_STARTS = frozenset({"insert", "update", "delete", "match"})


def _write_body(at: TokenStream, *first: Statement) -> WriteBody:
    """Statements up to the closing brace of the query, which stays; ``first`` was read already."""
    offset = first[0].offset if first else at.offset
    statements = [*first]
    while at.kind == WORD and at.text in _STARTS:
        statements.append(_statement(at))
    return WriteBody(tuple(statements), offset=offset)


def _statement(at: TokenStream) -> Statement:
    offset, verb = at.offset, at.text
    at.advance()
    if verb == "match":
        return _changes(at, block(at, "after `match`"), offset)
    if at.kind == VARIABLE:
        at.fail(f"`{verb} ${at.text}` follows a `match` block that finds `${at.text}`")
    type_name = at.take_type_name(f"the type to {verb}")
    if verb == "insert":
        return Insert(type_name, _assignments(at, "after the type to insert"), offset=offset)
    if verb == "delete":
        return Delete(type_name, _where(at), offset=offset)
    at.expect_word("set", "after the type to update")
    return Update(type_name, _assignments(at, "after `set`"), _where(at), offset=offset)


def _changes(at: TokenStream, match: tuple[Clause, ...], offset: int) -> MatchChange:
    """What is done with the finds of a ``match`` block, up to the first statement that names a type."""
    found = []
    while at.kind == WORD and at.text in ("update", "delete") and at.kind_ahead() == VARIABLE:
        found.append(_change(at))
    if not found:
        at.fail_expected("`update $x` or `delete $x` after the match block")
    return MatchChange(match, tuple(found), offset=offset)


def _change(at: TokenStream) -> UpdateFound | DeleteFound:
    offset, verb = at.offset, at.text
    at.advance()
    target = variable(at, f"the variable to {verb}")
    if verb == "delete":
        return DeleteFound(target, offset=offset)
    at.expect_word("set", "after the variable to update")
    return UpdateFound(target, _assignments(at, "after `set`"), offset=offset)


def _assignments(at: TokenStream, where: str) -> tuple[PropertyAssignment, ...]:
    at.expect("{", where)
    found = [_assignment(at)]
    while not at.accept("}"):
        found.append(_assignment(at))
    return tuple(found)


def _assignment(at: TokenStream) -> PropertyAssignment:
    offset = at.offset
    name = at.take_name("a property to assign")
    at.expect(":", "after the property")
    found = PropertyAssignment(name, value(at), offset=offset)
    if at.kind == ".":
        at.fail("a value is a literal, a parameter or `now()`; a property of another row cannot be assigned")
    at.accept(",")
    return found


def _where(at: TokenStream) -> Condition:
    at.expect_word("where", "with a condition")
    return condition(at, _column_or_value)


def _column_or_value(at: TokenStream) -> Expr:
    """What a test in ``where`` starts with. A property may have any name, also ``true`` or ``null``."""
    offset = at.offset
    if at.kind in ("}", END, TYPE_NAME) or (at.kind == WORD and at.kind_ahead() in COMPARISONS):
        return NameRef(at.take_name("a property to compare"), offset=offset)
    return expression(at)


_BASE_TYPES = {str(scalar): scalar for scalar in Scalar if scalar is not Scalar.VECTOR}
_NOTES = ("description", "instruction")
_AFTER_READ = "after the query (`order`, `limit` and `offset` come at most once, `order` first)"
_AFTER_WRITE = "or another `insert`, `update`, `delete` or `match`"


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
    source = QueryText(text, file)
    at = TokenStream(tokenize(source))
    queries = []
    while at.kind != END:
        queries.append(_query(at, source))
    return QueryFile(tuple(queries), source)


def _query(at: TokenStream, source: QueryText) -> QueryDecl:
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
    start = at.offset
    if at.accept_word("match"):
        match = block(at, "after `match`")
        if at.at_word("update") or at.at_word("delete"):
            body = _write_body(at, _changes(at, match, start))
        else:
            body = _read_body(at, match, start)
    elif at.kind == WORD and at.text in _STARTS:
        body = _write_body(at)
    else:
        at.fail_expected("`match`, `insert`, `update` or `delete`")
    at.expect("}", _AFTER_READ if isinstance(body, ReadBody) else _AFTER_WRITE)
    return QueryDecl(name, tuple(params), body, *notes, source=source, offset=offset)


def _query_notes(at: TokenStream, query: str) -> tuple[str | None, str | None]:
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


def _parameter(at: TokenStream) -> ParamDecl:
    offset = at.offset
    name = at.take_variable("a parameter such as `$name: String`")
    at.expect(":", "and a type after the parameter")
    return ParamDecl(name, _parameter_type(at), offset=offset)


def _meant(word: str) -> str | None:
    """The type that a word may have been meant to be."""
    from omnigraph.schema.word_hints import type_hint

    hint = type_hint(word, _BASE_TYPES)
    return None if hint is None or word == Scalar.VECTOR else hint.replace("'", "`")


def _parameter_type(at: TokenStream) -> PropertyType:
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
        hint = _meant(at.text) if at.kind in (TYPE_NAME, WORD) else None
        hint = "an enum property takes a String parameter" if at.at_word("enum") else hint
        at.fail_expected(f"a parameter type ({known}, Vector(n) or a list such as [String])", hint=hint)
    at.advance()
    if is_list:
        at.expect("]", "after the element type")
    return PropertyType(scalar, nullable=at.accept("?"), list=is_list)


def _read_body(at: TokenStream, match: tuple[Clause, ...], offset: int) -> ReadBody:
    """What follows the ``match`` of a read."""
    if not at.accept_word("return"):
        at.fail_expected("`return`, `update $x` or `delete $x` after the match block")
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


def _projections(at: TokenStream) -> tuple[Projection, ...]:
    at.expect("{", "after `return`")
    found = [_projection(at)]
    while not at.accept("}"):
        found.append(_projection(at))
    return tuple(found)


def _projection(at: TokenStream) -> Projection:
    offset = at.offset
    if at.kind == VARIABLE and at.kind_ahead() == ".*":
        return _every_property(at)
    expr = expression(at)
    alias = at.take_name("an alias") if at.accept_word("as") else None
    at.accept(",")
    return Projection(expr, alias, offset=offset)


def _every_property(at: TokenStream) -> Projection:
    offset, name = at.offset, at.text
    at.advance()
    at.advance()
    if at.at_word("as"):
        at.fail(f"`${shorten(name)}.*` takes no alias", hint="name the properties one by one: `$x.name as …`")
    at.accept(",")
    return Projection(EveryProperty(name, offset=offset), offset=offset)


def _order(at: TokenStream) -> tuple[OrderItem, ...]:
    at.advance()
    at.expect("{", "after `order`")
    found = [_ordering(at)]
    while at.accept(","):
        found.append(_ordering(at))
    at.expect("}", "or `,` after the order key")
    return tuple(found)


def _ordering(at: TokenStream) -> OrderItem:
    offset = at.offset
    if at.at_word("null") and at.kind_ahead() != "(":  # a column may be called so; the literal is no order key
        at.advance()
        return OrderItem(NameRef("null", offset=offset), _direction(at), offset=offset)
    expr = expression(at)
    direction_offset = at.offset
    direction = _direction(at)
    if direction is not None and isinstance(expr, NearestCall):
        at.fail("`nearest` takes no direction: it orders by distance, nearest first", offset=direction_offset)
    return OrderItem(expr, direction, offset=offset)


def _direction(at: TokenStream) -> SortDirection | None:
    for direction in SortDirection:
        if at.accept_word(direction):
            return direction
    return None


def _row_count(at: TokenStream, what: str) -> Literal | VariableRef:
    offset = at.offset
    if at.kind == VARIABLE:
        return variable(at, what)
    if at.kind != INTEGER:
        at.fail_expected(f"a whole number or a parameter after `{what}`")
    count = at.take_count(f"`{what}`")
    return Literal(LiteralKind.INTEGER, count, offset=offset)
