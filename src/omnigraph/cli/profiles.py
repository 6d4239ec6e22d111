"""`omnigraph profile list|show`: what the names in the operator's configuration stand for."""

from __future__ import annotations

import os
import sys
from typing import Annotated, Any

import typer

from omnigraph.cli.addressing import Accepts
from omnigraph.cli.command import Invocation, Json, command
from omnigraph.cli.config import Config, Profile
from omnigraph.cli.printing import print_json
from omnigraph.errors import InputError

_DEFAULTS = "(defaults)"


def register_profile(app: typer.Typer) -> None:
    group = typer.Typer(help="Show the profiles of config.yaml.", no_args_is_help=True)
    app.add_typer(group, name="profile")

    @command(group, "profile list", Accepts.LOCAL)
    def list_(cli: Invocation, json: Json = False) -> None:
        """List the profiles by name, with what each of them addresses."""
        described = [_described(profile, cli.config) for _, profile in sorted(cli.config.profiles.items())]
        if json:
            print_json(described)
        else:
            sys.stdout.write("".join(f"{_line(each)}\n" for each in described) or "(no profiles)\n")

    @command(group, "profile show", Accepts.LOCAL)
    def show(
        cli: Invocation,
        name: Annotated[
            str | None, typer.Argument(metavar="[NAME]", help="A profile.  [default: the active one, or the defaults]")
        ] = None,
        json: Json = False,
    ) -> None:
        """Show what a profile addresses, resolved."""
        wanted = name or _active()
        profile = _defaults_of(cli.config) if wanted is None else cli.config.profile(wanted)
        shown = _resolved(profile, cli.config)
        if json:
            print_json(shown)
        else:
            lines = (f"{key}: {value}\n" for key, value in shown.items() if value is not None)
            sys.stdout.write("".join(lines))


def _active() -> str | None:
    return os.environ.get("OMNIGRAPH_PROFILE") or None


def _defaults_of(config: Config) -> Profile:
    return Profile(_DEFAULTS, server=config.server, store=config.store, default_graph=config.default_graph)


def _described(profile: Profile, config: Config) -> dict[str, Any]:
    """A profile in the list; one that cannot be used says why."""
    kind, target, error = None, None, None
    try:
        kind, target = profile.scope()
        if kind == "server":
            config.server_url(target)
    except InputError as wrong:
        error = wrong.message
    return {
        "name": profile.name,
        "binding": None if kind is None else f"{kind}: {target}",
        "scope_kind": kind,
        "target": target,
        "valid": error is None,
        "error": error,
        "default_graph": profile.default_graph,
        "active": profile.name == _active(),
    }


def _line(described: dict[str, Any]) -> str:
    name = f"{described['name']}{' (active)' if described['active'] else ''}"
    graph = f" · graph: {described['default_graph']}" if described["default_graph"] else ""
    binding = f"{described['binding']}{graph}" if described["binding"] else ""
    error = f"invalid: {described['error']}" if described["error"] else ""
    return "  ".join(part for part in (name, binding, error) if part)


def _resolved(profile: Profile, config: Config) -> dict[str, Any]:
    """What commands work on under a profile. Defaults may name nothing."""
    is_nothing = profile.name == _DEFAULTS and profile.server is None and profile.store is None
    kind, target = ("none", None) if is_nothing else profile.scope()
    endpoint = config.server_url(target) if kind == "server" and target is not None else None
    return {
        "name": profile.name,
        "scope_kind": kind,
        "target": target,
        "endpoint": endpoint,
        "default_graph": profile.default_graph,
        "output_format": config.output or "table",
    }
