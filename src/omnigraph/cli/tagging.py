"""`omnigraph tag create|list|delete`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from omnigraph.cli.addressing import Accepts
from omnigraph.cli.arguments import Message
from omnigraph.cli.command import Invocation, Json, Uri, UriOption, command
from omnigraph.cli.printing import grid, local_time, print_json

_Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the tag.")]


def register_tag(app: typer.Typer) -> None:
    group = typer.Typer(help="Name states that stay readable.", no_args_is_help=True)
    app.add_typer(group, name="tag")

    @command(group, "tag create", Accepts.WRITE)
    def create(
        cli: Invocation,
        name: _Name,
        uri: UriOption = None,
        branch: Annotated[
            str | None, typer.Option("--branch", metavar="BRANCH", help="Branch that is meant.  [default: main]")
        ] = None,
        snapshot: Annotated[
            str | None,
            typer.Option("--snapshot", metavar="ID", help="State to name: a commit id, tag:NAME, a version or a time."),
        ] = None,
        message: Message = None,
        json: Json = False,
    ) -> None:
        """Name a state, by default the newest one; --snapshot tag:NAME reads it ever after."""
        address = cli.address(uri, how="--uri URI")
        cli.echo(address)
        with cli.graph(address, "rw") as graph:
            made = graph.tags.create(name, snapshot, branch=branch, message=message)
        if json:
            print_json({"uri": address.uri, **made.to_dict()})
        else:
            sys.stdout.write(f"created tag {made.name} of {made.branch} at version {made.version}\n")
            sys.stdout.write(f"commit_id: {made.commit_id}\n")

    @command(group, "tag list", Accepts.WRITE)
    def list_(cli: Invocation, address: Uri = None, uri: UriOption = None, json: Json = False) -> None:
        """List the tags by name, with the states that they name."""
        with cli.graph(cli.address(address, uri)) as graph:
            tags = graph.tags.list()
        if json:
            print_json({"tags": [tag.to_dict() for tag in tags]})
        elif not tags:
            sys.stdout.write("(no tags)\n")
        else:
            rows = [
                (
                    tag.name,
                    tag.commit_id,
                    tag.branch,
                    local_time(tag.created_at),
                    tag.actor or "",
                    (tag.message or "").partition("\n")[0],
                )
                for tag in tags
            ]
            head = ("tag", "commit", "branch", "created", "actor", "message")
            sys.stdout.write("".join(f"{line}\n" for line in grid(head, rows, texts=len(head))))

    @command(group, "tag delete", Accepts.WRITE)
    def delete(cli: Invocation, name: _Name, uri: UriOption = None, json: Json = False) -> None:
        """Delete a tag; its state stays until a cleanup."""
        address = cli.address(uri, how="--uri URI")
        cli.echo(address)
        with cli.graph(address, "rw") as graph:
            graph.tags.delete(name)
        if json:
            print_json({"uri": address.uri, "name": name.strip(), "actor_id": cli.author(address, graph)})
        else:
            sys.stdout.write(f"deleted tag {name.strip()}\n")
