"""What other software does to the table of a graph with plain pylance."""

from __future__ import annotations

from typing import Any

import lance
import pyarrow as pa

import omnigraph as og


def raw_table(graph: og.Graph, key: str, branch: str = "main") -> Any:
    """The table on the lineage that a branch shows, opened as any program would."""
    pin = graph.snapshot(branch).tables[key]
    path = f"{graph.uri}/{pin.location}"
    options = dict(graph.internals.store.location.options)
    return lance.dataset(f"{path}/tree/{pin.branch}" if pin.branch else path, storage_options=options or None)


def compact(table: Any) -> None:
    table.optimize.compact_files()


def index(table: Any) -> None:
    table.create_scalar_index("handle", "BTREE", name="of_others")


def compact_index(table: Any) -> None:
    """The transaction of a compaction that moves the rows of an index cannot be read."""
    index(table)
    table.checkout_version(table.latest_version).optimize.compact_files()


def append(table: Any, handle: str = "eve", **columns: str) -> None:
    row = {"id": [handle], "handle": [handle], **{name: [value] for name, value in columns.items()}}
    rest = {name: pa.nulls(1, table.schema.field(name).type) for name in table.schema.names if name not in row}
    lance.write_dataset(pa.table({**row, **rest}).select(table.schema.names).cast(table.schema), table, mode="append")


def delete(table: Any) -> None:
    table.delete("handle = 'dan'")


def delete_nothing(table: Any) -> None:
    table.delete("handle = 'nobody'")


def column(table: Any) -> None:
    table.add_columns({"extra": "1"})


def auto_cleanup(table: Any) -> None:
    table.update_config({"lance.auto_cleanup.interval": "1", "lance.auto_cleanup.older_than": "3650d"})


def option(table: Any) -> None:
    table.update_config({"seen-by": "others"})


def append_and_take_back(table: Any) -> None:
    """Rows that came and went again: what is left is what was there."""
    shown = table.version
    append(table)
    earlier: Any = lance.dataset(table.uri, version=shown)
    earlier.restore()
