"""The steps of a schema change, one frozen dataclass each.

``to_dict()`` is the JSON of a step, tagged by ``kind``; ``line()`` the sentence for people. A step names types and
properties as the desired schema does, after every rename of the same plan. ``widen_property``, ``relax_property``,
``drop_index`` and ``update_fulltext`` are additions of this implementation: safe changes that need no rewrite by hand.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, ClassVar, Literal, TypeAlias

from omnigraph.schema.catalog import Annotation, PropertyType
from omnigraph.schema.catalog import Literal as Value
from omnigraph.schema.ir import type_ir
from omnigraph.schema.literals import annotation_text, literal_text

TypeKind: TypeAlias = Literal["interface", "node", "edge"]
DropMode: TypeAlias = Literal["soft", "hard"]

NEW_REQUIRED = "OG-MF-103"
TYPE_CHANGE = "OG-MF-106"

_SUFFIX = "is not supported in schema migration v1"

#: What a refused change would need before it could run: a scan of the rows, or the consent of the caller.
_TIERS = {NEW_REQUIRED: "validated", TYPE_CHANGE: "destructive"}


class _StepBase:
    """The JSON of a step: its kind, then its fields, with the compiled form of types and annotations."""

    __slots__ = ()
    kind: ClassVar[str]

    def to_dict(self) -> dict[str, Any]:
        values = {each.name.rstrip("_"): getattr(self, each.name) for each in fields(self)}  # type: ignore[arg-type]
        return {"kind": self.kind, **{name: _json(value) for name, value in values.items() if value is not None}}


@dataclass(frozen=True, slots=True)
class _OfOwner(_StepBase):
    """A step inside a type."""

    type_kind: TypeKind
    type_name: str

    @property
    def owner(self) -> str:
        return f"{self.type_kind} '{self.type_name}'"


@dataclass(frozen=True, slots=True)
class _OfProperty(_OfOwner):
    """A step about one property."""

    property_name: str

    @property
    def label(self) -> str:
        return f"'{self.type_name}.{self.property_name}'"


@dataclass(frozen=True, slots=True)
class _OfIndex(_OfOwner):
    """A step about an ``@index``, which JSON shows as a constraint."""

    columns: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        step = _StepBase.to_dict(self)
        columns = step.pop("columns")
        return {**step, "constraint": {"Index": columns}}

    @property
    def label(self) -> str:
        return f"'@index({', '.join(self.columns)})'"


def _json(value: Any) -> Any:
    if isinstance(value, PropertyType):
        return type_ir(value)
    if isinstance(value, tuple):
        return [_annotation(each) if isinstance(each, Annotation) else each for each in value]
    return value


def _annotation(annotation: Annotation) -> dict[str, Any]:
    return {"name": annotation.name, "value": annotation.value, "keywords": dict(annotation.keywords)}


@dataclass(frozen=True, slots=True)
class AddType(_StepBase):
    """A new type: an empty table, none for an interface."""

    kind: ClassVar[str] = "add_type"
    type_kind: TypeKind
    name: str

    def line(self) -> str:
        return f"add {self.type_kind} type '{self.name}'"


@dataclass(frozen=True, slots=True)
class RenameType(_StepBase):
    """The same table, rows, ids and history under another name."""

    kind: ClassVar[str] = "rename_type"
    type_kind: TypeKind
    from_: str
    to: str

    def line(self) -> str:
        return f"rename {self.type_kind} type '{self.from_}' -> '{self.to}'"


@dataclass(frozen=True, slots=True)
class AddProperty(_OfProperty):
    """A new property; existing rows hold its default or null. Without either, the type has no rows."""

    kind: ClassVar[str] = "add_property"
    property_type: PropertyType
    default: Value | None = None

    def line(self) -> str:
        default = "" if self.default is None else f", default {literal_text(self.default)}"
        return f"add property {self.label} ({self.property_type}{default}) on {self.owner}"


@dataclass(frozen=True, slots=True)
class RenameProperty(_OfOwner):
    """The same values under another name."""

    kind: ClassVar[str] = "rename_property"
    from_: str
    to: str

    def line(self) -> str:
        owner = self.type_name
        return f"rename property '{owner}.{self.from_}' -> '{owner}.{self.to}' on {self.type_kind} '{owner}'"


@dataclass(frozen=True, slots=True)
class WidenProperty(_OfProperty):
    """``I32`` → ``I64``, ``U32`` → ``U64`` or ``F32`` → ``F64``: every stored value keeps its number."""

    kind: ClassVar[str] = "widen_property"
    from_type: PropertyType
    to_type: PropertyType

    def line(self) -> str:
        change = f"{self.from_type.scalar} -> {self.to_type.scalar}"
        return f"widen property {self.label} ({change}) on {self.owner}"


@dataclass(frozen=True, slots=True)
class RelaxProperty(_OfProperty):
    """``T`` → ``T?``: from now on a row may hold null."""

    kind: ClassVar[str] = "relax_property"

    def line(self) -> str:
        return f"allow null in property {self.label} on {self.owner}"


@dataclass(frozen=True, slots=True)
class ExtendEnum(_OfProperty):
    """More values are allowed; stored ones stay as they are."""

    kind: ClassVar[str] = "extend_enum"
    added_values: tuple[str, ...]

    def line(self) -> str:
        added = ", ".join(f"+{value}" for value in self.added_values)
        return f"extend enum {self.label} ({added}) on {self.owner}"


@dataclass(frozen=True, slots=True)
class AddIndex(_OfIndex):
    """A new ``@index``; the physical index is built later."""

    kind: ClassVar[str] = "add_constraint"

    def line(self) -> str:
        return f"add constraint {self.label} to {self.owner}"


@dataclass(frozen=True, slots=True)
class DropIndex(_OfIndex):
    """An ``@index`` that is no longer declared, over columns that stay. One on a dropped column goes with it."""

    kind: ClassVar[str] = "drop_index"

    def line(self) -> str:
        return f"drop constraint {self.label} of {self.owner}"


@dataclass(frozen=True, slots=True)
class UpdateTypeMetadata(_StepBase):
    """``@description`` and ``@instruction`` of a type as they are from now on."""

    kind: ClassVar[str] = "update_type_metadata"
    type_kind: TypeKind
    name: str
    annotations: tuple[Annotation, ...]

    def line(self) -> str:
        return f"update metadata of {self.type_kind} type '{self.name}'"


@dataclass(frozen=True, slots=True)
class UpdatePropertyMetadata(_OfProperty):
    """``@description`` and ``@default`` of a property as they are from now on; no row changes."""

    kind: ClassVar[str] = "update_property_metadata"
    annotations: tuple[Annotation, ...]

    def line(self) -> str:
        return f"update metadata of property {self.label} on {self.owner}"


@dataclass(frozen=True, slots=True)
class UpdateFulltext(_OfProperty):
    """``@fulltext`` of a property as it is from now on, empty when there is none; searches answer by it at once."""

    kind: ClassVar[str] = "update_fulltext"
    annotations: tuple[Annotation, ...]

    def line(self) -> str:
        how = " ".join(map(annotation_text, self.annotations)) or "the words of English"
        return f"search property {self.label} by {how} on {self.owner}"


@dataclass(frozen=True, slots=True)
class DropProperty(_OfProperty):
    """The column leaves the current version; ``hard`` also reclaims older versions of the table."""

    kind: ClassVar[str] = "drop_property"
    mode: DropMode

    def line(self) -> str:
        return f"drop property {self.label} of {self.owner} ({self.mode} mode)"


@dataclass(frozen=True, slots=True)
class DropType(_StepBase):
    """The table leaves the current version; ``hard`` also reclaims its older versions."""

    kind: ClassVar[str] = "drop_type"
    type_kind: TypeKind
    name: str
    mode: DropMode

    def line(self) -> str:
        return f"drop {self.type_kind} type '{self.name}' ({self.mode} mode)"


@dataclass(frozen=True, slots=True)
class UnsupportedChange(_StepBase):
    """A change that is refused; the whole plan is then unsupported. ``entity`` is ``node:T`` or ``node:T.p``."""

    kind: ClassVar[str] = "unsupported_change"
    entity: str
    reason: str
    code: str | None = None

    def line(self) -> str:
        note = "" if self.code is None else f" [{self.code}, {_TIERS[self.code]}]"
        return f"unsupported change on {self.entity}{note}: {self.reason}"

    @property
    def message(self) -> str:
        """The reason, after ``[CODE] `` when there is a code."""
        return self.reason if self.code is None else f"[{self.code}] {self.reason}"


MigrationStep: TypeAlias = (
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
    | UpdateFulltext
    | DropProperty
    | DropType
    | UnsupportedChange
)


def refused(entity: str, change: str, *, code: str | None = None, remedy: str | None = None) -> UnsupportedChange:
    """``<change> is not supported in schema migration v1``, then the remedy when there is one."""
    reason = f"{change} {_SUFFIX}"
    return UnsupportedChange(entity, reason if remedy is None else f"{reason}; {remedy}", code)
