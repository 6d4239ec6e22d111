"""The verbs of a graph that move files: load and export."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal

from omnigraph import ids
from omnigraph.history.control import known_branch
from omnigraph.history.resolve import At, at_state, snapshot_at
from omnigraph.history.schemas import Schemas
from omnigraph.storage.store import GraphStore

if TYPE_CHECKING:
    from omnigraph.history.export import ExportResult, Target
    from omnigraph.progress import Progress
    from omnigraph.write.load.result import LoadResult
    from omnigraph.write.load.source import Source


class FileVerbs(ABC):
    """What `Graph` does with files."""

    _actor: str | None
    _schemas: Schemas

    @abstractmethod
    def _reader(self) -> GraphStore: ...

    @abstractmethod
    def _writer(self) -> GraphStore: ...

    def load(
        self,
        source: Source,
        mode: str,
        *,
        branch: str = ids.MAIN,
        from_: str | None = None,
        on_error: Literal["fail", "reject"] = "fail",
        max_rejects: int | None = None,
        format: str | None = None,
        type: str | None = None,
        engine: str = "auto",
        progress: bool | Callable[[Progress], None] | None = None,
    ) -> LoadResult:
        """Load files or tables as one commit: all of it or nothing.

        A load that put many rows into a table is followed by a commit of the system that builds the indexes.

        Args:
            source: JSONL of the graph's dialect (gzip too), a directory or a glob of it, several of these, or a mapping
                from type names to Arrow tables or to Parquet, CSV or JSON files.
            mode: ``append`` refuses ids that exist, ``merge`` replaces their rows as a whole, ``overwrite`` replaces
                every row of the types that occur.
            from_: branch to fork from when ``branch`` does not exist.
            on_error: ``fail`` refuses the load for one bad row, ``reject`` leaves bad rows out and reports them.
            max_rejects: more rejected rows than this refuse the load after all.
            format: ``jsonl``, ``json``, ``parquet`` or ``csv`` for files whose suffix does not say it.
            type: type of the rows when the source does not name one.
            engine: ``embedded`` loads in this process, ``spark`` on Spark. By default directories, patterns, Parquet,
                CSV, DataFrames and large JSONL go to Spark where pyspark and Java are installed.
            progress: True or False to show progress or not, or a function that is told; by default a bar on a terminal.

        Example:
            >>> graph.load("more.jsonl", "append").nodes
            {'Person': 1}
            >>> import pyarrow as pa
            >>> graph.load({"Follows": pa.table({"src": ["cy"], "dst": ["ana"]})}, "append")
            LoadResult(append on main: 1 records of 0 node and 1 edge types; commit 0...)
        """
        from omnigraph.graph.carriers import Carrier, carried
        from omnigraph.history.load import Destination, load, with_indexes
        from omnigraph.progress import reporter
        from omnigraph.upkeep.indexes import ensure_indices
        from omnigraph.write.load.gather import request_of

        def embedded() -> LoadResult:
            request = request_of(source, mode, on_error, max_rejects, format=format, type=type)
            base = known_branch(from_) if from_ is not None else None
            destination = Destination(known_branch(branch), base, self._actor)
            store = self._writer()
            catalog = self._schemas.for_write(destination.branch, base).catalog
            with reporter(progress) as report:
                result = load(store, catalog, request, destination, report)
                return with_indexes(result, lambda name: ensure_indices(store, catalog, name).commit, report)

        def bulk(carrier: Carrier) -> LoadResult:
            asked = {"branch": branch, "from_": from_, "on_error": on_error, "max_rejects": max_rejects}
            return carrier(self, source, mode, format=format, type=type, progress=progress, **asked)

        return carried(engine, source, format, embedded, bulk)

    def export(
        self,
        target: Target = None,
        types: Sequence[str] | None = None,
        *,
        branch: str = ids.MAIN,
        at: At | None = None,
        format: Literal["jsonl", "parquet"] = "jsonl",
    ) -> ExportResult:
        """Write one state of the graph as JSONL that `load` reads, or as one Parquet file per type.

        Args:
            target: a path, an open file, or None for the text in the result; a directory for Parquet.
            types: names of types; None for all.

        Example:
            >>> print(graph.export(types=["Follows"]).text, end="")
            {"edge":"Follows","from":"ana","to":"bo","data":{"id":"f1","since":null}}
        """
        from omnigraph.history.export import export

        store = self._reader()
        snapshot = snapshot_at(store, known_branch(branch), at)
        with at_state(snapshot):
            return export(store, snapshot, target, types, format)
