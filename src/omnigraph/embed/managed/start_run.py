"""What a caller asks of a run, checked; and the provider that it will ask."""

from __future__ import annotations

from collections.abc import Sequence

from omnigraph import given, limits
from omnigraph.embed.embedder import Embedder
from omnigraph.embed.embedding_settings import settings_from
from omnigraph.embed.managed.embed_graph import EmbedEngines, EmbedRequest, embed_graph
from omnigraph.embed.managed.embed_result import EmbedResult
from omnigraph.embed.managed.row_states import managed_properties
from omnigraph.errors import InputError
from omnigraph.progress import ProgressListener, reporter
from omnigraph.schema_registry import SchemaRegistry
from omnigraph.storage.graph_store import GraphStore


def embed_request(
    branch: str,
    types: Sequence[str] | str | None,
    limit: int | None,
    budget: int | None,
    rows: int | None,
    actor: str | None,
) -> EmbedRequest:
    """The bounds of a run.

    Raises:
        InputError: an argument is of the wrong kind or too small.
    """
    size = limits.EMBEDDING_COMMIT_ROWS if rows is None else given.count(rows, "rows")
    if size < 1:
        raise InputError("rows is 0, and a commit has at least one", hint="leave it out")
    return EmbedRequest(
        branch,
        None if types is None else given.texts(types, "types"),
        None if limit is None else given.count(limit, "limit"),
        None if budget is None else given.count(budget, "budget"),
        size,
        actor=actor,
    )


def run_embedding(
    store: GraphStore,
    schemas: SchemaRegistry,
    request: EmbedRequest,
    engines: EmbedEngines,
    progress: bool | ProgressListener | None,
) -> EmbedResult:
    """Embed what a branch lacks, by the provider of the environment; without such a property nobody is asked."""
    if not managed_properties(schemas.of(store.named(store.snapshot(request.branch))).catalog, request.types):
        return EmbedResult(request.branch, "", 0, 0, 0, 0, 0, 0, (), None)
    embedder = Embedder(settings_from())
    with reporter(progress) as report:
        return embed_graph(store, schemas, request, embedder, engines, report)
