"""The plan of a schema change: accepted schema and desired schema in, steps out.

Planning looks at the two schemas and at which types have no rows, never at data, and changes nothing.
`match_declarations.py` finds what corresponds, `compare_declarations.py` says what differs; applying the steps is
another room's work.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from typing import Any

from omnigraph.schema.compiled_schema import CompiledSchema
from omnigraph.schema.evolve.compare_declarations import steps_between
from omnigraph.schema.evolve.match_declarations import match_schemas
from omnigraph.schema.evolve.migration_steps import MigrationStep, UnsupportedChange
from omnigraph.schema.schema_warnings import SchemaFinding, unknown_annotations


@dataclass(frozen=True, slots=True)
class SchemaPlan:
    """What a schema change would do.

    Attributes:
        supported: whether it may be applied; False when any step is an `UnsupportedChange`.
        steps: in the order in which they are shown and applied; empty when the two schemas mean the same.
        warnings: rename hints that have no effect any more, and unknown annotations of the desired schema.
    """

    supported: bool
    steps: tuple[MigrationStep, ...]
    warnings: tuple[SchemaFinding, ...] = ()

    def __repr__(self) -> str:
        return f"SchemaPlan({'supported' if self.supported else 'refused'}, {len(self.steps)} steps)"

    def __str__(self) -> str:
        return "\n".join(self.lines()) or "no schema changes"

    def to_dict(self) -> dict[str, Any]:
        """The plan as JSON values."""
        return {
            "supported": self.supported,
            "step_count": len(self.steps),
            "steps": [step.to_dict() for step in self.steps],
        }

    def lines(self) -> tuple[str, ...]:
        """The plan for people, one line a step."""
        return tuple(step.line() for step in self.steps)

    def first_refusal(self) -> str | None:
        """Why the plan cannot be applied, after ``[CODE] `` when the reason has a code; None when it can."""
        refused = (step for step in self.steps if isinstance(step, UnsupportedChange))
        return next((step.message for step in refused), None)


def plan_change(
    accepted: CompiledSchema, desired: CompiledSchema, *, allow_data_loss: bool = False, empty: Container[str] = ()
) -> SchemaPlan:
    """Plan the change from one schema to another.

    Args:
        accepted: the schema of the graph.
        desired: the schema it should get.
        allow_data_loss: makes every drop ``hard``: older versions of what is dropped are reclaimed as well.
        empty: table keys of the accepted types that have no rows.

    Raises:
        SchemaIdentityError: a ``@rename_from`` hint cannot be followed.

    >>> from omnigraph.schema import compile_schema
    >>> before = compile_schema("node Person { name: String @key }")
    >>> after = compile_schema("node Person { name: String @key nick: String? }")
    >>> plan_change(before, after).lines()
    ("add property 'Person.nick' (String?) on node 'Person'",)
    """
    matching = match_schemas(accepted, desired)
    steps = steps_between(matching, "hard" if allow_data_loss else "soft", empty)
    supported = not any(isinstance(step, UnsupportedChange) for step in steps)
    return SchemaPlan(supported, steps, (*matching.warnings, *unknown_annotations(desired.warnings)))
