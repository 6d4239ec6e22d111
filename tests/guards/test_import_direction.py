"""Who may know whom inside src/, and which room may use which foreign package.

The two tables are the rule. A room that is not in the table fails, so a new room is a decision, not an accident.
Imports count wherever they stand: at the top, inside a function, under ``TYPE_CHECKING``, as ``import_module("…")``.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache

import pytest

from tests.support.source_tree import ROOT, Source, python_sources

BASE = {"choices", "errors", "given", "ids", "integers", "limits", "tokenizer"}
INSIDE = BASE | {"failpoints", "logs", "lru", "progress", "read_budget", "text_hash"}
ROOMS_OF_GRAPH = {"schema_registry", "history", "upkeep", "embed", "engine", "write", "storage", "query", "schema"}
FRONT_DOOR = "omnigraph"

MAY_KNOW: dict[str, set[str]] = {
    # the ground floor
    "error_base": set(),
    "errors": {"error_base"},
    "choices": set(),
    "given": {"errors"},
    "integers": set(),
    "limits": set(),
    "ids": {"errors", "limits"},
    "failpoints": {"errors"},
    "logs": set(),
    "lru": set(),
    "progress": set(),
    "read_budget": {"errors", "given", "limits"},
    "text_hash": set(),
    "tokenizer": set(),
    # who may do what knows nothing of storage
    "policy": INSIDE,
    # the two languages know nothing of files
    "schema": BASE | {"lru"},
    "query": BASE | {"schema"},
    # tables and versions, not nodes and edges
    "storage": INSIDE,
    # which schema a state has
    "schema_registry": INSIDE | {"storage", "schema"},
    # the rooms that work on a graph
    "engine": INSIDE | {"storage", "query", "schema"},
    "write": INSIDE | {"storage", "query", "schema", "schema_registry", "engine"},
    "history": INSIDE | {"storage", "schema", "schema_registry", "write"},
    "upkeep": INSIDE | {"storage", "schema", "schema_registry", "write", "embed"},
    # texts → vectors; only the statistics ask it
    "embed": INSIDE | {"storage", "query", "schema", "schema_registry", "write"},
    # the facade, and the front door that shows it
    "graph": INSIDE | ROOMS_OF_GRAPH | {"policy"},
    FRONT_DOOR: INSIDE | ROOMS_OF_GRAPH | {"policy", "graph", "client", "aio"},
    # the second engine: sees the rooms; of the inner ones only `ENGINES` knows it
    "spark": INSIDE | ROOMS_OF_GRAPH | {"graph", FRONT_DOOR},
    "pyspark_omnigraph": {"spark"},
    # what goes over the wire, and the server behind it
    "wire": INSIDE | ROOMS_OF_GRAPH | {"graph"},
    "server": INSIDE | ROOMS_OF_GRAPH | {"policy", "graph", "wire", FRONT_DOOR},
    # a graph behind a server, with the verbs of `graph`
    "client": INSIDE | ROOMS_OF_GRAPH | {"graph", "wire", "policy"},
    "aio": {"client"},
    # tools for agents, over a graph here or behind a server; hangs itself into the server
    "mcp": BASE | {"logs", "policy", "history", "wire", "server", "client", FRONT_DOOR},
    # the command line
    "cli": BASE | {"graph", FRONT_DOOR, "spark", "mcp", "server", "client"},
    "__main__": {"cli"},
}

#: The one module inside that imports Spark's room, and only inside a function: Spark is loaded when it is needed.
ENGINES = "src/omnigraph/graph/engines.py"

#: The front door shows Spark's room as `omnigraph.spark`; to type checkers it says so by an import.
SHOWN = ("src/omnigraph/__init__.py", "omnigraph.spark")

ONLY_IN: dict[str, set[str]] = {
    "lance": {"storage"},
    "obstore": {"storage"},
    "lark": {"schema", "query"},
    "cedarpy": {"policy"},
    "pyspark": {"spark", "pyspark_omnigraph"},
    "httpx2": {"client"},
    "starlette": {"mcp"},
    "uvicorn": {"server"},
    "prometheus_client": {"server"},
    "mcp": {"mcp"},
    "mcp_types": {"mcp"},
}


def violations(source: Source) -> list[str]:
    """One sentence for each import that breaks a table."""
    room = room_of(source.path)
    if room not in MAY_KNOW:
        return [f"{source.path}: room '{room}' is not in the table; decide whom it may know"]
    found = []
    for line, module in imported_modules(source):
        top = module.partition(".")[0]
        if source.path == ENGINES and module.startswith("omnigraph.spark.") and line not in lines_at_import(source):
            continue
        if (source.path, module) == SHOWN:
            continue
        if top in ONLY_IN and room not in ONLY_IN[top]:
            found.append(f"{source.path}:{line}: '{room}' uses {top}, which belongs to {sorted(ONLY_IN[top])}")
        if top in {"omnigraph", "pyspark_omnigraph"}:
            target = room_of_module(module)
            if target != room and target not in MAY_KNOW[room]:
                found.append(f"{source.path}:{line}: '{room}' must not know '{target}' (imports {module})")
    return found


def room_of(path: str) -> str:
    """src/omnigraph/storage/commit/publish.py → storage; src/omnigraph/ids.py → ids; __init__.py → the front door."""
    return room_of_module(module_of(path))


def module_of(path: str) -> str:
    parts = path.removeprefix("src/").removesuffix(".py").split("/")
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def room_of_module(module: str) -> str:
    """The second part of a module's name. A name that is no room, such as ``Graph``, is got from the front door."""
    top, _, rest = module.partition(".")
    if top != "omnigraph" or not rest:
        return top
    second, deeper = rest.partition(".")[::2]
    is_room = deeper or second in MAY_KNOW or second in _rooms_on_disk()
    return second if is_room else FRONT_DOOR


@cache
def _rooms_on_disk() -> set[str]:
    return {path.stem for path in (ROOT / "src/omnigraph").iterdir() if path.is_dir() or path.suffix == ".py"}


def imported_modules(source: Source) -> Iterator[tuple[int, str]]:
    """Line and absolute name of everything a file imports; ``from a import b`` gives ``a.b``."""
    package = _package_of(source.path)
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            base = _absolute(package, node.level, node.module)
            for alias in node.names:
                yield node.lineno, f"{base}.{alias.name}"
        elif isinstance(node, ast.Call) and _is_dynamic_import(node.func) and node.args:
            name = node.args[0]
            if isinstance(name, ast.Constant) and isinstance(name.value, str):
                yield node.lineno, name.value


def lines_at_import(source: Source) -> set[int]:
    """Lines of the statements that run when a module is imported: those outside functions."""
    waiting: list[ast.AST] = [source.tree]
    lines = set()
    while waiting:
        node = waiting.pop()
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            lines.add(getattr(node, "lineno", 0))
            waiting += ast.iter_child_nodes(node)
    return lines


def _package_of(path: str) -> list[str]:
    parts = module_of(path).split(".")
    return parts if path.endswith("__init__.py") else parts[:-1]


def _absolute(package: list[str], level: int, module: str | None) -> str:
    if level == 0:
        return module or ""
    anchor = package[: len(package) - (level - 1)]
    return ".".join([*anchor, *([module] if module else [])])


def _is_dynamic_import(function: ast.expr) -> bool:
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    return name in {"import_module", "__import__"}


def test_every_import_in_src_keeps_the_direction() -> None:
    sources = python_sources("src")
    assert sources
    broken = [sentence for source in sources for sentence in violations(source)]
    assert not broken, "\n".join(broken)


def test_every_room_of_the_tables_exists() -> None:
    named = set(MAY_KNOW).union(*MAY_KNOW.values(), *ONLY_IN.values())
    assert named - {FRONT_DOOR, "pyspark_omnigraph"} <= _rooms_on_disk()


def test_the_table_has_no_circle() -> None:
    seen: set[str] = set()

    def visit(room: str, above: tuple[str, ...]) -> None:
        assert room not in above, " → ".join([*above, room])
        if room not in seen:
            for known in MAY_KNOW[room]:
                visit(known, (*above, room))
            seen.add(room)

    for room in MAY_KNOW:
        visit(room, ())


@pytest.mark.parametrize(
    ("path", "text"),
    [
        pytest.param("src/omnigraph/query/scan.py", "import lance\n", id="lance outside storage"),
        pytest.param("src/omnigraph/write/put.py", "from obstore.store import S3Store\n", id="obstore outside storage"),
        pytest.param("src/omnigraph/storage/parse.py", "from lark import Lark\n", id="lark outside the languages"),
        pytest.param("src/omnigraph/engine/run.py", "import pyspark.sql as sql\n", id="pyspark outside spark"),
        pytest.param("src/omnigraph/graph/graph.py", "from pyspark.sql import Row\n", id="pyspark in the facade"),
        pytest.param("src/omnigraph/storage/table.py", "from omnigraph.schema.catalog import X\n", id="upwards"),
        pytest.param("src/omnigraph/storage/table.py", "from omnigraph import schema\n", id="room by from-import"),
        pytest.param("src/omnigraph/schema/diff.py", "import omnigraph.storage.commit\n", id="schema knows files"),
        pytest.param("src/omnigraph/schema/diff.py", "from omnigraph import Graph\n", id="front door from inside"),
        pytest.param("src/omnigraph/schema/diff.py", "import omnigraph\n", id="front door as a module"),
        pytest.param("src/omnigraph/ids.py", "from . import graph\n", id="relative from a module"),
        pytest.param("src/omnigraph/query/plan.py", "from ..engine.run import go\n", id="relative from a room"),
        pytest.param("src/omnigraph/query/__init__.py", "from ..engine import run\n", id="relative from a package"),
        pytest.param("src/omnigraph/graph/graph.py", "def f():\n    import omnigraph.spark\n", id="inside a function"),
        pytest.param(
            "src/omnigraph/engine/run.py",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import lance\n",
            id="for types only",
        ),
        pytest.param(
            "src/omnigraph/graph/graph.py",
            "from importlib import import_module\nimport_module('omnigraph.spark')\n",
            id="by name",
        ),
        pytest.param(
            "src/omnigraph/graph/engines.py", "from omnigraph.spark.session import session\n", id="Spark, not lazily"
        ),
        pytest.param("src/omnigraph/graph/engines.py", "def f():\n    import pyspark\n", id="pyspark itself, lazily"),
        pytest.param("src/pyspark_omnigraph/__init__.py", "import omnigraph.storage\n", id="the tiny package grows"),
        pytest.param("src/omnigraph/attic/box.py", "import json\n", id="a room nobody decided on"),
    ],
)
def test_a_planted_wrong_import_is_found(path: str, text: str) -> None:
    assert violations(Source(path, text))


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("src/omnigraph/storage/table.py", "import lance\nfrom omnigraph import errors\nfrom omnigraph.ids import X\n"),
        ("src/omnigraph/storage/commit/publish.py", "from omnigraph.storage.table import X\nfrom . import gate\n"),
        ("src/omnigraph/query/parse.py", "from lark import Lark\nfrom omnigraph.schema.catalog import Catalog\n"),
        ("src/omnigraph/spark/load.py", "import pyspark\nfrom omnigraph import open as open_graph\n"),
        ("src/omnigraph/__init__.py", "from omnigraph.graph import Graph\nfrom omnigraph import errors\n"),
        ("src/omnigraph/graph/engines.py", "def f():\n    from omnigraph.spark.session import session\n"),
        ("src/pyspark_omnigraph/__init__.py", "from omnigraph.spark.data_source import X\nimport pyspark\n"),
        ("src/omnigraph/schema/lint.py", "import lancelot\nfrom dataclasses import dataclass\n"),
    ],
)
def test_a_right_import_is_left_alone(path: str, text: str) -> None:
    assert violations(Source(path, text)) == []
