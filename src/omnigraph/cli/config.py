"""The operator's own file: `$OMNIGRAPH_HOME/config.yaml`, by default `~/.omnigraph/config.yaml`.

No file is an empty configuration, one that cannot be read is an error, and a key that nobody knows is a warning.
Entries that nobody uses may be incomplete. Tokens are never in this file; see `credentials.py`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from omnigraph.cli.error_text import warn
from omnigraph.errors import InputError
from omnigraph.ids import did_you_mean

FORMATS = ("table", "kv", "csv", "jsonl", "json")

_SECTIONS: dict[str, frozenset[str]] = {
    "operator": frozenset({"actor"}),
    "defaults": frozenset(
        {"output", "table_max_column_width", "table_cell_layout", "server", "store", "default_graph"}
    ),
}
_NAMED: dict[str, frozenset[str]] = {
    "servers": frozenset({"url"}),
    "clusters": frozenset({"root"}),
    "profiles": frozenset({"server", "cluster", "store", "default_graph"}),
    "aliases": frozenset({"server", "graph", "query", "args", "params", "format"}),
}
_TABLE_WIDTH = 80
_LAYOUTS = ("truncate", "wrap")
SCOPES = ("server", "cluster", "store")


@dataclass(frozen=True, slots=True)
class Profile:
    """A name for an address; exactly one of the three is set once it is used."""

    name: str
    server: str | None = None
    cluster: str | None = None
    store: str | None = None
    default_graph: str | None = None

    def scope(self) -> tuple[str, str]:
        """What it names (``server``, ``cluster`` or ``store``) and where that is."""
        given = [(kind, getattr(self, kind)) for kind in SCOPES if getattr(self, kind) is not None]
        if len(given) != 1:
            raise InputError(f"profile '{self.name}' must name exactly one of server, cluster and store")
        return given[0]


@dataclass(frozen=True, slots=True)
class Shortcut:
    """An entry of ``aliases``: a stored query of one server, and how its parameters are given."""

    name: str
    server: str | None = None
    graph: str | None = None
    query: str | None = None
    args: tuple[str, ...] = ()
    params: Mapping[str, Any] = field(default_factory=dict)
    format: str | None = None


@dataclass(frozen=True, slots=True)
class Config:
    """What the operator's file says."""

    actor: str | None = None
    output: str | None = None
    table_width: int = _TABLE_WIDTH
    table_wraps: bool = False
    server: str | None = None
    store: str | None = None
    default_graph: str | None = None
    servers: Mapping[str, str | None] = field(default_factory=dict)
    profiles: Mapping[str, Profile] = field(default_factory=dict)
    aliases: Mapping[str, Shortcut] = field(default_factory=dict)

    def server_url(self, name: str) -> str:
        """The address of a server: that of an entry of ``servers``, or what is an address itself."""
        if "://" in name:
            return name
        if name not in self.servers:
            hint = did_you_mean(name, self.servers) or "give its URL, or declare it below servers"
            raise InputError(f"there is no server '{name}' in {config_path()}", hint=hint)
        url = self.servers[name]
        if url is None:
            raise InputError(f"server '{name}' has no url in {config_path()}")
        return url

    def profile(self, name: str) -> Profile:
        if name not in self.profiles:
            hint = did_you_mean(name, self.profiles) or "none is defined there"
            raise InputError(f"there is no profile '{name}' in {config_path()}", hint=hint)
        return self.profiles[name]


def home() -> Path:
    """The directory of what belongs to the operator."""
    try:
        return Path(os.environ.get("OMNIGRAPH_HOME") or "~/.omnigraph").expanduser()
    except RuntimeError:
        raise InputError("OMNIGRAPH_HOME begins with a home directory that cannot be found") from None


def config_path() -> Path:
    return home() / "config.yaml"


def read_config() -> Config:
    """The operator's configuration; keys that nobody knows are reported on stderr."""
    path = config_path()
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (FileNotFoundError, NotADirectoryError):
        return Config()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read {path}: {error}", file=str(path)) from None
    return _Reader(path).config(_parsed(path, text))


def _parsed(path: Path, text: str) -> Any:
    import yaml

    try:
        return yaml.safe_load(text) or {}
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f":{mark.line + 1}:{mark.column + 1}" if mark else ""
        problem = getattr(error, "problem", None) or "it is not YAML"
        raise InputError(f"{path}{place}: {problem}", file=str(path)) from None


@dataclass(frozen=True, slots=True)
class _Reader:
    """Makes a configuration of what a file holds, or says what is wrong with it."""

    path: Path

    def config(self, given: Any) -> Config:
        sections = self._mapping(given, "the file")
        self._report_unknown(sections, {*_SECTIONS, *_NAMED}, "")
        operator, defaults = (self._section(sections, name) for name in ("operator", "defaults"))
        named = {kind: self._named(sections, kind) for kind in _NAMED}
        if "store" in defaults and ("server" in defaults or "default_graph" in defaults):
            raise self._wrong("defaults.store cannot stand beside defaults.server or defaults.default_graph")
        return Config(
            actor=self._text(operator, "operator", "actor"),
            output=self._one_of(defaults, "defaults", "output", FORMATS),
            table_width=self._width(defaults),
            table_wraps=self._one_of(defaults, "defaults", "table_cell_layout", _LAYOUTS) == "wrap",
            server=self._text(defaults, "defaults", "server"),
            store=self._text(defaults, "defaults", "store"),
            default_graph=self._text(defaults, "defaults", "default_graph"),
            servers={name: self._text(entry, f"servers.{name}", "url") for name, entry in named["servers"].items()},
            profiles={
                name: Profile(name, *(self._text(entry, f"profiles.{name}", key) for key in (*SCOPES, "default_graph")))
                for name, entry in named["profiles"].items()
            },
            aliases={name: self._shortcut(name, entry) for name, entry in named["aliases"].items()},
        )

    def _shortcut(self, name: str, entry: Mapping[str, Any]) -> Shortcut:
        place = f"aliases.{name}"
        args = entry.get("args") or []
        is_list = isinstance(args, list) and all(isinstance(each, str) for each in args)
        self._checked(args, f"{place}.args", "a list of texts", lambda _: is_list)
        params = self._mapping(entry.get("params") or {}, f"{place}.params")
        self._checked(
            params, f"{place}.params", "a mapping with texts as keys", lambda given: all(map(_is_text, given))
        )
        texts = {key: self._text(entry, place, key) for key in ("server", "graph", "query")}
        format_ = self._one_of(entry, place, "format", FORMATS)
        return Shortcut(name, **texts, args=tuple(args), params=params, format=format_)

    def _section(self, sections: Mapping[str, Any], name: str) -> Mapping[str, Any]:
        section = self._mapping(sections.get(name) or {}, name)
        self._report_unknown(section, _SECTIONS[name], f"{name}.")
        return section

    def _named(self, sections: Mapping[str, Any], kind: str) -> dict[str, Mapping[str, Any]]:
        entries = self._mapping(sections.get(kind) or {}, kind)
        found = {str(name): self._mapping(entry or {}, f"{kind}.{name}") for name, entry in entries.items()}
        for name, entry in found.items():
            self._report_unknown(entry, _NAMED[kind], f"{kind}.{name}.")
        return found

    def _report_unknown(self, given: Mapping[str, Any], known: frozenset[str] | set[str], prefix: str) -> None:
        for key in given:
            if key not in known:
                warn(f"{self.path}: unknown key '{prefix}{key}' is ignored")

    def _mapping(self, given: Any, what: str) -> Mapping[str, Any]:
        return self._checked(given, what, "a mapping", lambda value: isinstance(value, dict))  # type: ignore[no-any-return]

    def _text(self, section: Mapping[str, Any], place: str, key: str) -> str | None:
        value = section.get(key)
        return self._checked(value, f"{place}.{key}", "text", lambda given: given is None or isinstance(given, str))  # type: ignore[no-any-return]

    def _one_of(self, section: Mapping[str, Any], place: str, key: str, known: tuple[str, ...]) -> str | None:
        value = section.get(key)
        expected = f"one of {', '.join(known)}"
        return self._checked(value, f"{place}.{key}", expected, lambda given: given is None or given in known)  # type: ignore[no-any-return]

    def _width(self, defaults: Mapping[str, Any]) -> int:
        value = defaults.get("table_max_column_width", _TABLE_WIDTH)
        what = "defaults.table_max_column_width"
        return self._checked(value, what, "a whole number", lambda given: type(given) is int)  # type: ignore[no-any-return]

    def _checked(self, value: Any, what: str, expected: str, fits: Callable[[Any], bool]) -> Any:
        if not fits(value):
            raise self._wrong(f"{what} must be {expected}")
        return value

    def _wrong(self, problem: str) -> InputError:
        return InputError(f"{self.path}: {problem}", file=str(self.path))


def _is_text(value: Any) -> bool:
    return isinstance(value, str)
