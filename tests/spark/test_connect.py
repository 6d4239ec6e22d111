"""Spark Connect: the session is a client, Spark and its Python are somebody else's processes."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest

import omnigraph as og
from omnigraph.errors import MissingExtra
from omnigraph.spark.session import _connect
from tests.support.spark_job import CHILD_SECONDS, SCHEMA, counts, run_child, write_input
from tests.support.waiting import wait_until

MOCK = {"OMNIGRAPH_EMBEDDINGS_MOCK": "1"}

CLIENT = """
import sys
from pathlib import Path
import omnigraph as og
from omnigraph import limits
from omnigraph import spark as ogs

NOTES = 'node Note { slug: String @key  body: String?  vec: Vector(4)? @embed("body") }'
address, uri, folder, out = sys.argv[1:]
spark = ogs.session(address)
assert ogs.session(address) is spark
with og.open(uri) as graph:
    loaded = ogs.load(graph, Path(folder), "append")
    print("files", loaded.total, loaded.engine)
    people = spark.createDataFrame([("ann", "c"), ("j1-p0", "c")], "name string, mark string")
    try:
        ogs.load(graph, {"Person": people}, "append")
    except og.OmniGraphError as error:
        print("refused", error.code)
    graph.branches.create("a")
    ogs.load(graph, {"Person": people}, "merge", branch="a")
    limits.DRIVER_ROWS = -1  # the rows of a merge are looked at by executors, however few there are
    print("merge", ogs.merge(graph, "a").tables["node:Person"].to_dict())
    frame = spark.read.format("omnigraph").option("type", "Person").option("columns", "name").load(uri)
    print("read", frame.where("name = 'ann'").count())
    text = 'query q() { match { $p: Person  $p worksAt $f } return { $f.name as firm, count($p) as people } }'
    print("query", ogs.query(graph, text).count())
    text = 'query q() { match { $p: Person } return { $p.name as n } order { bm25($p.name, "p1") } limit 1 }'
    print("search", ogs.query(graph, text).collect()[0]["n"] == graph.query(text).rows()[0]["n"])
    with og.init(out + ".notes", NOTES) as notes:
        notes.load({"Note": [{"slug": slug, "body": slug} for slug in "abc"]}, "append")
        done = notes.embed(engine="spark")
        print("embed", done.embedded, done.engine)
    more = spark.createDataFrame([("bea", "c")], "name string, mark string")
    more.write.format("omnigraph").option("type", "Person").mode("append").save(uri)
    print("written", graph.snapshot().count("Person"))
    ogs.export(graph, out)
    try:
        ogs.session("local[2]")
    except og.OmniGraphError as error:
        print(error.message)
spark.stop()
"""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture
def connect_server(tmp_path: Path) -> Iterator[str]:
    """The server that comes with pyspark, on loopback."""
    home, port = Path(pyspark.__file__).parent, free_port()
    settings = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": port,
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.sql.shuffle.partitions": 2,
        "spark.sql.warehouse.dir": tmp_path / "warehouse",
        "spark.ui.enabled": "false",
    }
    named = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
    server = "org.apache.spark.sql.connect.service.SparkConnectServer"
    with (tmp_path / "server.log").open("w") as log:
        process = subprocess.Popen(
            [home / "bin" / "spark-submit", "--master", "local[2]", *named, "--class", server, "spark-internal"],
            env=os.environ | {"SPARK_HOME": str(home), "PYSPARK_PYTHON": sys.executable},
            cwd=tmp_path,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        wait_until(lambda: answers(port) or process.poll() is not None, timeout=CHILD_SECONDS, what="Spark Connect")
        assert process.poll() is None, (tmp_path / "server.log").read_text()[-3000:]
        yield f"sc://127.0.0.1:{port}"
    finally:
        os.killpg(process.pid, signal.SIGKILL)  # the server and the Python processes it started, nobody else
        process.wait()


@pytest.mark.timeout(CHILD_SECONDS)
def test_a_graph_is_loaded_merged_read_asked_embedded_written_and_exported_over_spark_connect(
    tmp_path: Path, connect_server: str
) -> None:
    folder = write_input(tmp_path / "in", "j1")
    with og.init(tmp_path / "g", SCHEMA) as graph:
        out = tmp_path / "out.jsonl"
        child = run_child([sys.executable, "-c", CLIENT, connect_server, graph.uri, str(folder), str(out)], **MOCK)
        assert child.stdout.splitlines() == [
            "files 24 spark",
            "refused conflict.key",
            "merge {'inserted': 1, 'updated': 1, 'deleted': 0}",
            "read 1",
            "query 4",
            "search True",
            "embed 3 spark",
            "written 6",
            "a Spark session on Spark Connect is running, so none can be started on local[2]",
        ], child.stderr[-3000:]
        assert counts(graph, "c") == {3, 0}
        assert graph.verify().ok
        assert out.read_text("utf-8") == graph.export().text


def test_without_grpc_spark_connect_is_one_sentence_and_the_install_line() -> None:
    class WithoutGrpc:
        """What pyspark does where grpc is not installed."""

        @property
        def builder(self) -> WithoutGrpc:
            return self

        def remote(self, address: str) -> WithoutGrpc:
            return self

        def getOrCreate(self) -> None:
            raise ImportError("[PACKAGE_NOT_INSTALLED] grpcio >= 1.76.0 must be installed; however, it was not found.")

    with pytest.raises(MissingExtra, match="Spark Connect needs grpc") as refused:
        _connect(WithoutGrpc(), "sc://127.0.0.1:1", {})
    assert refused.value.hint == "pip install 'omnigraph[connect]'"
