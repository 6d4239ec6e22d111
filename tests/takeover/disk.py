"""The same cases on a local disk: the first process is stopped at a failpoint, the kernel keeps the second one out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.support.actors import ANSWER_SECONDS, Actor, acting
from tests.support.holding_proxy import HoldingProxy
from tests.support.waiting import wait_until
from tests.takeover.case import FATAL, Case, StepEnd
from tests.takeover.rig import CHILD, TakeoverRig, step_ends

#: How long the second writer waits for its turn before it says so.
LOCK_SECONDS = "0.3"


class DiskScene(TakeoverRig):
    """Plays cases on a disk. The place where the writer is held is the name of a failpoint: ``Hold(part=…)``.

    The modes are ``stopped``, after which the process goes on, and ``dead``: it is killed while it stands still.
    """

    def _play(self, case: Case) -> None:
        (first, second), number, hold = case.told, case.ground.number, case.hold
        assert self.held is not None
        meeting = Path(self.root) / f"meeting-{number}"
        reached = meeting.with_name(f"{meeting.name}.reached")
        self.held.ask("arm", f"{hold.part}=pause:{meeting}@{hold.first}")
        self.held.tell("run", case.held, number, first.mark, False)
        actor = self.held
        wait_until(lambda: reached.exists() or actor.has_answered, timeout=ANSWER_SECONDS, what="the failpoint")
        if reached.exists():
            case.request = hold.part
            self.held.stop()
        impatient = step_ends(self.other.ask("run", case.other, number, second.mark, False))
        if case.mode in FATAL:
            self.held.kill()
            first.ends = [StepEnd("unknown", "killed")]
            self.held = None
        else:
            self.held.go_on()
            meeting.with_name(f"{meeting.name}.release").touch()
            first.ends = step_ends(self.held.answer())
            self.held.ask("arm", "")
            self.held.ask("flush")
        second.ends = impatient
        if impatient[-1].name == "LockTimeout":
            second.ends = step_ends(self.other.ask("run", case.other, number, second.mark, True))

    def _start_other(self) -> Actor:
        return self.processes.enter_context(acting(CHILD, {"OMNIGRAPH_LOCK_TIMEOUT": LOCK_SECONDS}))

    def _start_again(self) -> None:
        self.held = self.processes.enter_context(acting(CHILD, {}))


@contextmanager
def disk_scene(folder: Path) -> Iterator[DiskScene]:
    """Two processes for the length of the block."""
    with ExitStack() as processes:
        yield DiskScene(None, str(folder), HoldingProxy(""), "", processes, thorough=False)
