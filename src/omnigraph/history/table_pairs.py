"""The types of two states side by side, and which of them have to be compared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from omnigraph.errors import ChangeSchemaBoundary, HistoricalVersionReclaimed
from omnigraph.history.change_filter import KINDS, ChangeFilter
from omnigraph.storage.delta import require_comparable
from omnigraph.storage.manifest import Pin
from omnigraph.storage.snapshot import Snapshot
from omnigraph.storage.store import GraphStore


@dataclass(frozen=True, slots=True)
class TablePair:
    """One type in both states; None where it does not exist."""

    table_key: str
    before: Pin | None
    after: Pin | None

    @property
    def kind(self) -> str:
        return self.table_key.partition(":")[0]

    @property
    def type(self) -> str:
        return self.table_key.partition(":")[2]

    @property
    def names(self) -> set[str]:
        """Table keys of both states; a renamed type answers to both."""
        return {self.table_key, *(pin.table_key for pin in (self.before, self.after) if pin)}

    @property
    def type_id(self) -> str:
        pin = self.after or self.before
        return pin.location.rpartition("/")[2] if pin else ""


def table_pairs(before: Snapshot, after: Snapshot, filter_: ChangeFilter) -> list[TablePair]:
    """Types whose tables differ in some way: nodes before edges, then by name.

    A renamed type keeps its table, so tables are matched by where they lie; names match what is left.
    """
    partners = _partners(before.pins, after.pins)
    pairs = [TablePair(key, before.pins.get(partners.get(key, "")), pin) for key, pin in after.pins.items()]
    taken = set(partners.values())
    pairs += [TablePair(key, pin, None) for key, pin in before.pins.items() if key not in taken]
    wanted = [pair for pair in pairs if any(map(filter_.wants_table, pair.names)) and not _is_same(pair)]
    return sorted(wanted, key=lambda pair: (KINDS.index(pair.kind), pair.type))


def comparable(store: GraphStore, pairs: list[TablePair], commit_id: str) -> list[TablePair]:
    """The pairs, after making sure that each can be opened and compared.

    Raises:
        CorruptGraph: a newest state shows a version that is missing.
        HistoricalVersionReclaimed: names the type and the commit.
        ChangeSchemaBoundary: likewise.
    """
    for pair in pairs:
        try:
            for pin in filter(None, (pair.before, pair.after)):
                store.table(pin)
            require_comparable(store.tables, pair.before, pair.after)
        except HistoricalVersionReclaimed as error:
            raise HistoricalVersionReclaimed(
                f"the rows of type '{pair.type}' at commit {commit_id} or before it were cleaned up",
                hint="choose newer states",
                commit_id=commit_id,
                type=pair.type,
            ) from error
        except ChangeSchemaBoundary as error:
            details = {**error.details, "graph_commit_id": commit_id, "type_name": pair.type}
            raise ChangeSchemaBoundary(error.message, hint=error.hint, **details) from None
    return pairs


def _partners(before: Mapping[str, Pin], after: Mapping[str, Pin]) -> dict[str, str]:
    """Later table keys with their earlier ones."""
    places = {pin.location: key for key, pin in before.items()}
    found = {key: places[pin.location] for key, pin in after.items() if pin.location in places}
    left = before.keys() - set(found.values())
    return found | {key: key for key in after if key not in found and key in left}


def _is_same(pair: TablePair) -> bool:
    old, new = pair.before, pair.after
    if old is None or new is None:
        return False
    return (old.location, old.branch, old.version, old.origin) == (new.location, new.branch, new.version, new.origin)
