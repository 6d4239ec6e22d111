"""A headless Chromium that a test looks at pages with. It is driven through its debugging pipe, without a driver."""

from __future__ import annotations

import fcntl
import itertools
import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CHROMIUM = shutil.which("chromium")
WHY_NOT = "there is no chromium on the PATH (.ci/run installs it on Debian)"

_FLAGS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run")


class Page:
    """One open page."""

    def __init__(self, reads: int, writes: int) -> None:
        self._reads, self._writes = reads, writes
        self._rest = b""
        self._numbers = itertools.count(1)
        self._session: str | None = None
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self._call("Page.enable")

    def go(self, address: str) -> None:
        """Open an address."""
        self._call("Page.navigate", url=address)

    def evaluate(self, script: str) -> Any:
        """The value of an expression in the page; a promise is awaited."""
        answer = self._call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def prefer(self, scheme: str) -> None:
        """As a user who prefers ``light`` or ``dark``."""
        self._call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def _call(self, method: str, **parameters: Any) -> dict[str, Any]:
        number = next(self._numbers)
        asked: dict[str, Any] = {"id": number, "method": method, "params": parameters}
        if self._session is not None:
            asked["sessionId"] = self._session
        os.write(self._writes, json.dumps(asked).encode() + b"\0")
        deadline = time.monotonic() + 60
        while True:
            told = self._next(deadline)
            if told.get("id") == number:
                assert "error" not in told, told["error"]
                result: dict[str, Any] = told["result"]
                return result

    def _next(self, deadline: float) -> dict[str, Any]:
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._reads], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, "the browser did not answer in time"
            more = os.read(self._reads, 1 << 16)
            assert more, "the browser ended"
            self._rest += more
        message, _, self._rest = self._rest.partition(b"\0")
        told: dict[str, Any] = json.loads(message)
        return told


@contextmanager
def browser(profile: Path) -> Iterator[Page]:
    """A browser with an empty page; it is gone when the block ends."""
    assert CHROMIUM is not None, WHY_NOT
    ours_in, theirs_out = _high_pipe()
    theirs_in, ours_out = _high_pipe()
    # The browser reads from 3 and writes to 4.
    script = f'exec "$@" 3<&{theirs_in} 4>&{theirs_out}'
    flags = [*_FLAGS, "--remote-debugging-pipe", f"--user-data-dir={profile}"]
    child = subprocess.Popen(
        ["bash", "-c", script, "bash", CHROMIUM, *flags],
        pass_fds=(theirs_in, theirs_out),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(theirs_in)
    os.close(theirs_out)
    try:
        yield Page(ours_in, ours_out)
    finally:
        child.kill()
        child.wait(30)
        os.close(ours_in)
        os.close(ours_out)


def _high_pipe() -> tuple[int, int]:
    """A pipe whose numbers are not among those that the browser uses."""
    low = os.pipe()
    high = tuple(fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 20) for end in low)
    for end in low:
        os.close(end)
    return high[0], high[1]
