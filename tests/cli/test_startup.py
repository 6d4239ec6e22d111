"""A command pays for what it does: which modules are imported, and how long a process lasts."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import omnigraph as og
from benchmarks.cli import LANCE_ALONE
from benchmarks.start import processes
from tests.support.command_line import EXECUTABLE, CommandLine
from tests.support.served import served

ASK = (
    "-e",
    "query q($k: String) { match { $p: Person { handle: $k } } return { $p.name } }",
    "--params",
    '{"k": "ana"}',
)

CHANGE = (
    "-e",
    "query q($k: String) { update Person set { name: $k } where handle = $k }",
    "--params",
    '{"k": "ana"}',
)

#: Nothing of this has any business in a read of one key: other packages, and modules of ours.
OTHERS_NOT_FOR_A_QUERY = (
    r"pandas|pydantic|pyspark|py4j|rich|typer\.rich_utils|yaml|asyncio|ulid|pyarrow\.(parquet|csv|json)"
    r"|httpx2|httpcore2|starlette|uvicorn|mcp|cedarpy|numpy\.ma|html|secrets|tempfile|glob|concurrent"
)
#: What only a graph behind a server needs.
OURS_FOR_SERVERS = (
    "cli.credentials",
    "cli.served_access",
    "client.opened",
    "client.remote_graph",
    "client.server_connection",
    "mcp",
    "server",
    "wire",
)
OURS_NOT_FOR_A_QUERY = (
    *OURS_FOR_SERVERS,
    "write",
    "engine.topology",
    "engine.topology_files",
    "engine.adjacency",
    "engine.arranged_result",
    "engine.ordering",
    "engine.grouping",
    "engine.explanation",
    "query.plan.explain",
    "schema.schema_warnings",
    "storage.objects.user_files",
    "upkeep",
    "spark",
    "history.merge",
    "history.feed",
    "history.diff",
    "history.branch_load",
    "history.export",
    "history.branches",
    "history.schema_apply",
    "history.staged_schema",
    "schema.evolve",
    "schema.index_plan",
    "query.lint_queries",
    "storage.commit",
    "storage.recovery",
    "storage.create_graph",
    "storage.delta",
    "storage.tables.stage_rows",
    "storage.tables.stage_columns",
    "storage.tables.table_indexes",
)
#: A change of one row by its key finds it without the engine, and meets no interrupted work.
OTHERS_NOT_FOR_A_MUTATION = OTHERS_NOT_FOR_A_QUERY.removesuffix("|concurrent")
OURS_NOT_FOR_A_MUTATION = (
    *OURS_FOR_SERVERS,
    "engine",
    "query.plan",
    "query.lint_queries",
    "history.merge",
    "history.feed",
    "history.schema_apply",
    "schema.evolve",
    "schema.schema_warnings",
    "storage.create_graph",
    "storage.delta",
    "storage.objects.user_files",
    "storage.recovery.finish_write",
    "storage.recovery.roll",
    "storage.tables.stage_columns",
    "storage.tables.table_indexes",
    "upkeep",
    "spark",
    "write.load",
    "write.found_rows",
)


def unwanted(modules: set[str], others: str, ours: tuple[str, ...]) -> list[str]:
    pattern = re.compile(rf"({others}|omnigraph\.({'|'.join(map(re.escape, ours))}))(\..+)?")
    return sorted(filter(pattern.fullmatch, modules))


FOR_A_VERSION = {
    "omnigraph",
    "omnigraph.cli",
    "omnigraph.cli.main",
    "omnigraph.limits",
}


def imported(*words: str, cwd: Path) -> tuple[set[str], str]:
    """Modules that are there when one run of the executable ends, and what it printed."""
    code = (
        "import sys, atexit\n"
        "before = set(sys.modules)\n"
        "atexit.register(lambda: print(*sorted(set(sys.modules) - before), file=sys.stderr))\n"
        "sys.argv = sys.argv[1:]\n"
        "exec(compile(open(sys.argv[0]).read(), sys.argv[0], 'exec'), {'__name__': '__main__'})\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code, EXECUTABLE, *words],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return set(ended.stderr.split()), ended.stdout


def test_the_version_imports_nothing_but_itself(tmp_path: Path) -> None:
    modules, said = imported("version", cwd=tmp_path)
    assert said.splitlines()[0] == f"omnigraph {og.__version__}"
    assert {name for name in modules if name.startswith("omnigraph")} == FOR_A_VERSION
    assert modules & {"typing", "json", "typer", "numpy", "pyarrow", "lance"} == set()


def test_a_query_imports_only_what_reading_needs(reader: CommandLine) -> None:
    modules, said = imported("query", "--store", "people.omni", *ASK, cwd=reader.folder)
    assert "Ana Ruiz" in said
    assert unwanted(modules, OTHERS_NOT_FOR_A_QUERY, OURS_NOT_FOR_A_QUERY) == []
    assert "lance" in modules


def test_a_change_of_one_row_imports_only_what_writing_needs(reader: CommandLine, tmp_path: Path) -> None:
    shutil.copytree(reader.folder / "people.omni", tmp_path / "people.omni")
    modules, said = imported("mutate", "--store", "people.omni", *CHANGE, cwd=tmp_path)
    assert "1 nodes" in said
    assert unwanted(modules, OTHERS_NOT_FOR_A_MUTATION, OURS_NOT_FOR_A_MUTATION) == []
    assert "lance" in modules


def test_a_query_of_a_served_graph_imports_no_server_and_no_spark(reader: CommandLine) -> None:
    with served({"people": reader.folder / "people.omni"}) as server:
        modules, said = imported("query", "--store", server.graph_url(), *ASK, cwd=reader.folder)
    assert "Ana Ruiz" in said
    assert (
        unwanted(modules, r"pandas|pydantic|pyspark|py4j|rich|starlette|uvicorn|mcp|cedarpy", ("server", "mcp")) == []
    )
    assert {"httpx2", "omnigraph.cli.served_access"} <= modules


def test_a_command_spares_its_end_the_last_look_through_its_memory(reader: CommandLine) -> None:
    code = (
        "import atexit, gc, sys\n"
        "atexit.register(lambda: print(gc.get_freeze_count() > len(gc.get_objects()), file=sys.stderr))\n"
        "from omnigraph.cli.main import main; main()\n"
    )
    words = [sys.executable, "-c", code, "query", "--store", "people.omni", *ASK]
    ended = subprocess.run(words, cwd=reader.folder, capture_output=True, text=True, timeout=60, check=True)
    assert ended.stderr == "True\n"


def test_what_must_not_be_imported_exists() -> None:
    """A module that was renamed would otherwise be allowed without anybody saying so."""
    folder = Path(og.__file__).parent
    places = {name: folder.joinpath(*name.split(".")) for name in (*OURS_NOT_FOR_A_QUERY, *OURS_NOT_FOR_A_MUTATION)}
    assert [name for name, place in places.items() if not (place.is_dir() or place.with_suffix(".py").exists())] == []


def test_importing_the_package_loads_no_room_of_it() -> None:
    code = "import sys, omnigraph; print([name for name in sys.modules if name.startswith('omnigraph.')])"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert ended.stdout == "[]\n"


def test_a_command_starts_quickly(reader: CommandLine) -> None:
    """Processor time of whole processes, the best of a few. The goals are 3 and 1.4; a busy machine gets more."""
    version = processes([str(EXECUTABLE), "version"], times=5)
    assert version < 4.5 * processes([sys.executable, "-c", "pass"], times=5)
    query = processes([str(EXECUTABLE), "query", "--store", "people.omni", *ASK], times=2, cwd=reader.folder)
    assert query < 2.2 * processes([sys.executable, "-c", LANCE_ALONE], times=2)
