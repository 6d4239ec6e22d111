"""Fixtures and profiles for every test."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, settings

from tests.support.distribution import ByFile, place
from tests.support.s3_server import S3Server, s3_server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SPARK_CONF = Path(__file__).parent / "support" / "spark_conf"

# Timing says nothing on a shared machine, so no profile has a deadline.
_QUIET = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
settings.register_profile("dev", _QUIET, max_examples=25, stateful_step_count=20)
# In the gate the answer depends on the code alone; fresh seeds belong to dev and torture.
settings.register_profile("ci", _QUIET, max_examples=100, stateful_step_count=30, derandomize=True, database=None)
settings.register_profile("torture", _QUIET, max_examples=2000, stateful_step_count=60)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "dev"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The long before the short; within a file the order stays."""
    items.sort(key=lambda item: place(item.nodeid))


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByFile | None:
    """Ours when `make test` asks for whole files; another ``--dist`` is obeyed."""
    return ByFile(config, log) if config.getoption("dist") == "loadfile" else None


@pytest.fixture(scope="session", autouse=True)
def short_lives() -> Iterator[None]:
    """What this process and its children need not do when they live for seconds; an environment that asks wins.

    A killed process loses nothing from the page cache, so nothing is synced unless a test asks for it. Spark finds its
    settings in a folder of ours.
    """
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {"OMNIGRAPH_FSYNC": "0", "SPARK_CONF_DIR": str(SPARK_CONF)}.items():
            patch.setenv(name, os.environ.get(name, value))
        yield


@pytest.fixture(scope="session")
def s3() -> Iterator[S3Server]:
    """One S3 server per worker process, started by the first test that asks for it."""
    with s3_server() as server:
        yield server


@pytest.fixture
def s3_root(s3: S3Server) -> str:
    """An address in the bucket that no other test uses."""
    return f"{s3.url}/{uuid4().hex}"


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """One small Spark session per worker process, started by the first test that asks for it."""
    from omnigraph import spark as ogs

    # Small inputs: compiling what runs for milliseconds costs more than it brings.
    conf = {
        "spark.driver.memory": "1g",
        "spark.sql.codegen.wholeStage": False,
        "spark.sql.shuffle.partitions": 2,
    }
    session = ogs.session("local[2]", **conf)
    yield session
    session.stop()
