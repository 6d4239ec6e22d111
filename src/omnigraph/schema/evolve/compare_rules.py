"""The steps for the constraints of one type.

Only indexes may come and go: they change no answer. Every other constraint would need a look at the rows, or would
silently stop being kept, so adding and removing it is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from omnigraph.schema.catalog import ENDPOINT_COLUMNS, EdgeType, InterfaceType, NodeType
from omnigraph.schema.evolve.match import Type, TypePair
from omnigraph.schema.evolve.refusals import refused
from omnigraph.schema.evolve.steps import AddIndex, DropIndex, Step
from omnigraph.schema.parse_rules import COLUMN_RULES
from omnigraph.schema.render import bounds_text, literal_text


@dataclass(frozen=True, slots=True, order=True)
class Rule:
    """One constraint; ``rest`` is what follows the columns, as text."""

    name: str
    columns: tuple[str, ...]
    rest: str = ""

    def __str__(self) -> str:
        return f"@{self.name}({', '.join(self.columns)}{self.rest})"

    def renamed(self, names: Mapping[str, str]) -> Rule:
        return replace(self, columns=tuple(sorted(names.get(column, column) for column in self.columns)))


def rule_steps(pair: TypePair) -> Iterator[Step]:
    """Constraints that go, then constraints that come."""
    names = pair.new_names
    before = {rule.renamed(names) for rule in _rules(pair.before)}
    after = _rules(pair.after)
    before_on_properties = {rule.renamed(names) for rule in _on_properties(pair.before)}
    after_on_properties = _on_properties(pair.after)
    yield from _removed(pair, before - after, before_on_properties - after_on_properties)
    yield from _added(pair, after - before, after_on_properties - before_on_properties)


def _removed(pair: TypePair, rules: set[Rule], on_properties: set[Rule]) -> Iterator[Step]:
    owner = pair.after.name
    for column in sorted({rule.columns[0] for rule in on_properties if rule.name != "index"}):
        label = f"{owner}.{column}"
        yield refused(f"{pair.kind}:{label}", f"removing property constraints from '{label}'")
    if any(rule.name != "index" for rule in rules - on_properties):
        yield refused(f"{pair.kind}:{owner}", f"removing constraints from '{owner}'")
    columns = {*pair.after.properties, *(ENDPOINT_COLUMNS if pair.kind == "edge" else ())}
    for rule in sorted(rules):
        if rule.name == "index" and columns.issuperset(rule.columns):
            yield DropIndex(pair.kind, owner, rule.columns)


def _added(pair: TypePair, rules: set[Rule], on_properties: set[Rule]) -> Iterator[Step]:
    owner = pair.after.name
    for rule in sorted(each for each in on_properties if each.name != "index"):
        label = f"{owner}.{rule.columns[0]}"
        yield refused(f"{pair.kind}:{label}", f"adding a property-level @{rule.name} constraint to '{label}'")
    for rule in sorted(rules):
        if rule.name == "index":
            yield AddIndex(pair.kind, owner, rule.columns)
        elif rule not in on_properties:
            yield refused(f"{pair.kind}:{owner}", f"adding constraint '{rule}' to '{owner}'")


def _rules(type_: Type) -> set[Rule]:
    found = _on_properties(type_)
    if isinstance(type_, InterfaceType):
        return found
    found |= {Rule("unique", columns) for columns in type_.uniques}
    found |= {Rule("index", columns) for columns in type_.indexes}
    return found if isinstance(type_, EdgeType) else found | _node_rules(type_)


def _node_rules(node: NodeType) -> set[Rule]:
    found = {Rule("range", (each.property,), f", {bounds_text(each)}") for each in node.ranges}
    found |= {Rule("check", (each.property,), f", {literal_text(each.pattern)}") for each in node.checks}
    return found if node.key is None else found | {Rule("key", node.key)}


def _on_properties(type_: Type) -> set[Rule]:
    """The constraints that are written behind a property."""
    return {
        Rule(each.name, (name,))
        for name, found in type_.properties.items()
        for each in found.annotations
        if each.name in COLUMN_RULES
    }
