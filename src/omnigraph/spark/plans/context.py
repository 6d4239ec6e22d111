"""One query on its way to Spark: its state of the graph, its values, and the names of its columns.

Columns of the binding frames have made-up names. Spark does not tell upper from lower case, the language does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from itertools import count
from typing import Any, TypeAlias

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from omnigraph import limits
from omnigraph.engine.execution_context import given_value
from omnigraph.query.typed import (
    Constant,
    Distance,
    FusedScore,
    KeyId,
    Now,
    ParamRef,
    TextMatch,
    TextScore,
    TextVector,
    TypedQuery,
    Variable,
)
from omnigraph.schema.catalog import Catalog
from omnigraph.spark.frames import PinnedState
from omnigraph.spark.plans.mentioned import RowFunction, properties_of, searches_of
from omnigraph.spark.plans.row_searches import RowSearch
from omnigraph.spark.plans.table_frames import table_frame
from omnigraph.spark.pushdown import NO_FILTERS, PushedFilters

ID = "id"

#: What a column of a binding frame holds of its variable: a stored column, a search about it, or its fused score and
#: the places in the two rankings of that.
Held: TypeAlias = str | RowFunction | FusedScore | tuple[FusedScore, int]


@dataclass(slots=True)
class Context:
    """What every step needs. Names are given out as they are asked for."""

    session: SparkSession
    state: PinnedState
    catalog: Catalog
    query: TypedQuery
    params: Mapping[str, Any]
    now: datetime
    _names: dict[tuple[str, Held], str] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=count)
    _properties: dict[str, list[str]] = field(default_factory=dict)
    _searches: dict[str, list[RowFunction]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for variable, name in properties_of(self.query):
            known = self._properties.setdefault(variable.name, [])
            if name not in (ID, *known):
                known.append(name)
        for search in searches_of(self.query):
            self._searches.setdefault(search.field.variable.name, []).append(search)

    def value(self, operand: ParamRef | Constant | Now | KeyId | TextVector) -> Any:
        match operand:
            case Now():
                return self.now
            case ParamRef():
                return self.params[operand.name]
            case Constant():
                return operand.value
            case KeyId() | TextVector():
                return given_value(operand, self.params, self.now)

    def number(self, given: int | ParamRef | None) -> int | None:
        """A limit or an offset."""
        return int(self.value(given)) if isinstance(given, ParamRef) else given

    def fresh(self) -> str:
        """A column name that nothing else has."""
        return f"c{next(self._numbers)}"

    def name(self, variable: Variable, held: Held = ID) -> str:
        """The column of a binding frame that holds something of a variable."""
        key = (variable.name, held)
        if key not in self._names:
            self._names[key] = self.fresh()
        return self._names[key]

    def column(self, variable: Variable, held: Held = ID) -> SparkColumn:
        return F.col(self.name(variable, held))

    def stored_columns(self, variable: Variable) -> list[str]:
        """What is read of a variable's table: the id and the properties that the query mentions."""
        return [ID, *self._properties.get(variable.name, [])]

    def searches(self, variable: Variable) -> list[RowFunction]:
        """What is searched in the rows of a variable."""
        return self._searches.get(variable.name, [])

    def names(self, variables: tuple[Variable, ...]) -> list[str]:
        return [
            self.name(variable, held)
            for variable in variables
            for held in (*self.stored_columns(variable), *self.searches(variable))
        ]

    def id_names(self, variables: tuple[Variable, ...]) -> list[str]:
        return [self.name(variable) for variable in variables]

    def rows(self, variable: Variable) -> int:
        return self.state.count(table_key(variable))

    def table(self, key: str, columns: Mapping[str, str], pushed: PushedFilters = NO_FILTERS) -> DataFrame:
        """Stored columns of a table under new names, of the rows that pass the filters."""
        return table_frame(self.session, self.state.table(key), columns, {}, pushed)

    def nodes(self, variable: Variable, pushed: PushedFilters) -> DataFrame:
        """What the query needs of the rows of a variable that pass the filters."""
        columns = {stored: self.name(variable, stored) for stored in self.stored_columns(variable)}
        searches = {self.name(variable, each): self._given(each) for each in self.searches(variable)}
        return table_frame(self.session, self.state.table(table_key(variable)), columns, searches, pushed)

    def _given(self, search: RowFunction) -> RowSearch:
        field, query = search.field, self.value(search.query)
        tokenizer = self.catalog.nodes[field.variable.type_name].properties[field.property].tokenizer
        match search:
            case TextMatch():
                edits = None if search.max_edits is None else self.value(search.max_edits)
                return RowSearch(search.function, field.property, query, edits, tokenizer)
            case Distance():
                return RowSearch("nearest", field.property, query)
            case TextScore():
                return RowSearch("bm25", field.property, query, tokenizer=tokenizer)

    def one_row(self) -> DataFrame:
        """The binding of nothing."""
        return self.session.range(1).select(F.lit(True).alias(self.fresh()))


def table_key(variable: Variable) -> str:
    return f"{variable.entity.value}:{variable.type_name}"


def hinted(frame: DataFrame, most_rows: int) -> DataFrame:
    """A frame to join with. Spark takes every scan for tiny; what is not must not be gathered on the driver."""
    return frame.hint("broadcast" if most_rows <= limits.BROADCAST_ROWS else "merge")
