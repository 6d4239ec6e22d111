"""Checks a whole `.gq` file against a schema without running anything, and says what each query returns and touches.

The report has the exact shape that the command line and the HTTP interface give out; see `LintReport.to_dict`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from omnigraph.errors import QuerySyntaxError, QueryTypeError
from omnigraph.query.check import check_query
from omnigraph.query.syntax.query_parser import parse_queries
from omnigraph.query.syntax.tree import QueryDecl
from omnigraph.query.typed import (
    DeleteEdge,
    DeleteNode,
    Entity,
    InsertEdge,
    InsertNode,
    TypedMutation,
    TypedQuery,
    UpdateEdge,
    UpdateNode,
)
from omnigraph.query.typed.walk import blocks_of
from omnigraph.schema.catalog import Catalog, NodeType, PropertyType, Scalar
from omnigraph.schema.schema_warnings import SchemaFinding, unknown_annotations

_KINDS = {
    Scalar.STRING: "string",
    Scalar.BOOL: "bool",
    Scalar.I32: "int",
    Scalar.U32: "int",
    Scalar.I64: "bigint",
    Scalar.U64: "bigint",
    Scalar.F32: "float",
    Scalar.F64: "float",
    Scalar.DATE: "date",
    Scalar.DATETIME: "datetime",
    Scalar.BLOB: "blob",
    Scalar.VECTOR: "vector",
}


@dataclass(frozen=True, slots=True)
class ResultColumn:
    """One output column under the key it has in a row."""

    name: str
    kind: str
    nullable: bool
    item_kind: str | None = None
    vector_dim: int | None = None

    @classmethod
    def of(cls, name: str, kind: PropertyType) -> ResultColumn:
        """What interfaces tell of a value of a type, be it a column or a parameter."""
        if kind.list:
            return cls(name, "list", kind.nullable, item_kind=_KINDS[kind.scalar])
        return cls(name, _KINDS[kind.scalar], kind.nullable, vector_dim=kind.dimension)

    def to_dict(self) -> dict[str, object]:
        found: dict[str, object] = {"name": self.name, "kind": self.kind, "nullable": self.nullable}
        if self.item_kind is not None:
            found["item_kind"] = self.item_kind
        if self.vector_dim is not None:
            found["vector_dim"] = self.vector_dim
        return found


@dataclass(frozen=True, slots=True, order=True)
class TypeUse:
    """A node or edge type that a query touches."""

    kind: str
    type_name: str

    def to_dict(self) -> dict[str, object]:
        return {"kind": self.kind, "type_name": self.type_name}


@dataclass(frozen=True, slots=True)
class Operation:
    """What a query returns, and which types and properties it reads and writes."""

    result: tuple[ResultColumn, ...]
    reads: tuple[TypeUse, ...]
    writes: tuple[TypeUse, ...]

    def to_dict(self) -> dict[str, object]:
        return {
            "result": [column.to_dict() for column in self.result],
            "reads": [use.to_dict() for use in self.reads],
            "writes": [use.to_dict() for use in self.writes],
        }


def describe(query: TypedQuery | TypedMutation, catalog: Catalog) -> Operation:
    """Columns and touched types of a checked query; type lists are sorted, edges before nodes."""
    if isinstance(query, TypedQuery):
        return Operation(
            tuple(ResultColumn.of(column.name, column.type) for column in query.columns),
            _sorted(_query_reads(query, catalog)),
            (),
        )
    reads, writes = _mutation_uses(query, catalog)
    return Operation((), _sorted(reads), _sorted(writes))


def _query_reads(query: TypedQuery, catalog: Catalog) -> set[TypeUse]:
    found: set[TypeUse] = set()
    for block in blocks_of(query.match):
        for variable in block.variables:
            if variable.entity is Entity.NODE:
                found.add(_node(variable.type_name))
        for traversal in block.traversals:
            found |= _edge_with_ends(traversal.edge_type, catalog)
    return found


def _mutation_uses(mutation: TypedMutation, catalog: Catalog) -> tuple[set[TypeUse], set[TypeUse]]:
    reads: set[TypeUse] = set()
    writes: set[TypeUse] = set()
    for statement in mutation.changes:
        if isinstance(statement, InsertEdge | UpdateEdge | DeleteEdge):
            writes.add(_edge(statement.type_name))
        else:
            writes.add(_node(statement.type_name))
        if not isinstance(statement, InsertNode | InsertEdge) and isinstance(statement.where, TypedQuery):
            reads |= _query_reads(statement.where, catalog)
        if isinstance(statement, InsertEdge):
            reads |= _edge_with_ends(statement.type_name, catalog)
        if isinstance(statement, DeleteNode):
            writes |= {
                _edge(edge.name) for edge in catalog.edges.values() if statement.type_name in (edge.source, edge.target)
            }
    return reads | writes, writes


def _edge_with_ends(type_name: str, catalog: Catalog) -> set[TypeUse]:
    edge = catalog.edges[type_name]
    return {_edge(edge.name), _node(edge.source), _node(edge.target)}


def _node(type_name: str) -> TypeUse:
    return TypeUse("node", type_name)


def _edge(type_name: str) -> TypeUse:
    return TypeUse("edge", type_name)


def _sorted(uses: Iterable[TypeUse]) -> tuple[TypeUse, ...]:
    return tuple(sorted(uses))


_SEVERITIES = ("error", "warning", "info")
_NO_PARAMS = "mutation declares no params; hardcoded mutations are easy to miss"


@dataclass(frozen=True, slots=True)
class SchemaSource:
    """Where the schema came from: a file with its path or a graph with its address."""

    kind: str = "graph"
    location: str | None = None

    def to_dict(self) -> dict[str, object]:
        return {"kind": self.kind, "path" if self.kind == "file" else "uri": self.location}


@dataclass(frozen=True, slots=True)
class LintResult:
    """What lint says about one query."""

    name: str
    kind: str
    status: str
    warnings: tuple[str, ...] = ()
    error: str | None = None
    operation: Operation | None = None
    line: int | None = field(default=None, compare=False)
    column: int | None = field(default=None, compare=False)
    excerpt: str | None = field(default=None, compare=False, repr=False)
    hint: str | None = field(default=None, compare=False)

    def to_dict(self) -> dict[str, object]:
        found: dict[str, object] = {"name": self.name, "kind": self.kind, "status": self.status}
        if self.warnings:
            found["warnings"] = list(self.warnings)
        if self.error is not None:
            found["error"] = self.error
        if self.operation is not None:
            found["operation"] = self.operation.to_dict()
        return found


@dataclass(frozen=True, slots=True)
class LintFinding:
    """Something about the file as a whole."""

    severity: str
    code: str
    message: str
    type_name: str | None = None
    property: str | None = None
    query_names: tuple[str, ...] = ()
    excerpt: str | None = field(default=None, compare=False, repr=False)

    def to_dict(self) -> dict[str, object]:
        found: dict[str, object] = {"severity": self.severity, "code": self.code, "message": self.message}
        if self.type_name is not None:
            found["type_name"] = self.type_name
        if self.property is not None:
            found["property"] = self.property
        if self.query_names:
            found["query_names"] = list(self.query_names)
        return found


@dataclass(frozen=True, slots=True)
class LintReport:
    """The result of `lint`. ``ok`` means that nothing is wrong; warnings do not count."""

    schema_source: SchemaSource
    query_path: str | None
    results: tuple[LintResult, ...]
    findings: tuple[LintFinding, ...]

    def __repr__(self) -> str:
        counts = ", ".join(f"{self.count(severity)} {severity}s" for severity in ("error", "warning"))
        return f"LintReport({'ok' if self.ok else 'not ok'}, {len(self.results)} queries, {counts})"

    @property
    def ok(self) -> bool:
        return self.count("error") == 0

    def count(self, severity: str) -> int:
        """How many errors, warnings or infos there are, in queries and in the file."""
        found = sum(finding.severity == severity for finding in self.findings)
        if severity == "error":
            found += sum(result.error is not None for result in self.results)
        if severity == "warning":
            found += sum(len(result.warnings) for result in self.results)
        return found

    def to_dict(self) -> dict[str, object]:
        return {
            "status": "ok" if self.ok else "error",
            "schema_source": self.schema_source.to_dict(),
            "query_path": self.query_path,
            "queries_processed": len(self.results),
            "errors": self.count("error"),
            "warnings": self.count("warning"),
            "infos": self.count("info"),
            "results": [result.to_dict() for result in self.results],
            "findings": [finding.to_dict() for finding in self.findings],
        }


def with_schema_findings(report: LintReport, findings: Iterable[SchemaFinding]) -> LintReport:
    """The report with what the schema itself is to be warned of."""
    found = (
        LintFinding("warning", each.code, f"{each.entity}: {each.message}") for each in unknown_annotations(findings)
    )
    return replace(report, findings=(*report.findings, *found))


def lint(
    text: str, catalog: Catalog, file: str | None = None, *, schema_source: SchemaSource | None = None
) -> LintReport:
    """Parse and check every query of a text.

    Args:
        text: the `.gq` source.
        catalog: the schema.
        file: the path of the text, for messages and for ``query_path``.
        schema_source: where the schema came from, for the report only.
    """
    source = schema_source or SchemaSource()
    try:
        parsed = parse_queries(text, file)
    except QuerySyntaxError as error:
        found = LintFinding("error", "Q000", _with_place(error), excerpt=error.details["excerpt"])
        return LintReport(source, file, (), (found,))
    results: list[LintResult] = []
    valid: list[TypedQuery | TypedMutation] = []
    for query in parsed.queries:
        try:
            typed = check_query(query, catalog)
        except QueryTypeError as error:
            results.append(_failed(query, error))
        else:
            valid.append(typed)
            results.append(LintResult(query.name, _kind(query), "ok", _warnings(query), None, describe(typed, catalog)))
    return LintReport(source, file, tuple(results), tuple(_update_coverage(valid, catalog)))


def _with_place(error: QuerySyntaxError) -> str:
    return f"{error.message} (line {error.line}, column {error.column})"


def _failed(query: QueryDecl, error: QueryTypeError) -> LintResult:
    return LintResult(
        query.name,
        _kind(query),
        "error",
        _warnings(query),
        error.message,
        line=error.line,
        column=error.column,
        excerpt=error.details["excerpt"],
        hint=error.hint,
    )


def _kind(query: QueryDecl) -> str:
    return "mutation" if query.is_write else "read"


def _warnings(query: QueryDecl) -> tuple[str, ...]:
    return (_NO_PARAMS,) if query.is_write and not query.params else ()


def _update_coverage(queries: Sequence[TypedQuery | TypedMutation], catalog: Catalog) -> list[LintFinding]:
    """L201: properties that no update of an updated type sets."""
    assigned: dict[str, set[str]] = {}
    updaters: dict[str, list[str]] = {}
    for query in queries:
        for statement in query.changes if isinstance(query, TypedMutation) else ():
            if isinstance(statement, UpdateNode):
                assigned.setdefault(statement.type_name, set()).update(
                    assignment.property for assignment in statement.assignments
                )
                names = updaters.setdefault(statement.type_name, [])
                if query.name not in names:
                    names.append(query.name)
    found = [
        LintFinding(
            "warning",
            "L201",
            f"{type_name}.{name} exists in schema but no update query sets it",
            type_name,
            name,
            tuple(updaters[type_name]),
        )
        for type_name, properties in assigned.items()
        for name in _settable(catalog.nodes[type_name])
        if name not in properties
    ]
    return sorted(found, key=_rank)


def _settable(node: NodeType) -> list[str]:
    return [
        name
        for name, declared in node.properties.items()
        if declared.type.nullable and declared.embed is None and name not in (node.key or ())
    ]


def _rank(finding: LintFinding) -> tuple[int, str, str, str]:
    return (
        _SEVERITIES.index(finding.severity),
        finding.type_name or "",
        finding.property or "",
        finding.message,
    )
