"""A process that was forked from one that used a graph is told so, and takes nothing from its parent."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.support.small_graphs import people, run_child

SECONDS = 60

#: Runs ``work`` in a forked child and prints how it ended; a child that hangs is killed.
FORK = """
import os, signal, sys, time, warnings
warnings.simplefilter("ignore")
import omnigraph as og

def in_fork(work):
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        try:
            print(work(), flush=True)
        except BaseException as error:
            print(type(error).__name__, error.code, "|", error, flush=True)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
"""

OLD = """
from tests.support.small_graphs import people, persons
graph = people(sys.argv[1], "a")
state = graph.snapshot()
in_fork({work})
assert graph.write([persons("b")]).commit and graph.snapshot().count("Person") == 2
"""


def _run(code: str, root: Path) -> str:
    ended = run_child(FORK + code, str(root), timeout=SECONDS)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.strip()


@pytest.mark.parametrize(
    "work",
    [
        "graph.snapshot",
        "lambda: state.arrow('Person')",
        "lambda: graph.write([persons('x')])",
        "lambda: og.open(sys.argv[1])",
        "lambda: og.open(sys.argv[1], mode='ro')",
        "lambda: og.init(sys.argv[1] + '2', 'node Place { name: String @key }')",
    ],
)
def test_a_fork_of_a_process_that_used_a_graph_is_refused_by_every_road(work: str, tmp_path: Path) -> None:
    said = _run(OLD.replace("{work}", work), tmp_path / "g")
    assert said.startswith("ForkedProcess storage.forked | ")
    assert "start a new process (spawn)" in said


def test_closing_a_graph_in_a_fork_does_nothing(tmp_path: Path) -> None:
    assert _run(OLD.replace("{work}", "graph.close"), tmp_path / "g") == "None"


def test_a_fork_of_a_fork_is_refused_too(tmp_path: Path) -> None:
    code = OLD.replace("{work}", "lambda: in_fork(lambda: og.open(sys.argv[1]))")
    assert "start a new process (spawn)" in _run(code, tmp_path / "g")


def test_a_fork_before_any_use_works(tmp_path: Path) -> None:
    people(tmp_path / "g", "a").close()
    code = (
        "from tests.support.small_graphs import persons\n"
        "import lance, omnigraph.graph.opening\n"
        "def work():\n"
        "    with og.open(sys.argv[1]) as graph:\n"
        "        graph.write([persons(str(os.getpid()))])\n"
        "        return graph.snapshot().count('Person')\n"
        "in_fork(work)\n"
        "print(work(), flush=True)\n"
    )
    assert _run(code, tmp_path / "g").split() == ["2", "3"]


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_processes_that_multiprocessing_starts_anew_work(method: str, tmp_path: Path) -> None:
    code = (
        "import multiprocessing\n"
        "from tests.support.small_graphs import count_persons, people\n"
        "graph = people(sys.argv[1], 'a')\n"
        f"with multiprocessing.get_context('{method}').Pool(1) as pool:\n"
        "    print(pool.apply_async(count_persons, (sys.argv[1],)).get(50))\n"
    )
    assert _run(code, tmp_path / "g") == "1"


def test_a_child_forked_inside_a_commit_that_lives_on_does_not_keep_its_parent_from_writing(tmp_path: Path) -> None:
    code = (
        "os.environ['OMNIGRAPH_LOCK_TIMEOUT'] = '5'\n"
        "from tests.support.small_graphs import people, persons\n"
        "from omnigraph.storage.objects.locks import Sections\n"
        "graph = people(sys.argv[1], 'a')\n"
        "with graph._store.sections.hold('main'):\n"
        "    child = os.fork()\n"
        "    if child == 0:\n"
        "        time.sleep(50)\n"
        "        os._exit(0)\n"
        "try:\n"
        "    graph.write([persons('b')])\n"
        "    print(graph.snapshot().count('Person'))\n"
        "finally:\n"
        "    os.kill(child, signal.SIGKILL)\n"
        "    os.waitpid(child, 0)\n"
    )
    assert _run(code, tmp_path / "g") == "2"


def test_a_child_forked_inside_a_commit_outlives_its_parent_without_the_lock(tmp_path: Path) -> None:
    code = (
        "from tests.support.small_graphs import people, persons\n"
        "root = sys.argv[1]\n"
        "people(root, 'a').close() if not os.path.exists(root) else None\n"
        "graph = og.open(root)\n"
        "read, write = os.pipe()\n"
        "with graph._store.sections.hold('main'):\n"
        "    child = os.fork()\n"
        "    if child == 0:\n"
        "        os.close(1), os.close(2)\n"
        "        os.write(write, b'.')\n"
        "        time.sleep(50)\n"
        "        os._exit(0)\n"
        "    os.read(read, 1)\n"
        "    print(child, flush=True)\n"
        "    os._exit(0)\n"
    )
    child = int(_run(code, tmp_path / "g"))
    writes = (
        "os.environ['OMNIGRAPH_LOCK_TIMEOUT'] = '5'\n"
        "from tests.support.small_graphs import persons\n"
        "with og.open(sys.argv[1]) as graph:\n"
        "    graph.write([persons('b')])\n"
        "    print(graph.snapshot().count('Person'))\n"
        f"os.kill({child}, 0)\n"
    )
    try:
        assert _run(writes, tmp_path / "g") == "2"
    finally:
        os.kill(child, signal.SIGKILL)


def test_a_child_forked_inside_a_section_that_leaves_it_does_not_free_it_for_its_parent(tmp_path: Path) -> None:
    code = (
        "import fcntl\n"
        "from tests.support.small_graphs import people\n"
        "graph = people(sys.argv[1], 'a')\n"
        "section = graph._store.sections.hold('main')\n"
        "section.__enter__()\n"
        "in_fork(lambda: section.__exit__(None, None, None))\n"
        "with open(sys.argv[1] + '/__recovery/branch.main.lock') as file:\n"
        "    try:\n"
        "        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)\n"
        "    except BlockingIOError:\n"
        "        print('held')\n"
    )
    assert _run(code, tmp_path / "g").split() == ["False", "held"]
