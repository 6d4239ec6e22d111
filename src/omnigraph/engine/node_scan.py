"""The rows a variable may be bound to: by key, by index, or by testing whole columns."""

from __future__ import annotations

from enum import StrEnum

import numpy as np

from omnigraph.engine.evaluate import matching_rows
from omnigraph.engine.execution_context import ExecutionContext
from omnigraph.engine.position_deltas import Positions
from omnigraph.query.typed import (
    Compare,
    IsIn,
    KeyId,
    NodeId,
    Operand,
    Operator,
    ParamRef,
    Predicate,
    PropertyRef,
    TextMatch,
    Variable,
)
from omnigraph.schema.catalog import Catalog, Scalar

#: Other conditions are tested on what a search found while that is at most this share of the table.
_FEW_FOUND = 0.25


class AccessPath(StrEnum):
    """How the rows of a scan are found."""

    KEY = "key look-up"
    TEXT = "text search"
    COLUMNS = "columns"
    ALL = "all rows"


def candidates(context: ExecutionContext, variable: Variable, predicates: tuple[Predicate, ...]) -> Positions:
    """Positions of the rows that satisfy predicates about one variable."""
    if not predicates:
        return context.rows(variable).all_positions()
    keyed = _by_key(context, variable, predicates)
    if keyed is not None:
        return keyed
    searched = tuple(predicate for predicate in predicates if isinstance(predicate, TextMatch))
    if searched:
        return _by_text(context, variable, searched, tuple(p for p in predicates if p not in searched))
    return np.flatnonzero(matching_rows(context, predicates, variable, None))


def candidates_among(
    context: ExecutionContext, variable: Variable, predicates: tuple[Predicate, ...], among: Positions
) -> Positions:
    """Those of some ascending positions whose rows satisfy predicates about one variable, ascending."""
    if not predicates or len(among) == 0:
        return among
    keyed = _by_key(context, variable, predicates)
    if keyed is None:
        return among[matching_rows(context, predicates, variable, among)]
    where = np.minimum(np.searchsorted(among, keyed), len(among) - 1)
    return np.sort(keyed[among[where] == keyed])


def _by_key(context: ExecutionContext, variable: Variable, predicates: tuple[Predicate, ...]) -> Positions | None:
    """The rows that satisfy predicates, if one of them asks for ids; None otherwise."""
    for predicate in predicates:
        wanted = _wanted_ids(context, variable, predicate)
        if wanted is not None:
            found = context.rows(variable).find(wanted)
            rest = tuple(other for other in predicates if other is not predicate)
            return found[matching_rows(context, rest, variable, found)] if rest and len(found) else found
    return None


def _by_text(
    context: ExecutionContext, variable: Variable, searched: tuple[TextMatch, ...], rest: tuple[Predicate, ...]
) -> Positions:
    """The rows that satisfy text conditions and others: the others are tested on what the search found, if that is
    little, else on the whole table."""
    hits = [context.found(test) for test in searched]
    known = sorted((each.positions for each in hits if each is not None), key=len)
    if len(known) < len(hits):
        return np.zeros(0, np.int64)
    found, size = known[0], len(context.rows(variable))
    for other in known[1:]:
        found = np.intersect1d(found, other, assume_unique=True)
    return passing(context, variable, rest, found, size)


def passing(
    context: ExecutionContext, variable: Variable, predicates: tuple[Predicate, ...], found: Positions, size: int
) -> Positions:
    """Those of the rows that a search found which satisfy other predicates, ascending."""
    if not predicates:
        context.note(f"search found {len(found):,} of {size:,} rows")
        return found
    if len(found) <= _FEW_FOUND * size:
        kept = candidates_among(context, variable, predicates, found)
        context.note(f"search first: {len(found):,} of {size:,} rows, filter left {len(kept):,}")
        return kept
    passed = candidates(context, variable, predicates)
    kept = np.intersect1d(found, passed, assume_unique=True)
    context.note(f"filter first: {len(passed):,} of {size:,} rows, search left {len(kept):,}")
    return kept


def access_path(catalog: Catalog, variable: Variable, predicates: tuple[Predicate, ...]) -> AccessPath:
    """The way that `candidates` takes, for explain."""
    if not predicates:
        return AccessPath.ALL
    if any(key_operand(catalog, variable, predicate) is not None for predicate in predicates):
        return AccessPath.KEY
    return AccessPath.TEXT if any(isinstance(each, TextMatch) for each in predicates) else AccessPath.COLUMNS


def _wanted_ids(context: ExecutionContext, variable: Variable, predicate: Predicate) -> list[str] | None:
    """The ids that a predicate on a text key allows; None when it is something else."""
    values = key_operand(context.view.catalog, variable, predicate)
    if values is None:
        return None
    if isinstance(values, ParamRef | KeyId):
        found = context.value(values)
        many = list(found) if isinstance(found, tuple) else [found]
    else:
        many = [context.value(value) for value in values]  # type: ignore[arg-type]
    return list(dict.fromkeys(value for value in many if value is not None))


def key_operand(catalog: Catalog, variable: Variable, predicate: Predicate) -> ParamRef | KeyId | list[Operand] | None:
    """What a predicate wants a text key to be, one of several or a list; None when it is something else."""
    match predicate:
        case Compare(operator=Operator.EQ):
            for own, other in ((predicate.left, predicate.right), (predicate.right, predicate.left)):
                if _is_text_key(catalog, variable, own) and not isinstance(other, PropertyRef | NodeId):
                    return [other]
        case IsIn():
            if _is_text_key(catalog, variable, predicate.operand):
                if not isinstance(predicate.choices, tuple):
                    return predicate.choices
                if not any(isinstance(choice, PropertyRef | NodeId) for choice in predicate.choices):
                    return list(predicate.choices)
    return None


def _is_text_key(catalog: Catalog, variable: Variable, operand: Operand) -> bool:
    """Whether an operand equals the row's id: the id itself, or the only key property if that is text."""
    if isinstance(operand, NodeId):
        return operand.variable == variable
    if not isinstance(operand, PropertyRef) or operand.variable != variable:
        return False
    if operand.property == "id":
        return True
    node = catalog.nodes.get(variable.type_name)
    return node is not None and node.key == (operand.property,) and operand.type.scalar is Scalar.STRING
