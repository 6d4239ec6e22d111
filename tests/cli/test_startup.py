"""A command pays for what it does: which modules are imported, and how long a process lasts."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import omnigraph as og
from benchmarks.start import processes
from tests.support.command_line import EXECUTABLE, CommandLine

ASK = (
    "-e",
    "query q($k: String) { match { $p: Person { handle: $k } } return { $p.name } }",
    "--params",
    '{"k": "ana"}',
)

#: Nothing of this has any business in a read of one key: other packages, and modules of ours.
OTHERS_NOT_FOR_A_QUERY = (
    r"pandas|pydantic|pyspark|py4j|rich|typer\.rich_utils|yaml|asyncio|ulid|pyarrow\.(parquet|csv|json)"
)
OURS_NOT_FOR_A_QUERY = (
    "write",
    "upkeep",
    "spark",
    "history.merge",
    "history.feed",
    "history.diff",
    "history.branch_load",
    "history.export",
    "history.branches",
    "history.schema_apply",
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
NOT_FOR_A_QUERY = re.compile(
    rf"({OTHERS_NOT_FOR_A_QUERY}|omnigraph\.({'|'.join(map(re.escape, OURS_NOT_FOR_A_QUERY))}))(\..+)?"
)
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
    assert sorted(filter(NOT_FOR_A_QUERY.fullmatch, modules)) == []
    assert "lance" in modules


def test_what_a_query_must_not_import_exists() -> None:
    """A module that was renamed would otherwise be allowed without anybody saying so."""
    folder = Path(og.__file__).parent
    places = {name: folder.joinpath(*name.split(".")) for name in OURS_NOT_FOR_A_QUERY}
    assert [name for name, place in places.items() if not (place.is_dir() or place.with_suffix(".py").exists())] == []


def test_importing_the_package_loads_no_room_of_it() -> None:
    code = "import sys, omnigraph; print([name for name in sys.modules if name.startswith('omnigraph.')])"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert ended.stdout == "[]\n"


def test_a_command_starts_quickly(reader: CommandLine) -> None:
    """Processor time of whole processes, the best of a few. The goals are 3 and 2; a shared machine gets more room."""
    version = processes([str(EXECUTABLE), "version"], times=5)
    assert version < 4.5 * processes([sys.executable, "-c", "pass"], times=5)
    query = processes([str(EXECUTABLE), "query", "--store", "people.omni", *ASK], times=2, cwd=reader.folder)
    assert query < 3 * processes([sys.executable, "-c", "import lance"], times=2)
