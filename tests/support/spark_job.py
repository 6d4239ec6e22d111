"""A load over six types that is easy to check, and the child process that runs it on Spark and may die.

Started with ``python -m tests.support.spark_job <uri> <folder> <job id> <driver failpoints>``. Every record is marked
with the job, so that all of a job is there or nothing, and each row once.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import omnigraph as og
from tests.support.source_tree import ROOT

SCHEMA = """
node Person { name: String @key  mark: String }
node Firm { name: String @key  mark: String }
node City { name: String @key  mark: String }
edge Knows: Person -> Person { mark: String }
edge WorksAt: Person -> Firm { mark: String }
edge LivesIn: Person -> City { mark: String }
"""
TYPES = ("Person", "Firm", "City", "Knows", "WorksAt", "LivesIn")
ROWS = 4
CHILD_SECONDS = 600  # a session starts in five seconds, or in minutes on a busy machine


def write_input(folder: Path, mark: str) -> Path:
    """One file of each type's records, mixed, marked."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = []
    for number in range(ROWS):
        person, firm, city = (f"{mark}-{kind}{number}" for kind in "pfc")
        for type_, name in (("Person", person), ("Firm", firm), ("City", city)):
            lines.append({"type": type_, "data": {"name": name, "mark": mark}})
        ends = {"Knows": person, "WorksAt": firm, "LivesIn": city}
        lines += [{"edge": edge, "from": person, "to": end, "data": {"mark": mark}} for edge, end in ends.items()]
    for part in range(2):
        text = "\n".join(json.dumps(line) for line in lines[part::2])
        (folder / f"{part}.jsonl").write_text(text, "utf-8")
    return folder


def counts(graph: og.Graph, mark: str, branch: str = "main") -> set[int]:
    """How many rows of a job each type holds; a set, because all types must agree."""
    snapshot = graph.snapshot(branch)
    return {snapshot.arrow(type_, columns=["mark"]).column("mark").to_pylist().count(mark) for type_ in TYPES}


def run_job(uri: str, folder: Path, job_id: str, failpoints: str = "", **env: str) -> subprocess.CompletedProcess[str]:
    """Run the child to its end, whatever that is."""
    return run_child([sys.executable, "-m", "tests.support.spark_job", uri, str(folder), job_id, failpoints], **env)


def run_child(command: list[str], **env: str) -> subprocess.CompletedProcess[str]:
    """Run a process of Spark's in the root of the repository."""
    return subprocess.run(
        command, cwd=ROOT, env=os.environ | env, capture_output=True, text=True, timeout=CHILD_SECONDS, check=False
    )


def main(uri: str, folder: str, job_id: str, armed: str) -> None:
    from omnigraph import failpoints
    from omnigraph import spark as ogs

    ogs.session("local[2,4]", **{"spark.driver.memory": "1g", "spark.sql.shuffle.partitions": "2"})
    with og.open(uri) as graph:
        failpoints.arm(armed)
        try:
            print(ogs.load(graph, Path(folder), "append", job_id=job_id).total)
        except og.OmniGraphError as error:
            print(type(error).__name__, error.message)


if __name__ == "__main__":
    main(*sys.argv[1:])
