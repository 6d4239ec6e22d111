"""`omnigraph alias`: a stored query of one server under a name of the operator's own."""

from __future__ import annotations

import json as json_texts
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Annotated, Any

import typer

from omnigraph.cli.addressing import Accepts, Flags, Resolver
from omnigraph.cli.arguments import Params, ParamsFile, QueryArguments
from omnigraph.cli.asked_query import AskedQuery
from omnigraph.cli.command import Invocation, Json, command
from omnigraph.cli.config import Shortcut, config_path
from omnigraph.cli.error_text import UsageError
from omnigraph.cli.read import FormatOption, print_read, refuse_two_formats
from omnigraph.errors import InputError


def register_alias(app: typer.Typer) -> None:
    @command(app, "alias", Accepts.ALIAS)
    def alias(
        cli: Invocation,
        name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the alias, in config.yaml.")],
        args: Annotated[
            list[str] | None, typer.Argument(metavar="[ARGS]...", help="Parameters in the order that the alias names.")
        ] = None,
        params: Params = None,
        params_file: ParamsFile = None,
        format_: FormatOption = None,
        json: Json = False,
    ) -> None:
        """Run a stored read query by the operator's own name for it."""
        refuse_two_formats(format_, json)
        shortcut = _known(cli.config.aliases, name)
        given = QueryArguments(None, None, params, params_file).values() or {}
        asked = AskedQuery(None, shortcut.query, {**_fixed(shortcut), **_positional(shortcut, args or ()), **given})
        flags = Flags(server=shortcut.server, graph=shortcut.graph, quiet=cli.flags.quiet, debug=cli.flags.debug)
        address = Resolver(cli.command, flags, cli.config, lister=cli.resolver.lister).address(None, "")
        with cli.graph(address) as graph:
            print_read(cli, asked.query(graph, {}), format_ or shortcut.format, json=json)


def _known(aliases: Mapping[str, Shortcut], name: str) -> Shortcut:
    if name not in aliases:
        hint = f"there are {', '.join(sorted(aliases))}" if aliases else "none is defined there"
        raise InputError(f"there is no alias '{name}' in {config_path()}", hint=hint)
    shortcut = aliases[name]
    for key, value in (("server", shortcut.server), ("query", shortcut.query)):
        if not value:
            raise InputError(f"alias '{name}' has no {key} in {config_path()}")
    return shortcut


def _fixed(shortcut: Shortcut) -> dict[str, Any]:
    """The values in the file; YAML makes dates of some texts, which are texts again on the way."""
    try:
        fixed: dict[str, Any] = json_texts.loads(json_texts.dumps(dict(shortcut.params), default=_text_of))
    except ValueError:
        raise InputError(f"aliases.{shortcut.name}.params in {config_path()} holds what JSON cannot") from None
    return fixed


def _text_of(value: object) -> str:
    if isinstance(value, date):
        return value.isoformat()
    raise ValueError


def _positional(shortcut: Shortcut, given: Sequence[str]) -> dict[str, Any]:
    """Values by the names that the alias gives to its places."""
    if len(given) > len(shortcut.args):
        takes = " ".join(each.upper() for each in shortcut.args) or "no arguments"
        raise UsageError(f"alias '{shortcut.name}' takes {takes}, and {len(given)} are given")
    return {name: _value(text) for name, text in zip(shortcut.args, given, strict=False)}


def _value(text: str) -> Any:
    """A value of JSON, else the text as it is."""
    try:
        return json_texts.loads(text)
    except (ValueError, RecursionError):
        return text
