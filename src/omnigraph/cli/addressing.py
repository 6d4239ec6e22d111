"""The global flags, which command takes which of them, and the graph that they name.

A flag that a command cannot use is an error and never ignored. An address on the command line comes before a profile,
a profile before the defaults in the configuration.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from enum import Enum

from omnigraph.cli.config import Config, config_path
from omnigraph.cli.error_text import UsageError
from omnigraph.errors import InputError


@dataclass(frozen=True, slots=True)
class Flags:
    """The global flags as given, before or after the command."""

    server: str | None = None
    cluster: str | None = None
    graph: str | None = None
    store: str | None = None
    actor: str | None = None
    profile: str | None = None
    yes: bool = False
    quiet: bool = False
    debug: bool = False


@dataclass(frozen=True, slots=True)
class _Spelling:
    """How a global flag is written, and what to do where it is not taken."""

    flag: str
    instead: str


#: In the order in which they are checked.
_SPELLINGS = {
    "server": _Spelling("--server", "it works on storage directly"),
    "cluster": _Spelling("--cluster", "address the graph itself"),
    "graph": _Spelling("--graph", "a store is already one graph"),
    "store": _Spelling("--store", "it takes the address as an argument"),
    "actor": _Spelling("--as", "it writes nothing in anybody's name"),
    "profile": _Spelling("--profile", "it takes the address as an argument"),
}

#: Accepted by the grammar of the command line, but what they lead to does not exist in this version.
_LATER = {
    "server": "there is no server in this version",
    "cluster": "there are no clusters in this version",
    "graph": "it selects a graph of a server or a cluster, and this version has neither",
}


class Accepts(Enum):
    """Groups of commands by the flags they take."""

    WRITE = frozenset({"server", "graph", "store", "actor", "profile"})
    READ = frozenset({"server", "graph", "store", "profile"})
    DIRECT = frozenset({"cluster", "graph", "store", "profile"})
    PLAN = frozenset({"store", "profile"})
    NOTHING = frozenset[str]()

    def shown(self, name: str) -> bool:
        """Whether the help of such a command lists a flag."""
        return name not in _SPELLINGS or (name in self.value and name not in _LATER)


@dataclass(frozen=True, slots=True)
class FlagCheck:
    """A command and the flags it takes."""

    command: str
    accepts: Accepts
    instead: str = field(default="pass --store or a profile")

    def refuse_unusable(self, flags: Flags) -> None:
        for name, spelling in _SPELLINGS.items():
            if getattr(flags, name) is None:
                continue
            if name not in self.accepts.value:
                raise UsageError(f"'{self.command}' does not take {spelling.flag}: {spelling.instead}")
            if name in _LATER:
                raise UsageError(f"{spelling.flag} cannot be used yet: {_LATER[name]}", hint=self.instead)


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
        positional: address given as an argument or with ``--uri``, if the command takes one.
        how: how this command is told its graph, for the error message.
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
    raise UsageError("which graph?", hint=f"give {', '.join(ways)}")


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
