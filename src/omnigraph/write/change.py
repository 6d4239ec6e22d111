"""What a write wants: per type the rows to put and the ids to remove."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import pyarrow as pa

from omnigraph.errors import InputError, TypeNotFound
from omnigraph.schema.catalog import Catalog, EdgeType, NodeType


class Mode(StrEnum):
    """What putting a row means when its id exists."""

    APPEND = "append"  # a conflict
    MERGE = "merge"  # the row is replaced as a whole
    OVERWRITE = "overwrite"  # every row of the type goes first


@dataclass(frozen=True, slots=True)
class Change:
    """The change of one type.

    Attributes:
        table_key: ``node:<Type>`` or ``edge:<Type>``.
        put: rows with the type's properties as columns; nodes may carry ``id``, edges carry ``src`` and ``dst`` and may
            carry ``id``. Missing nullable properties are null.
        remove: ids of rows that go. Ids that do not exist are ignored. Naming an id reads no row, so a table that moved
            is no conflict, unless the write names the state that it was computed from.
        reads_rows: the rows were computed from rows that are there; a change of the table since is a conflict.
        conformed: the rows went through the row rules already and are in the schema of their table.
        fresh_ids: with ``conformed``, every id was just made, so none can exist.
    """

    table_key: str
    put: pa.Table | None = None
    mode: Mode = Mode.APPEND
    remove: pa.Array | None = None
    reads_rows: bool = False
    conformed: bool = False
    fresh_ids: bool = False

    def depends_on_rows(self, has_base: bool) -> bool:
        """Whether a table that moved is a conflict; ``has_base`` when the caller names the state it looked at."""
        return self.reads_rows or self.mode is Mode.OVERWRITE or (has_base and self.remove is not None)


def type_of(catalog: Catalog, table_key: str) -> NodeType | EdgeType:
    """The type behind a table key, or TypeNotFound."""
    found = catalog.by_table_key(table_key)
    if found is None:
        kind, _, name = table_key.partition(":")
        raise TypeNotFound(f"unknown {kind} type '{name}'", type=name)
    return found


def require_one_per_type(changes: list[Change]) -> None:
    keys = [change.table_key for change in changes]
    repeated = next((key for key in keys if keys.count(key) > 1), None)
    if repeated:
        raise InputError(f"'{repeated}' occurs twice in one write", hint="concatenate its rows")
