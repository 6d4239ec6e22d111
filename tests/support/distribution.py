"""How the tests are spread over the workers of `make test`.

A file stays together, so what its tests share is made once. The files that use the Spark session of a worker go to one
worker, because a second session has to start and to warm up too. What takes long comes first: the short files at the
end fill the gaps, and no worker is left alone with a long one.
"""

from __future__ import annotations

import pytest
from xdist.scheduler import LoadFileScheduling

SPARK = "spark"

#: Where the tests are that take the fixture `spark`, and the files there that start sessions in other processes.
_WITH_SESSION = ("tests/spark/", "tests/parity/", "tests/crash/test_killed_spark_loads.py")
_WITHOUT = ("tests/spark/test_cluster.py", "tests/spark/test_connect.py")

#: Folders whose tests start many processes, and those that need milliseconds a test.
_LONG = tuple(f"tests/{name}/" for name in ("spark", "docs", "benchmarks", "crash", "model", "race", "takeover"))
_SHORT = ("tests/guards/", "tests/language/", "tests/query/", "tests/schema/")


class ByFile(LoadFileScheduling):  # type: ignore[misc]  # xdist ships without types
    """Hands out whole files, and all of Spark as if it were one."""

    def _split_scope(self, nodeid: str) -> str:
        return handed_out_with(nodeid)


def handed_out_with(nodeid: str) -> str:
    """The file of a test, or `SPARK` for all files that use the session."""
    file = nodeid.partition("::")[0]
    return SPARK if file.startswith(_WITH_SESSION) and file not in _WITHOUT else file


def place(nodeid: str) -> int:
    """Where a test stands: the lower, the earlier."""
    if handed_out_with(nodeid) == SPARK:
        return 0
    if nodeid.startswith(_LONG):
        return 1
    return 3 if nodeid.startswith(_SHORT) else 2


def uses_session(item: pytest.Item) -> bool:
    return SPARK in getattr(item, "fixturenames", ())
