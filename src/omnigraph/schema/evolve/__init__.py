"""Schema evolution: which steps lead from the accepted schema to a desired one, and which changes are refused.

`schema_plan.py` is the way in, `migration_steps.py` holds the values that come out. Nothing here reads or
writes a graph.
"""

from omnigraph.schema.evolve.migration_steps import (
    AddIndex,
    AddProperty,
    AddType,
    DropIndex,
    DropMode,
    DropProperty,
    DropType,
    ExtendEnum,
    MigrationStep,
    RelaxProperty,
    RenameProperty,
    RenameType,
    TypeKind,
    UnsupportedChange,
    UpdateFulltext,
    UpdatePropertyMetadata,
    UpdateTypeMetadata,
    WidenProperty,
)
from omnigraph.schema.evolve.schema_plan import SchemaPlan, plan_change

__all__ = [
    "AddIndex",
    "AddProperty",
    "AddType",
    "DropIndex",
    "DropMode",
    "DropProperty",
    "DropType",
    "ExtendEnum",
    "MigrationStep",
    "RelaxProperty",
    "RenameProperty",
    "RenameType",
    "SchemaPlan",
    "TypeKind",
    "UnsupportedChange",
    "UpdateFulltext",
    "UpdatePropertyMetadata",
    "UpdateTypeMetadata",
    "WidenProperty",
    "plan_change",
]
