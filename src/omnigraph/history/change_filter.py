"""Which changes a caller wants: kinds, type names, operations. What is not understood is refused, never ignored."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass

from omnigraph.errors import InputError, TypeNotFound
from omnigraph.ids import did_you_mean
from omnigraph.storage.delta import OPS

#: Kinds in their order.
KINDS = ("node", "edge")


@dataclass(frozen=True, slots=True)
class ChangeFilter:
    """Normal form of a filter: every member sorted and without repetitions; None lets everything through."""

    kinds: tuple[str, ...] | None = None
    types: tuple[str, ...] | None = None
    ops: tuple[str, ...] | None = None

    def wants_table(self, table_key: str) -> bool:
        kind, _, name = table_key.partition(":")
        return (self.kinds is None or kind in self.kinds) and (self.types is None or name in self.types)

    @property
    def wanted_ops(self) -> tuple[str, ...]:
        return OPS if self.ops is None else self.ops

    def require_known_types(self, table_keys: Sequence[str]) -> None:
        """Refuse names of types that no state in question has."""
        known = {key.partition(":")[2] for key in table_keys}
        unknown = next((name for name in self.types or () if name not in known), None)
        if unknown is not None:
            raise TypeNotFound(f"unknown type '{unknown}'", hint=did_you_mean(unknown, known), type=unknown)

    def digest(self) -> str:
        """The same for filters that mean the same; what tokens are bound to."""
        text = json.dumps([self.kinds, self.types, self.ops], separators=(",", ":"), ensure_ascii=False)
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def change_filter(kinds: Sequence[str] | None, types: Sequence[str] | None, ops: Sequence[str] | None) -> ChangeFilter:
    """Check a filter as a caller gave it."""
    return ChangeFilter(
        _chosen("kind", kinds, KINDS),
        _chosen("type", types, None),
        _chosen("op", ops, OPS),
    )


def _chosen(what: str, given: Sequence[str] | None, known: tuple[str, ...] | None) -> tuple[str, ...] | None:
    if given is None:
        return None
    values = [given] if isinstance(given, str) else list(given)
    for value in values:
        if known is not None and value not in known:
            raise InputError(f"{value!r} is no {what} of changes", hint=f"known: {', '.join(known)}")
    if not values:
        raise InputError(f"an empty list of {what}s lets no change through", hint="leave it out to get all of them")
    return tuple(sorted({str(value) for value in values}))
