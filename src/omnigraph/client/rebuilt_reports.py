"""JSON of a server → reports: explanations, lint, searches, schema plans, statistics. See `rebuilt.py` for the rest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from omnigraph import ids
from omnigraph.client.rebuilt import commit_or_none
from omnigraph.embed.managed.embedding_status import EmbeddingStatus
from omnigraph.engine.explanation import Explanation
from omnigraph.engine.search.search_result import SearchHit, SearchMatch, SearchNeighbour, SearchResult
from omnigraph.history.schema_apply import SchemaApplied
from omnigraph.query.lint_queries import (
    LintFinding,
    LintReport,
    LintResult,
    Operation,
    ResultColumn,
    SchemaSource,
    TypeUse,
)
from omnigraph.query.plan.explain import PlanLine
from omnigraph.schema.catalog import Annotation
from omnigraph.schema.evolve import SchemaPlan
from omnigraph.schema.evolve import migration_steps as steps
from omnigraph.schema.evolve.migration_steps import MigrationStep
from omnigraph.schema.ir import read_type
from omnigraph.schema.schema_warnings import SchemaFinding
from omnigraph.storage.tables.table_layout import IndexCoverage
from omnigraph.upkeep.drift import DriftKind
from omnigraph.upkeep.indexes import PendingIndex
from omnigraph.upkeep.stats.graph_stats import (
    SUMMED,
    GraphStats,
    ManifestStats,
    PendingWrite,
    StoredFiles,
    TableDrift,
    TableStats,
)

Json = Mapping[str, Any]


def explanation(found: Json) -> Explanation:
    told = list(enumerate(found["steps"]))
    return Explanation(
        plan=None,
        lines=tuple(PlanLine(step["depth"], step["text"]) for _, step in told),
        rows=found["row_count"],
        seconds=found["seconds"],
        measured={number: (step["rows"], step["seconds"]) for number, step in told if step["rows"] is not None},
        notes={number: step["note"] for number, step in told if step.get("note") is not None},
    )


def search_result(found: Json) -> SearchResult:
    return SearchResult(found["words"], tuple(map(_hit, found["hits"])), found["branch"], found["graph_commit_id"])


def _hit(found: Json) -> SearchHit:
    return SearchHit(
        found["type"],
        found["id"],
        found["score"],
        tuple(
            SearchMatch(each["property"], each["bm25"], each["snippet"], tuple(map(tuple, each["marks"])))
            for each in found["matches"]
        ),
        tuple(SearchNeighbour(each["type"], each["id"], each["hops"], each["edge"]) for each in found["neighbours"]),
        found["neighbour_count"],
    )


def lint_report(found: Json, file: str | None) -> LintReport:
    """
    Args:
        file: the path of the queries on the side of the caller.
    """
    source = found["schema_source"]
    return LintReport(
        SchemaSource(source["kind"], source["path" if source["kind"] == "file" else "uri"]),
        file,
        tuple(map(_lint_result, found["results"])),
        tuple(
            LintFinding(
                each["severity"],
                each["code"],
                each["message"],
                each.get("type_name"),
                each.get("property"),
                tuple(each.get("query_names") or ()),
                each.get("excerpt"),
            )
            for each in found["findings"]
        ),
    )


def _lint_result(found: Json) -> LintResult:
    done = found.get("operation")
    places = {name: found.get(name) for name in ("line", "column", "excerpt", "hint")}
    return LintResult(
        found["name"],
        found["kind"],
        found["status"],
        tuple(found.get("warnings") or ()),
        found.get("error"),
        None if done is None else _operation(done),
        **places,
    )


def _operation(found: Json) -> Operation:
    columns = tuple(
        ResultColumn(each["name"], each["kind"], each["nullable"], each.get("item_kind"), each.get("vector_dim"))
        for each in found["result"]
    )
    reads, writes = (
        tuple(TypeUse(each["kind"], each["type_name"]) for each in found[name]) for name in ("reads", "writes")
    )
    return Operation(columns, reads, writes)


#: Steps by the ``kind`` that their JSON has.
_STEPS: Mapping[str, type[Any]] = {
    kind.kind: kind
    for kind in (
        steps.AddType,
        steps.RenameType,
        steps.AddProperty,
        steps.RenameProperty,
        steps.WidenProperty,
        steps.RelaxProperty,
        steps.ExtendEnum,
        steps.AddIndex,
        steps.DropIndex,
        steps.UpdateTypeMetadata,
        steps.UpdatePropertyMetadata,
        steps.UpdateFulltext,
        steps.DropProperty,
        steps.DropType,
        steps.UnsupportedChange,
    )
}


def schema_plan(found: Json) -> SchemaPlan:
    warnings = tuple(SchemaFinding(**each) for each in found.get("warnings") or ())
    return SchemaPlan(found["supported"], tuple(map(_step, found["steps"])), warnings)


def schema_applied(found: Json) -> SchemaApplied:
    return SchemaApplied(schema_plan(found), commit_or_none(found.get("commit")), found["graph_manifest_version"])


def _step(found: Json) -> MigrationStep:
    kind = _STEPS[found["kind"]]
    given = {each.name: _step_value(each.name, found) for each in fields(kind)}
    step: MigrationStep = kind(**{name: value for name, value in given.items() if value is not None})
    return step


def _step_value(name: str, found: Json) -> Any:
    if name == "columns":
        return tuple(found["constraint"]["Index"])
    value: Any = found.get(name.rstrip("_"))
    if name in ("property_type", "from_type", "to_type"):
        return read_type(value)
    if name == "annotations":
        return tuple(
            Annotation(each["name"], each["value"], tuple((each.get("keywords") or {}).items())) for each in value
        )
    return tuple(value) if isinstance(value, list) else value


def graph_stats(found: Json) -> GraphStats:
    return GraphStats(
        uri=found["uri"],
        branch=found["branch"],
        commits=found["commits"],
        tables=tuple(map(_table_stats, found["tables"])),
        manifest=ManifestStats(**found["manifest"]),
        branches=tuple(found["branches"]),
        tags=tuple(found["tags"]),
        pending=tuple(map(_pending, found["pending"])),
        drift=tuple(
            TableDrift(each["table_key"], each["table_version"], each["newest_version"], DriftKind(each["kind"]))
            for each in found["drift"]
        ),
        stored=StoredFiles(**found["stored"]),
        parts={name: StoredFiles(**part) for name, part in found["parts"].items()},
        unreferenced=StoredFiles(**found["unreferenced"]),
        embeddings=tuple(EmbeddingStatus(**each) for each in found["embeddings"]),
    )


def _table_stats(found: Json) -> TableStats:
    key = found["table_key"]
    return TableStats(
        table_key=key,
        version=found["table_version"],
        indexes=tuple(IndexCoverage(**each) for each in found["indexes"]),
        missing_indexes=tuple(PendingIndex(key, each["column"], each["reason"]) for each in found["missing_indexes"]),
        **{name: found[name] for name in SUMMED},
    )


def _pending(found: Json) -> PendingWrite:
    began = found["started_at"]
    return PendingWrite(
        found["operation_id"],
        found["branch"],
        found["kind"],
        tuple(found["tables"]),
        None if began is None else ids.from_micros(began),
        found["age_seconds"],
        found["problem"],
    )
