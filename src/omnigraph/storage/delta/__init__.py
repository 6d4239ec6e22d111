"""What changed between two states of one table.

`compare_states.py` chooses a method, `changed_rows.py` has the result.
"""

from omnigraph.storage.delta.changed_rows import (
    DELETE,
    INSERT,
    OPS,
    UPDATE,
    ChangeSlice,
    Method,
    OrderedChanges,
    TableDelta,
)
from omnigraph.storage.delta.compare_states import require_comparable, table_delta

__all__ = [
    "DELETE",
    "INSERT",
    "OPS",
    "UPDATE",
    "ChangeSlice",
    "Method",
    "OrderedChanges",
    "TableDelta",
    "require_comparable",
    "table_delta",
]
