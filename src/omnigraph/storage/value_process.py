"""Reads data files in a child process: damaged bytes may ask for any amount of memory, or never come to an end.

One request a line; the answer is a sign of life for each batch and then one line. A child that dies or falls silent
over a file says by that what is wrong with the file, and the next file gets a new one. Where no child can be started,
the files are read in this process.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Self

from omnigraph import limits
from omnigraph.errors import CorruptGraph
from omnigraph.storage.inspect import DAMAGE, damage_of
from omnigraph.storage.inspect_values import DataFile, read_digests
from omnigraph.storage.location import Location
from omnigraph.storage.manifest import Pin
from omnigraph.storage.tables import Tables

_READY = "ready"
_ALIVE = "alive"
_START_SECONDS = 120.0


class _Child:
    """A running child. A thread listens to it, so that nobody waits for it for ever."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", __name__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        )
        self._said: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._listener = threading.Thread(target=self._listen, name="omnigraph-values", daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._said.put(line.rstrip("\n"))
        self._said.put("")

    def ask(self, line: str, seconds: float) -> str:
        """The answer to one line; empty when there is none."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(f"{line}\n")
            self._process.stdin.flush()
            answer = _ALIVE
            while answer == _ALIVE:
                answer = self._said.get(timeout=seconds)
            return answer
        except (OSError, queue.Empty):
            return ""

    def end(self) -> None:
        self._process.kill()
        self._listener.join()
        self._process.communicate()


class ValueProcess:
    """Reads the values of data files of one graph; use it in a ``with`` block."""

    def __init__(self, location: Location) -> None:
        self._location = location
        self._child: _Child | None = None
        self._works_alone = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def digests(self, pin: Pin, file: DataFile) -> list[str]:
        """The digests of the columns that a file has now.

        Raises:
            CorruptGraph: the file cannot be decoded.
        """
        request = [pin.location, pin.branch, pin.version, file.fragment, [name for name, _ in file.columns]]
        child = self._started()
        answer = self._ask(child, request) if child else _answer(Tables(self._location), request, lambda: None)
        if "damage" in answer:
            raise CorruptGraph(answer["damage"])
        return list(answer["digests"])

    def _ask(self, child: _Child, request: Sequence[Any]) -> dict[str, Any]:
        answer = child.ask(json.dumps(request), limits.VERIFY_DEEP_SECONDS)
        if not answer:
            self._end()
            return {"damage": "the process that reads it comes to no end, or to a sudden one"}
        found: dict[str, Any] = json.loads(answer)
        return found

    def _started(self) -> _Child | None:
        if self._child is None and not self._works_alone:
            self._child = _Child()
            place = json.dumps({"uri": self._location.uri, "options": dict(self._location.options)})
            if self._child.ask(place, _START_SECONDS) != _READY:
                self._end()
                self._works_alone = True
        return self._child

    def _end(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            child.end()


def _answer(tables: Tables, request: Sequence[Any], sign_of_life: Callable[[], None]) -> dict[str, Any]:
    path, branch, version, fragment, columns = request
    try:
        return {"digests": read_digests(tables.fresh(path, branch, version), fragment, columns, sign_of_life)}
    except DAMAGE as error:
        return {"damage": damage_of(error)}


def serve() -> None:
    """The child: answers until nobody asks."""
    _bound_memory()
    place = json.loads(sys.stdin.readline())
    tables = Tables(Location(place["uri"], place["options"]))
    _say(_READY)
    for line in sys.stdin:
        _say(json.dumps(_answer(tables, json.loads(line), lambda: _say(_ALIVE))))


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _bound_memory() -> None:
    """Let this process be the one that ends when memory does."""
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (limits.VERIFY_DEEP_BYTES, limits.VERIFY_DEEP_BYTES))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


if __name__ == "__main__":
    serve()
