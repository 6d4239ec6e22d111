"""What a planner gets: variables, traversals, predicates, blocks, ranks and order, fully resolved."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pytest

from omnigraph.query import check_read, check_write, parse_queries
from omnigraph.query.typed import (
    AllOf,
    AnyOf,
    Compare,
    Constant,
    Distance,
    EdgeReading,
    Entity,
    FusedScore,
    InsertEdge,
    IsIn,
    IsNull,
    MatchBlock,
    NodeId,
    Not,
    Operator,
    ParamRef,
    PropertyRef,
    RowTest,
    TextMatch,
    TextScore,
    Traversal,
    TypedMutation,
    TypedQuery,
    UpdateNode,
    Variable,
)
from omnigraph.query.typed.walk import outer_variables, variables_in_expression, variables_in_predicate
from omnigraph.schema.catalog import PropertyType, Scalar
from tests.language.query.fixtures import wide_catalog


def read(text: str) -> TypedQuery:
    return check_read(parse_queries(text).find(), wide_catalog())


def write(text: str) -> TypedMutation:
    return check_write(parse_queries(text).find(), wide_catalog())


def matched(clauses: str, params: str = "") -> MatchBlock:
    return read(f"query q({params}) {{ match {{ {clauses} }} return {{ 1 }} }}").match


def labels(variables: tuple[Variable, ...]) -> list[str]:
    return [variable.label for variable in variables]


@pytest.mark.parametrize(
    ("clauses", "reading", "ends"),
    [
        ("$a: Person  $a memberOf $b", EdgeReading.FORWARD, ("Person", "Team")),
        ("$a: Team  $a memberOf $b", EdgeReading.REVERSE, ("Team", "Person")),
        ("$b: Team  $a memberOf $b", EdgeReading.FORWARD, ("Person", "Team")),
        ("$b: Person  $a memberOf $b", EdgeReading.REVERSE, ("Team", "Person")),
        ("$a memberOf $b", EdgeReading.FORWARD, ("Person", "Team")),
        ("$a: Team  $b: Person  $a memberOf $b", EdgeReading.REVERSE, ("Team", "Person")),
        ("$b: Person  $a follows $b", EdgeReading.FORWARD, ("Person", "Person")),
        ("$a: Person  $a <follows> $b", EdgeReading.UNDIRECTED, ("Person", "Person")),
    ],
)
def test_direction_follows_from_what_is_known(clauses: str, reading: EdgeReading, ends: tuple[str, str]) -> None:
    traversal = matched(clauses).traversals[-1]
    assert (traversal.reading, (traversal.left.type_name, traversal.right.type_name)) == (reading, ends)
    if reading is not EdgeReading.UNDIRECTED:
        source = wide_catalog().edges[traversal.edge_type].source
        assert traversal.source.type_name == source


def test_direction_is_the_same_rule_inside_blocks() -> None:
    block = matched("$t: Team  not { $t memberOf $p }  optional { $q memberOf $t }")
    assert block.negations[0].block.traversals[0].reading is EdgeReading.REVERSE
    assert block.optionals[0].block.traversals[0].reading is EdgeReading.FORWARD


def test_a_traversal_holds_edge_hops_and_edge_variable() -> None:
    first, second = matched("$a: Person  $a FOLLOWS{2,3} $b  $a $w:follows $b".replace("FOLLOWS", "fOLLOWS")).traversals
    assert first == Traversal("Follows", first.left, first.right, EdgeReading.FORWARD, 2, 3)
    assert second.edge == Variable("w", "w", Entity.EDGE, "Follows")
    assert (second.left, second.right) == (first.left, first.right)


def test_variables_are_listed_once_in_source_order() -> None:
    block = matched("$a: Person  $a $w:follows $b  $b memberOf $_  $a: Person  $a memberOf $_")
    assert labels(block.variables) == ["a", "b", "w", "_", "_"]
    assert len({variable.name for variable in block.variables}) == 5


def test_binding_tests_become_predicates() -> None:
    equal, member = matched('$p: Person { age: $n, tags: "ml" }', "$n: I64").predicates
    assert isinstance(equal, Compare)
    assert equal.operator is Operator.EQ
    assert equal.right == ParamRef("n", PropertyType(Scalar.I64))
    assert isinstance(member, Compare)
    assert member.operator is Operator.LIST_CONTAINS
    assert member.right == Constant("ml", PropertyType(Scalar.STRING))


def test_and_at_the_top_is_split_and_or_is_kept() -> None:
    predicates = matched(
        "$p: Person  ($p.age > 1 and $p.age < 9) and $p.age != 5  ($p.age = 2 or $p.age = 3 and $p.age = 4)"
    ).predicates
    assert [type(predicate) for predicate in predicates] == [Compare, Compare, Compare, AnyOf]
    assert isinstance(predicates[3], AnyOf)
    assert [type(part) for part in predicates[3].parts] == [Compare, AllOf]


def test_contains_is_two_operators() -> None:
    predicates = matched('$p: Person  $p.tags contains "a"  $p.name contains "a"  $p.name starts_with "a"').predicates
    assert [predicate.operator for predicate in predicates if isinstance(predicate, Compare)] == [
        Operator.LIST_CONTAINS,
        Operator.TEXT_CONTAINS,
        Operator.STARTS_WITH,
    ]


def test_membership_forms() -> None:
    listed, bound, reversed_, negated = matched(
        '$p: Person  $p.age in [1, $n]  $p.age in $ns  "a" in $p.tags  $p.age not in []', "$n: I32, $ns: [I32]"
    ).predicates
    assert isinstance(listed, IsIn)
    assert listed.choices == (Constant(1, PropertyType(Scalar.I64)), ParamRef("n", PropertyType(Scalar.I32)))
    assert isinstance(bound, IsIn)
    assert bound.choices == ParamRef("ns", PropertyType(Scalar.I32, list=True))
    assert isinstance(reversed_, Compare)
    assert reversed_.operator is Operator.LIST_CONTAINS
    assert isinstance(reversed_.left, PropertyRef)
    assert isinstance(negated, Not)
    assert isinstance(negated.part, IsIn)
    assert negated.part.choices == ()


def test_search_against_a_boolean() -> None:
    plain, same, opposite, late = matched(
        '$n: Note  search($n.text, "a")  search($n.text, "a") = true  search($n.text, "a") != true  '
        'search($n.text, "a") = $flag',
        "$flag: Bool",
    ).predicates
    assert isinstance(plain, TextMatch)
    assert same == plain
    assert opposite == Not(plain)
    flag, yes = ParamRef("flag", PropertyType(Scalar.BOOL)), PropertyType(Scalar.BOOL)
    assert late == AnyOf(
        (
            AllOf((plain, Compare(Operator.EQ, flag, Constant(True, yes)))),
            AllOf((Not(plain), Compare(Operator.EQ, flag, Constant(False, yes)))),
        )
    )


def test_constants_are_parsed() -> None:
    columns = read(
        "query q() { match { 1 = 1 } return "
        '{ date("2024-02-29"), datetime("2024-01-01T00:30:00.1239+01:00"), [1, 2.5] } }'
    ).columns
    values = [column.expression.value for column in columns if isinstance(column.expression, Constant)]
    assert values == [date(2024, 2, 29), datetime(2023, 12, 31, 23, 30, 0, 123000, tzinfo=UTC), (1, 2.5)]
    assert [str(column.type) for column in columns] == ["Date", "DateTime", "[F64]"]


def test_negation_names_its_outer_variables() -> None:
    block = matched("$p: Person  $q: Person  not { $p memberOf $t  not { $t memberOf $q } }")
    outer = block.negations[0]
    inner = outer.block.negations[0]
    assert labels(outer.outer) == ["p", "q"]
    assert sorted(labels(inner.outer)) == ["q", "t"]
    assert labels(outer.block.variables) == ["t"]
    assert inner.block.variables == ()


def test_a_local_variable_is_not_the_later_one_of_its_name() -> None:
    block = matched("$p: Person  not { $p memberOf $t }  $p memberOf $t")
    local = block.negations[0].block.variables[0]
    assert (local.label, local.type_name) == ("t", "Team")
    assert local.name != "t"
    assert labels(block.variables) == ["p", "t"]
    assert block.variables[1].name == "t"
    assert block.negations[0].outer == (block.variables[0],)


def test_optional_variables_stay_the_same_outside_but_become_nullable() -> None:
    query = read(
        "query q() { match { $p: Person  optional { $p $m:memberOf $t  $t.code = $p.name } } return { $t, $t.code } }"
    )
    optional = query.match.optionals[0]
    assert labels(optional.block.variables) == ["t", "m"]
    assert query.match.optional_variables == optional.block.variables
    assert labels(optional.outer) == ["p"]
    inside = optional.block.predicates[0]
    assert isinstance(inside, Compare)
    assert not inside.left.type.nullable
    node, code = (column.expression for column in query.columns)
    assert isinstance(node, NodeId)
    assert node.variable == optional.block.variables[0]
    assert node.type.nullable
    assert code.type.nullable


def test_null_tests_take_rows_of_optional_blocks() -> None:
    block = matched("$p: Person  optional { $p $m:memberOf $t }  $t is null  $m is not null")
    team, membership = block.optional_variables
    assert block.predicates == (IsNull(team), Not(IsNull(membership)))
    assert variables_in_predicate(block.predicates[1]) == {membership}


def test_nested_optional_variables_are_known_outside() -> None:
    block = matched("$p: Person  optional { $p memberOf $t  optional { $t memberOf $q } }  optional { $q wrote $n }")
    assert labels(block.optional_variables) == ["t", "q", "n"]
    assert labels(block.optionals[1].outer) == ["q"]
    assert outer_variables(block) == ()


def test_rank_replaces_order_keys() -> None:
    query = read(
        "query q($v: Vector(2)) { match { $d: Doc } return { $d } order { nearest($d.vec, $v), $d.slug } limit 3 }"
    )
    assert query.rank is not None
    assert isinstance(query.rank.score, Distance)
    assert query.rank.variable.label == "d"
    assert query.order == ()


def test_rrf_has_a_default_k() -> None:
    query = read(
        "query q($v: Vector(2)) { match { $d: Doc } return { $d } "
        'order { rrf(nearest($d.vec, $v), bm25($d.lang, "x")) } limit 3 }'
    )
    assert query.rank is not None
    assert isinstance(query.rank.score, FusedScore)
    assert query.rank.score.k == Constant(60, PropertyType(Scalar.I64))
    assert variables_in_expression(query.rank.score) == {query.rank.variable}


@pytest.mark.parametrize(
    ("score", "direction", "ranks"),
    [
        ("nearest($d.vec, $v)", "", True),
        ("nearest($d.vec, $v)", "asc", True),
        ("nearest($d.vec, $v)", "desc", False),
        ("bm25($d.lang, $q)", "", True),
        ("bm25($d.lang, $q)", "desc", True),
        ("bm25($d.lang, $q)", "asc", False),
    ],
)
def test_alias_of_a_score_ranks_unless_worst_is_asked_first(score: str, direction: str, ranks: bool) -> None:
    query = read(
        f"query q($v: Vector(2), $q: String) {{ match {{ $d: Doc }} return {{ $d, {score} as s }} "
        f"order {{ s {direction} }} limit 3 }}"
    )
    assert (query.rank is not None) == ranks
    assert bool(query.order) != ranks
    if query.order:
        assert isinstance(query.order[0].expression, Distance | TextScore)
        assert query.order[0].column == 1


def test_order_keys_know_their_column() -> None:
    query = read(
        "query q() { match { $p: Person } return { $p.name, $p.age as a, $p.age as a } "
        "order { a desc, $p.name, $p.city } }"
    )
    assert [(key.column, key.descending) for key in query.order] == [(2, True), (0, False), (None, False)]


def test_groups_of_an_aggregate() -> None:
    query = read("query q() { match { $p: Person } return { $p.city, count($p) as n, $p } order { n desc, $p.city } }")
    assert query.is_aggregated
    assert [column.name for column in query.group_keys] == ["p.city", "p"]
    assert [key.column for key in query.order] == [1, 0]


def test_limit_and_offset() -> None:
    query = read("query q($n: I32) { match { $p: Person } return { $p } limit $n offset 2 }")
    assert query.limit == ParamRef("n", PropertyType(Scalar.I32))
    assert query.offset == 2
    assert query.params[0].at_least == 0


def test_notes_are_kept() -> None:
    query = read('query q() @description("what") @instruction("how") { match { $p: Person } return distinct { $p } }')
    assert (query.description, query.instruction, query.distinct) == ("what", "how", True)


def test_update_and_edge_insert() -> None:
    update = write("query q($h: String) { update Person set { age: 3, seen: now() } where handle != $h }").statements[0]
    assert isinstance(update, UpdateNode)
    assert [assignment.property for assignment in update.assignments] == ["age", "seen"]
    assert isinstance(update.where, RowTest)
    assert (update.where.column, update.where.operator) == ("handle", Operator.NE)
    insert = write('query q($h: String) { insert Follows { to: "b", weight: 1, from: $h } }').statements[0]
    assert isinstance(insert, InsertEdge)
    assert insert.source == ParamRef("h", PropertyType(Scalar.STRING))
    assert insert.target == Constant("b", PropertyType(Scalar.STRING))
    assert [assignment.property for assignment in insert.assignments] == ["weight"]


@pytest.mark.parametrize(("word", "column"), [("from", "src"), ("to", "dst"), ("since", "since")])
def test_where_names_the_stored_column(word: str, column: str) -> None:
    value = 'date("2024-01-01")' if word == "since" else '"x"'
    mutation = write(f"query q() {{ delete Follows where {word} = {value} }}")
    assert mutation.statements[0].where.column == column  # type: ignore[union-attr]
