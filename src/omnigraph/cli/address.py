"""Which graph a command means: an address on the command line, a profile, or the operator's defaults, in this order."""

from __future__ import annotations

import os
from dataclasses import dataclass

from omnigraph.cli.config import Config, config_path
from omnigraph.cli.errors import UsageError
from omnigraph.cli.flags import Flags
from omnigraph.errors import InputError


@dataclass(frozen=True, slots=True)
class Address:
    """Where a graph is stored."""

    uri: str

    @property
    def is_local(self) -> bool:
        return "://" not in self.uri or self.uri.lower().startswith("file://")

    @property
    def access(self) -> str:
        return "direct, local" if self.is_local else "direct, remote"


def resolve(flags: Flags, config: Config, positional: str | None, how: str) -> Address:
    """The graph that is meant.

    Args:
        positional: address given as an argument or with ``--uri``, if the verb takes one.
        how: how this verb can be told, for the error when nobody said.
    """
    given = [uri for uri in (positional, flags.store) if uri is not None]
    if len(given) > 1:
        raise UsageError("the graph is addressed twice: by argument and by --store", hint="give one of them")
    if given:
        return _storage(given[0])
    name = flags.profile or os.environ.get("OMNIGRAPH_PROFILE")
    if name:
        kind, where = config.profile(name).scope()
        return _direct(kind, where, f"profile '{name}'")
    if config.server is not None:
        return _direct("server", config.server, "defaults.server")
    if config.store is not None:
        return _storage(config.store)
    at_home = f"or defaults.store in {config_path()}"
    ways = dict.fromkeys([how, "--store URI", "--profile NAME", "OMNIGRAPH_PROFILE", at_home])
    raise InputError("which graph?", hint=f"give {', '.join(ways)}")


def _direct(kind: str, where: str, who: str) -> Address:
    if kind != "store":
        raise InputError(
            f"{who} names the {kind} '{where}', and this version works on stores only", hint="pass --store URI"
        )
    return _storage(where)


def _storage(uri: str) -> Address:
    if uri.lower().startswith(("http://", "https://")):
        raise UsageError(
            f"'{uri}' is the address of a server, not of a store", hint="a store is a directory, file:// or s3://"
        )
    return Address(uri)
