"""Writes a typed query down as a plan, in the order of its text. Nothing here tries to be fast."""

from __future__ import annotations

from omnigraph.query.plan.nodes import Anti, Connect, Expand, Extend, Filter, Keep, Plan, Reach, Scan, Step
from omnigraph.query.typed import Block, Entity, Predicate, TypedQuery, Variable
from omnigraph.query.typed.walk import variables_in_predicate


def build_plan(query: TypedQuery) -> Plan:
    return Plan(query, block_steps(query.match))


def block_steps(block: Block) -> tuple[Step, ...]:
    """Every node variable, every traversal as a test, then predicates, optional blocks and negations."""
    late = frozenset(block.optional_variables)
    early = tuple(p for p in block.predicates if not variables_in_predicate(p) & late)
    after = tuple(p for p in block.predicates if variables_in_predicate(p) & late)
    steps: list[Step] = [Scan(variable) for variable in block.variables if variable.entity is Entity.NODE]
    steps += [Connect(traversal) for traversal in block.traversals]
    steps += _filters(early)
    steps += [Extend(optional, block_steps(optional.block)) for optional in block.optionals]
    steps += _filters(after)
    steps += [Anti(negation, block_steps(negation.block)) for negation in block.negations]
    return tuple(steps)


def _filters(predicates: tuple[Predicate, ...]) -> list[Step]:
    return [Filter(predicates)] if predicates else []


def bound_by(step: Step) -> frozenset[Variable]:
    """Variables that a step adds to the bindings."""
    match step:
        case Scan():
            return frozenset({step.variable})
        case Connect():
            return frozenset({step.traversal.edge} if step.traversal.edge else ())
        case Extend():
            block = step.optional.block
            return frozenset({*block.variables, *block.optional_variables})
        case Expand() | Reach():
            return frozenset({step.target} | ({step.traversal.edge} if step.traversal.edge else set()))
        case Filter() | Anti() | Keep():
            return frozenset()
