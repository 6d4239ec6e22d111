"""The steps of a schema change, one frozen dataclass each.

``to_dict()`` is the JSON of a step, tagged by ``kind``; ``line()`` the sentence for people. A step names types and
properties as the desired schema does, after every rename of the same plan. ``widen_property``, ``relax_property`` and
``drop_index`` are additions of this implementation: safe changes that need no rewrite by hand.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeAlias

from omnigraph.schema.catalog import Annotation, PropertyType
from omnigraph.schema.ir import annotations_ir, type_ir
from omnigraph.schema.lint import LINT_CODES

TypeKind: TypeAlias = Literal["interface", "node", "edge"]
DropMode: TypeAlias = Literal["soft", "hard"]


@dataclass(frozen=True, slots=True)
class AddType:
    """A new type: an empty table, none for an interface."""

    kind: ClassVar[str] = "add_type"
    type_kind: TypeKind
    name: str

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "type_kind": self.type_kind, "name": self.name}

    def line(self) -> str:
        return f"add {self.type_kind} type '{self.name}'"


@dataclass(frozen=True, slots=True)
class RenameType:
    """The same table, rows, ids and history under another name."""

    kind: ClassVar[str] = "rename_type"
    type_kind: TypeKind
    from_: str
    to: str

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "type_kind": self.type_kind, "from": self.from_, "to": self.to}

    def line(self) -> str:
        return f"rename {self.type_kind} type '{self.from_}' -> '{self.to}'"


@dataclass(frozen=True, slots=True)
class AddProperty:
    """A new nullable property; existing rows hold null."""

    kind: ClassVar[str] = "add_property"
    type_kind: TypeKind
    type_name: str
    property_name: str
    property_type: PropertyType

    def to_dict(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "type_kind": self.type_kind,
            "type_name": self.type_name,
            "property_name": self.property_name,
            "property_type": type_ir(self.property_type),
        }

    def line(self) -> str:
        label = f"{self.type_name}.{self.property_name}"
        return f"add property '{label}' ({self.property_type}) on {self.type_kind} '{self.type_name}'"


@dataclass(frozen=True, slots=True)
class RenameProperty:
    """The same values under another name."""

    kind: ClassVar[str] = "rename_property"
    type_kind: TypeKind
    type_name: str
    from_: str
    to: str

    def to_dict(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "type_kind": self.type_kind,
            "type_name": self.type_name,
            "from": self.from_,
            "to": self.to,
        }

    def line(self) -> str:
        owner = self.type_name
        return f"rename property '{owner}.{self.from_}' -> '{owner}.{self.to}' on {self.type_kind} '{owner}'"


@dataclass(frozen=True, slots=True)
class WidenProperty:
    """``I32`` → ``I64``, ``U32`` → ``U64`` or ``F32`` → ``F64``: every stored value keeps its number."""

    kind: ClassVar[str] = "widen_property"
    type_kind: TypeKind
    type_name: str
    property_name: str
    from_type: PropertyType
    to_type: PropertyType

    def to_dict(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "type_kind": self.type_kind,
            "type_name": self.type_name,
            "property_name": self.property_name,
            "from_type": type_ir(self.from_type),
            "to_type": type_ir(self.to_type),
        }

    def line(self) -> str:
        label = f"{self.type_name}.{self.property_name}"
        change = f"{self.from_type.scalar} -> {self.to_type.scalar}"
        return f"widen property '{label}' ({change}) on {self.type_kind} '{self.type_name}'"


@dataclass(frozen=True, slots=True)
class RelaxProperty:
    """``T`` → ``T?``: from now on a row may hold null."""

    kind: ClassVar[str] = "relax_property"
    type_kind: TypeKind
    type_name: str
    property_name: str

    def to_dict(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "type_kind": self.type_kind,
            "type_name": self.type_name,
            "property_name": self.property_name,
        }

    def line(self) -> str:
        label = f"{self.type_name}.{self.property_name}"
        return f"allow null in property '{label}' on {self.type_kind} '{self.type_name}'"


@dataclass(frozen=True, slots=True)
class ExtendEnum:
    """More values are allowed; stored ones stay as they are."""

    kind: ClassVar[str] = "extend_enum"
    type_kind: TypeKind
    type_name: str
    property_name: str
    added_values: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "type_kind": self.type_kind,
            "type_name": self.type_name,
            "property_name": self.property_name,
            "added_values": list(self.added_values),
        }

    def line(self) -> str:
        added = ", ".join(f"+{value}" for value in self.added_values)
        label = f"{self.type_name}.{self.property_name}"
        return f"extend enum '{label}' ({added}) on {self.type_kind} '{self.type_name}'"


@dataclass(frozen=True, slots=True)
class AddIndex:
    """A new ``@index``; the physical index is built later."""

    kind: ClassVar[str] = "add_constraint"
    type_kind: TypeKind
    type_name: str
    columns: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "type_kind": self.type_kind,
            "type_name": self.type_name,
            "constraint": {"Index": list(self.columns)},
        }

    def line(self) -> str:
        return f"add constraint '@index({', '.join(self.columns)})' to {self.type_kind} '{self.type_name}'"


@dataclass(frozen=True, slots=True)
class DropIndex:
    """An ``@index`` that is no longer declared, over columns that stay. One on a dropped column goes with it."""

    kind: ClassVar[str] = "drop_index"
    type_kind: TypeKind
    type_name: str
    columns: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "type_kind": self.type_kind,
            "type_name": self.type_name,
            "constraint": {"Index": list(self.columns)},
        }

    def line(self) -> str:
        return f"drop constraint '@index({', '.join(self.columns)})' of {self.type_kind} '{self.type_name}'"


@dataclass(frozen=True, slots=True)
class UpdateTypeMetadata:
    """``@description`` and ``@instruction`` of a type as they are from now on."""

    kind: ClassVar[str] = "update_type_metadata"
    type_kind: TypeKind
    name: str
    annotations: tuple[Annotation, ...]

    def to_dict(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "type_kind": self.type_kind,
            "name": self.name,
            "annotations": annotations_ir(self.annotations),
        }

    def line(self) -> str:
        return f"update metadata of {self.type_kind} type '{self.name}'"


@dataclass(frozen=True, slots=True)
class UpdatePropertyMetadata:
    """``@description`` of a property as it is from now on."""

    kind: ClassVar[str] = "update_property_metadata"
    type_kind: TypeKind
    type_name: str
    property_name: str
    annotations: tuple[Annotation, ...]

    def to_dict(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "type_kind": self.type_kind,
            "type_name": self.type_name,
            "property_name": self.property_name,
            "annotations": annotations_ir(self.annotations),
        }

    def line(self) -> str:
        label = f"{self.type_name}.{self.property_name}"
        return f"update metadata of property '{label}' on {self.type_kind} '{self.type_name}'"


@dataclass(frozen=True, slots=True)
class DropProperty:
    """The column leaves the current version; ``hard`` also reclaims older versions of the table."""

    kind: ClassVar[str] = "drop_property"
    type_kind: TypeKind
    type_name: str
    property_name: str
    mode: DropMode

    def to_dict(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "type_kind": self.type_kind,
            "type_name": self.type_name,
            "property_name": self.property_name,
            "mode": self.mode,
        }

    def line(self) -> str:
        label = f"{self.type_name}.{self.property_name}"
        return f"drop property '{label}' of {self.type_kind} '{self.type_name}' ({self.mode} mode)"


@dataclass(frozen=True, slots=True)
class DropType:
    """The table leaves the current version; ``hard`` also reclaims its older versions."""

    kind: ClassVar[str] = "drop_type"
    type_kind: TypeKind
    name: str
    mode: DropMode

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "type_kind": self.type_kind, "name": self.name, "mode": self.mode}

    def line(self) -> str:
        return f"drop {self.type_kind} type '{self.name}' ({self.mode} mode)"


@dataclass(frozen=True, slots=True)
class UnsupportedChange:
    """A change that is refused; the whole plan is then unsupported. ``entity`` is ``node:T`` or ``node:T.p``."""

    kind: ClassVar[str] = "unsupported_change"
    entity: str
    reason: str
    code: str | None = None

    def to_dict(self) -> dict[str, Any]:
        step: dict[str, Any] = {"kind": self.kind, "entity": self.entity, "reason": self.reason}
        return step if self.code is None else {**step, "code": self.code}

    def line(self) -> str:
        note = "" if self.code is None else f" [{self.code}, {LINT_CODES[self.code].tier}]"
        return f"unsupported change on {self.entity}{note}: {self.reason}"

    @property
    def message(self) -> str:
        """The reason, after ``[CODE] `` when there is a code."""
        return self.reason if self.code is None else f"[{self.code}] {self.reason}"


Step: TypeAlias = (
    AddType
    | RenameType
    | AddProperty
    | RenameProperty
    | WidenProperty
    | RelaxProperty
    | ExtendEnum
    | AddIndex
    | DropIndex
    | UpdateTypeMetadata
    | UpdatePropertyMetadata
    | DropProperty
    | DropType
    | UnsupportedChange
)
