"""The steps of a schema change, sorted by the table they touch."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

import pyarrow as pa

from omnigraph.schema.arrow import table_schema
from omnigraph.schema.catalog import EdgeType, NodeType
from omnigraph.schema.evolve import (
    AddProperty,
    AddType,
    DropProperty,
    DropType,
    RelaxProperty,
    RenameProperty,
    RenameType,
    Step,
    WidenProperty,
)
from omnigraph.storage.reshape import Column

_INTERFACE = "interface"


@dataclass(slots=True)
class Reshaping:
    """What a plan does to tables, by table key as the desired schema names it (dropped ones as the accepted did).

    Attributes:
        renamed: new key → old key.
        changed: tables whose columns change.
        purged, removed: tables whose older versions, or which wholly, are given up after the change.
    """

    added: set[str] = field(default_factory=set)
    dropped: set[str] = field(default_factory=set)
    renamed: dict[str, str] = field(default_factory=dict)
    changed: set[str] = field(default_factory=set)
    purged: set[str] = field(default_factory=set)
    removed: set[str] = field(default_factory=set)
    _new_properties: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    _old_names: dict[str, dict[str, str]] = field(default_factory=lambda: defaultdict(dict))

    @classmethod
    def of(cls, steps: Iterable[Step]) -> Reshaping:
        found = cls()
        for step in steps:
            if getattr(step, "type_kind", _INTERFACE) != _INTERFACE:  # an interface has no table
                found._take(step)
        return found

    def _take(self, step: Step) -> None:
        match step:
            case AddType(kind, name):
                self.added.add(f"{kind}:{name}")
            case RenameType(kind, old, new):
                self.renamed[f"{kind}:{new}"] = f"{kind}:{old}"
            case DropType(kind, name, mode):
                self.dropped.add(f"{kind}:{name}")
                if mode == "hard":
                    self.removed.add(f"{kind}:{name}")
            case AddProperty(kind, owner, name):
                self.changed.add(f"{kind}:{owner}")
                self._new_properties[f"{kind}:{owner}"].add(name)
            case RenameProperty(kind, owner, old, new):
                self.changed.add(f"{kind}:{owner}")
                self._old_names[f"{kind}:{owner}"][new] = old
            case WidenProperty(kind, owner) | RelaxProperty(kind, owner):
                self.changed.add(f"{kind}:{owner}")
            case DropProperty(kind, owner, _, mode):
                self.changed.add(f"{kind}:{owner}")
                if mode == "hard":
                    self.purged.add(f"{kind}:{owner}")

    def old_key(self, table_key: str) -> str:
        return self.renamed.get(table_key, table_key)

    def columns(self, type_: NodeType | EdgeType, before: pa.Schema) -> list[Column]:
        """The columns of a changed table. A column that stays keeps its metadata: what identifies it, it keeps too."""
        new, old_names = self._new_properties[type_.table_key], self._old_names[type_.table_key]
        columns = []
        for wanted in table_schema(type_):
            if wanted.name in new:
                columns.append(Column(wanted, None))
                continue
            source = old_names.get(wanted.name, wanted.name)
            columns.append(Column(wanted.with_metadata(before.field(source).metadata), source))
        return columns
