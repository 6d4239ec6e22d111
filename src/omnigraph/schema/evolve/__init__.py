"""Schema evolution: which steps lead from the accepted schema to a desired one, and which changes are refused.

`plan.py` is the way in, `steps.py` holds the values that come out. Nothing here reads or writes a graph.
"""

from omnigraph.schema.evolve.plan import SchemaPlan, plan_change
from omnigraph.schema.evolve.steps import (
    AddIndex,
    AddProperty,
    AddType,
    DropIndex,
    DropMode,
    DropProperty,
    DropType,
    ExtendEnum,
    RelaxProperty,
    RenameProperty,
    RenameType,
    Step,
    TypeKind,
    UnsupportedChange,
    UpdatePropertyMetadata,
    UpdateTypeMetadata,
    WidenProperty,
)

__all__ = [
    "AddIndex",
    "AddProperty",
    "AddType",
    "DropIndex",
    "DropMode",
    "DropProperty",
    "DropType",
    "ExtendEnum",
    "RelaxProperty",
    "RenameProperty",
    "RenameType",
    "SchemaPlan",
    "Step",
    "TypeKind",
    "UnsupportedChange",
    "UpdatePropertyMetadata",
    "UpdateTypeMetadata",
    "WidenProperty",
    "plan_change",
]
