"""The way into the schema language: text in, everything that follows from it out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from omnigraph.schema.build_catalog import build_catalog
from omnigraph.schema.catalog import Catalog
from omnigraph.schema.earlier_spelling import earlier_ir
from omnigraph.schema.ir import ir_hash, ir_of, ir_text
from omnigraph.schema.parse_schema import parse_schema
from omnigraph.schema.scanner import SchemaText
from omnigraph.schema.stable_ids import refuse_collisions
from omnigraph.schema.syntax import SchemaSyntax

if TYPE_CHECKING:
    from omnigraph.schema.schema_warnings import SchemaFinding


@dataclass(frozen=True, slots=True)
class CompiledSchema:
    """A schema that passed every rule.

    Attributes:
        source: the text, without a byte order mark.
        catalog: the types and their rules.
        ir: the compiled schema as plain JSON values.
        hash: ``sha256:<hex>`` of the compiled form; the name under which a graph keeps the schema.
        warnings: declarations that have no effect; nobody asks for those of a schema that a graph has already.
    """

    source: str
    catalog: Catalog
    ir: dict[str, Any]
    hash: str
    warnings: tuple[SchemaFinding, ...] = ()

    @property
    def ir_text(self) -> str:
        """The compiled schema as the text of ``_schema.ir.json``; made when asked for, only creation and change do."""
        return ir_text(self.ir)

    def spelled(self, ir: Mapping[str, Any]) -> CompiledSchema:
        """The same schema with its compiled form in another spelling, and so with another hash."""
        name = ir_hash(ir)
        return replace(self, ir=dict(ir), hash=name, catalog=replace(self.catalog, hash=name))

    @property
    def hashes(self) -> tuple[str, ...]:
        """The hashes that a graph may know the schema by: in the spelling of today, and in the earlier one."""
        return ir_hash(ir_of(self.catalog)), ir_hash(earlier_ir(self.catalog))

    def named(self, schema_hash: str | None) -> CompiledSchema | None:
        """The schema in the spelling that has this hash; None when no spelling of ours has. Without a hash as it is."""
        if schema_hash in (None, self.hash):
            return self
        spellings = (self.spelled(each(self.catalog)) for each in (ir_of, earlier_ir))
        return next((each for each in spellings if each.hash == schema_hash), None)


def compile_schema(text: str, *, file: str | None = None, allow_unknown_annotations: bool = False) -> CompiledSchema:
    """Compile a `.pg` text that somebody wants to use.

    Args:
        text: the schema; a leading byte order mark and CRLF line ends are fine.
        file: name to show in errors.
        allow_unknown_annotations: take also an unknown annotation that looks like a known one.

    Raises:
        SchemaSyntaxError: the text does not follow the grammar.
        SchemaError: a declaration breaks a rule of the language, or an annotation is misspelt.
        CatalogError: the declarations do not fit together.
        ResourceLimitExceeded: the text is larger than a schema may be.

    >>> compiled = compile_schema("node Person { name: String @key }")
    >>> compiled.catalog.nodes["Person"].key
    ('name',)
    """
    from omnigraph.schema.schema_mistakes import refuse_mistakes  # a process that opens a graph needs neither
    from omnigraph.schema.schema_warnings import warnings_of

    source = SchemaText.of(text, file)
    syntax = parse_schema(source)
    compiled = _compiled(syntax, source)
    refuse_mistakes(syntax, compiled.catalog, source, allow_unknown=allow_unknown_annotations)
    return replace(compiled, warnings=warnings_of(syntax, compiled.catalog, source))


def compile_accepted(text: str, *, file: str | None = None) -> CompiledSchema:
    """The same for a schema that a graph has already: what it was accepted with is not refused any more."""
    source = SchemaText.of(text, file)
    return _compiled(parse_schema(source), source)


def _compiled(syntax: SchemaSyntax, source: SchemaText) -> CompiledSchema:
    catalog = build_catalog(syntax, source)
    refuse_collisions(catalog)
    ir = ir_of(catalog)
    named = replace(catalog, hash=ir_hash(ir))
    return CompiledSchema(source.text, named, ir, named.hash)
