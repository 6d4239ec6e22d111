"""What it costs to start a command, against starting Python and importing Lance. Whole processes, in turns.

Lance is imported without pandas, as in every command and as where only the core is installed: importing pandas takes
longer than everything else, and would make any command look good beside it.

Each shortcut of `cli/startup.py` and `cli/main.py` is measured against the same command without it. One that saves less
than a twentieth is not worth its lines.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.options import Options
from benchmarks.report import Goal, Report, Row
from benchmarks.storage.graphs import fsync, graph_with_history

COMMITS = 100
ROUNDS = 15
_EXECUTABLE = str(Path(sys.executable).with_name("omnigraph"))
_WORTH_IT = Goal(0.95)

#: Shortcut → Python that turns it off.
_WITHOUT = {
    "pandas": "import omnigraph.cli.startup as startup; startup.leave_out_pandas = lambda: None",
    "pydantic": "import omnigraph.cli.startup as startup; startup.leave_out_pydantic = lambda command: None",
    "typing": "import typing",
    "collector": "import omnigraph.cli.main as main; main.collect_rarely = lambda: None",
    "garbage": "import omnigraph.cli.main as main; main.leave_garbage = lambda: None",
}
#: Imports Lance in an environment that may have pandas, but for this process has none.
LANCE_ALONE = """
import sys

class WithoutPandas:
    def find_spec(self, name, path=None, target=None):
        if name == "pandas":
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, WithoutPandas())
import lance
"""
_WRITE = "query q($k: String) { update Person set { name: $k } where handle = $k }"
_ASK = "query q($k: String) { match { $p: Person { handle: $k } } return { $p.name } }"


def run(options: Options) -> Report:
    """Measure everything."""
    commits = options.size(COMMITS, 5)
    rounds = options.size(ROUNDS, 1)
    with fsync(False):
        graph = graph_with_history(options, commits)
        key = graph.snapshot().arrow("Person", ["handle"]).column("handle")[0].as_py()
    query = ["query", "--store", graph.uri, "-e", _ASK, "--params", f'{{"k": "{key}"}}']
    mutate = ["mutate", "--store", graph.uri, "-e", _WRITE, "--params", f'{{"k": "{key}"}}']
    taken = _in_turns(
        {
            "python": [sys.executable, "-c", "pass"],
            "lance": [sys.executable, "-c", LANCE_ALONE],
            "version": [_EXECUTABLE, "version"],
            "version by typer": [_EXECUTABLE, "--quiet", "version"],
            "version, typing": _altered("typing", ["version"]),
            "query": [_EXECUTABLE, *query],
            "query, pandas": _altered("pandas", query),
            "query, pydantic": _altered("pydantic", query),
            "query, collector": _altered("collector", query),
            "query, garbage": _altered("garbage", query),
            "mutate": [_EXECUTABLE, *mutate],
        },
        rounds,
    )
    return Report(
        "cli",
        (
            Row("`omnigraph version`", taken["version"], taken["python"], "`python -c pass`", goal=Goal(3)),
            Row(
                f"`omnigraph query` of one key after {commits} commits",
                taken["query"],
                taken["lance"],
                "`import lance`",
                goal=Goal(1.4),
            ),
            Row(
                f"`omnigraph mutate` of one row after {commits} commits",
                taken["mutate"],
                taken["lance"],
                "`import lance`",
                goal=Goal(1.4),
            ),
            Row("version without typer", taken["version"], taken["version by typer"], "with it", goal=_WORTH_IT),
            Row("version without `typing`", taken["version"], taken["version, typing"], "with it", goal=_WORTH_IT),
            Row("query that leaves out pandas", taken["query"], taken["query, pandas"], "with it", goal=_WORTH_IT),
            Row("query that collects rarely", taken["query"], taken["query, collector"], "often", goal=_WORTH_IT),
            Row("query that leaves its garbage", taken["query"], taken["query, garbage"], "clears", goal=_WORTH_IT),
            Row("query that leaves out pydantic", taken["query"], taken["query, pydantic"], "with it", goal=_WORTH_IT),
        ),
    )


def _altered(shortcut: str, words: Sequence[str]) -> list[str]:
    """The command with one shortcut turned off."""
    run = f"import sys; sys.argv[0] = 'omnigraph'; {_WITHOUT[shortcut]}; from omnigraph.cli.main import main; main()"
    return [sys.executable, "-c", run, *words]


def _in_turns(commands: Mapping[str, Sequence[str]], rounds: int) -> dict[str, float]:
    taken: dict[str, list[float]] = {name: [] for name in commands}
    for number in range(rounds + 1):
        for name, words in commands.items():
            began = time.perf_counter()
            subprocess.run(words, stdout=subprocess.DEVNULL, check=True)
            if number:  # the first round fills the caches of the disk
                taken[name].append(time.perf_counter() - began)
    return {name: statistics.median(seconds) for name, seconds in taken.items()}
