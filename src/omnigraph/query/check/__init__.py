"""Syntax tree + schema → typed query. Checking stops at the first error, in source order.

`match_clause.py` and `return_clause.py` check reads, `mutation_check.py` checks writes. They share `scope.py` (what is
known), `operands.py`, `property_values.py`, `conditions.py` and `search.py`.
"""

from __future__ import annotations

from msgspec.structs import replace

from omnigraph.integers import INTEGER_BOUNDS
from omnigraph.query.check.match_clause import match_block
from omnigraph.query.check.return_clause import check_order, columns, expanded, row_count
from omnigraph.query.check.scope import CheckContext, VariableScope
from omnigraph.query.syntax.tree import QueryDecl, ReadBody, WriteBody
from omnigraph.query.typed import Parameter, TypedMutation, TypedQuery
from omnigraph.schema.catalog import Catalog, Scalar

_RESERVED_PARAMETER = "__nanograph_now"
_LARGEST_DIMENSION = INTEGER_BOUNDS["I32"].high


def check_query(query: QueryDecl, catalog: Catalog) -> TypedQuery | TypedMutation:
    """Check one query of either kind.

    Raises:
        QueryTypeError: the query does not fit the schema; the message starts with its rule (T1 … T24) if it has one.
    """
    context = CheckContext(query, catalog)
    _declare_parameters(query, context)
    if isinstance(query.body, WriteBody):
        from omnigraph.query.check.mutation_check import statements  # a process that only reads never needs it

        found = statements(query.body, query.name, context)
        return TypedMutation(query.name, context.parameters, found, query.description, query.instruction)
    return _read(query, query.body, context)


def check_read(query: QueryDecl, catalog: Catalog) -> TypedQuery:
    """Check a query that is about to run as a read.

    Raises:
        QueryTypeError: the query is a write, or does not fit the schema.
    """
    if query.is_write:
        CheckContext(query, catalog).fail("read execution called on a mutation query; use mutate instead", query)
    found = check_query(query, catalog)
    assert isinstance(found, TypedQuery)
    return found


def check_write(query: QueryDecl, catalog: Catalog) -> TypedMutation:
    """Check a query that is about to run as a write.

    Raises:
        QueryTypeError: the query is a read, or does not fit the schema.
    """
    if not query.is_write:
        CheckContext(query, catalog).fail("mutation execution called on a read query; use query instead", query)
    found = check_query(query, catalog)
    assert isinstance(found, TypedMutation)
    return found


def _declare_parameters(query: QueryDecl, context: CheckContext) -> None:
    for declared in query.params:
        name, kind = declared.name, declared.type
        if name == _RESERVED_PARAMETER:
            context.fail(f"parameter name `${name}` is reserved for the instant of `now()`", declared)
        if context.parameter(name) is not None:
            context.fail(f"parameter `${name}` is declared twice", declared)
        if kind.scalar is Scalar.VECTOR and not 1 <= (kind.dimension or 0) <= _LARGEST_DIMENSION:
            context.fail(f"unknown parameter type `{kind}` for `${name}`", declared)
        context.declare_parameter(Parameter(name, kind))


def _read(query: QueryDecl, body: ReadBody, context: CheckContext) -> TypedQuery:
    scope = VariableScope(context)
    match = match_block(body.match, context, scope)
    body = replace(body, projections=expanded(body.projections, context, scope))
    found = columns(body.projections, context, scope)
    ordered = check_order(body, found, context, scope)
    limit = row_count(body.limit, "limit", context)
    skipped = row_count(body.skip, "offset", context)
    return TypedQuery(
        query.name,
        context.parameters,
        match,
        found,
        distinct=body.distinct,
        rank=ordered.rank,
        order=ordered.keys,
        limit=limit,
        offset=skipped,
        description=query.description,
        instruction=query.instruction,
        texts=context.texts,
    )
