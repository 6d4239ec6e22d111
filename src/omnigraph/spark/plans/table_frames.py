"""Tables as frames: each task reads a group of fragments, and searches in what it read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, BooleanType, DoubleType, LongType, StructField, StructType

from omnigraph.spark.plans.row_searches import COUNTS, RowSearch, SearchedBatch, corpora_of, counted
from omnigraph.spark.pushdown import PushedFilters
from omnigraph.spark.types import spark_type, transfer_batch, transfer_schema
from omnigraph.storage.tables.table_scan import TableAt, fragment_groups, scan_fragments


def table_frame(
    session: SparkSession,
    table: TableAt,
    columns: Mapping[str, str],
    searches: Mapping[str, RowSearch],
    pushed: PushedFilters,
) -> DataFrame:
    """One task per group of fragments, each reading its share of the columns and searching in it.

    Args:
        columns: names of the stored columns.
        searches: what is searched, by the names of the columns for the answers.
    """
    stored = table.schema
    schema = StructType([
        *(StructField(name, spark_type(stored.field(column).type), stored.field(column).nullable)
          for column, name in columns.items()),
        *(StructField(name, DoubleType() if each.is_number else BooleanType()) for name, each in searches.items()),
    ])  # fmt: skip
    groups = [] if pushed.empty else fragment_groups(table)
    if not groups:
        return session.createDataFrame([], schema)
    shown, filters, target = list(columns), pushed.filters, transfer_schema(schema)
    read_too = dict.fromkeys(each.column for each in searches.values() if each.column not in shown)
    scored = list(dict.fromkeys(each for each in searches.values() if each.is_scored))

    def read(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in numbers:
            corpora = corpora_of(batch.column(COUNTS)[0].as_py(), scored) if scored else {}
            for number in batch.column(0).to_pylist():
                for rows in scan_fragments(table, groups[number], [*shown, *read_too], filters):
                    searched = SearchedBatch(rows)
                    answers = [searched.answer(each, corpora) for each in searches.values()]
                    found = [*rows.columns[: len(shown)], *answers]
                    yield transfer_batch(pa.RecordBatch.from_arrays(found, target.names), target)

    tasks = session.range(0, len(groups), 1, len(groups))
    if scored:
        tasks = tasks.crossJoin(F.broadcast(_counts_frame(session, table, groups, scored)))
    return tasks.mapInArrow(read, schema)


def _counts_frame(
    session: SparkSession, table: TableAt, groups: list[tuple[int, ...]], scored: list[RowSearch]
) -> DataFrame:
    """One row: what scores have to know about all texts of a table, whatever the conditions of the query."""
    schema = StructType([StructField(COUNTS, ArrayType(LongType()))])
    columns = list(dict.fromkeys(each.column for each in scored))

    def count_group(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                yield _one_row(counted(scan_fragments(table, groups[number], columns), scored))

    def add_up(parts: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield _one_row(sum(np.asarray(each.values.to_numpy()) for batch in parts for each in batch.column(COUNTS)))

    found = session.range(0, len(groups), 1, len(groups)).mapInArrow(count_group, schema)
    return found.repartition(1).mapInArrow(add_up, schema)


def _one_row(counts: Any) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([counts], pa.list_(pa.int64()))], names=[COUNTS])
