"""`omnigraph snapshot`, `verify` and `recover`: what a graph consists of, whether it is sound, and what mends it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from omnigraph import ids, limits
from omnigraph.cli.errors import FAILED
from omnigraph.cli.flags import Accepts
from omnigraph.cli.output import print_json
from omnigraph.cli.verb import Branch, Json, Scope, Uri, verb

if TYPE_CHECKING:
    from omnigraph import Snapshot


def register(app: typer.Typer) -> None:
    @verb(app, "snapshot", Accepts.WRITE)
    def snapshot(scope: Scope, uri: Uri = None, branch: Branch = ids.MAIN, json: Json = False) -> None:
        """Show which tables in which versions a branch consists of."""
        with scope.graph(scope.address(uri)) as graph:
            shown = _described(graph.snapshot(branch))
        if json:
            print_json(shown)
            return
        for key in ("graph_branch", "graph_manifest_version", "internal_schema_version"):
            sys.stdout.write(f"{key}: {shown[key]}\n")
        sys.stdout.write("".join(map(_line, shown["datasets"])))

    @verb(app, "verify", Accepts.DIRECT)
    def verify(
        scope: Scope,
        uri: Uri = None,
        deep: Annotated[bool, typer.Option("--deep", help="Also read every value and compare it.")] = False,
        json: Json = False,
    ) -> None:
        """Check that a graph is whole; changes nothing. Exit code 1 when it is not."""
        with scope.graph(scope.address(uri)) as graph:
            report = graph.verify(deep=deep)
        if json:
            print_json(report.to_dict())
        else:
            sys.stdout.write(f"{report}\n")
        if not report.ok:
            sys.exit(FAILED)

    @verb(app, "recover", Accepts.DIRECT)
    def recover(
        scope: Scope,
        uri: Uri = None,
        discard: Annotated[
            bool, typer.Option("--discard", help="Also take back what other software wrote to the tables.")
        ] = False,
        json: Json = False,
    ) -> None:
        """Finish what dead writers left, and put the copies of the commits in order."""
        address = scope.address(uri)
        scope.echo(address)
        with scope.graph(address, "rw") as graph:
            graph.recover(discard=discard)
        if json:
            print_json({"ok": True})
        else:
            sys.stdout.write("no interrupted write is left, the copies of the commits are complete\n")


def _described(snapshot: Snapshot) -> dict[str, Any]:
    tables = []
    for key, pin in sorted(snapshot.tables.items()):
        kind, _, name = key.partition(":")
        tables.append(
            {
                "entity_kind": kind,
                "type_name": name,
                "dataset_path": pin.location,
                "published_dataset_version": pin.version,
                "native_dataset_branch": pin.branch,
                "entity_count": pin.row_count,
            }
        )
    return {
        "graph_branch": snapshot.branch,
        "graph_manifest_version": snapshot.version,
        "internal_schema_version": limits.INTERNAL_SCHEMA_VERSION,
        "datasets": tables,
    }


def _line(table: dict[str, Any]) -> str:
    lineage = table["native_dataset_branch"] or ids.MAIN
    return (
        f"{table['entity_kind']} type '{table['type_name']}'"
        f" published_dataset_version={table['published_dataset_version']}"
        f" native_dataset_branch={lineage} entities={table['entity_count']}\n"
    )
