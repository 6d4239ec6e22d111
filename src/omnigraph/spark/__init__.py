"""The Spark engine: the same graph, the same rules and the same one commit, with the rows on a Spark cluster.

Verbs are got when they are first used, so that importing this package needs neither Java nor a running session. No
module has the name of a verb: importing it would put the module in the verb's place.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from omnigraph.spark.session import session

if TYPE_CHECKING:
    from omnigraph.spark.export_files import export
    from omnigraph.spark.frames import query, read
    from omnigraph.spark.loading.spark_load import load
    from omnigraph.spark.spark_merge import merge

__all__ = ["export", "load", "merge", "query", "read", "session"]

_HOME = {
    "export": "omnigraph.spark.export_files",
    "load": "omnigraph.spark.loading.spark_load",
    "merge": "omnigraph.spark.spark_merge",
    "query": "omnigraph.spark.frames",
    "read": "omnigraph.spark.frames",
}


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'omnigraph.spark' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)
