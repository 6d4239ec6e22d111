"""A table of one state as Lance's own dataset, for software that reads Arrow datasets in place.

It stays at its version and refuses every member that would write or move it. A test goes through all members of the
installed Lance and fails when one is neither known as reading nor refused here.
"""

from __future__ import annotations

from typing import Any, NoReturn

import lance
import pyarrow as pa

from omnigraph.errors import ReadOnly
from omnigraph.storage.tables.row_lookup import plain_field

#: Members that write, move to another version, or give something that does.
REFUSED_CALLS = (
    "add_bases",
    "add_columns",
    "alter_columns",
    "checkout_latest",
    "checkout_version",
    "cleanup_old_versions",
    "commit",
    "commit_batch",
    "commit_existing_index_segments",
    "create_branch",
    "create_index",
    "create_index_uncommitted",
    "create_scalar_index",
    "deep_clone",
    "delete",
    "delete_config_keys",
    "drop",
    "drop_columns",
    "drop_index",
    "initialize_mem_wal",
    "insert",
    "mem_wal_writer",
    "merge",
    "merge_existing_index_segments",
    "merge_index_metadata",
    "merge_insert",
    "migrate_manifest_paths_v2",
    "new_file_session",
    "replace_field_metadata",
    "replace_schema_metadata",
    "restore",
    "shallow_clone",
    "truncate_table",
    "update",
    "update_config",
    "update_field_metadata",
    "update_metadata",
    "update_schema_metadata",
)
REFUSED_PROPERTIES = ("branches", "optimize", "tags")


class PinnedDataset(lance.LanceDataset):
    """The rows of one type in one state: a `lance.LanceDataset` that only reads. Blobs are bytes.

    Attributes:
        made_from: the handle of a table that was made for this state and stays as long as somebody has it.
    """

    made_from: object = None

    @property
    def schema(self) -> pa.Schema:
        """The columns as a scan gives them."""
        stored = super().schema
        return pa.schema([plain_field(field) for field in stored], metadata=stored.metadata)


def _refuse(name: str) -> NoReturn:
    raise ReadOnly(
        f"`{name}` is refused: the dataset of a snapshot only reads, at the version of the snapshot",
        hint="write through the graph; take another snapshot for another state",
        member=name,
    )


def _refusing(name: str) -> Any:
    def refused(*_: object, **__: object) -> NoReturn:
        _refuse(name)

    refused.__doc__ = "Refused: the dataset of a snapshot only reads."
    return refused


for _name in REFUSED_CALLS:
    setattr(PinnedDataset, _name, _refusing(_name))
for _name in REFUSED_PROPERTIES:
    setattr(PinnedDataset, _name, property(_refusing(_name)))
