"""The wheel as a stranger gets it: installed without extras, it makes, fills and queries a graph. Needs the network."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.newcomer.test_clean_clone import newcomers_env
from tests.support.source_tree import ROOT

pytestmark = [pytest.mark.torture, pytest.mark.timeout(1200)]


def run(*words: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    given = [str(word) for word in words]
    return subprocess.run(given, cwd=cwd, env=newcomers_env(), capture_output=True, text=True, timeout=900, check=False)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    built = run(sys.executable, "-m", "pip", "wheel", "--no-deps", "--wheel-dir", folder, ROOT, cwd=folder)
    assert built.returncode == 0, built.stderr
    return next(folder.glob("omnigraph-*.whl"))


def test_the_wheel_holds_the_package_its_types_and_nothing_else(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.split("/")[0] for name in names if ".dist-info/" not in name}
    assert tops == {"omnigraph", "pyspark_omnigraph"}
    assert {"omnigraph/py.typed", "omnigraph/spark/log4j2.properties"} <= set(names)
    assert any(name.endswith("licenses/LICENSE") for name in names)


def test_without_extras_it_makes_fills_and_queries_a_graph(wheel: Path, tmp_path: Path) -> None:
    run(sys.executable, "-m", "venv", "env", cwd=tmp_path)
    installed = run("env/bin/pip", "install", "--quiet", "-c", ROOT / "constraints.txt", wheel, cwd=tmp_path)
    assert installed.returncode == 0, installed.stderr
    (tmp_path / "p.pg").write_text("node Person { handle: String @key }\n", "utf-8")
    (tmp_path / "p.jsonl").write_text('{"type":"Person","data":{"handle":"ana"}}\n', "utf-8")
    read = "query q() { match { $p: Person } return { $p.handle as who } }"
    load = ("load", "--store", "p.omni", "--data", "p.jsonl", "--mode", "merge", "--quiet")
    for words in (("version",), ("init", "--schema", "p.pg", "p.omni"), load, ("verify", "p.omni")):
        ended = run("env/bin/omnigraph", *words, cwd=tmp_path)
        assert (ended.returncode, ended.stderr) == (0, ""), words
    asked = run("env/bin/omnigraph", "query", "--store", "p.omni", "-e", read, "--format", "csv", cwd=tmp_path)
    assert asked.stdout == "who\nana\n"
    spark = run("env/bin/omnigraph", *load, "--engine", "spark", cwd=tmp_path)
    assert spark.returncode == 1
    assert spark.stderr.endswith("hint: pip install 'omnigraph[spark]'\n"), spark.stderr
