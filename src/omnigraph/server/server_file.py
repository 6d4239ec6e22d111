"""`server.yaml` → settings, or the first thing that is wrong with it, with line and column.

Paths are relative to the file. A key that nobody knows is an error at every level.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import fields
from pathlib import Path

from omnigraph.errors import InputError, PolicyError, ServerFileError
from omnigraph.policy.audit_log import STANDARD_OUTPUT
from omnigraph.policy.strict_yaml import Value, read_yaml
from omnigraph.server.server_limits import ServerLimits
from omnigraph.server.server_settings import DEFAULT_BIND, GraphSettings, ServerSettings
from omnigraph.server.stored_queries import QueryFiles
from omnigraph.server.tokens import TokenSources

_KEYS = ("version", "bind", "graphs", "policy", "tokens", "audit", "limits", "traces")
_GRAPH_KEYS = ("uri", "queries", "policy")
_ENDING = ".omni"

GRAPH_ID = re.compile(r"[a-zA-Z0-9-]{1,64}")

#: Ids that would be mistaken for something else.
RESERVED_IDS = ("graphs", "healthz", "openapi", "policies")
ID_RULE = f"an id has 1 to 64 letters, digits and hyphens, and is none of {', '.join(RESERVED_IDS)}"


def is_graph_id(name: str) -> bool:
    return GRAPH_ID.fullmatch(name) is not None and name not in RESERVED_IDS


def read_server_file(path: Path, environment: Mapping[str, str]) -> ServerSettings:
    """The settings that a file says.

    Args:
        environment: names tokens and limits where the file does not.

    Raises:
        ServerFileError: the file breaks a rule.
        InputError: it cannot be read.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8 text: byte {error.start} fits no character") from None
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from None
    try:
        return _settings(read_yaml(text, str(path)), path.parent, environment)
    except PolicyError as error:
        found = ServerFileError(error.message, hint=error.hint)
        found.details = dict(error.details)
        raise found from None


def _settings(whole: Value, home: Path, environment: Mapping[str, str]) -> ServerSettings:
    parts = whole.mapping(_KEYS, required=("version", "graphs"))
    parts["version"].require_number(1)
    graphs = tuple(_graph(name, value, home) for name, value in parts["graphs"].mapping().items())
    if not graphs:
        raise parts["graphs"].wrong("there is no graph to serve", hint="name one: people: {uri: people.omni}")
    tokens = parts["tokens"].mapping(("file",), required=("file",))["file"].string() if "tokens" in parts else None
    audit = parts["audit"].string() if "audit" in parts else None
    limits = (_limits(parts["limits"]) if "limits" in parts else ServerLimits()).with_environment(environment)
    return ServerSettings(
        graphs,
        bind=parts["bind"].string() if "bind" in parts else DEFAULT_BIND,
        tokens=TokenSources.of(environment, home / tokens if tokens is not None else None),
        policy=home / parts["policy"].string() if "policy" in parts else None,
        audit=audit if audit in (None, STANDARD_OUTPUT) else str(home / audit),
        limits=limits,
        traces=parts["traces"].boolean() if "traces" in parts else None,
    )


def _graph(name: str, given: Value, home: Path) -> GraphSettings:
    if not is_graph_id(name):
        raise given.wrong(f"'{name}' is no id of a graph", hint=ID_RULE)
    parts = given.mapping(_GRAPH_KEYS, required=("uri",))
    uri = parts["uri"].string()
    queries = _queries(parts["queries"], home) if "queries" in parts else QueryFiles()
    policy = home / parts["policy"].string() if "policy" in parts else None
    return GraphSettings(name, uri if "://" in uri else str(home / uri), queries, policy)


def _queries(given: Value, home: Path) -> QueryFiles:
    """A file or a directory, a list of them, or files by the names of their queries."""
    if given.is_mapping:
        named = given.mapping().items()
        return QueryFiles(
            named={name: home / each.mapping(("file",), required=("file",))["file"].string() for name, each in named}
        )
    paths = given.strings() if given.is_list else (given.string(),)
    return QueryFiles(tuple(home / path for path in paths))


def _limits(given: Value) -> ServerLimits:
    defaults = ServerLimits()
    known = {each.name: getattr(defaults, each.name) for each in fields(ServerLimits)}
    found: dict[str, float] = {}
    for name, value in given.mapping(tuple(known)).items():
        whole = isinstance(known[name], int) and not name.endswith("_seconds")
        lowest = 0 if name == "notice_seconds" or name.startswith(("waiting_", "export_wait")) else 1
        number = value.number(lowest)
        if whole and not isinstance(number, int):
            raise value.wrong(f"{value.name} must be a whole number")
        found[name] = number
    return ServerLimits(**found)  # type: ignore[arg-type]


def graphs_at(paths: Iterable[str], policy: Path | None, queries: Path | None = None) -> tuple[GraphSettings, ...]:
    """The graphs at addresses: each a graph, or a directory of graphs whose names end in ``.omni``.

    Raises:
        InputError: a graph has a name that can be no id, or two have the same.
    """
    found: dict[str, GraphSettings] = {}
    for path in paths:
        inside = [] if "://" in path or path.rstrip("/").endswith(_ENDING) else sorted(Path(path).glob(f"*{_ENDING}"))
        for uri in [str(each) for each in inside] or [path]:
            name = uri.rstrip("/").rpartition("/")[2].removesuffix(_ENDING)
            if not is_graph_id(name):
                raise InputError(
                    f"{uri} gives the graph the id '{name}'", hint=f"{ID_RULE}; server.yaml can name it otherwise"
                )
            if name in found:
                raise InputError(
                    f"{found[name].uri} and {uri} give two graphs the id '{name}'", hint="use a server.yaml"
                )
            found[name] = GraphSettings(name, uri, QueryFiles.at(queries), policy)
    return tuple(found.values())
