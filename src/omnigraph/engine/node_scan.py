"""The rows a variable may be bound to: by key, by index, or by testing whole columns."""

from __future__ import annotations

from enum import StrEnum

import numpy as np

from omnigraph.engine.adjacency import Positions
from omnigraph.engine.evaluate import ExecutionContext, matching_rows
from omnigraph.query.typed import Compare, IsIn, NodeId, Operand, Operator, ParamRef, Predicate, PropertyRef, Variable
from omnigraph.schema.catalog import Catalog, Scalar


class AccessPath(StrEnum):
    """How the rows of a scan are found."""

    KEY = "key look-up"
    COLUMNS = "columns"
    ALL = "all rows"


def candidates(context: ExecutionContext, variable: Variable, predicates: tuple[Predicate, ...]) -> Positions:
    """Positions of the rows that satisfy predicates about one variable."""
    if not predicates:
        return context.rows(variable).all_positions()
    keyed = _by_key(context, variable, predicates)
    return keyed if keyed is not None else np.flatnonzero(matching_rows(context, predicates, variable, None))


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


def access_path(catalog: Catalog, variable: Variable, predicates: tuple[Predicate, ...]) -> AccessPath:
    """The way that `candidates` takes, for explain."""
    if not predicates:
        return AccessPath.ALL
    keyed = any(_key_operand(catalog, variable, predicate) is not None for predicate in predicates)
    return AccessPath.KEY if keyed else AccessPath.COLUMNS


def _wanted_ids(context: ExecutionContext, variable: Variable, predicate: Predicate) -> list[str] | None:
    """The ids that a predicate on a text key allows; None when it is something else."""
    values = _key_operand(context.view.catalog, variable, predicate)
    if values is None:
        return None
    if isinstance(values, ParamRef):
        found = context.value(values)
        many = list(found) if isinstance(found, tuple) else [found]
    else:
        many = [context.value(value) for value in values]  # type: ignore[arg-type]
    return list(dict.fromkeys(value for value in many if value is not None))


def _key_operand(catalog: Catalog, variable: Variable, predicate: Predicate) -> ParamRef | list[Operand] | None:
    match predicate:
        case Compare(operator=Operator.EQ):
            for own, other in ((predicate.left, predicate.right), (predicate.right, predicate.left)):
                if _is_text_key(catalog, variable, own) and not isinstance(other, PropertyRef | NodeId):
                    return [other]
        case IsIn():
            if _is_text_key(catalog, variable, predicate.operand):
                if isinstance(predicate.choices, ParamRef):
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
    node = catalog.nodes.get(variable.type_name)
    return node is not None and node.key == (operand.property,) and operand.type.scalar is Scalar.STRING
