"""Plans of random schema changes: they lead where they should, or say why not, and never fail otherwise."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping

from hypothesis import assume, given
from hypothesis import strategies as st

from omnigraph.errors import OmniGraphError, SchemaIdentityError
from omnigraph.schema import CompiledSchema, compile_schema
from omnigraph.schema.catalog import EdgeType, InterfaceType, NodeType, PropertyType
from omnigraph.schema.evolve import (
    AddProperty,
    AddType,
    DropProperty,
    DropType,
    ExtendEnum,
    MigrationStep,
    RelaxProperty,
    RenameProperty,
    RenameType,
    SchemaPlan,
    UnsupportedChange,
    WidenProperty,
    plan_change,
)
from omnigraph.schema.ir import ir_of
from tests.schema.library import LIBRARY
from tests.schema.strategies import Declaration, Draft, drafts, edited, hinted, with_new_name

Columns = dict[str, dict[str, PropertyType]]


@given(drafts(), st.integers(0, 2**32))
def test_the_same_schema_in_other_words_needs_no_step(draft: Draft, seed: int) -> None:
    before = compile_schema(draft.text())
    for plan in (plan_change(before, before), plan_change(before, compile_schema(draft.another_text(seed)))):
        assert (plan.supported, plan.steps) == (True, ())


@given(drafts(), drafts())
def test_a_plan_between_any_two_schemas_leads_to_the_second(first: Draft, second: Draft) -> None:
    before, after = compile_schema(first.text()), compile_schema(second.text())
    plan = plan_change(before, after)
    assert plan == plan_change(before, after)
    _check(plan, before, after)
    hard = plan_change(before, after, allow_data_loss=True)
    assert hard.supported == plan.supported
    assert [line.replace("(soft mode)", "(hard mode)") for line in plan.lines()] == list(hard.lines())


@given(drafts(), st.data())
def test_a_plan_of_an_edited_schema_leads_to_it(draft: Draft, data: st.DataObject) -> None:
    before = compile_schema(draft.text())
    try:
        after = compile_schema(edited(draft, data))
        plan = plan_change(before, after)
    except SchemaIdentityError as error:
        assert error.message.startswith("schema identity resolution failed: ")
        assert error.line is not None
        return
    except OmniGraphError:
        assume(False)
    _check(plan, before, after)


@given(drafts(), st.randoms(use_true_random=False))
def test_renaming_everything_with_hints_only_renames(draft: Draft, rng: random.Random) -> None:
    before = compile_schema(draft.text())
    after = compile_schema(_renamed(draft, rng))
    plan = plan_change(before, after)
    assert {type(step) for step in plan.steps} <= {RenameType, RenameProperty}
    _check(plan, before, after)
    _check(plan_change(after, after), after, after)


def test_hints_that_were_followed_are_warned_about_at_their_place() -> None:
    before = compile_schema("node A { x: I32 } edge E: A -> A")
    text = 'node A @rename_from("B") {\n  x: I32 @rename_from("y") }\nedge E: A -> A @rename_from("F")'
    warnings = plan_change(before, compile_schema(text)).warnings
    assert [(each.entity, each.line, each.column) for each in warnings] == [
        ("node:A", 1, 8),
        ("node:A.x", 2, 10),
        ("edge:E", 3, 16),
    ]
    assert {each.code for each in warnings} == {"schema.warning.satisfied_rename_hint"}
    assert not plan_change(before, compile_schema(LIBRARY)).warnings


def test_a_plan_says_what_it_is_as_json_and_as_its_first_refusal() -> None:
    before = compile_schema("node A { x: I32 }")
    plan = plan_change(before, compile_schema("node A { x: I32 a: I32? email: String } node B {}"))
    found = plan.to_dict()
    assert (found["supported"], found["step_count"], len(found["steps"])) == (False, 3, 3)
    assert plan.first_refusal() == (
        "[OG-MF-103] adding required property 'A.email' requires a backfill and is not supported in schema migration v1"
        "; with @default(…) the rows get a value"
    )
    assert plan_change(before, before).to_dict() == {"supported": True, "step_count": 0, "steps": []}
    assert plan_change(before, before).first_refusal() is None


def _check(plan: SchemaPlan, before: CompiledSchema, after: CompiledSchema) -> None:
    """A plan leads to the desired columns, or is refused; none is empty unless both schemas mean the same."""
    assert plan.supported != any(isinstance(step, UnsupportedChange) for step in plan.steps)
    assert len(plan.lines()) == len(plan.to_dict()["steps"]) == len(plan.steps)
    if not plan.steps:
        assert _meaning(before) == _meaning(after)
    if plan.supported:
        found = _after(_columns(before), plan.steps, _columns(after))
        assert found == _columns(after)


def _after(columns: Columns, steps: tuple[MigrationStep, ...], new: Columns) -> Columns:
    """What the steps make of the columns of a schema."""
    for step in steps:
        match step:
            case AddType(kind, name):
                columns[f"{kind}:{name}"] = new[f"{kind}:{name}"]
            case RenameType(kind, from_, to):
                columns[f"{kind}:{to}"] = columns.pop(f"{kind}:{from_}")
            case DropType(kind, name):
                del columns[f"{kind}:{name}"]
            case AddProperty(kind, owner, name, type_):
                assert name not in columns[f"{kind}:{owner}"]
                assert type_.nullable
                columns[f"{kind}:{owner}"][name] = type_
            case RenameProperty(kind, owner, from_, to):
                columns[f"{kind}:{owner}"][to] = columns[f"{kind}:{owner}"].pop(from_)
            case DropProperty(kind, owner, name):
                del columns[f"{kind}:{owner}"][name]
            case WidenProperty(kind, owner, name, from_type, to_type):
                assert columns[f"{kind}:{owner}"][name] == from_type
                columns[f"{kind}:{owner}"][name] = to_type
            case RelaxProperty(kind, owner, name) | ExtendEnum(kind, owner, name):
                columns[f"{kind}:{owner}"][name] = new[f"{kind}:{owner}"][name]
    return columns


def _columns(schema: CompiledSchema) -> Columns:
    catalog = schema.catalog
    types: list[tuple[str, Mapping[str, InterfaceType | NodeType | EdgeType]]] = [
        ("interface", catalog.interfaces),
        ("node", catalog.nodes),
        ("edge", catalog.edges),
    ]
    return {
        f"{kind}:{name}": {column: found.type for column, found in type_.properties.items()}
        for kind, found in types
        for name, type_ in found.items()
    }


def _meaning(schema: CompiledSchema) -> str:
    """The compiled schema without the spelling of its indexes: behind a property or in the body."""
    found = ir_of(schema.catalog)
    for type_ in (*found["interfaces"], *found["nodes"], *found["edges"]):
        for column in type_["properties"]:
            column["annotations"] = [each for each in column["annotations"] if each["name"] != "index"]
    return json.dumps(found)  # Python takes true for 1


def _renamed(draft: Draft, rng: random.Random) -> str:
    """The draft with other names for some nodes and all free properties, each with its hint."""
    hints = [
        Declaration(each.header, tuple(_hinted_if_free(item, each.items) for item in each.items))
        for each in draft.declarations
    ]
    for node in [each for each in hints if each.header.startswith("node") and rng.random() < 0.7]:
        hints = with_new_name(hints, node)
    return Draft(tuple(hints)).text()


def _hinted_if_free(item: str, items: tuple[str, ...]) -> str:
    name = item.partition(":")[0]
    is_named = any(other.startswith("@") and name in other for other in items)
    return item if item.startswith("@") or is_named else hinted(item)
