"""`omnigraph mutate`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from omnigraph import ids
from omnigraph.cli.flags import Accepts
from omnigraph.cli.output import print_json
from omnigraph.cli.texts import Asked, Name, Params, ParamsFile, QueryFile, QueryText
from omnigraph.cli.verb import Branch, Json, Scope, verb
from omnigraph.errors import PreconditionFailed


def register(app: typer.Typer) -> None:
    @verb(app, "mutate", Accepts.WRITE)
    def mutate(
        scope: Scope,
        name: Name = None,
        file: QueryFile = None,
        text: QueryText = None,
        params: Params = None,
        params_file: ParamsFile = None,
        branch: Branch = ids.MAIN,
        if_commit: Annotated[
            str | None, typer.Option("--if-commit", metavar="COMMIT", help="Refuse unless this is the branch's head.")
        ] = None,
        json: Json = False,
    ) -> None:
        """Run a write query as one commit."""
        asked = Asked(file, text, params, params_file)
        source = asked.source("mutate")
        with scope.graph(scope.address(how="--store URI"), "rw") as graph, scope.interruptible(graph, branch):
            try:
                done = graph.mutate(source, name, asked.values(), branch=branch, if_commit=if_commit)
            except PreconditionFailed as lost:
                if json:
                    failure = {key: lost.details[key] for key in ("expected", "actual")}
                    print_json({"error": lost.message, "precondition_failure": failure})
                raise
        if json:
            print_json(done.to_dict())
            return
        sys.stdout.write(
            f"changed {done.branch} via {done.query_name}: {done.affected_nodes} nodes, {done.affected_edges} edges\n"
        )
        if done.actor is not None:
            sys.stdout.write(f"actor_id: {done.actor}\n")
