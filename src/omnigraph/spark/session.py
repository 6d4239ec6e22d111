"""Finds or starts a SparkSession that suits this package: Arrow on, no web page, no noise, modest memory.

A session that runs already is used as it is. Nothing here is needed by somebody who makes sessions himself; the data
source and the jobs work in any session whose Python has this package.
"""

from __future__ import annotations

import os
import shutil
import sys
import warnings
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omnigraph import limits
from omnigraph.errors import InputError, MissingExtra

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOCAL = "local"
_CONNECT = "sc://"
_CONNECTED = "Spark Connect"
_JAVA = "spark.driver.extraJavaOptions"
_RUNTIME = {
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.python.filterPushdown.enabled": "true",
}


def session(master: str | None = None, **conf: object) -> SparkSession:
    """A SparkSession that is ready for this package.

    Args:
        master: ``local[n]``, ``spark://host:port``, another master URL, or ``sc://host:port`` for Spark Connect. None
            takes the session that is running, else all cores of this machine.
        conf: Spark settings by their own names, such as ``**{"spark.driver.memory": "4g"}``; they win over the
            defaults of this package.

    Raises:
        MissingExtra: pyspark or Java is not installed, or for Spark Connect what pyspark needs besides.
        InputError: a session on another master is running, or a setting can only be given to a new session.
    """
    settings = {name: _text(value) for name, value in conf.items()}
    running = _running()
    if running is not None:
        return _reuse(running, master, settings)
    spark_session = _session_class()
    if master is None and "SPARK_REMOTE" in os.environ:
        master = os.environ["SPARK_REMOTE"]
    if master is not None and master.startswith(_CONNECT):
        return _connect(spark_session, master, _RUNTIME | settings)
    java_or_refuse()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    master = master or os.environ.get("MASTER") or f"{_LOCAL}[*]"
    builder = spark_session.builder.master(master).appName("omnigraph")
    return _start(builder, _merged(_defaults(master), settings))


def active_session() -> SparkSession:
    """The session of this process, started with the defaults when there is none."""
    return _running() or session()


def require_spark() -> None:
    """Say in one sentence what is missing before a session can be had: pyspark, or Java for a session of our own."""
    if _running() is None and "SPARK_REMOTE" not in os.environ:
        java_or_refuse()


def java_or_refuse() -> None:
    """Say in one sentence that Java is missing, before Spark says it in a page."""
    home = os.environ.get("JAVA_HOME")
    if (home and (Path(home) / "bin" / "java").exists()) or shutil.which("java"):
        return
    raise MissingExtra(
        "Spark needs Java 17 or newer, and there is no java in JAVA_HOME or PATH",
        hint="install it with `apt install openjdk-17-jre-headless` or `brew install openjdk@17`",
    )


def _running() -> SparkSession | None:
    """The session of this thread, else the one that another thread started: a new one would change its settings."""
    spark_session = _session_class()
    from pyspark.errors import PySparkRuntimeError

    try:
        found: SparkSession = spark_session.active()
    except PySparkRuntimeError:
        return None
    return found


def _session_class() -> Any:
    if find_spec("pyspark") is None:
        raise MissingExtra(
            "the Spark engine needs pyspark, which is not installed", hint="pip install 'omnigraph[spark]'"
        )
    from pyspark.sql import SparkSession

    return SparkSession


def _start(builder: Any, settings: dict[str, str]) -> SparkSession:
    for name, value in settings.items():
        builder = builder.config(name, value)
    with warnings.catch_warnings():
        # Spark starts Java by a fork that does nothing but become Java, so Lance's threads are not missed in it.
        warnings.filterwarnings("ignore", message="lance is not fork-safe")
        started: SparkSession = builder.getOrCreate()
    return started


def _connect(spark_session: Any, address: str, settings: dict[str, str]) -> SparkSession:
    try:
        return _start(spark_session.builder.remote(address), settings)
    except ImportError as missing:
        raise MissingExtra(
            "Spark Connect needs grpc beside pyspark, which is not installed", hint="pip install 'omnigraph[connect]'"
        ) from missing


def _reuse(running: SparkSession, master: str | None, settings: dict[str, str]) -> SparkSession:
    if master is not None:
        current, wanted = _master_of(running), _CONNECTED if master.startswith(_CONNECT) else master
        if current != wanted:
            raise InputError(
                f"a Spark session on {current} is running, so none can be started on {wanted}",
                hint="stop it first with session().stop()",
            )
    for name, value in (_RUNTIME | settings).items():
        if running.conf.get(name, None) == value:
            continue
        if not running.conf.isModifiable(name):
            raise InputError(
                f"Spark setting {name} can only be given to a new session, and one is running",
                hint="stop it first with session().stop()",
            )
        running.conf.set(name, value)
    return running


def is_connected(running: SparkSession) -> bool:
    """Whether a session is a client of Spark Connect, which has no context."""
    return type(running).__module__.startswith("pyspark.sql.connect")


def _master_of(running: SparkSession) -> str | None:
    """Where a session runs. Over Spark Connect that is not told: its address may hold a token."""
    if is_connected(running):
        return _CONNECTED
    return running.conf.get("spark.master", None)


def _defaults(master: str) -> dict[str, str]:
    """Settings of a new session. Those that describe the machine are for a session that stays on it."""
    settings = _RUNTIME | {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
    }
    if not master.startswith(_LOCAL):
        return settings
    return settings | {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": f"{driver_memory_mib()}m",
        _JAVA: f"-Dlog4j2.configurationFile={_log_settings()}",
        "spark.sql.shuffle.partitions": str(limits.SHUFFLES_PER_CORE * (os.cpu_count() or 1)),
    }


def _merged(defaults: dict[str, str], settings: dict[str, str]) -> dict[str, str]:
    """Settings of the caller win; options of the JVM are added to ours, of two the later wins."""
    merged = defaults | settings
    if _JAVA in defaults and _JAVA in settings:
        merged[_JAVA] = f"{defaults[_JAVA]} {settings[_JAVA]}"
    return merged


def driver_memory_mib() -> int:
    """A quarter of what this process may use, within bounds; the Python workers and Lance need the rest."""
    usable = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for control in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        text = Path(control).read_text(encoding="ascii").strip() if Path(control).exists() else ""
        if text.isdecimal():
            usable = min(usable, int(text))
    smallest, largest = limits.DRIVER_MEMORY_MIB
    return max(smallest, min(largest, usable // 4 // 1024**2))


def _log_settings() -> str:
    return Path(str(files("omnigraph.spark") / "log4j2.properties")).as_uri()


def _text(value: object) -> str:
    """Spark reads ``true``, not ``True``."""
    return str(value).lower() if isinstance(value, bool) else str(value)
