"""Mistakes in a new schema that the grammar and the rules let pass: misspelt annotations, and defaults and tokenizers
that cannot be.

Only a schema that somebody wants is held to this. One that a graph has already stays as it is, whoever accepted it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from omnigraph.schema.catalog import Catalog, Literal, NodeType, Property
from omnigraph.schema.default_values import stored_default
from omnigraph.schema.fulltext import NAME as FULLTEXT
from omnigraph.schema.fulltext import FulltextMistake, chosen_tokenizer
from omnigraph.schema.literals import bounds_text, literal_text
from omnigraph.schema.scanner import SchemaText
from omnigraph.schema.schema_rules import ANNOTATION_WORDS, KNOWN_ANNOTATIONS, is_match
from omnigraph.schema.syntax import AnnotationSyntax, SchemaSyntax
from omnigraph.schema.word_hints import nearest

#: Letters that may be wrong in a word that was meant to be a known one.
_MOST_SLIPS = 2

#: Null without quotes; a default that is a name is its text otherwise.
_NULL = re.compile(r"@default\s*\(\s*null\s*\)")


def refuse_mistakes(syntax: SchemaSyntax, catalog: Catalog, source: SchemaText, *, allow_unknown: bool) -> None:
    """Refuse the first mistake.

    Raises:
        SchemaError: names what may have been meant.
    """
    defaults: dict[str, AnnotationSyntax] = {}
    searched: set[str] = set()
    for entity, each in syntax.annotations():
        if each.name == "default":
            _check_default(entity, each, catalog, source, repeated=entity in defaults)
            defaults[entity] = each
        elif each.name == FULLTEXT:
            _check_fulltext(entity, each, catalog, source, repeated=entity in searched)
            searched.add(entity)
        elif each.name not in KNOWN_ANNOTATIONS and not allow_unknown:
            _refuse_misspelt(entity, each, source)
    for node in catalog.nodes.values():
        _check_rules(node, defaults, source)


def _refuse_misspelt(entity: str, each: AnnotationSyntax, source: SchemaText) -> None:
    meant = _meant(each.name)
    if meant is not None:
        raise source.rule(
            f"unknown annotation @{each.name} on {entity}",
            each.at,
            hint=f"did you mean '@{meant}'? allow_unknown_annotations=True keeps it as it is",
        )


@lru_cache(maxsize=256)
def _meant(name: str) -> str | None:
    return nearest(name, ANNOTATION_WORDS, most=_MOST_SLIPS)


def _check_default(
    entity: str, each: AnnotationSyntax, catalog: Catalog, source: SchemaText, *, repeated: bool
) -> None:
    prop = _property(entity, catalog)
    if prop is None:
        raise source.rule(f"@default is only supported on properties ({entity})", each.at)
    label = entity.partition(":")[2]
    if repeated:
        raise source.rule(f"property {label} declares @default multiple times", each.at)
    if each.value.value is None or each.value.keywords:
        raise source.rule(f"@default on {label} takes one value", each.at, hint="as in @default(0)")
    if _NULL.match(source.text, each.at):
        hint = 'leave @default out; a property with ? is null where a row does not give it. A text is @default("null")'
        raise source.rule(f"@default on {label} is null, which is no value", each.at, hint=hint)
    try:
        stored_default(prop.type, each.value.value)
    except ValueError as error:
        raise source.rule(f"@default on {label} does not fit: {error}", each.at) from None


def _check_fulltext(
    entity: str, each: AnnotationSyntax, catalog: Catalog, source: SchemaText, *, repeated: bool
) -> None:
    prop = _property(entity, catalog)
    if prop is None or entity.startswith("edge:"):
        raise source.rule(f"@fulltext is only supported on properties of nodes and interfaces ({entity})", each.at)
    label = entity.partition(":")[2]
    if repeated:
        raise source.rule(f"property {label} declares @fulltext multiple times", each.at)
    try:
        chosen_tokenizer(prop.type, each.value)
    except FulltextMistake as mistake:
        raise source.rule(f"@fulltext on {label} {mistake}", each.at, hint=mistake.hint) from None


def _property(entity: str, catalog: Catalog) -> Property | None:
    kind, _, rest = entity.partition(":")
    owner, _, name = rest.partition(".")
    type_ = catalog.interfaces[owner] if kind == "interface" else catalog.by_table_key(f"{kind}:{owner}")
    return None if type_ is None else type_.properties.get(name)


def _check_rules(node: NodeType, defaults: dict[str, AnnotationSyntax], source: SchemaText) -> None:
    """A default that its own rules refuse would refuse every row without a value."""
    for name, prop in node.properties.items():
        if prop.default is None:
            continue
        broken = next(_broken_rules(node, name, prop.default), None)
        if broken is not None:
            owners = (f"node:{node.name}", *(f"interface:{each}" for each in node.implements))
            at = next(defaults[f"{owner}.{name}"].at for owner in owners if f"{owner}.{name}" in defaults)
            raise source.rule(f"@default on {node.name}.{name} breaks its {broken}", at)


def _broken_rules(node: NodeType, name: str, default: Literal) -> Iterator[str]:
    if not isinstance(default, str):
        for bounds in (each for each in node.ranges if each.property == name):
            if not (_or(bounds.low, default) <= default <= _or(bounds.high, default)):
                yield f"@range({name}, {bounds_text(bounds)})"
    for check in node.checks:
        if check.property == name and not is_match(check.pattern, str(default)):
            yield f"@check({name}, {literal_text(check.pattern)})"


def _or(bound: int | float | None, otherwise: int | float) -> int | float:
    return otherwise if bound is None else bound
