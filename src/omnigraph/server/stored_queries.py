"""Stored queries of a served graph: read from `.gq` files when the server starts, and run by their names.

All of them have to fit the schema then; a graph with one that does not is not served. Whoever may not see a type is
told that the queries about it do not exist.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from omnigraph import ids
from omnigraph.errors import InputError, QueryTypeError
from omnigraph.graph import Graph
from omnigraph.query.check import check_query
from omnigraph.query.lint_queries import ResultColumn
from omnigraph.query.syntax.query_parser import parse_queries
from omnigraph.query.syntax.tree import QueryDecl
from omnigraph.schema.catalog import Catalog
from omnigraph.server.authorize import no_stored_query
from omnigraph.storage.objects.user_text import text_of

_SUFFIX = ".gq"


@dataclass(frozen=True, slots=True)
class QueryFiles:
    """Where stored queries are.

    Attributes:
        paths: files, of which every query counts, and directories, of which every ``*.gq`` does.
        named: files by the one query that counts.
    """

    paths: tuple[Path, ...] = ()
    named: Mapping[str, Path] = field(default_factory=dict)

    @classmethod
    def at(cls, path: Path | None) -> QueryFiles:
        """A file, a directory, or nothing."""
        return cls() if path is None else cls((path,))

    def files(self) -> Iterator[tuple[Path, str | None]]:
        """Every file, with the one query of it that counts; None for all."""
        for path in self.paths:
            if path.is_dir():
                yield from ((file, None) for file in sorted(path.glob(f"*{_SUFFIX}")))
            else:
                yield path, None
        for name, path in self.named.items():
            yield path, name


@dataclass(frozen=True, slots=True)
class StoredQuery:
    """A query that can be run by its name.

    Attributes:
        text: of its whole file.
    """

    text: str
    declared: QueryDecl

    @property
    def name(self) -> str:
        return self.declared.name

    @property
    def is_mutation(self) -> bool:
        return self.declared.is_write

    def fits(self, catalog: Catalog) -> bool:
        """Whether it can be run with these types."""
        try:
            check_query(self.declared, catalog)
        except QueryTypeError:
            return False
        return True

    def to_dict(self) -> dict[str, Any]:
        """Its entry in the catalog."""
        declared = self.declared
        shown: dict[str, Any] = {"name": self.name, "tool_name": self.name}
        notes = {"description": declared.description, "instruction": declared.instruction}
        shown |= {key: note for key, note in notes.items() if note is not None}
        params = [ResultColumn.of(each.name, each.type).to_dict() for each in declared.params]
        return {**shown, "mutation": self.is_mutation, "params": params}


class StoredQueries:
    """The stored queries of one graph.

    Args:
        queries: no two with one name.
    """

    def __init__(self, queries: Iterable[StoredQuery] = ()) -> None:
        self._queries = {query.name: query for query in queries}

    @classmethod
    def read(cls, files: QueryFiles, graph: Graph) -> StoredQueries:
        """All queries of some files.

        Raises:
            InputError: a file cannot be read, holds no queries of the language, or two queries have one name.
            QueryTypeError: a query does not fit the schema.
        """
        catalog = _whole_catalog(graph)
        places: dict[str, Path] = {}
        found = []
        for file, only in files.files():
            text, name = text_of(file, _SUFFIX)
            parsed = parse_queries(text, name)
            for declared in parsed.queries if only is None else [parsed.find(only)]:
                if declared.name in places:
                    raise InputError(
                        f"stored query '{declared.name}' is in {places[declared.name]} and in {file}",
                        hint="give one of them another name",
                    )
                places[declared.name] = file
                check_query(declared, catalog)
                found.append(StoredQuery(text, declared))
        return cls(found)

    def __len__(self) -> int:
        return len(self._queries)

    def find(self, name: str) -> StoredQuery | None:
        """A query by its name, whoever may run it."""
        return self._queries.get(name)

    def get(self, name: str, graph: Graph) -> StoredQuery:
        """A query that the actor of a graph may know.

        Raises:
            QueryNotFound: there is none, or the actor may not see what it is about.
        """
        query = self._queries.get(name)
        if query is None or query in self._hidden(graph, [query]):
            raise no_stored_query()
        return query

    def listed(self, graph: Graph) -> list[StoredQuery]:
        """The queries that the actor of a graph may know, by name."""
        queries = [query for _, query in sorted(self._queries.items())]
        hidden = self._hidden(graph, queries)
        return [query for query in queries if query not in hidden]

    def _hidden(self, graph: Graph, queries: list[StoredQuery]) -> list[StoredQuery]:
        """The queries about types that the actor may not see. One that fits no schema any more is not hidden: running
        it says why."""
        if graph.internals.guard is None:
            return []
        whole, shown = _whole_catalog(graph), graph.catalog_of(ids.MAIN)
        if whole.hash == shown.hash:
            return []
        return [query for query in queries if query.fits(whole) and not query.fits(shown)]


def _whole_catalog(graph: Graph) -> Catalog:
    """All types of main, whatever the actor may see."""
    internals = graph.internals
    return internals.catalog_of(internals.store.snapshot(ids.MAIN))
