"""`omnigraph mcp`: one graph as tools for an agent that starts this process, over its standard input and output."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from omnigraph.cli.addressing import Accepts, Address, served_uri
from omnigraph.cli.arguments import existing_data
from omnigraph.cli.command import Invocation, Uri, command
from omnigraph.cli.error_text import UsageError
from omnigraph.errors import MissingExtra

if TYPE_CHECKING:
    from omnigraph import Graph
    from omnigraph.mcp.agent_branch import AgentBranch
    from omnigraph.mcp.desk import Surroundings


def register_mcp(app: typer.Typer) -> None:
    @command(app, "mcp", Accepts.WRITE)
    def mcp(
        cli: Invocation,
        uri: Uri = None,
        branch: Annotated[
            str | None,
            typer.Option(
                "--branch",
                metavar="BRANCH",
                help="Where the agent writes: a branch, or 'direct'. By default a branch of its own, agent/<actor>.",
            ),
        ] = None,
        queries: Annotated[
            str | None,
            typer.Option("--queries", metavar="PATH", help="Stored queries of a store: a file or directory."),
        ] = None,
    ) -> None:
        """Serve one graph to an agent: the Model Context Protocol over standard input and output."""
        if find_spec("mcp") is None:
            raise MissingExtra("tools for agents need the package mcp", hint="pip install 'omnigraph[mcp]'")
        from omnigraph.mcp.desk import Desk
        from omnigraph.mcp.over_stdio import serve_stdio

        address = _address(cli, uri)
        if address.is_served and queries is not None:
            raise UsageError("--queries is for a store, and a server has its own", hint="leave it out")
        cli.echo(address)
        if address.is_served:
            with _opened(cli, address) as graph:
                serve_stdio(Desk(graph, _behind(cli, graph, address), _branch(branch, _actor_of(cli, address))))
        else:
            with cli.graph(address, "rw") as graph:
                serve_stdio(Desk(graph, _beside(graph, address, queries), _branch(branch, cli.actor)))


def _address(cli: Invocation, uri: str | None) -> Address:
    """The graph that is meant; the environment names it when nothing else does."""
    flags = cli.flags
    base = os.environ.get("OMNIGRAPH_BASE_URL", "").strip()
    if not base or any((uri, flags.server, flags.store, flags.profile)):
        return cli.address(uri, how="its address")
    graph = flags.graph or os.environ.get("OMNIGRAPH_GRAPH_ID", "").strip()
    if not graph:
        hint = "set OMNIGRAPH_GRAPH_ID, or pass --graph"
        raise UsageError("OMNIGRAPH_BASE_URL names a server; which of its graphs?", hint=hint)
    return Address(served_uri(base.rstrip("/"), graph))


def _branch(asked: str | None, actor: str | None) -> AgentBranch:
    from omnigraph.mcp.agent_branch import AgentBranch

    wanted = asked if asked is not None else os.environ.get("OMNIGRAPH_MCP_BRANCH")
    return AgentBranch.of(wanted, actor, os.environ.get("OMNIGRAPH_DEFAULT_BRANCH"))


def _opened(cli: Invocation, address: Address) -> Graph:
    """The graph behind a server, with the token that belongs to it."""
    import omnigraph

    return cast("Graph", omnigraph.open(address.uri, token=_token(cli, address)))


def _token(cli: Invocation, address: Address) -> str | None:
    from omnigraph.cli.credentials import token_for

    return os.environ.get("OMNIGRAPH_TOKEN", "").strip() or token_for(address.uri, cli.config)


def _actor_of(cli: Invocation, address: Address) -> str | None:
    """Whom the server takes the agent for; else whom the configuration names."""
    from omnigraph.mcp.served_surroundings import served_actor

    return served_actor(address.uri, _token(cli, address)) or cli.actor


def _behind(cli: Invocation, graph: Graph, address: Address) -> Surroundings:
    from omnigraph.mcp.served_surroundings import ServedSurroundings

    return ServedSurroundings(graph, address.uri, _token(cli, address))


def _beside(graph: Graph, address: Address, queries: str | None) -> Surroundings:
    from omnigraph.mcp.store_surroundings import StoreSurroundings
    from omnigraph.server.stored_queries import QueryFiles, StoredQueries

    name = Path(address.uri.rstrip("/")).name.removesuffix(".omni")
    files = QueryFiles((existing_data(queries),)) if queries is not None else QueryFiles()
    return StoreSurroundings(graph, name, StoredQueries.read(files, graph))
