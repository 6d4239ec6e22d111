"""The process that merges on Spark and may die: ``python -m tests.support.spark_merge <uri> <source> <failpoints>``.

No merge is too small for Spark here. Failpoints are armed in the driver once its session runs.
"""

from __future__ import annotations

import sys

import omnigraph as og


def main(uri: str, source: str, armed: str) -> None:
    from omnigraph import failpoints, limits
    from omnigraph import spark as ogs

    ogs.session("local[2,4]", **{"spark.driver.memory": "1g", "spark.sql.shuffle.partitions": "2"})
    limits.DRIVER_ROWS = 0  # type: ignore[misc]
    with og.open(uri) as graph:
        failpoints.arm(armed)
        print(graph.branches.merge(source, engine="spark").outcome)


if __name__ == "__main__":
    main(*sys.argv[1:])
