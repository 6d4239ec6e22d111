"""A process that commits, or follows the commits of another one, stays as large as it is after a few hundred."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.support.light_python import run_module
from tests.support.small_graphs import people
from tests.support.source_tree import ROOT

WARM = 500  # commits until every cache that helps is full


class Child:
    """A writer or a reader that does one step when it is told to."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def step(self) -> int:
        return self._ask("step")

    def kilobytes(self) -> int:
        return self._ask("memory")

    def _ask(self, word: str) -> int:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{word}\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())


@contextmanager
def _started(role: str, root: Path) -> Iterator[Child]:
    command = run_module("tests.support.memory_child", role, str(root))
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield Child(process)
        finally:
            process.kill()


def _growth(root: Path, roles: tuple[str, ...], commits: int) -> dict[str, float]:
    """How many times its size after `WARM` commits each process has at the end."""
    people(root).close()
    with ExitStack() as stack:
        children = {role: stack.enter_context(_started(role, root)) for role in roles}
        warm: dict[str, int] = {}
        for number in range(1, commits + 1):
            for child in children.values():
                assert child.step() == number
            if number == WARM:
                warm = {role: child.kilobytes() for role, child in children.items()}
        ended = {role: child.kilobytes() for role, child in children.items()}
    print({role: (warm[role], ended[role]) for role in roles})
    return {role: ended[role] / warm[role] for role in roles}


@pytest.fixture(autouse=True)
def _unsynced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMNIGRAPH_FSYNC", "0")


def test_a_writer_and_a_reader_hardly_grow_over_some_hundred_commits(tmp_path: Path) -> None:
    for role, times in _growth(tmp_path / "g", ("writer", "reader"), WARM + 500).items():
        assert times < 1.09, role


@pytest.mark.torture
@pytest.mark.timeout(4 * 3_600)
def test_a_writer_and_a_reader_hardly_grow_over_twenty_thousand_commits(tmp_path: Path) -> None:
    for role, times in _growth(tmp_path / "g", ("writer", "reader"), 20_000).items():
        assert times < 1.2, role
