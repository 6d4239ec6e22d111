"""The clauses of `match`: bindings, traversals, filters, `not { … }` and `optional { … }`.

Choice is ordered: what can be read as a traversal is one. That keeps `$a in $b` and `$a contains $b` edges, as they
always were; the operators of the same spelling need something else than a lone variable on one side.
"""

from __future__ import annotations

from collections.abc import Callable

from omnigraph.query.syntax.parse_expressions import choices, expression, value, variable
from omnigraph.query.syntax.token_stream import INTEGER, TYPE_NAME, VARIABLE, WORD, TokenStream
from omnigraph.query.syntax.tree import (
    Clause,
    Comparison,
    Condition,
    Conjunction,
    Disjunction,
    EdgePattern,
    Expr,
    FilterClause,
    HopRange,
    Membership,
    NameRef,
    Negation,
    NodePattern,
    NotClause,
    NullTest,
    OptionalClause,
    PropertyTest,
    TextCall,
)

COMPARISONS = frozenset({"=", "!=", "<", "<=", ">", ">="})
_WORD_OPERATORS = frozenset({"contains", "starts_with"})
_EDGE_OR_OPERATOR = frozenset({"contains", "starts_with", "in", "is"})
_ANY_CLAUSE = "a clause: `$x: Type`, `$a edge $b`, a filter, `not {` or `optional {`"


def block(at: TokenStream, where: str) -> tuple[Clause, ...]:
    """``{ clause … }`` with at least one clause."""
    at.descend()
    at.expect("{", where)
    found = [clause(at)]
    while not at.accept("}"):
        found.append(clause(at))
    at.ascend()
    return tuple(found)


def clause(at: TokenStream) -> Clause:
    offset = at.offset
    if at.kind == VARIABLE:
        if at.kind_ahead() == ":":
            return _binding(at)
        if _is_traversal(at):
            return _traversal(at)
    elif at.kind == WORD:
        if at.text == "not" and at.kind_ahead() != "(":
            at.advance()
            return NotClause(block(at, "after `not`"), offset=offset)
        if at.text == "optional" and at.kind_ahead() == "{":
            at.advance()
            return OptionalClause(block(at, "after `optional`"), offset=offset)
    elif at.kind in ("}", "end", TYPE_NAME):
        at.fail_expected(_ANY_CLAUSE)
    return FilterClause(condition(at), offset=offset)


def _binding(at: TokenStream) -> NodePattern:
    offset = at.offset
    name = at.take_variable("a variable")
    at.expect(":", "after the variable")
    type_name = at.take_type_name("a node type")
    tests: list[PropertyTest] = []
    if at.accept("{"):
        if at.kind == "}":
            at.fail("an empty test block is not allowed; leave the braces out")
        tests.append(_test(at))
        while at.accept(",") and at.kind != "}":
            tests.append(_test(at))
        at.expect("}", "or `,` after the property test")
    return NodePattern(name, type_name, tuple(tests), offset=offset)


def _test(at: TokenStream) -> PropertyTest:
    offset = at.offset
    name = at.take_name("a property name")
    at.expect(":", "after the property name")
    return PropertyTest(name, value(at), offset=offset)


def _is_traversal(at: TokenStream) -> bool:
    """Whether the variable under the cursor starts ``$a [$w:] edge [hops] $b``. Looks ahead, moves nothing."""
    following = at.kind_ahead(1)
    if following == VARIABLE:
        return at.kind_ahead(2) == ":"
    if following == "<":
        return at.kind_ahead(2) == WORD and at.kind_ahead(3) == ">"
    if following != WORD:
        return following == TYPE_NAME
    word = at.text_ahead(1)
    if word not in _EDGE_OR_OPERATOR:
        return word != "not"
    right = 2
    if at.kind_ahead(2) == "{":
        right = 6 if at.kind_ahead(5) == INTEGER else 5
        right += 1 if at.kind_ahead(right) == "}" else 0
    return at.kind_ahead(right) == VARIABLE and at.kind_ahead(right + 1) != "."


def _traversal(at: TokenStream) -> EdgePattern:
    offset = at.offset
    left = variable(at, "a variable")
    edge_variable = None
    if at.kind == VARIABLE:
        edge_variable = variable(at, "an edge variable")
        at.expect(":", "after the edge variable")
    elif at.kind == TYPE_NAME:
        hint = f"write `${left.name}: {at.text}` for a node; an edge starts with a lower-case letter"
        at.fail_expected("`:` or an edge name", hint=hint)
    undirected = at.accept("<")
    word = _edge_word(at)
    if undirected:
        at.expect(">", "after the edge name")
    hops = _hops(at) if at.kind == "{" else None
    right = variable(at, f"a variable at the other end of `{word}`")
    return EdgePattern(left, word, right, edge_variable, undirected, hops, offset=offset)


def _edge_word(at: TokenStream) -> str:
    if at.kind == TYPE_NAME:
        small = at.text[0].lower() + at.text[1:]
        at.fail(f"an edge is written with a lower-case first letter: `{small}`")
    if at.at_word("not"):
        at.fail("`not` cannot be used as an edge name")
    return at.take_name("an edge name")


def _hops(at: TokenStream) -> HopRange:
    offset = at.offset
    at.expect("{", "before the hop bounds")
    low = at.take_count("the lowest number of hops")
    if at.kind == "}":
        at.fail(f"hop bounds need both ends: write `{{{low},{low}}}`")
    at.expect(",", "between the hop bounds")
    high = at.take_count("the highest number of hops") if at.kind != "}" else None
    at.expect("}", "after the hop bounds")
    return HopRange(low, high, offset=offset)


def condition(at: TokenStream, left: Callable[[TokenStream], Expr] = expression) -> Condition:
    """A filter: tests joined by ``or`` and ``and``; ``and`` binds tighter. ``left`` reads what a test starts with."""
    offset = at.offset
    parts = [_conjunction(at, left)]
    while at.accept_word("or"):
        parts.append(_conjunction(at, left))
    return parts[0] if len(parts) == 1 else Disjunction(tuple(parts), offset=offset)


def _conjunction(at: TokenStream, left: Callable[[TokenStream], Expr]) -> Condition:
    offset = at.offset
    parts = [_single_test(at, left)]
    while at.accept_word("and"):
        parts.append(_single_test(at, left))
    return parts[0] if len(parts) == 1 else Conjunction(tuple(parts), offset=offset)


def _single_test(at: TokenStream, operand: Callable[[TokenStream], Expr]) -> Condition:
    offset = at.offset
    if at.at_word("not") and at.kind_ahead() == "(":
        at.advance()
        return Negation(_single_test(at, operand), offset=offset)
    if at.kind == "(":
        at.descend()
        at.advance()
        inner = condition(at, operand)
        at.expect(")", "after the condition")
        at.ascend()
        return inner
    left = operand(at)
    if at.kind in COMPARISONS or (at.kind == WORD and at.text in _WORD_OPERATORS):
        operator = at.text
        at.advance()
        if operator == "=" and at.kind == "=":
            at.fail("equality is written with one `=`")
        return Comparison(operator, left, expression(at), offset=offset)
    if at.at_word("in") or (at.at_word("not") and at.kind_ahead() == WORD and at.text_ahead(1) == "in"):
        negated = at.accept_word("not")
        at.advance()
        return Membership(left, choices(at), negated, offset=offset)
    if at.accept_word("is"):
        negated = at.accept_word("not")
        at.expect_word("null", "after `is`")
        return NullTest(left, negated, offset=offset)
    if isinstance(left, TextCall):
        return left
    hint = "a condition is negated with `not ( … )`" if left == NameRef("not") else None
    at.fail_expected(
        "an operator (`=`, `!=`, `<`, `<=`, `>`, `>=`, `contains`, `starts_with`, `in`, `is null`)", hint=hint
    )
