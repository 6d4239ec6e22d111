"""Named places where a test can kill, fail or hold this process. Inert unless armed.

``OMNIGRAPH_FAILPOINTS="publish.before_commit=kill;write.after_sidecar=raise@2"`` arms them when the process starts. The
steps of a commit are the same for every kind of writer; ``write.after_table_commit[Load]=kill`` means that kind alone.
Actions: ``kill`` (SIGKILL), ``raise`` (a store error), ``lose`` (the effect happened, its acknowledgement is lost) and
``pause:<path>`` (create ``<path>.reached``, go on when ``<path>.release`` exists). ``@n`` means the n-th time.
"""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from omnigraph.errors import InputError, StoreUnavailable

NAMES = frozenset(
    {
        "write.after_stage",
        "group.after_stage",
        "spark.before_fragment",
        "spark.after_staging",
        "write.after_gate_checks",
        "write.after_sidecar",
        "write.before_table_commit",
        "write.after_table_commit",
        "write.after_all_table_commits",
        "write.after_publish_before_delete",
        "fork.before_create",
        "recovery.post_drift_restore",
        "fork.post_create_pre_open",
        "publish.before_commit",
        "publish.lost_ack",
        "graph_publish.before_commit_append",
        "graph_publish.between_commit_and_actor",
        "recovery.sidecar_write",
        "recovery.sidecar_delete",
        "recovery.sidecar_list",
        "recovery.post_sidecar_list_pre_read",
        "recovery.post_table_restore_pre_publish",
        "recovery.before_roll_forward_publish",
        "recovery.record_audit",
        "branch_create.before_ref",
        "branch_create.after_ref",
        "branch_create.after_entry",
        "branch_delete.before_table_cleanup",
        "branch_merge.before_branch_delete",
        "branch_rename.after_new_entry",
        "branch_rename.after_decision",
        "tag_create.after_entry",
        "tag_create.after_live",
        "tag_delete.before_entry",
        "tag_delete.after_entry",
        "repair.after_restore",
        "init.after_schema_pg_written",
        "init.after_schema_contract_written",
        "init.after_tables_created",
        "init.post_manifest_create",
        "migrate.between_work_and_stamp",
        "schema_apply.after_lock",
        "schema_apply.before_staging_write",
        "schema_apply.after_staging_write",
        "schema_apply.after_manifest_commit",
        "schema_apply.between_renames",
        "table.lost_ack",
        "clone.after_claim",
        "clone.between_files",
        "clone.after_data",
        "clone.before_names",
        "clone.before_main",
        "clone.before_schema",
        "clone.between_removals",
        "clone.before_claim_removed",
        "backup.before_files",
        "relocate.between_files",
        "cleanup.after_listing",
        "cleanup.after_reclaimed",
        "cleanup.between_commits",
        "cleanup.after_commits",
        "cleanup.before_removal",
        "cleanup.after_list",
        "cleanup.between_files",
        "cleanup.before_list_removed",
        "optimize.after_rewrite",
        "optimize.after_build",
        "optimize.between_commits",
        "embed.after_answer",
        "embed.after_commit",
        "embed.after_facts",
    }
)

#: The kinds of writers that the points of a commit tell apart.
KINDS = frozenset({"Mutation", "Load", "SchemaApply", "BranchMerge", "EnsureIndices", "Optimize"})

_ENTRY = r"(?P<name>[a-z_.]+)(\[(?P<kind>\w+)\])?=(?P<action>kill|raise|lose|pause:[^@]+)(@(?P<nth>\d+))?"
_PAUSE_SECONDS = 60.0


@dataclass(slots=True)
class _Armed:
    """What happens at a point, and after how many times."""

    action: str
    countdown: int


def _parse(text: str) -> dict[str, _Armed]:
    armed = {}
    for entry in filter(None, text.split(";")):
        found = re.fullmatch(_ENTRY, entry)
        if found is None or found["name"] not in NAMES or not {found["kind"]} <= {None, *KINDS}:
            raise InputError(f"unknown failpoint {entry!r}", hint="see NAMES and KINDS in omnigraph.failpoints")
        point = f"{found['name']}[{found['kind']}]" if found["kind"] else found["name"]
        armed[point] = _Armed(found["action"], int(found["nth"] or 1))
    return armed


_armed = _parse(os.environ.get("OMNIGRAPH_FAILPOINTS", ""))
_lock = threading.Lock()


def arm(text: str) -> None:
    """Replace what is armed in this process; the empty text disarms everything."""
    global _armed
    _armed = _parse(text)


def reach(name: str, kind: str = "") -> None:
    """Mark a place. Costs one look-up in an empty dictionary unless a test armed something.

    Args:
        kind: what passes here, where several kinds do; a point may be armed for one of them.
    """
    if not _armed:
        return
    if name not in NAMES:
        raise InputError(f"failpoint {name!r} is not in the list")
    for armed in (name, f"{name}[{kind}]"):
        if _is_due(armed):
            _act(armed, _armed[armed].action)


def _is_due(name: str) -> bool:
    with _lock:
        point = _armed.get(name)
        if point is None:
            return False
        point.countdown -= 1
        return point.countdown == 0


def _act(name: str, action: str) -> None:
    if action == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif action == "raise":
        raise StoreUnavailable(f"injected fault at {name}")
    elif action == "lose":
        raise ConnectionError(f"injected loss of the acknowledgement at {name}")
    else:
        _pause(Path(action.partition(":")[2]))


def _pause(path: Path) -> None:
    path.with_name(f"{path.name}.reached").touch()
    release = path.with_name(f"{path.name}.release")
    deadline = time.monotonic() + _PAUSE_SECONDS
    while not release.exists() and time.monotonic() < deadline:
        time.sleep(0.002)
