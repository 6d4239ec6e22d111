"""`omnigraph login` and `logout`: the token of one server in the operator's credentials file."""

from __future__ import annotations

import getpass
import sys
from typing import Annotated

import typer

from omnigraph.cli.addressing import Accepts
from omnigraph.cli.command import Invocation, Json, command
from omnigraph.cli.config import config_path
from omnigraph.cli.credentials import credentials_path, remove_token, server_name, store_token
from omnigraph.cli.printing import print_json
from omnigraph.errors import InputError

#: Longest token that is read, in characters.
_LONGEST = 65_536

_Server = Annotated[str, typer.Argument(metavar="NAME", help="Name of the server, as in config.yaml.")]


def register_login(app: typer.Typer) -> None:
    @command(app, "login", Accepts.LOCAL)
    def login(
        cli: Invocation,
        name: _Server,
        token: Annotated[
            str | None, typer.Option("--token", metavar="TOKEN", help="The token; without it, the first line of stdin.")
        ] = None,
        json: Json = False,
    ) -> None:
        """Store the token for a server, for its owner's eyes only."""
        server = server_name(name)
        is_declared = server in cli.config.servers
        store_token(server, _checked(_asked() if token is None else token))
        if not is_declared:
            sys.stderr.write(f"note: no server '{server}' is declared in {config_path()}; the token waits for one\n")
        if json:
            shown = {"server": server, "credentials_path": str(credentials_path()), "declared": is_declared}
            print_json(shown)
        else:
            sys.stdout.write(f"stored credential for {server} in {credentials_path()}\n")


def register_logout(app: typer.Typer) -> None:
    @command(app, "logout", Accepts.LOCAL)
    def logout(cli: Invocation, name: _Server, json: Json = False) -> None:
        """Forget the token for a server."""
        server = server_name(name)
        remove_token(server)
        if json:
            print_json({"server": server, "credentials_path": str(credentials_path())})
        else:
            sys.stdout.write(f"removed credential for {server} from {credentials_path()}\n")


def _asked() -> str:
    """The first line of stdin; a person types it unseen."""
    if sys.stdin.isatty():
        return getpass.getpass("token: ", stream=sys.stderr)
    return sys.stdin.readline(_LONGEST)


def _checked(given: str) -> str:
    token = given.strip()
    if not token:
        raise InputError("the token is empty", hint="pass --token, or give it as the first line of stdin")
    if not (token.isascii() and token.isprintable()) or " " in token:
        raise InputError("a token holds no blanks, control characters or letters outside of ASCII")
    return token
