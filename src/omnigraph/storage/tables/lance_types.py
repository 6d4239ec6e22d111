"""The members of Lance's tables and fragments that this package uses, as types.

Lance's own annotations do not survive strict checking everywhere, and its classes have hundreds of members. These
protocols name what is used, so that the type checker finds a misspelt or unexpected one. A test holds each member and
its parameters against the installed Lance.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol

import pyarrow as pa


class TableScan(Protocol):
    """A scan that is ready to run."""

    @property
    def projected_schema(self) -> pa.Schema: ...

    def to_table(self) -> pa.Table: ...

    def to_batches(self) -> Iterator[pa.RecordBatch]: ...

    def to_reader(self) -> pa.RecordBatchReader: ...


class Fragment(Protocol):
    """A part of a table: data files with the same rows, and the list of those that are deleted."""

    @property
    def fragment_id(self) -> int: ...

    @property
    def metadata(self) -> Any:
        """What the version file says of it: `lance.fragment.FragmentMetadata`."""

    def count_rows(self) -> int: ...

    def data_files(self) -> list[Any]: ...

    def delete_rows(self, offsets: Iterable[int]) -> Any:
        """Metadata of the fragment without these rows; None when none is left."""

    def take(self, indices: Sequence[int], columns: list[str] | None = None) -> pa.Table: ...

    def merge_columns(
        self, value_func: Callable[[pa.RecordBatch], pa.RecordBatch], columns: list[str] | None = None
    ) -> tuple[Any, Any]: ...


class LanceTable(Protocol):
    """A table that is open at one version of one Lance branch."""

    @property
    def uri(self) -> str: ...

    @property
    def version(self) -> int: ...

    @property
    def latest_version(self) -> int:
        """The newest version that the store has now."""

    @property
    def schema(self) -> pa.Schema: ...

    @property
    def lance_schema(self) -> Any:
        """The schema with the field ids."""

    @property
    def has_stable_row_ids(self) -> bool: ...

    @property
    def branches(self) -> Any:
        """The Lance branches of the table; `list()` describes them."""

    @property
    def optimize(self) -> Any:
        """Compaction."""

    @property
    def initial_storage_options(self) -> dict[str, str] | None: ...

    @property
    def _storage_options(self) -> dict[str, str] | None: ...

    def count_rows(self) -> int: ...

    def scanner(
        self,
        columns: list[str] | None = None,
        filter: Any = None,
        limit: int | None = None,
        offset: int | None = None,
        *,
        nearest: dict[str, Any] | None = None,
        batch_size: int | None = None,
        scan_in_order: bool | None = None,
        fragments: Iterable[Any] | None = None,
        full_text_query: dict[str, Any] | None = None,
        with_row_id: bool | None = None,
        with_row_address: bool | None = None,
        blob_handling: Any = None,
        include_deleted_rows: bool | None = None,
        disable_scoring_autoprojection: bool | None = None,
    ) -> TableScan: ...

    def to_table(
        self, columns: list[str] | None = None, *, with_row_id: bool | None = None, blob_handling: Any = None
    ) -> pa.Table: ...

    def _take_rows(self, row_ids: Any, columns: list[str] | None = None) -> pa.Table: ...

    def read_blobs(
        self, blob_column: str, ids: pa.Array | None = None, *, preserve_order: bool | None = None
    ) -> list[tuple[int, bytes | None]]: ...

    def take_blobs(self, blob_column: str, *, addresses: list[int] | None = None) -> list[Any]:
        """A `lance.BlobFile` for each row, None where the blob is null."""

    def get_fragments(self) -> Sequence[Fragment]: ...

    def get_fragment(self, fragment_id: int) -> Any:
        """The `Fragment` of a number; the callers know that it exists."""

    def validate(self) -> None: ...

    def checkout_version(self, version: int) -> LanceTable: ...

    def versions(self) -> list[Any]: ...

    def read_transaction(self, version: int) -> Any: ...

    def delta(self, *, begin_version: int | None = None, end_version: int | None = None) -> Any: ...

    def restore(self) -> None: ...

    def create_branch(self, branch: str, reference: tuple[str | None, int | None]) -> LanceTable: ...

    def cleanup_old_versions(self, *, versions: list[int] | None = None) -> Any: ...

    def describe_indices(self) -> list[Any]: ...

    def index_statistics(self, index_name: str) -> dict[str, Any]: ...

    def create_index_uncommitted(
        self,
        column: str,
        index_type: str,
        name: str | None = None,
        *,
        replace: bool = False,
        fragment_ids: list[int] | None = None,
        **options: Any,
    ) -> Any: ...

    def merge_existing_index_segments(self, segments: list[Any]) -> Any: ...

    def config(self) -> dict[str, str]: ...

    def base_paths(self) -> dict[int, Any]:
        """Where files of other lineages lie, by the number that data files name."""

    def update_config(self, values: dict[str, str | None]) -> Any: ...

    def update_schema_metadata(self, values: dict[str, str | None]) -> Any: ...

    def update_field_metadata(self, field_updates: dict[str, dict[str, str | None]]) -> None: ...
