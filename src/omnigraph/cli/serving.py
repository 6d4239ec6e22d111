"""`omnigraph serve`, and the executable `omnigraph-server`, which is the same command."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from omnigraph.cli.addressing import Accepts
from omnigraph.cli.command import Invocation, command
from omnigraph.cli.error_text import UsageError
from omnigraph.errors import MissingExtra


def register_serve(app: typer.Typer) -> None:
    @command(app, "serve", Accepts.NOTHING)
    def serve(
        cli: Invocation,
        paths: Annotated[
            list[str] | None, typer.Argument(metavar="PATH…", help="Graphs, or directories of *.omni graphs.")
        ] = None,
        config: Annotated[Path | None, typer.Option("--config", metavar="FILE", help="A server.yaml.")] = None,
        bind: Annotated[
            str | None, typer.Option("--bind", metavar="HOST:PORT", help="Where to listen; 127.0.0.1:8080 by default.")
        ] = None,
        unauthenticated: Annotated[
            bool, typer.Option("--unauthenticated", help="Serve everybody, when there is no token and no policy.")
        ] = False,
        policy: Annotated[
            Path | None, typer.Option("--policy", metavar="FILE", help="Rules for each of the graphs.")
        ] = None,
        server_policy: Annotated[
            Path | None,
            typer.Option("--server-policy", metavar="FILE", help="Rules of the server: who may list its graphs."),
        ] = None,
        tokens: Annotated[
            Path | None, typer.Option("--tokens", metavar="FILE", help="JSON object from actor to token.")
        ] = None,
        audit: Annotated[
            str | None, typer.Option("--audit", metavar="FILE", help="Where decisions are recorded; - for the output.")
        ] = None,
        queries: Annotated[
            Path | None, typer.Option("--queries", metavar="PATH", help="Stored queries: a .gq file or a directory.")
        ] = None,
        require_all_graphs: Annotated[
            bool, typer.Option("--require-all-graphs", help="Do not start when a graph cannot be opened.")
        ] = False,
    ) -> None:
        """Serve graphs over HTTP until the process is told to stop."""
        try:
            from dataclasses import replace

            from omnigraph.mcp.server_app import mcp_sub_app
            from omnigraph.server.serve import serve as serve_graphs
            from omnigraph.server.server_file import graphs_at, read_server_file
            from omnigraph.server.server_limits import ServerLimits
            from omnigraph.server.server_settings import DEFAULT_BIND, ServerSettings
            from omnigraph.server.tokens import TokenSources
        except ImportError as error:
            raise MissingExtra(
                f"a server needs the package '{error.name}'", hint="pip install 'omnigraph[server]'"
            ) from None

        if bool(paths) == (config is not None):
            raise UsageError("a server is told what to serve by PATHs or by --config", hint="give one of them")
        if config is not None and (policy is not None or queries is not None):
            raise UsageError("--policy and --queries belong to PATHs", hint="name them for each graph in the file")
        environment = _environment()
        if config is not None:
            settings = read_server_file(config, environment)
        else:
            settings = ServerSettings(
                graphs_at(paths or (), policy, queries),
                bind=environment["OMNIGRAPH_BIND"].strip() or DEFAULT_BIND,
                tokens=TokenSources.of(environment),
                limits=ServerLimits().with_environment(environment),
            )
        settings = replace(
            settings,
            bind=bind or settings.bind,
            policy=server_policy or settings.policy,
            tokens=settings.tokens if tokens is None else TokenSources.of(environment, tokens),
            audit=audit or settings.audit,
            unauthenticated=unauthenticated or _is_set(environment["OMNIGRAPH_UNAUTHENTICATED"]),
            require_all_graphs=require_all_graphs or _is_set(environment["OMNIGRAPH_REQUIRE_ALL_GRAPHS"]),
        )
        serve_graphs(settings, sub_apps=(mcp_sub_app(),), say=_say)


def _environment() -> dict[str, str]:
    """What the environment says to a server; blank where it says nothing."""
    return {
        name: os.environ.get(name, "")
        for name in (
            "OMNIGRAPH_BIND",
            "OMNIGRAPH_UNAUTHENTICATED",
            "OMNIGRAPH_REQUIRE_ALL_GRAPHS",
            "OMNIGRAPH_QUERY_TIMEOUT_MS",
            "OMNIGRAPH_PER_ACTOR_INFLIGHT_MAX",
            "OMNIGRAPH_PER_ACTOR_BYTES_MAX",
            "OMNIGRAPH_SERVER_BEARER_TOKEN",
            "OMNIGRAPH_SERVER_BEARER_TOKENS_FILE",
            "OMNIGRAPH_SERVER_BEARER_TOKENS_JSON",
            "OMNIGRAPH_SERVER_BEARER_TOKENS_AWS_SECRET",
        )
    }


def _is_set(text: str) -> bool:
    return text.strip().lower() not in ("", "0", "false")


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> None:
    """The executable `omnigraph-server`."""
    from omnigraph.cli.main import main as run

    if sys.argv[1:2] not in (["-v"], ["--version"]):
        sys.argv.insert(1, "serve")
    run()
