"""The way into the schema language: text in, everything that follows from it out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from omnigraph.schema.build_catalog import build_catalog
from omnigraph.schema.catalog import Catalog
from omnigraph.schema.ir import ir_hash, ir_of, ir_text
from omnigraph.schema.parse_schema import parse_schema
from omnigraph.schema.scanner import SchemaText
from omnigraph.schema.schema_warnings import SchemaFinding, warnings_of
from omnigraph.schema.stable_ids import refuse_collisions


@dataclass(frozen=True, slots=True)
class CompiledSchema:
    """A schema that passed every rule.

    Attributes:
        source: the text, without a byte order mark.
        catalog: the types and their rules.
        ir: the compiled schema as plain JSON values.
        hash: ``sha256:<hex>``; equal for texts that mean the same schema.
        warnings: declarations that have no effect.
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


def compile_schema(text: str, *, file: str | None = None) -> CompiledSchema:
    """Compile a `.pg` text.

    Args:
        text: the schema; a leading byte order mark and CRLF line ends are fine.
        file: name to show in errors.

    Raises:
        SchemaSyntaxError: the text does not follow the grammar.
        SchemaError: a declaration breaks a rule of the language.
        CatalogError: the declarations do not fit together.
        ResourceLimitExceeded: the text is larger than a schema may be.

    >>> compiled = compile_schema("node Person { name: String @key }")
    >>> compiled.catalog.nodes["Person"].key
    ('name',)
    """
    source = SchemaText.of(text, file)
    syntax = parse_schema(source)
    catalog = build_catalog(syntax, source)
    refuse_collisions(catalog)
    ir = ir_of(catalog)
    named = replace(catalog, hash=ir_hash(ir))
    return CompiledSchema(source.text, named, ir, named.hash, warnings_of(syntax, catalog, source))
