"""The global flags, and which verb takes which of them.

A flag that a verb cannot use is an error and never ignored. The check comes before anything else and reports the first
offender, in the order of the table.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from omnigraph.cli.errors import UsageError


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
    """Groups of verbs by the flags they take."""

    WRITE = frozenset({"server", "graph", "store", "actor", "profile"})
    READ = frozenset({"server", "graph", "store", "profile"})
    DIRECT = frozenset({"cluster", "graph", "store", "profile"})
    PLAN = frozenset({"store", "profile"})
    NOTHING = frozenset[str]()

    def shown(self, name: str) -> bool:
        """Whether the help of such a verb lists a flag."""
        return name not in _SPELLINGS or (name in self.value and name not in _LATER)


@dataclass(frozen=True, slots=True)
class FlagCheck:
    """A verb and what it takes."""

    verb: str
    accepts: Accepts
    instead: str = field(default="pass --store or a profile")

    def refuse_unusable(self, flags: Flags) -> None:
        for name, spelling in _SPELLINGS.items():
            if getattr(flags, name) is None:
                continue
            if name not in self.accepts.value:
                raise UsageError(f"'{self.verb}' does not take {spelling.flag}: {spelling.instead}")
            if name in _LATER:
                raise UsageError(f"{spelling.flag} cannot be used yet: {_LATER[name]}", hint=self.instead)
