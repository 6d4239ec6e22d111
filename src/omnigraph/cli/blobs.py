"""`omnigraph blob get|stat`: the bytes of one property of one row, and what is known of them."""

from __future__ import annotations

import sys
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from omnigraph.cli.addressing import Accepts
from omnigraph.cli.arguments import writable_file
from omnigraph.cli.command import Invocation, Json, command
from omnigraph.cli.error_text import UsageError
from omnigraph.cli.printing import print_json
from omnigraph.cli.read import BranchOption, SnapshotOption, moment

if TYPE_CHECKING:
    from omnigraph import Blob


class EntityKind(StrEnum):
    """What a type is a type of."""

    NODE = "node"
    EDGE = "edge"


_Entity = Annotated[EntityKind, typer.Argument(metavar="ENTITY", help="node or edge.")]
_Type = Annotated[str, typer.Argument(metavar="TYPE", help="Type of the row.")]
_Id = Annotated[str, typer.Argument(metavar="ID", help="Id of the row.")]
_Property = Annotated[str, typer.Argument(metavar="PROPERTY", help="Its Blob property.")]


def register_blob(app: typer.Typer) -> None:
    group = typer.Typer(help="Read the bytes of Blob properties.", no_args_is_help=True)
    app.add_typer(group, name="blob")

    @command(group, "blob get", Accepts.READ)
    def get(
        cli: Invocation,
        entity: _Entity,
        type_: _Type,
        id_: _Id,
        property_: _Property,
        branch: BranchOption = None,
        snapshot: SnapshotOption = None,
        offset: Annotated[int, typer.Option("--offset", metavar="N", min=0, help="Byte to begin with.")] = 0,
        length: Annotated[
            int | None, typer.Option("--length", metavar="N", min=1, help="Bytes to read at most.  [default: all]")
        ] = None,
        out: Annotated[
            str | None, typer.Option("--out", metavar="PATH", help="File to write instead of stdout.")
        ] = None,
        force: Annotated[bool, typer.Option("--force", help="Write bytes to a terminal, too.")] = False,
    ) -> None:
        """Write the bytes of a blob, or some of them, as they are."""
        state = moment(branch, snapshot)
        if out is not None:
            writable_file(out)
        elif sys.stdout.isatty() and not force:
            raise UsageError(
                "the bytes of a blob may confuse a terminal", hint="pass --out PATH, redirect stdout, or pass --force"
            )
        with cli.graph(cli.address(how="--store URI")) as graph:
            blob = graph.blob(f"{entity}:{type_}", id_, property_, **state)
            blob.save(sys.stdout.buffer if out is None else out, offset, length)
        sys.stdout.buffer.flush()

    @command(group, "blob stat", Accepts.READ)
    def stat(
        cli: Invocation,
        entity: _Entity,
        type_: _Type,
        id_: _Id,
        property_: _Property,
        branch: BranchOption = None,
        snapshot: SnapshotOption = None,
        json: Json = False,
    ) -> None:
        """Show size, etag and place of a blob without reading it."""
        state = moment(branch, snapshot)
        with cli.graph(cli.address(how="--store URI")) as graph:
            blob = graph.blob(f"{entity}:{type_}", id_, property_, **state)
            shown = _described_blob(blob, entity, branch, snapshot)
        if json:
            print_json(shown)
            return
        sys.stdout.write(f"{entity}:{type_}/{id_} {property_}\n")
        for name in ("kind", "size", "etag", "uri"):
            if name in shown:
                sys.stdout.write(f"{name}: {shown[name]}\n")
        sys.stdout.write(f"snapshot: {shown['target']['resolved_snapshot']}\n")


def _described_blob(blob: Blob, entity: EntityKind, branch: str | None, snapshot: str | None) -> dict[str, Any]:
    """What is known without a look outside of the graph; what does not apply is left out."""
    managed = blob.kind == "managed"
    target = {
        "branch": blob.snapshot.branch if snapshot is None else branch,
        "snapshot": snapshot,
        "resolved_snapshot": blob.snapshot.commit_id,
    }
    shown = {
        "selector": {"entity": str(entity), "type": blob.type, "id": blob.id, "property": blob.property},
        "kind": blob.kind,
        "size": blob.size if managed else None,
        "etag": blob.etag,
        "uri": blob.uri,
        "target": {name: value for name, value in target.items() if value is not None},
    }
    return {name: value for name, value in shown.items() if value is not None}
