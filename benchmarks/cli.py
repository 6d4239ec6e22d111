"""What it costs to start a command, against starting Python and importing Lance. Whole processes, in turns."""

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
_ASK = "query q($k: String) { match { $p: Person { handle: $k } } return { $p.name } }"


def run(options: Options) -> Report:
    """Measure everything."""
    commits = options.size(COMMITS, 5)
    rounds = options.size(ROUNDS, 1)
    with fsync(False):
        graph = graph_with_history(options, commits)
        key = graph.snapshot().arrow("Person", ["handle"]).column("handle")[0].as_py()
    query = [_EXECUTABLE, "query", "--store", graph.uri, "-e", _ASK, "--params", f'{{"k": "{key}"}}']
    small = _in_turns({"ours": [_EXECUTABLE, "version"], "peer": [sys.executable, "-c", "pass"]}, rounds)
    large = _in_turns({"ours": query, "peer": [sys.executable, "-c", "import lance"]}, rounds)
    return Report(
        "cli",
        (
            Row("`omnigraph version`", small["ours"], small["peer"], "`python -c pass`", goal=Goal(3)),
            Row(
                f"`omnigraph query` of one key after {commits} commits",
                large["ours"],
                large["peer"],
                "`python -c 'import lance'`",
                goal=Goal(2),
            ),
        ),
    )


def _in_turns(commands: Mapping[str, Sequence[str]], rounds: int) -> dict[str, float]:
    taken: dict[str, list[float]] = {name: [] for name in commands}
    for number in range(rounds + 1):
        for name, words in commands.items():
            began = time.perf_counter()
            subprocess.run(words, stdout=subprocess.DEVNULL, check=True)
            if number:  # the first round fills the caches of the disk
                taken[name].append(time.perf_counter() - began)
    return {name: statistics.median(seconds) for name, seconds in taken.items()}
