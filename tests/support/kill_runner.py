"""Starts the process that dies and makes sure that it really did.

Children are spawned, never forked: the threads behind the storage libraries do not survive a fork. A child that was
to be killed and was not is a failed test, because then the failpoint was never reached.
"""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from tests.support.children import running
from tests.support.light_python import run_module
from tests.support.waiting import wait_until

CHILD_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Target:
    """Where a child works: graph, branch, and the ledger that outlives it."""

    uri: str
    branch: str
    ledger: Path


def run_child(target: Target, *steps: str) -> list[str]:
    """Run a child to its end; returns the lines it said. It must end well."""
    with spawn(target, *steps) as child:
        said, complaint = child.communicate(timeout=CHILD_SECONDS)
    assert child.returncode == 0, f"the child ended with {child.returncode}: {complaint[-2000:]}"
    return said.splitlines()


def kill_child(target: Target, step: str, failpoint: str, *, nth: int = 1) -> None:
    """Run a child that dies inside a step when it comes by a failpoint for the n-th time."""
    _expect_death(target, f"arm={failpoint}=kill@{nth}", step)


def kill_opening(target: Target, failpoint: str, step: str = "open=", *, nth: int = 1) -> None:
    """Run a child that dies while it opens the graph, or makes it, when it comes by a failpoint for the n-th time."""
    _expect_death(target, step, failpoints=f"{failpoint}=kill@{nth}")


def _expect_death(target: Target, *steps: str, failpoints: str = "") -> None:
    with spawn(target, *steps, failpoints=failpoints) as child:
        said, complaint = child.communicate(timeout=CHILD_SECONDS)
    assert child.returncode == -signal.SIGKILL, (
        f"{[*steps, failpoints]} reached no failpoint: the child ended with {child.returncode}, said {said!r}: "
        f"{complaint[-2000:]}"
    )


def spawn(
    target: Target, *steps: str, failpoints: str = "", env: Mapping[str, str] | None = None
) -> AbstractContextManager[subprocess.Popen[str]]:
    """A running child; whatever happens in the block, it is gone afterwards."""
    return running(_command(target, steps), {**(env or {}), "OMNIGRAPH_FAILPOINTS": failpoints})


@dataclass(frozen=True, slots=True)
class Rendezvous:
    """A place where a child waits for its parent: arm ``<failpoint>=<rendezvous.action>``."""

    path: Path

    @property
    def action(self) -> str:
        return f"pause:{self.path}"

    def wait(self, child: subprocess.Popen[str]) -> None:
        """Return when the child stands at the failpoint."""
        reached = self.path.with_name(f"{self.path.name}.reached")
        wait_until(
            lambda: reached.exists() or child.poll() is not None, timeout=CHILD_SECONDS, what="the child to arrive"
        )
        assert reached.exists(), f"the child ended before it reached the failpoint: {child.communicate()[1][-2000:]}"

    def release(self) -> None:
        self.path.with_name(f"{self.path.name}.release").touch()


def _command(target: Target, steps: Sequence[str]) -> list[str]:
    return run_module("tests.support.crash_child", target.uri, target.branch, str(target.ledger), *steps)
