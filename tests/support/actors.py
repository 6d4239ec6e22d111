"""Processes that stay and do what they are told, one command a line, so that a test can stop one in the middle.

A process answers each command with one line. It ends when its parent does: then its standard input closes.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from tests.support.children import running
from tests.support.light_python import run_module

#: No command takes longer; whoever waits for more is blocked.
ANSWER_SECONDS = 60.0


class Actor:
    """The parent's end of one such process.

    Attributes:
        has_open: what the parent told it to open last; the parent's own note.
    """

    def __init__(self, child: subprocess.Popen[str]) -> None:
        self._child = child
        self.has_open = ""
        self._answers: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._listen, name="actor", daemon=True).start()

    def tell(self, *command: object) -> None:
        """Give a command; the answer is asked for later."""
        assert self._child.stdin is not None
        self._child.stdin.write(json.dumps(command) + "\n")
        self._child.stdin.flush()

    @property
    def has_answered(self) -> bool:
        return not self._answers.empty()

    def answer(self, timeout: float = ANSWER_SECONDS) -> Any:
        """The answer to the oldest command that has none yet.

        Raises:
            TimeoutError: there was none in time, or the process is gone.
        """
        try:
            line = self._answers.get(timeout=timeout)
        except queue.Empty:
            raise TimeoutError(f"process {self._child.pid} gave no answer in {timeout:g} s") from None
        if not line:
            raise TimeoutError(f"process {self._child.pid} is gone: {self._complaint()}")
        return json.loads(line)

    def ask(self, *command: object) -> Any:
        self.tell(*command)
        return self.answer()

    def stop(self) -> None:
        os.kill(self._child.pid, signal.SIGSTOP)

    def go_on(self) -> None:
        os.kill(self._child.pid, signal.SIGCONT)

    def kill(self) -> None:
        self._child.kill()
        self._child.wait(ANSWER_SECONDS)

    def _listen(self) -> None:
        assert self._child.stdout is not None
        for line in self._child.stdout:
            self._answers.put(line)
        self._answers.put("")

    def _complaint(self) -> str:
        assert self._child.stderr is not None
        return self._child.stderr.read()[-2000:]


@contextmanager
def acting(module: str, env: Mapping[str, str]) -> Iterator[Actor]:
    """A process that runs a module; whatever happens in the block, it is gone afterwards."""
    with running(run_module(module), env, takes_input=True) as child:
        yield Actor(child)
