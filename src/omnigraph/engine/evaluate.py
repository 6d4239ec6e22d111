"""Values of expressions and truth of predicates over a binding table, in SQL's three-valued logic."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.binding_table import BindingTable
from omnigraph.engine.compare import compare
from omnigraph.engine.execution_context import ExecutionContext, Given, given_value
from omnigraph.engine.pieces import slices
from omnigraph.engine.position_deltas import Positions, one_chunk
from omnigraph.query.typed import (
    AllOf,
    AnyOf,
    Compare,
    Constant,
    Distance,
    FusedScore,
    IsIn,
    IsNull,
    KeyId,
    NodeId,
    Not,
    Now,
    Operand,
    Operator,
    ParamRef,
    Predicate,
    PropertyRef,
    Rank,
    TextMatch,
    TextScore,
    Variable,
)
from omnigraph.read_budget import PIECE_ROWS
from omnigraph.schema.arrow import arrow_type
from omnigraph.tokenizer import Tokenizer

if TYPE_CHECKING:
    from omnigraph.engine.search.text_search import TextSearch


def distances(column: pa.Array, query: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    """L2 distance of each vector; not-a-number where there is no vector."""
    size = column.type.list_size
    vectors = column.values.slice(column.offset * size, len(column) * size).cast(pa.float64())
    far = np.asarray(vectors.to_numpy(zero_copy_only=False)).reshape(-1, size) - np.asarray(query, np.float64)
    known = np.asarray(column.is_valid().to_numpy(zero_copy_only=False), np.bool_)
    return np.where(known, np.sqrt(np.einsum("ij,ij->i", far, far)), np.nan)


#: Without an index, texts and vectors themselves are looked at up to one row in this many.
_FEW_ROWS = 16

#: Vectors that are measured between two looks at the budget.
_FEW_VECTORS = 32_768

#: Fetches a property of a variable for the bindings at hand.
Fetch = Callable[[Variable, str], pa.Array]

#: Where a text condition looks: the search in a column, and the rows at hand in it (None: all its rows, in order).
Searched: TypeAlias = "Callable[[TextMatch], tuple[TextSearch, Positions | None]]"


def matching(
    context: ExecutionContext, predicates: tuple[Predicate, ...], bindings: BindingTable
) -> npt.NDArray[np.bool_]:
    """Which bindings satisfy all predicates."""
    if not context.budget.can_stop or bindings.length <= PIECE_ROWS:
        return _matching(context, predicates, bindings, bindings.length)
    mask = np.empty(bindings.length, np.bool_)
    for piece in slices(bindings.length):
        context.budget.check()
        mask[piece] = _matching(context, predicates, bindings.part(piece), bindings.length)
    return mask


def _matching(
    context: ExecutionContext, predicates: tuple[Predicate, ...], bindings: BindingTable, size: int
) -> npt.NDArray[np.bool_]:
    """The same for a part of some bindings."""

    def fetch(variable: Variable, name: str) -> pa.Array:
        return context.fetch(variable, name, bindings.of(variable))

    def missing(variable: Variable) -> pa.Array:
        return pa.array(bindings.of(variable) < 0)

    def texts(test: TextMatch) -> tuple[TextSearch, Positions | None]:
        return _searched(context, test, bindings.of(test.field.variable), size)

    return _mask(_Evaluation(context.value, fetch, missing, texts, bindings.length), predicates)


def matching_rows(
    context: ExecutionContext, predicates: tuple[Predicate, ...], variable: Variable, positions: Positions | None
) -> npt.NDArray[np.bool_]:
    """Which rows of one variable's table satisfy predicates about it: all rows, or those at some positions."""
    rows = context.rows(variable)
    size = len(rows) if positions is None else len(positions)
    if not context.budget.can_stop or size <= PIECE_ROWS:
        mask = _matching_rows(context, predicates, variable, positions, slice(0, size))
    else:
        mask = np.empty(size, np.bool_)
        for piece in slices(size):
            context.budget.check()
            mask[piece] = _matching_rows(context, predicates, variable, positions, piece)
    return mask & rows.alive if positions is None and rows.alive is not None else mask


def _matching_rows(
    context: ExecutionContext,
    predicates: tuple[Predicate, ...],
    variable: Variable,
    positions: Positions | None,
    piece: slice,
) -> npt.NDArray[np.bool_]:
    """The same for a part of the rows."""
    rows = context.rows(variable)
    is_whole = piece == slice(0, len(rows) if positions is None else len(positions))
    length = piece.stop - piece.start
    here = positions if positions is None or is_whole else positions[piece]

    def fetch(_: Variable, name: str) -> pa.Array:
        if here is not None:
            return context.fetch(variable, name, here)
        column = rows.column(name, context.budget)
        return column if is_whole else column.slice(piece.start, length)

    def texts(test: TextMatch) -> tuple[TextSearch, Positions | None]:
        if here is None and not is_whole:
            return context.texts(test.field), np.arange(piece.start, piece.stop)
        return _searched(context, test, here, length if positions is None else len(positions))

    def missing(_: Variable) -> pa.Array:
        return pa.array(np.zeros(length, np.bool_))

    return _mask(_Evaluation(context.value, fetch, missing, texts, length), predicates)


def passing_rows(
    rows: pa.Table | pa.RecordBatch, predicate: Predicate, params: Mapping[str, Any], now: datetime
) -> npt.NDArray[np.bool_]:
    """Which rows satisfy a predicate about one row, whose columns are at hand."""

    def fetch(_: Variable, name: str) -> pa.Array:
        column = rows.column(name)
        return column if isinstance(column, pa.Array) else one_chunk(column)

    def missing(_: Variable) -> pa.Array:
        return pa.array(np.zeros(rows.num_rows, np.bool_))

    def texts(test: TextMatch) -> tuple[TextSearch, Positions | None]:
        return _among_texts(fetch(test.field.variable, test.field.property), test.tokenizer)

    evaluation = _Evaluation(lambda given: given_value(given, params, now), fetch, missing, texts, rows.num_rows)
    return _mask(evaluation, (predicate,))


def values(context: ExecutionContext, operand: Operand, bindings: BindingTable) -> pa.Array:
    """A column of values for the bindings."""
    if isinstance(operand, Distance | TextScore):
        return _scores(context, operand, bindings.of(operand.field.variable))
    if isinstance(operand, FusedScore):  # returned only where it ranks, so it is known
        variable = operand.first.field.variable
        return pa.array(context.ranking[Rank(operand, variable)].fused_scores(bindings.of(variable)))

    def fetch(variable: Variable, name: str) -> pa.Array:
        return context.fetch(variable, name, bindings.of(variable))

    def missing(_: Variable) -> pa.Array:
        return pa.nulls(0, pa.bool_())

    def texts(test: TextMatch) -> tuple[TextSearch, Positions | None]:
        return _searched(context, test, bindings.of(test.field.variable), bindings.length)

    return _Evaluation(context.value, fetch, missing, texts, bindings.length).column(operand)


def _scores(context: ExecutionContext, score: Distance | TextScore, positions: Positions) -> pa.Array:
    """The score of each row, null where there is none."""
    query = context.value(score.query)
    if query is None:
        return pa.nulls(len(positions), pa.float64())
    if isinstance(score, Distance):
        found = measured(context, score, positions)
    else:
        found = context.texts(score.field).scores(query, positions)
    return pa.array(found, mask=np.isnan(found))


def measured(context: ExecutionContext, score: Distance, positions: Positions) -> npt.NDArray[np.float64]:
    """The distance of each row: from the index, or from the few vectors themselves when there is no index at hand."""
    name, rows = (score.field.variable.type_name, score.field.property), context.rows(score.field.variable)
    if len(positions) * _FEW_ROWS < len(rows) and not context.view.has_index(*name):
        return distances(context.fetch(score.field.variable, score.field.property, positions), context.vector(score))
    index, query = context.view.vector_index(*name), context.vector(score)
    if not context.budget.can_stop or len(positions) <= _FEW_VECTORS:
        return index.distances(query, positions)
    found = np.empty(len(positions))
    for piece in slices(len(positions), _FEW_VECTORS):
        context.budget.check()
        found[piece] = index.distances(query, positions[piece])
    return found


def _searched(
    context: ExecutionContext, test: TextMatch, positions: Positions | None, size: int
) -> tuple[TextSearch, Positions | None]:
    """Where a text condition looks: in the index, or in the few texts that it is about when there is none at hand.

    Args:
        size: rows that it is about in all.
    """
    field = test.field
    name, rows = (field.variable.type_name, field.property), context.rows(field.variable)
    is_few = positions is not None and size * _FEW_ROWS < len(rows)
    if is_few and positions is not None and name not in context.searches and not context.view.has_index(*name):
        return _among_texts(rows.values(field.property, positions), test.tokenizer)
    return context.texts(field), positions


def _among_texts(texts: pa.Array, tokenizer: Tokenizer) -> tuple[TextSearch, Positions | None]:
    from omnigraph.engine.search.text_search import TextSearch

    return TextSearch.of(texts, tokenizer), None


def _mask(evaluation: _Evaluation, predicates: tuple[Predicate, ...]) -> npt.NDArray[np.bool_]:
    if not predicates:
        return np.ones(evaluation.length, np.bool_)
    mask = _true(evaluation.truth(predicates[0]), evaluation.length)
    for predicate in predicates[1:]:
        mask = mask & _true(evaluation.truth(predicate), evaluation.length)
    return mask


def _true(truth: Any, length: int) -> npt.NDArray[np.bool_]:
    if not isinstance(truth, pa.Array):
        return np.full(length, truth is True)
    known = truth.fill_null(False) if truth.null_count else truth
    return np.asarray(known.to_numpy(zero_copy_only=False), np.bool_)


@dataclass(frozen=True, slots=True)
class _Evaluation:
    """Expressions over some bindings, whatever these are bound to."""

    value: Callable[[Given], Any]
    fetch: Fetch
    missing: Callable[[Variable], pa.Array]
    texts: Searched
    length: int

    def operand(self, operand: Operand) -> Any:
        """An array for properties and ids, a Python value for constants."""
        match operand:
            case PropertyRef():
                return _comparable(self.fetch(operand.variable, operand.property))
            case NodeId():
                return self.fetch(operand.variable, "id")
            case ParamRef() | Constant() | Now() | KeyId():
                return self.value(operand)
        raise AssertionError("a score is a column, not an operand")

    def column(self, operand: Operand) -> pa.Array:
        if isinstance(operand, PropertyRef):
            return self.fetch(operand.variable, operand.property)
        found = self.operand(operand)
        if isinstance(found, pa.Array):
            return found
        # Arrow takes integers for signed ones until it meets one that is not.
        declared = arrow_type(operand.type) if operand.type.scalar.is_integer else None
        return pa.array([found] * self.length, declared)

    def truth(self, predicate: Predicate) -> Any:
        match predicate:
            case Compare():
                return self._compare(predicate)
            case IsIn():
                return self._is_in(predicate)
            case IsNull():
                if isinstance(predicate.operand, Variable):
                    return self.missing(predicate.operand)
                found = self.operand(predicate.operand)
                return pc.is_null(found) if isinstance(found, pa.Array) else found is None
            case Not():
                inner = self.truth(predicate.part)
                return pc.invert(inner) if isinstance(inner, pa.Array) else (None if inner is None else not inner)
            case AllOf():
                return self._fold(predicate.parts, pc.and_kleene)
            case AnyOf():
                return self._fold(predicate.parts, pc.or_kleene)
            case TextMatch():
                return self._text_match(predicate)

    def _text_match(self, test: TextMatch) -> Any:
        query = self.value(test.query)
        if query is None:
            return None
        search, positions = self.texts(test)
        edits = None if test.max_edits is None else self.value(test.max_edits)
        found = search.flags(search.matching(test.function, query, edits), positions)
        return pa.array(found, mask=search.is_null(positions) if test.field.type.nullable else None)

    def _fold(self, parts: tuple[Predicate, ...], kernel: Any) -> Any:
        found = [self._array(self.truth(part)) for part in parts]
        result = found[0]
        for other in found[1:]:
            result = kernel(result, other)
        return result

    def _array(self, truth: Any) -> pa.Array:
        return truth if isinstance(truth, pa.Array) else pa.array([truth] * self.length, pa.bool_())

    def _compare(self, predicate: Compare) -> Any:
        left, right = self.operand(predicate.left), self.operand(predicate.right)
        match predicate.operator:
            case Operator.LIST_CONTAINS:
                return _list_contains(left, right, self.length)
            case Operator.TEXT_CONTAINS | Operator.STARTS_WITH:
                return self._text(predicate.operator, left, right)
        return compare(predicate.operator, left, right)

    def _text(self, operator: Operator, left: Any, right: Any) -> Any:
        if left is None or right is None:
            return None
        if isinstance(left, pa.Array) and isinstance(right, str):
            kernel = pc.match_substring if operator is Operator.TEXT_CONTAINS else pc.starts_with
            return kernel(left, pattern=right)
        if isinstance(left, str) and isinstance(right, str):
            return right in left if operator is Operator.TEXT_CONTAINS else left.startswith(right)
        # Arrow searches one pattern per call; a pattern per row is left to Python.
        texts = left.to_pylist() if isinstance(left, pa.Array) else [left] * self.length
        patterns = right.to_pylist() if isinstance(right, pa.Array) else [right] * self.length
        test = str.__contains__ if operator is Operator.TEXT_CONTAINS else str.startswith
        return pa.array(
            [None if t is None or p is None else test(t, p) for t, p in zip(texts, patterns, strict=True)], pa.bool_()
        )

    def _is_in(self, predicate: IsIn) -> Any:
        operand = self.operand(predicate.operand)
        if not isinstance(predicate.choices, tuple):
            chosen = self.value(predicate.choices)
            if chosen is None:
                return None
            choices: list[Any] = list(chosen)
        else:
            choices = [self.operand(choice) for choice in predicate.choices]
        choices = [choice for choice in choices if choice is not None]
        if isinstance(operand, pa.Array) and pa.types.is_string(operand.type) and _all(choices, str):
            found = pc.is_in(operand, value_set=pa.array(choices, pa.string()))
            return found if operand.null_count == 0 else pc.if_else(pc.is_valid(operand), found, None)
        if operand is None:
            return None
        if not choices:
            return compare(Operator.NE, operand, operand) if isinstance(operand, pa.Array) else False
        tests = [self._array(compare(Operator.EQ, operand, choice)) for choice in choices]
        result = tests[0]
        for test in tests[1:]:
            result = pc.or_kleene(result, test)
        return result


def _all(values: list[Any], kind: type) -> bool:
    return all(isinstance(value, kind) for value in values)


def _list_contains(lists: Any, wanted: Any, length: int) -> Any:
    """Membership; unknown where the list or the wanted value is null. Null elements never match."""
    if not isinstance(lists, pa.Array):
        if lists is None or wanted is None:
            return None
        elements = [element for element in lists if element is not None]
        if not isinstance(wanted, pa.Array):
            return any(compare(Operator.EQ, element, wanted) for element in elements)
        tests = [compare(Operator.EQ, wanted, element) for element in elements]
        result = compare(Operator.NE, wanted, wanted)
        for test in tests:
            result = pc.or_kleene(result, test)
        return result
    if wanted is None:
        return pa.nulls(length, pa.bool_())
    parents = pc.list_parent_indices(lists)
    flat = _comparable(pc.list_flatten(lists))
    value = wanted.take(parents) if isinstance(wanted, pa.Array) else wanted
    hits = _true(compare(Operator.EQ, flat, value), len(flat))
    found = np.zeros(length, np.bool_)
    found[parents.to_numpy(zero_copy_only=False)[hits]] = True
    known = pc.is_valid(lists)
    if isinstance(wanted, pa.Array):
        known = pc.and_(known, pc.is_valid(wanted))
    return pc.if_else(known, pa.array(found), None)


def _comparable(column: pa.Array) -> pa.Array:
    """Instants compare as milliseconds; Arrow would treat them as days."""
    return column.view(pa.int64()) if pa.types.is_date64(column.type) else column
