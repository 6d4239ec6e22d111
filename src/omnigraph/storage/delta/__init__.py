"""What changed between two states of one table. `table.py` chooses a method, `answer.py` is what comes out."""

from omnigraph.storage.delta.answer import DELETE, INSERT, OPS, UPDATE, ChangeSlice, Method, OrderedChanges, TableDelta
from omnigraph.storage.delta.table import require_comparable, table_delta

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
