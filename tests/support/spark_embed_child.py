"""The process that embeds the texts of a graph on Spark and dies, or whose workers die; started with the address."""

from __future__ import annotations

import sys

import omnigraph as og
from omnigraph import failpoints
from omnigraph import spark as ogs


def main(uri: str, driver_failpoints: str) -> None:
    spark = ogs.session("local[2,4]", **{"spark.driver.memory": "1g", "spark.sql.shuffle.partitions": "2"})
    failpoints.arm(driver_failpoints)
    with og.open(uri) as graph:
        done = graph.embed(rows=4, engine="spark")
    tracker = spark.sparkContext.statusTracker()
    jobs = [tracker.getJobInfo(number) for number in tracker.getJobIdsForGroup()]
    stages = [tracker.getStageInfo(number) for job in jobs if job for number in job.stageIds]
    died = sum(stage.numFailedTasks for stage in stages if stage)
    print(done.embedded, done.reused, done.engine, "after a death" if died else "in one go")


if __name__ == "__main__":
    main(*sys.argv[1:])
