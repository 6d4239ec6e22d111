"""Ways into the package: what `dir` shows, `og.spark`, `python -m omnigraph`."""

from __future__ import annotations

import subprocess
import sys

import omnigraph as og
from tests.support.light_python import run_code


def test_dir_shows_every_public_name() -> None:
    assert {*og.__all__, "spark", "__version__", "__doc__"} <= set(dir(og))
    assert all(getattr(og, name) is not None for name in dir(og))


def test_the_spark_engine_is_an_attribute_and_dir_shows_its_verbs() -> None:
    code = """
import omnigraph as og
import sys
assert "omnigraph.spark" not in sys.modules
assert {"export", "load", "merge", "query", "read", "session", "__doc__", "__name__"} <= set(dir(og.spark))
assert "pyspark" not in sys.modules
print(og.spark.__name__)
"""
    ended = subprocess.run(run_code(code), capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (0, "omnigraph.spark\n"), ended.stderr


def test_the_package_is_the_executable() -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "omnigraph", "--version"], capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stdout) == (0, f"omnigraph {og.__version__}\n")
