"""Executors that are processes of their own: nothing may depend on the memory of the driver."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import omnigraph as og
from tests.support.spark_job import SCHEMA, counts, run_child, write_input

pytestmark = pytest.mark.timeout(900)  # three Java processes, which take minutes on a busy machine

# One machine cannot show speculation: Spark never starts the second copy of a task on the host of the first.
JOB = """
import sys
from pathlib import Path
import omnigraph as og
from omnigraph import limits
from omnigraph import spark as ogs

limits.DRIVER_ROWS = 0  # every rule is a job, however few rows there are
uri, folder, out = sys.argv[1:]
memory = {"spark.driver.memory": "1g", "spark.executor.memory": "512m"}
spark = ogs.session("local-cluster[1,2,512]", **memory, **{"spark.sql.shuffle.partitions": 2})
with og.open(uri) as graph:
    print(ogs.load(graph, Path(folder), "append").total)
    print(ogs.read(graph, "Person", columns=["name"]).count())
    text = 'query q() { match { $p: Person  $p worksAt $f } return { $f.name as firm, count($p) as people } }'
    print(ogs.query(graph, text).count())
    ogs.export(graph, out)
spark.stop()
"""


def test_a_graph_is_loaded_read_asked_and_exported_by_executors_of_their_own(tmp_path: Path) -> None:
    folder = write_input(tmp_path / "in", "j1")
    with og.init(tmp_path / "g", SCHEMA) as graph:
        child = run_child([sys.executable, "-c", JOB, graph.uri, str(folder), str(tmp_path / "out.jsonl")])
        assert child.stdout.splitlines() == ["24", "4", "4"], child.stderr[-3000:]
        assert counts(graph, "j1") == {4}
        assert graph.verify().ok
        assert (tmp_path / "out.jsonl").read_text("utf-8") == graph.export().text
