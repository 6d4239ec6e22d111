"""Schema lint: the closed table of codes for schema changes, and a check of one text by itself."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from omnigraph.errors import LimitError, SourceError
from omnigraph.schema.compile import compile_schema
from omnigraph.schema.findings import SchemaFinding, Severity


class Tier(StrEnum):
    """What a change needs before it may run."""

    SAFE = "safe"  # no scan, no flag
    VALIDATED = "validated"  # a scan of the existing rows
    DESTRUCTIVE = "destructive"  # the caller's consent


@dataclass(frozen=True, slots=True)
class LintCode:
    code: str
    family: str
    tier: Tier
    severity: Severity
    meaning: str
    emitted: bool  # False: the code is reserved, no change reports it today


LINT_CODES: dict[str, LintCode] = {
    each.code: each
    for each in (
        LintCode("OG-DS-101", "destructive", Tier.DESTRUCTIVE, "error", "drop populated graph type", False),
        LintCode("OG-DS-102", "destructive", Tier.DESTRUCTIVE, "error", "drop populated node type", False),
        LintCode("OG-DS-103", "destructive", Tier.DESTRUCTIVE, "error", "drop populated edge type", False),
        LintCode("OG-DS-104", "destructive", Tier.DESTRUCTIVE, "error", "drop property from populated type", False),
        LintCode("OG-DS-105", "destructive", Tier.DESTRUCTIVE, "error", "drop populated vector property", False),
        LintCode(
            "OG-MF-103", "maybe-fail", Tier.VALIDATED, "error", "required property added without a value source", True
        ),
        LintCode("OG-MF-104", "maybe-fail", Tier.VALIDATED, "error", "nullable tightened to required", False),
        LintCode("OG-MF-106", "maybe-fail", Tier.DESTRUCTIVE, "error", "property type change", True),
    )
}


def lint_schema(text: str, *, file: str | None = None) -> tuple[SchemaFinding, ...]:
    """Every remark on a schema text: its first error, or the warnings of a text that compiles.

    >>> [finding.code for finding in lint_schema("node A { x: String @default(1) }")]
    ['schema.warning.opaque_annotation']
    """
    try:
        return compile_schema(text, file=file).warnings
    except SourceError as error:
        return (SchemaFinding(error.code, "error", error.message, None, error.line, error.column),)
    except LimitError as error:
        return (SchemaFinding(error.code, "error", error.message),)
