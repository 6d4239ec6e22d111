"""The format ``omnigraph`` of Spark: one node or edge type as a DataFrame.

Runs in Python processes that Spark starts: one plans, others read. The state of the graph is chosen when the DataFrame
is made and travels with it, so every task and every later action reads the same version. Writing is in `sink.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceWriter, InputPartition
from pyspark.sql.types import StructType

from omnigraph import ids
from omnigraph.errors import InputError
from omnigraph.spark.frames import chosen_columns, pinned_in
from omnigraph.spark.pushdown import NO_FILTERS, push_filters
from omnigraph.spark.types import spark_schema, transfer_batch, transfer_schema
from omnigraph.storage.graph_store import GraphStore
from omnigraph.storage.metadata.holds import kept, lease_for_others
from omnigraph.storage.objects.object_store import Location, ObjectStore, parse_location
from omnigraph.storage.tables.table_scan import TableAt, fragment_groups, scan_fragments
from omnigraph.write.change import Mode
from omnigraph.write.load.gather import Times, chosen

_READ_OPTIONS = ("path", "type", "branch", "at", "columns")
_WRITE_OPTIONS = ("path", "type", "branch", "mode", "actor", "times", "message")

#: What a graph on S3 may be given as options.
STORE_OPTIONS = (
    "aws_region",
    "aws_access_key_id",
    "aws_secret_access_key",
    "aws_session_token",
    "aws_endpoint",
    "aws_virtual_hosted_style_request",
    "allow_http",
)


class DefaultSource(DataSource):
    """``spark.read.format("omnigraph").option("type", "Person").load(uri)``.

    Options: ``type`` (needed), ``branch``, ``at`` (commit id, ``tag:NAME``, version or time), ``columns`` (names with
    commas), and for S3 those of `STORE_OPTIONS` that the environment of Spark's processes does not hold. A write takes
    ``type``, ``branch``, ``actor``, ``message``, and ``mode`` ``merge`` beside Spark's own ``mode("append")``.
    """

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        self._table: TableAt | None = None

    @classmethod
    def name(cls) -> str:
        return "omnigraph"

    def schema(self) -> StructType:
        table = self._pinned_table()
        return spark_schema(table.schema, chosen_columns(table, self._columns()))

    def reader(self, schema: StructType) -> DataSourceReader:
        table = self._pinned_table()
        names = schema.fieldNames()
        if schema != spark_schema(table.schema, chosen_columns(table, names)):
            raise InputError(
                f"the given schema is not that of '{table.pin.table_key}'", hint="leave it out, or use option columns"
            )
        return Reader(table, names, schema, self._lease())

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from omnigraph.spark.sink import Sink, WriteOptions

        check_options(self.options, _WRITE_OPTIONS)
        options = WriteOptions(
            location_of(self.options),
            self.options["type"],
            write_mode(self.options.get("mode"), overwrite),
            self.options.get("branch", ids.MAIN),
            self.options.get("actor"),
            chosen(Times, "times", self.options.get("times", Times.EXACT)),
            self.options.get("message"),
        )
        return Sink(options, schema.fieldNames())

    def _pinned_table(self) -> TableAt:
        if self._table is None:
            check_options(self.options, _READ_OPTIONS)
            at = self.options.get("at")
            store = GraphStore(location_of(self.options))
            state = pinned_in(store, self.options.get("branch"), at)
            self._table = state.table(self.options["type"])
        return self._table

    def _lease(self) -> str | None:
        """What keeps cleanups from the state while tasks read it."""
        at = self.options.get("at")
        store = GraphStore(location_of(self.options))
        state = pinned_in(store, self.options.get("branch"), at).snapshot
        return lease_for_others(store.location, store.objects, state)

    def _columns(self) -> list[str] | None:
        named = self.options.get("columns")
        return None if named is None else [name.strip() for name in named.split(",")]


def location_of(options: Mapping[str, str]) -> Location:
    """Where the graph lies. Options of the object store win over the environment of Spark's processes."""
    found = parse_location(options["path"])
    given = {name: options[name] for name in STORE_OPTIONS if name in options}
    return Location(found.uri, {**found.options, **given}) if not found.is_local else found


def write_mode(option: str | None, overwrite: bool) -> Mode:
    """``.mode("append")`` and ``.mode("overwrite")`` of Spark; merging has no word there, so it is an option."""
    if overwrite:
        if option not in (None, Mode.OVERWRITE):
            raise InputError(f"option mode is '{option}', but Spark was told to overwrite", hint='use mode("append")')
        return Mode.OVERWRITE
    if option not in (None, Mode.APPEND, Mode.MERGE):
        raise InputError(f"option mode is '{option}'", hint="known: append, merge")
    return Mode(option or Mode.APPEND)


def check_options(options: Mapping[str, Any], known: Sequence[str]) -> None:
    """Refuse what is missing or unknown, so that a misspelt option is not silently ignored."""
    for needed, said in (("path", "an address: load(uri)"), ("type", 'a type: option("type", "Person")')):
        if not options.get(needed):
            raise InputError(f"the format omnigraph needs {said}")
    unknown = sorted(name for name in options if name.lower() not in (*known, *STORE_OPTIONS))
    if unknown:
        raise InputError(f"unknown option '{unknown[0]}'", hint=f"known: {', '.join(known[1:])}")


class Reader(DataSourceReader):
    """Reads one version of one table, in shares."""

    def __init__(self, table: TableAt, columns: list[str], schema: StructType, lease: str | None) -> None:
        self._table = table
        self._lease = lease
        self._columns = columns
        self._target: pa.Schema = transfer_schema(schema)
        self._pushed = NO_FILTERS
        self.pushFilters = _PushFilters(self.keep_filters)  # type: ignore[method-assign]

    def partitions(self) -> list[InputPartition]:
        return [] if self._pushed.empty else [InputPartition(group) for group in fragment_groups(self._table)]

    def keep_filters(self, filters: list[Any]) -> None:
        """Remember filters that Spark offers; it applies all of them once more by itself."""
        self._pushed = push_filters(filters, self._table.schema)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if partition.value is None:  # Spark's stand-in when there is nothing to read
            return
        location = self._table.location
        hold = kept(location, ObjectStore(location), self._lease) if self._lease is not None else None
        try:
            for batch in scan_fragments(self._table, partition.value, self._columns, self._pushed.filters):
                yield transfer_batch(batch, self._target)
        finally:
            if hold is not None:
                hold.leave()


class _PushFilters:
    """What Spark calls to offer filters, when its session pushes filters at all.

    Spark refuses a reader with a method of this name in a session that does not. This one looks to it like the
    inherited method that does nothing, so the format works in every session.
    """

    def __init__(self, keep: Callable[[list[Any]], None]) -> None:
        self.__func__ = DataSourceReader.pushFilters
        self._keep = keep

    def __call__(self, filters: list[Any]) -> list[Any]:
        self._keep(filters)
        return filters
