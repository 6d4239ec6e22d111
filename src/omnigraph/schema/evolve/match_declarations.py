"""Which declaration of the desired schema is which one of the accepted schema.

The same kind and name match; otherwise a ``@rename_from`` hint says what the accepted name was; otherwise the
declaration is new. Properties match the same way inside a matched type. A hint whose rename has happened is ignored.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from omnigraph.errors import SchemaIdentityError
from omnigraph.schema.catalog import Annotation, Catalog, EdgeType, InterfaceType, NodeType
from omnigraph.schema.compiled_schema import CompiledSchema
from omnigraph.schema.evolve.migration_steps import TypeKind
from omnigraph.schema.parse_schema import parse_schema
from omnigraph.schema.scanner import SchemaText
from omnigraph.schema.schema_warnings import SchemaFinding


class HintPlaces:
    """The places of ``@rename_from`` by entity: ``node:Person``, ``node:Person.name``."""

    def __init__(self, text: str) -> None:
        self._source = SchemaText(text)

    @property
    def text(self) -> str:
        return self._source.text

    def offset(self, entity: str) -> int | None:
        return self._offsets.get(entity)

    def line_and_column(self, entity: str) -> tuple[int | None, int | None]:
        at = self.offset(entity)
        return (None, None) if at is None else self._source.place(at)

    @cached_property
    def _offsets(self) -> dict[str, int]:
        return {
            entity: each.at for entity, each in parse_schema(self._source).annotations() if each.name == "rename_from"
        }


Type: TypeAlias = InterfaceType | NodeType | EdgeType

KINDS: tuple[TypeKind, ...] = ("interface", "node", "edge")
SATISFIED_HINT = "schema.warning.satisfied_rename_hint"


@dataclass(frozen=True, slots=True)
class TypePair:
    """One type before and after the change; ``properties`` gives the accepted name of each desired property it has."""

    kind: TypeKind
    before: Type
    after: Type
    properties: Mapping[str, str]

    @property
    def new_names(self) -> dict[str, str]:
        """The desired name of each accepted property that stays."""
        return {before: after for after, before in self.properties.items()}


@dataclass(frozen=True, slots=True)
class Matching:
    """Both schemas side by side.

    Attributes:
        pairs: the types that both have, by ``kind:desired name``.
        added: desired types without a counterpart.
        dropped: accepted types without a counterpart.
        warnings: hints that were ignored.
    """

    pairs: Mapping[str, TypePair]
    added: frozenset[str]
    dropped: frozenset[str]
    warnings: tuple[SchemaFinding, ...]

    def accepted_name(self, kind: TypeKind, name: str) -> str | None:
        """What the desired type ``name`` is called in the accepted schema; None when it is new."""
        pair = self.pairs.get(f"{kind}:{name}")
        return None if pair is None else pair.before.name


def types_of(catalog: Catalog, kind: TypeKind) -> Mapping[str, Type]:
    """The types of one kind by name, in name order."""
    match kind:
        case "interface":
            return catalog.interfaces
        case "node":
            return catalog.nodes
        case "edge":
            return catalog.edges


def match_schemas(accepted: CompiledSchema, desired: CompiledSchema) -> Matching:
    """Match every declaration of two schemas.

    Raises:
        SchemaIdentityError: a hint names nothing, another kind or another type's property, or two declarations claim
            one accepted declaration.
    """
    return _Matcher(accepted.catalog, desired.catalog, HintPlaces(desired.source)).match()


class _Matcher:
    def __init__(self, accepted: Catalog, desired: Catalog, places: HintPlaces) -> None:
        self._accepted = accepted
        self._desired = desired
        self._places = places
        self._warnings: list[SchemaFinding] = []

    def match(self) -> Matching:
        pairs: dict[str, TypePair] = {}
        added: set[str] = set()
        dropped: set[str] = set()
        for kind in KINDS:
            names = self._type_names(kind)
            before, after = types_of(self._accepted, kind), types_of(self._desired, kind)
            for name, type_ in after.items():
                if name not in names:
                    self._refuse_imported_properties(kind, type_)
                    added.add(f"{kind}:{name}")
                    continue
                found = before[names[name]]
                pairs[f"{kind}:{name}"] = TypePair(kind, found, type_, self._property_names(kind, found, type_))
            dropped |= {f"{kind}:{name}" for name in before.keys() - set(names.values())}
        return Matching(pairs, frozenset(added), frozenset(dropped), tuple(self._warnings))

    def _type_names(self, kind: TypeKind) -> dict[str, str]:
        """The accepted name of each desired type that has one."""
        before, after = types_of(self._accepted, kind), types_of(self._desired, kind)
        names: dict[str, str] = {}
        for name, type_ in after.items():
            entity = f"{kind}:{name}"
            hint = None if isinstance(type_, InterfaceType) else _hint(type_.annotations)
            if name in before:
                names[name] = name
                self._warn_satisfied(entity, hint)
            elif hint is not None:
                if hint not in before:
                    raise self._lost_type(kind, name, hint)
                names[name] = hint
        self._refuse_shared(kind, names, {old: f"{kind} '{old}'" for old in before})
        return names

    def _property_names(self, kind: TypeKind, before: Type, after: Type) -> dict[str, str]:
        names: dict[str, str] = {}
        for name, (hint, is_own) in _property_hints(after):
            entity = f"{kind}:{after.name}.{name}"
            if name in before.properties:
                names[name] = name
                if is_own:
                    self._warn_satisfied(entity, hint)
            elif hint is not None and hint in before.properties:
                names[name] = hint
            elif hint is not None and is_own:
                raise self._lost_property(kind, before, f"{after.name}.{name}", hint)
        labels = {old: f"property '{before.name}.{old}'" for old in before.properties}
        self._refuse_shared(f"{kind}:{after.name}", names, labels)
        return names

    def _refuse_imported_properties(self, kind: TypeKind, new: Type) -> None:
        for name, (hint, is_own) in _property_hints(new):
            if hint is not None and is_own:
                problem = (
                    f"""new owner '{kind}:{new.name}' cannot import property identity with @rename_from("{hint}")"""
                )
                raise self._failure(problem, f"{kind}:{new.name}.{name}")

    def _refuse_shared(self, owner: str, names: Mapping[str, str], labels: Mapping[str, str]) -> None:
        claimed: dict[str, str] = {}
        for name, old in names.items():
            first = claimed.setdefault(old, name)
            if first != name:
                hinted = name if name != old else first
                entity = f"{owner}.{hinted}" if ":" in owner else f"{owner}:{hinted}"
                raise self._failure(f"accepted {labels[old]} is consumed by more than one desired declaration", entity)

    def _lost_type(self, kind: TypeKind, name: str, hint: str) -> SchemaIdentityError:
        if any(hint in types_of(self._accepted, other) for other in KINDS if other != kind):
            problem = f"{kind} '{name}' cannot rename accepted '{hint}' across declaration kinds"
        else:
            problem = f"""{kind} '{name}' declares @rename_from("{hint}") but no accepted declaration has that name"""
        return self._failure(problem, f"{kind}:{name}")

    def _lost_property(self, kind: TypeKind, before: Type, label: str, hint: str) -> SchemaIdentityError:
        others = (type_ for kind in KINDS for type_ in types_of(self._accepted, kind).values() if type_ is not before)
        if any(hint in type_.properties for type_ in others):
            problem = "property moves across stable owners are not supported"
        else:
            problem = "no accepted property with that name exists under the stable owner"
        return self._failure(f"""property '{label}' declares @rename_from("{hint}"): {problem}""", f"{kind}:{label}")

    def _warn_satisfied(self, entity: str, hint: str | None) -> None:
        if hint is not None:
            message = f"""@rename_from("{hint}") is ignored: the accepted schema has this name already"""
            self._warnings.append(
                SchemaFinding(SATISFIED_HINT, "warning", message, entity, *self._places.line_and_column(entity))
            )

    def _failure(self, problem: str, entity: str) -> SchemaIdentityError:
        return SchemaIdentityError(
            f"schema identity resolution failed: {problem}",
            source=self._places.text,
            offset=self._places.offset(entity),
            entity=entity,
        )


def _property_hints(type_: Type) -> Iterator[tuple[str, tuple[str | None, bool]]]:
    """Each property with its hint, and whether this type declares it; an inherited hint speaks for its interface."""
    inherited = type_.inherited if isinstance(type_, NodeType) else ()
    for name, found in type_.properties.items():
        yield name, (_hint(found.annotations), name not in inherited)


def _hint(annotations: Iterable[Annotation]) -> str | None:
    return next((str(each.value) for each in annotations if each.name == "rename_from"), None)
