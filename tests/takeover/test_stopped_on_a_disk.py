"""A process that is stopped on a local disk keeps its turn; when it goes on, or is killed, both writes are right."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.holding_proxy import Hold
from tests.takeover.case import Mode
from tests.takeover.disk import DiskScene, disk_scene

#: Who is stopped, where, and who comes along.
CHOSEN = [
    ("insert", "write.after_stage", "insert"),
    ("insert", "write.after_sidecar", "insert"),
    ("insert", "publish.before_commit", "company"),
    ("first_write", "fork.before_create", "first_write"),
    ("branch_create", "branch_create.before_ref", "create_write"),
    ("branch_delete", "branch_delete.before_table_cleanup", "recreate"),
    ("branch_rename", "branch_rename.after_new_entry", "branch_write"),
    ("branch_rename", "branch_rename.after_decision", "recreate"),
    ("overwrite", "write.after_all_table_commits", "insert"),
    ("add_type", "schema_apply.between_renames", "insert"),
]
EVERYWHERE = {
    "insert": [
        "write.after_stage",
        "write.after_gate_checks",
        "write.after_sidecar",
        "write.after_table_commit",
        "write.after_all_table_commits",
        "publish.before_commit",
        "write.after_publish_before_delete",
    ],
    "first_write": ["fork.before_create", "fork.post_create_pre_open", "write.after_sidecar"],
    "overwrite": ["write.after_sidecar", "write.after_table_commit[Load]", "publish.before_commit"],
    "branch_create": ["branch_create.before_ref", "branch_create.after_ref"],
    "branch_delete": ["branch_delete.before_table_cleanup"],
    "branch_rename": ["branch_rename.after_new_entry", "branch_rename.after_decision", "publish.before_commit"],
    "branch_merge": ["write.after_all_table_commits[BranchMerge]"],
    "indices": ["write.after_all_table_commits[EnsureIndices]"],
    "add_type": [
        "schema_apply.after_lock",
        "schema_apply.before_staging_write",
        "schema_apply.after_staging_write",
        "schema_apply.after_manifest_commit",
        "schema_apply.between_renames",
    ],
    "add_property": ["write.after_table_commit[SchemaApply]"],
    "recover": ["recovery.before_roll_forward_publish", "recovery.record_audit"],
}
RIVALS = ("insert", "first_write", "branch_write", "create_write", "recreate", "overwrite", "add_property", "heal")
MODES: tuple[Mode, ...] = ("stopped", "dead")


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DiskScene]:
    with disk_scene(Path(tmp_path_factory.mktemp("graphs"))) as place:
        yield place


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_a_stopped_process_keeps_its_turn(disk: DiskScene, mode: Mode) -> None:
    disk.begin()
    for held, point, other in CHOSEN:
        disk.play_at(held, other, Hold(part=point), mode)
    disk.finish()


@pytest.mark.torture
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("held", EVERYWHERE)
def test_a_process_stopped_anywhere(disk: DiskScene, held: str, mode: Mode) -> None:
    disk.begin()
    disk.thorough = True
    for point in EVERYWHERE[held]:
        for other in dict.fromkeys((held, *RIVALS)):
            disk.play_at(held, other, Hold(part=point), mode)
    disk.finish()
