"""One query on its way to Spark: its state of the graph, its values, and the names of its columns.

Columns of the binding frames have made-up names. Spark does not tell upper from lower case, the language does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from itertools import count
from typing import Any

import pyarrow as pa
from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from omnigraph import limits
from omnigraph.query.typed import Constant, Now, ParamRef, TypedQuery, Variable
from omnigraph.schema.catalog import Catalog
from omnigraph.spark.frames import PinnedState
from omnigraph.spark.plans.mentioned import properties_of
from omnigraph.spark.pushdown import NO_FILTERS, PushedFilters
from omnigraph.spark.types import spark_type, transfer_batch, transfer_schema
from omnigraph.storage.tables.table_scan import TableAt, fragment_groups, scan_fragments

ID = "id"


@dataclass(slots=True)
class Context:
    """What every step needs. Names are given out as they are asked for."""

    session: SparkSession
    state: PinnedState
    catalog: Catalog
    query: TypedQuery
    params: Mapping[str, Any]
    now: datetime
    _names: dict[tuple[str, str], str] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=count)
    _properties: dict[str, list[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for variable, name in properties_of(self.query):
            known = self._properties.setdefault(variable.name, [])
            if name not in (ID, *known):
                known.append(name)

    def value(self, operand: ParamRef | Constant | Now) -> Any:
        match operand:
            case Now():
                return self.now
            case ParamRef():
                return self.params[operand.name]
            case Constant():
                return operand.value

    def fresh(self) -> str:
        """A column name that nothing else has."""
        return f"c{next(self._numbers)}"

    def name(self, variable: Variable, stored: str = ID) -> str:
        """The column of a binding frame that holds a stored column of a variable."""
        key = (variable.name, stored)
        if key not in self._names:
            self._names[key] = self.fresh()
        return self._names[key]

    def column(self, variable: Variable, stored: str = ID) -> SparkColumn:
        return F.col(self.name(variable, stored))

    def stored_columns(self, variable: Variable) -> list[str]:
        """What is read of a variable's table: the id and the properties that the query mentions."""
        return [ID, *self._properties.get(variable.name, [])]

    def names(self, variables: tuple[Variable, ...]) -> list[str]:
        return [self.name(variable, stored) for variable in variables for stored in self.stored_columns(variable)]

    def id_names(self, variables: tuple[Variable, ...]) -> list[str]:
        return [self.name(variable) for variable in variables]

    def rows(self, variable: Variable) -> int:
        return self.state.count(table_key(variable))

    def table(self, key: str, columns: Mapping[str, str], pushed: PushedFilters = NO_FILTERS) -> DataFrame:
        """Stored columns of a table under new names, of the rows that pass the filters."""
        return table_frame(self.session, self.state.table(key), columns, pushed)

    def one_row(self) -> DataFrame:
        """The binding of nothing."""
        return self.session.range(1).select(F.lit(True).alias(self.fresh()))


def table_key(variable: Variable) -> str:
    return f"{variable.entity.value}:{variable.type_name}"


def hinted(frame: DataFrame, most_rows: int) -> DataFrame:
    """A frame to join with. Spark takes every scan for tiny; what is not must not be gathered on the driver."""
    return frame.hint("broadcast" if most_rows <= limits.BROADCAST_ROWS else "merge")


def table_frame(session: SparkSession, table: TableAt, columns: Mapping[str, str], pushed: PushedFilters) -> DataFrame:
    """One task per group of fragments, each reading its share of the columns."""
    stored = table.schema
    schema = StructType([
        StructField(name, spark_type(stored.field(column).type), stored.field(column).nullable)
        for column, name in columns.items()
    ])  # fmt: skip
    groups = [] if pushed.empty else fragment_groups(table)
    if not groups:
        return session.createDataFrame([], schema)
    names, filters, target = list(columns), pushed.filters, transfer_schema(schema)

    def read(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                for rows in scan_fragments(table, groups[number], names, filters):
                    yield transfer_batch(rows, target)

    return session.range(0, len(groups), 1, len(groups)).mapInArrow(read, schema)
