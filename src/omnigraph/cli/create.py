"""`omnigraph init`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from omnigraph.cli.flags import Accepts
from omnigraph.cli.texts import existing_text
from omnigraph.cli.verb import Scope, verb


def register(app: typer.Typer) -> None:
    @verb(app, "init", Accepts.NOTHING)
    def init(
        scope: Scope,
        uri: Annotated[str, typer.Argument(metavar="URI", help="Directory, file:// or s3:// address to create.")],
        schema: Annotated[str, typer.Option("--schema", metavar="FILE", help="The schema (.pg).")],
        force: Annotated[bool, typer.Option("--force", help="Replace schema files that belong to no graph.")] = False,
    ) -> None:
        """Create a graph from a schema."""
        import omnigraph

        address = scope.address(uri)
        omnigraph.init(address.uri, existing_text(schema), actor=scope.actor, force=force).close()
        sys.stdout.write(f"initialized {uri}\n")
