"""Ways in which a writer that was overtaken once did harm, each kept as a test."""

from __future__ import annotations

from pathlib import Path

import pytest

import omnigraph as og
from tests.support.holding_proxy import ANY, Hold
from tests.takeover.case import Mode
from tests.takeover.disk import disk_scene
from tests.takeover.requests import BRANCH, BRANCH_NAMES, PURGED, RECORD, TABLE
from tests.takeover.rig import TakeoverRig
from tests.takeover.writers import ACTOR, SCHEMA

pytestmark = [pytest.mark.s3, pytest.mark.slow]

#: Opens beside schema changes: so many changes, and at most so many opens.
CHANGES, MOST_OPENS = 6, 500


@pytest.mark.parametrize("other", ["first_write", "recreate"])
def test_a_late_fork_does_not_drop_the_table_of_another_writer(place: TakeoverRig, other: str) -> None:
    """Held between its record and what it does to the table's fork."""
    place.play_at("first_write", other, Hold(1, ANY, r"(nodes|edges)(/|%2F)", after=RECORD))
    place.finish()


@pytest.mark.parametrize("later", [1, 2, 3])
def test_a_late_create_does_not_remove_a_branch_that_was_made_meanwhile(place: TakeoverRig, later: int) -> None:
    """Held after it saw that the name is free."""
    place.play_at("branch_create", "create_write", Hold(later, ANY, after=BRANCH_NAMES))
    place.finish()


@pytest.mark.parametrize("mode", ["late", "killed"])
@pytest.mark.parametrize("other", ["insert", "company"])
def test_a_record_that_lands_late_blocks_nobody(place: TakeoverRig, other: str, mode: Mode) -> None:
    place.play_at("insert", other, Hold(part=RECORD), mode)
    place.finish()


@pytest.mark.parametrize(
    ("held", "other", "mode"),
    [
        ("insert", "insert", "late"),
        ("insert", "insert", "killed"),
        ("insert", "company", "killed"),
        ("update", "insert", "late"),
        ("update", "company", "killed"),
        ("delete", "insert", "late"),
        ("delete", "company", "killed"),
        ("overwrite", "company", "late"),
        ("overwrite", "insert", "killed"),
        ("add_property", "insert", "late"),
        ("add_property", "company", "killed"),
    ],
)
def test_a_table_commit_that_lands_late_is_no_drift(place: TakeoverRig, held: str, other: str, mode: Mode) -> None:
    place.play_at(held, other, Hold(part=TABLE), mode)
    place.finish()


def test_files_of_a_dropped_type_that_go_late_take_nothing_along(place: TakeoverRig) -> None:
    place.play_at("drop_type", "insert_spare", Hold(part=PURGED))
    place.finish()


@pytest.mark.parametrize("part", [r"page_lookup", r"staging/part_0_metadata"])
def test_an_index_build_goes_on_without_a_type_that_is_dropped_meanwhile(place: TakeoverRig, part: str) -> None:
    case = place.play_at("indices", "drop_type", Hold(part=part))
    assert [str(told) for told in case.told] == ["indices → done", "drop_type → done"]
    place.finish()


@pytest.mark.parametrize("mode", ["late", "killed"])
def test_an_append_that_lands_on_top_of_its_own_redo_is_there_once(place: TakeoverRig, mode: Mode) -> None:
    """Held between the commits of its two tables; the other one finishes what the record says."""
    for other in ("insert", "heal"):
        place.play_at("insert", other, Hold(2, part=TABLE), mode)
    place.finish()


@pytest.mark.parametrize("part", [BRANCH, r"__manifest/tree/[^?]*_versions/"])
@pytest.mark.parametrize("other", ["create_delete", "create_again"])
def test_a_late_create_of_a_name_that_was_used_again(place: TakeoverRig, other: str, part: str) -> None:
    place.play_at("branch_create", other, Hold(part=part))
    place.finish()


@pytest.mark.torture
@pytest.mark.parametrize("other", ["branch_delete", "recreate"])
def test_a_late_delete_of_a_name_that_was_used_again(place: TakeoverRig, other: str) -> None:
    place.sweep("branch_delete", other)
    place.finish()


def test_an_open_beside_schema_changes_never_fails(place: TakeoverRig, s3_root: str) -> None:
    _open_beside_changes(place, s3_root)


def test_an_open_beside_schema_changes_never_fails_on_a_disk(tmp_path: Path) -> None:
    with disk_scene(tmp_path) as place:
        _open_beside_changes(place, str(tmp_path / "graph"))


def _open_beside_changes(place: TakeoverRig, uri: str) -> None:
    og.init(uri, SCHEMA, actor=ACTOR).close()
    assert place.other.ask("open", uri)["name"] == "done"
    for number in range(CHANGES):
        place.other.tell("run", "add_property", number, f"v{number}", True)
    answers: list[dict[str, str]] = []
    opens = 0
    while len(answers) < CHANGES and opens < MOST_OPENS:
        with og.open(uri, actor=ACTOR) as graph:
            assert "Person" in graph.catalog.nodes
        opens += 1
        if place.other.has_answered:
            answers += place.other.answer()
    while len(answers) < CHANGES:
        answers += place.other.answer()
    assert [end["name"] for end in answers] == ["done"] * CHANGES
    place.other.ask("close")
    place.other.has_open = ""
    with og.open(uri, actor=ACTOR) as graph:
        assert {f"p_v{number}" for number in range(CHANGES)} <= set(graph.catalog.nodes["Company"].properties)
