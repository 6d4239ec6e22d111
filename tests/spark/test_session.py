"""Sessions: found or started, quiet, with Arrow, and one sentence when something is missing."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from omnigraph import limits
from omnigraph import spark as ogs
from omnigraph.errors import InputError, MissingExtra
from omnigraph.spark.session import driver_memory_mib, java_or_refuse

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


def test_a_session_has_arrow_and_no_web_page(spark: SparkSession) -> None:
    assert spark.conf.get("spark.sql.execution.arrow.pyspark.enabled") == "true"
    assert spark.conf.get("spark.ui.enabled") == "false"
    assert spark.conf.get("spark.driver.host") == "127.0.0.1"
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"


def test_settings_of_the_caller_win_over_the_defaults(spark: SparkSession) -> None:
    assert spark.conf.get("spark.driver.memory") == "1g"


def test_a_session_that_runs_is_used_again(spark: SparkSession) -> None:
    assert ogs.session() is spark
    assert ogs.session("local[2]") is spark


def test_spark_connect_beside_a_session_of_another_kind_is_refused(spark: SparkSession) -> None:
    with pytest.raises(
        InputError, match=r"on local\[2\] is running, so none can be started on Spark Connect"
    ) as refused:
        ogs.session("sc://127.0.0.1:1/;token=secret")
    assert "secret" not in str(refused.value)


def test_another_thread_uses_the_same_session_and_changes_none_of_its_settings(spark: SparkSession) -> None:
    before = spark.conf.get("spark.master"), spark.conf.get("spark.driver.memory")
    with ThreadPoolExecutor(1) as threads:
        assert threads.submit(ogs.session).result() is spark
    assert (spark.conf.get("spark.master"), spark.conf.get("spark.driver.memory")) == before


def test_a_session_on_another_master_is_refused(spark: SparkSession) -> None:
    with pytest.raises(InputError, match=r"on local\[2\] is running, so none can be started on local\[1\]"):
        ogs.session("local[1]")


def test_a_setting_for_new_sessions_only_is_refused_by_name(spark: SparkSession) -> None:
    with pytest.raises(InputError, match=r"spark\.driver\.memory can only be given to a new session"):
        ogs.session(**{"spark.driver.memory": "2g"})


def test_a_setting_that_can_change_is_changed(spark: SparkSession) -> None:
    name = "spark.sql.execution.arrow.maxRecordsPerBatch"
    before = spark.conf.get(name)
    assert before is not None
    try:
        ogs.session(None, **{name: 77})
        assert spark.conf.get(name) == "77"
    finally:
        spark.conf.set(name, before)


def test_the_driver_takes_at_most_a_quarter_of_the_memory() -> None:
    smallest, largest = limits.DRIVER_MEMORY_MIB
    quarter = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 4 // 1024**2
    assert smallest <= driver_memory_mib() <= max(smallest, min(largest, quarter))


def test_missing_java_is_one_sentence_and_the_install_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingExtra, match="needs Java 17 or newer") as refused:
        java_or_refuse()
    assert "install" in (refused.value.hint or "")


def test_missing_pyspark_is_one_sentence_and_the_install_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["omnigraph.spark.session"], "find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match="needs pyspark") as refused:
        ogs.session()
    assert refused.value.hint == "pip install 'omnigraph[spark]'"


def test_importing_the_package_starts_nothing() -> None:
    program = "import sys, omnigraph.spark as s; assert 'pyspark' not in sys.modules; print(s.__all__)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "session" in done.stdout
