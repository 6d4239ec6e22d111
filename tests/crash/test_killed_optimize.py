"""An optimizer dies by SIGKILL at each of its points: rows stay, the next run finishes."""

from __future__ import annotations

from pathlib import Path

import pytest

import omnigraph as og
from omnigraph import limits
from tests.support.crash_checks import settled
from tests.support.crash_graph import ACTOR, MAIN, SCHEMA, perform
from tests.support.kill_runner import Target, kill_child
from tests.support.ledger import Ledger
from tests.upkeep.optimize.grown_graph import layout

#: In the order in which an optimizer passes them; the commit steps once for the fragments, once for the indexes.
POINTS = (
    "optimize.after_rewrite",
    "optimize.after_build",
    "write.after_stage",
    "write.after_sidecar",
    "write.after_table_commit[Optimize]",
    "write.after_all_table_commits[Optimize]",
    "publish.before_commit",
    "publish.lost_ack",
    "write.after_publish_before_delete",
    "optimize.between_commits",
)
_DECISIVE = ("optimize.after_build", "write.after_table_commit[Optimize]", "optimize.between_commits")


@pytest.mark.parametrize("point", _DECISIVE)
def test_a_killed_optimizer_leaves_every_row_and_the_next_one_finishes(tmp_path: Path, point: str) -> None:
    _kill_in_turn(str(tmp_path / "g"), tmp_path, (point,))


@pytest.mark.s3
def test_optimizers_killed_one_after_another_on_s3_leave_a_sound_graph(s3_root: str, tmp_path: Path) -> None:
    _kill_in_turn(s3_root, tmp_path, _DECISIVE)


@pytest.mark.torture
def test_optimizers_killed_at_every_point_leave_a_sound_graph(tmp_path: Path) -> None:
    _kill_in_turn(str(tmp_path / "g"), tmp_path, POINTS)
    _kill_in_turn(str(tmp_path / "h"), tmp_path / "h", POINTS[3:9], nth=2)


@pytest.mark.torture
@pytest.mark.s3
def test_optimizers_killed_at_every_point_on_s3_leave_a_sound_graph(s3_root: str, tmp_path: Path) -> None:
    _kill_in_turn(s3_root, tmp_path, POINTS)


def _kill_in_turn(uri: str, folder: Path, points: tuple[str, ...], nth: int = 1) -> None:
    """One graph lives through all of the kills; small commits lie between them. With 2, the commit of the indexes dies
    instead of that of the fragments."""
    folder.mkdir(exist_ok=True)
    target = Target(uri, MAIN, folder / "ledger.jsonl")
    ledger = Ledger(target.ledger)
    with og.init(uri, SCHEMA, actor=ACTOR) as graph:
        perform(graph, "seed", MAIN, ledger, "seed")
    for number, point in enumerate(points):
        with og.open(uri, actor=ACTOR) as graph:
            for which in ("one", "two"):
                perform(graph, "insert_many", MAIN, ledger, f"{which}-{number}")
        kill_child(target, "optimize=all", point, nth=nth)
        with settled(uri, MAIN, target.ledger) as graph:
            graph.optimize()
            found = layout(graph).values()
            assert all(fragments <= limits.INDEX_SEGMENTS and not uncovered for fragments, _, uncovered in found)
            assert graph.optimize().commits == ()
