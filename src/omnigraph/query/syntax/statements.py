"""The body of a write: `insert`, `update` and `delete`, one after another."""

from __future__ import annotations

from omnigraph.query.syntax.cursor import Cursor
from omnigraph.query.syntax.expressions import value
from omnigraph.query.syntax.tokens import WORD
from omnigraph.query.syntax.tree import Assignment, Delete, Insert, Statement, Update, Where, WriteBody

STARTS = frozenset({"insert", "update", "delete"})

_COMPARISONS = frozenset({"=", "!=", "<", "<=", ">", ">="})


def write_body(at: Cursor) -> WriteBody:
    """One or more statements up to the closing brace of the query, which stays."""
    offset = at.offset
    statements = []
    while at.kind == WORD and at.text in STARTS:
        statements.append(_statement(at))
    return WriteBody(tuple(statements), offset=offset)


def _statement(at: Cursor) -> Statement:
    offset, verb = at.offset, at.text
    at.advance()
    type_name = at.take_type_name(f"the type to {verb}")
    if verb == "insert":
        return Insert(type_name, _assignments(at, "after the type to insert"), offset=offset)
    if verb == "delete":
        return Delete(type_name, _where(at), offset=offset)
    at.expect_word("set", "after the type to update")
    return Update(type_name, _assignments(at, "after `set`"), _where(at), offset=offset)


def _assignments(at: Cursor, where: str) -> tuple[Assignment, ...]:
    at.expect("{", where)
    found = [_assignment(at)]
    while not at.accept("}"):
        found.append(_assignment(at))
    return tuple(found)


def _assignment(at: Cursor) -> Assignment:
    offset = at.offset
    name = at.take_name("a property to assign")
    at.expect(":", "after the property")
    found = Assignment(name, value(at), offset=offset)
    at.accept(",")
    return found


def _where(at: Cursor) -> Where:
    at.expect_word("where", "with one comparison")
    offset = at.offset
    name = at.take_name("a property to compare")
    if at.kind not in _COMPARISONS:
        at.fail_expected("a comparison (`=`, `!=`, `<`, `<=`, `>`, `>=`) in `where`")
    operator = at.text
    at.advance()
    if operator == "=" and at.kind == "=":
        at.fail("equality is written with one `=`")
    found = Where(name, operator, value(at), offset=offset)
    if at.at_word("and") or at.at_word("or"):
        at.fail("`where` takes exactly one comparison", hint="write one statement per condition")
    return found
