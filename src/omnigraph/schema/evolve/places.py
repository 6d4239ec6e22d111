"""Where the rename hints of a schema text stand, found only when an error or a warning asks for it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property

from omnigraph.schema.parse import parse
from omnigraph.schema.source import Source
from omnigraph.schema.syntax import AnnotationSyntax, SchemaSyntax


class HintPlaces:
    """The places of ``@rename_from`` by entity: ``node:Person``, ``node:Person.name``."""

    def __init__(self, text: str) -> None:
        self._source = Source(text)

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
        return {entity: each.at for entity, each in _annotations(parse(self._source)) if each.name == "rename_from"}


def _annotations(syntax: SchemaSyntax) -> Iterator[tuple[str, AnnotationSyntax]]:
    for kind, declarations in (("interface", syntax.interfaces), ("node", syntax.nodes), ("edge", syntax.edges)):
        for declared in declarations:
            entity = f"{kind}:{declared.name.text}"
            yield from _named(entity, getattr(declared, "annotations", ()))
            for each in declared.properties:
                yield from _named(f"{entity}.{each.name}", each.annotations)


def _named(entity: str, annotations: Iterable[AnnotationSyntax]) -> Iterator[tuple[str, AnnotationSyntax]]:
    return ((entity, each) for each in annotations)
