"""The global flags, which command takes which of them, and the graph that they name.

A flag that a command cannot use is an error and never ignored. An address on the command line comes before a profile,
a profile before the defaults in the configuration. What is found is a store, or a graph of a server.
"""

from __future__ import annotations

import os
from collections.abc import Callable
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

#: What a command says instead, where the sentence above does not fit it.
_OTHERWISE = {
    "SERVED": {"store": "it asks a server"},
    "SERVER": {"graph": "it asks the server, not one of its graphs", "store": "it asks a server"},
    "LOCAL": dict.fromkeys(_SPELLINGS, "it addresses no graph"),
    "ALIAS": dict.fromkeys(_SPELLINGS, "the alias says where its query is"),
}


class Accepts(Enum):
    """Groups of commands by the flags they take."""

    WRITE = ("server graph store actor profile",)
    READ = ("server graph store profile",)
    DIRECT = ("cluster graph store profile",)
    STORE_WRITE = ("store actor profile",)
    SERVED = ("server graph profile",)
    SERVER = ("server profile",)
    NOTHING = ("",)
    LOCAL = ("", "local")
    ALIAS = ("", "alias")

    @property
    def flags(self) -> frozenset[str]:
        return frozenset(self.value[0].split())

    def shown(self, name: str) -> bool:
        """Whether the help of such a command lists a flag."""
        if name not in _SPELLINGS:
            return True
        return name in self.flags and name != "cluster" and not (name == "graph" and self is Accepts.DIRECT)


@dataclass(frozen=True, slots=True)
class FlagCheck:
    """A command and the flags it takes."""

    command: str
    accepts: Accepts
    instead: str = field(default="pass --store or a profile")

    def refuse_unusable(self, flags: Flags) -> None:
        given = [name for name in _SPELLINGS if getattr(flags, name) is not None]
        wrong = [name for name in given if name not in self.accepts.flags]
        if wrong and self.accepts is Accepts.ALIAS:
            self._refuse(wrong)
        for name in given:
            if name in wrong:
                self._refuse([name])
            if name == "cluster":
                raise UsageError(
                    "--cluster cannot be used yet: there are no clusters in this version", hint=self.instead
                )

    def _refuse(self, names: list[str]) -> None:
        spellings = ", ".join(_SPELLINGS[name].flag for name in names)
        why = _OTHERWISE.get(self.accepts.name, {}).get(names[0], _SPELLINGS[names[0]].instead)
        raise UsageError(f"'{self.command}' does not take {spellings}: {why}")


@dataclass(frozen=True, slots=True)
class Address:
    """Where a graph is: its storage, or its address behind a server."""

    uri: str

    @property
    def is_served(self) -> bool:
        return is_server(self.uri)

    @property
    def is_local(self) -> bool:
        return "://" not in self.uri or self.uri.lower().startswith("file://")

    @property
    def access(self) -> str:
        return "served" if self.is_served else "direct, local" if self.is_local else "direct, remote"


#: Gives the ids of the graphs of a server, or None when it does not tell.
Lister = Callable[[str], list[str] | None]


@dataclass(frozen=True, slots=True)
class Resolver:
    """Finds the graph that a command is about.

    Attributes:
        command: what the person typed, for messages.
        direct: the command works on the storage itself.
        lister: asked for the graphs of a server when the address names none.
    """

    command: str
    flags: Flags
    config: Config
    direct: bool = False
    lister: Lister = lambda base: None

    def address(self, positional: str | None, how: str) -> Address:
        """The graph that is meant.

        Args:
            positional: address given as an argument or with ``--uri``, if the command takes one.
            how: how this command is told its graph, for the error message.
        """
        store = positional if positional is not None else self.flags.store
        named = {"by argument": positional, "by --store": self.flags.store, "by --server": self.flags.server}
        given = [way for way, value in named.items() if value is not None]
        if len(given) > 1:
            raise UsageError(f"the graph is addressed twice: {' and '.join(given)}", hint="give one of them")
        if self.flags.server is not None:
            return self._of_server(self.flags.server, None, None)
        if store is not None:
            return self._of_uri(store, None)
        return self._from_config(how)

    def server(self) -> str:
        """The address of the server that is meant, without any of its graphs."""
        if self.flags.server is not None:
            return _base(self.config.server_url(self.flags.server))[0]
        scope, _ = self._scope()
        if scope is None:
            raise UsageError("which server?", hint=f"give --server NAME|URL, --profile NAME, {_defaults('server')}")
        kind, where, who = scope
        if kind != "server":
            raise InputError(f"{who} names the {kind} '{where}', and '{self.command}' asks a server", hint=_PASS_SERVER)
        return _base(self.config.server_url(where))[0]

    def _scope(self) -> tuple[tuple[str, str, str] | None, str | None]:
        """Kind, place and origin of what a profile or the defaults name, and the graph that goes with it."""
        name = self.flags.profile or os.environ.get("OMNIGRAPH_PROFILE")
        if name:
            profile = self.config.profile(name)
            kind, where = profile.scope()
            return (kind, where, f"profile '{name}'"), profile.default_graph
        if self.config.server is not None:
            return ("server", self.config.server, "defaults.server"), self.config.default_graph
        if self.config.store is not None:
            return ("store", self.config.store, "defaults.store"), None
        return None, None

    def _from_config(self, how: str) -> Address:
        scope, graph = self._scope()
        if scope is None:
            ways = [how, "--store URI", *([] if self.direct else ["--server NAME|URL"]), "--profile NAME"]
            hint = f"give {', '.join(dict.fromkeys([*ways, 'OMNIGRAPH_PROFILE', _defaults('store')]))}"
            raise UsageError("which graph?", hint=hint)
        kind, where, who = scope
        if kind == "server":
            return self._of_server(where, who, graph)
        if kind == "cluster":
            raise InputError(
                f"{who} names the cluster '{where}', and there are no clusters in this version", hint=_PASS
            )
        return self._of_uri(where, who)

    def _of_uri(self, uri: str, who: str | None) -> Address:
        if is_server(uri):
            return self._of_server(uri, who, None)
        if self.flags.graph is not None:
            which = f"{who} names the store '{uri}', which" if who else f"'{uri}'"
            hint = "leave out --graph" if self.direct else "leave out --graph, or pass --server"
            raise UsageError(f"{which} is already one graph", hint=hint)
        return Address(uri)

    def _of_server(self, name: str, who: str | None, default: str | None) -> Address:
        """One graph of a server.

        Args:
            who: what names the server; None for the command line itself.
            default: the id of the graph, unless ``--graph`` or the address itself says it.
        """
        if self.direct:
            what = f"'{self.command}' works on the storage itself, and"
            if who is None:
                raise UsageError(f"{what} '{_bare(name)}' is a server", hint=_WHERE_STORED)
            raise InputError(f"{what} {who} names the server '{_bare(name)}'", hint=_WHERE_STORED)
        base, within = _base(self.config.server_url(name))
        if within is not None and self.flags.graph is not None:
            raise UsageError(
                f"'{_bare(name)}' is already one graph", hint="leave out --graph, or the path to the graph"
            )
        graph = within or self.flags.graph or default
        if graph is None:
            ids = self.lister(base)
            if ids:
                raise UsageError(f"which graph of {base}?", hint=f"pass --graph with one of {', '.join(ids)}")
            return Address(base)
        return Address(served_uri(base, graph))


_PASS = "pass --store URI, or --server NAME|URL"
_PASS_SERVER = "pass --server NAME|URL"
_WHERE_STORED = "give the directory, file:// or s3:// where the server keeps the graph"


def _bare(url: str) -> str:
    """An address without a name and a password, for messages."""
    scheme, found, rest = url.partition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme}{found}{host.rpartition('@')[2]}{slash}{path}"


def _defaults(key: str) -> str:
    return f"or defaults.{key} in {config_path()}"


def is_server(uri: str) -> bool:
    """Whether an address is that of a server, and not of a storage."""
    return uri[:8].lower().startswith(("http://", "https://"))


def served_uri(base: str, graph: str) -> str:
    """The address of a graph behind a server; its id is one part of the path, whatever is in it."""
    from urllib.parse import quote

    if not graph.strip():
        raise UsageError("--graph names no graph", hint="give an id, or leave it out")
    return f"{base}/graphs/{quote(graph, safe='')}"


def _base(url: str) -> tuple[str, str | None]:
    """The address of a server without what ends it, and the graph that it goes on to name."""
    from omnigraph.client.address import server_address

    if not is_server(url):
        scheme = url.partition("://")[0]
        raise InputError(f"a server has no address with '{scheme}://'", hint="write http://host:8080 or https://host")
    found = server_address(url)
    return found.root, found.graph
