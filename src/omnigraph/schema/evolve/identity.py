"""The numbers of a schema after a change: what was matched keeps its number, what is new gets one never used before.

The compiled schema of this layout names its entities by numbers made from names (`stable_ids.py`), which a rename
changes; these are the numbers that do not.
"""

from __future__ import annotations

from itertools import count

from omnigraph.schema.compile import CompiledSchema
from omnigraph.schema.evolve.match import KINDS, match_schemas, types_of
from omnigraph.schema.identity import SchemaIdentity


def evolved_identity(before: SchemaIdentity, accepted: CompiledSchema, desired: CompiledSchema) -> SchemaIdentity:
    """The numbers of ``desired`` when ``before`` are those of ``accepted``: types, then properties, then tables.

    Raises:
        SchemaIdentityError: a ``@rename_from`` hint cannot be followed.
    """
    matching = match_schemas(accepted, desired)
    owners = {f"{kind}:{name}": each for kind in KINDS for name, each in types_of(desired.catalog, kind).items()}
    old_owner = {entity: f"{pair.kind}:{pair.before.name}" for entity, pair in matching.pairs.items()}
    old_property = {
        f"{entity}.{name}": f"{old_owner[entity]}.{old}"
        for entity, pair in matching.pairs.items()
        for name, old in pair.properties.items()
    }
    numbers = count(before.next)
    types = {entity: before.types[old_owner[entity]] if entity in old_owner else next(numbers) for entity in owners}
    properties = {
        entity: before.properties[old_property[entity]] if entity in old_property else next(numbers)
        for entity in (f"{owner}.{name}" for owner, each in owners.items() for name in each.properties)
    }
    tables = {
        entity: before.tables[old_owner[entity]] if entity in old_owner else next(numbers)
        for entity in owners
        if not entity.startswith("interface:")
    }
    return SchemaIdentity(types, properties, tables, next(numbers))
