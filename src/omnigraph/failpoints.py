"""Named places where a test can kill, fail or hold this process. Inert unless armed.

``OMNIGRAPH_FAILPOINTS="publish.before_commit=kill;write.after_sidecar=raise@2"`` arms them when the process starts.
Actions: ``kill`` (SIGKILL), ``raise`` (a store error), ``lose`` (the effect happened, its acknowledgement is lost) and
``pause:<path>`` (create ``<path>.reached``, go on when ``<path>.release`` exists). ``@n`` means the n-th time.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from omnigraph.errors import InputError, StoreUnavailable

NAMES = frozenset(
    {
        "write.after_stage",
        "spark.before_fragment",
        "spark.after_staging",
        "write.after_gate_checks",
        "write.after_sidecar",
        "write.after_all_table_commits",
        "write.after_publish_before_delete",
        "fork.before_create",
        "recovery.post_drift_restore",
        "mutation.post_table_commit",
        "fork.post_create_pre_open",
        "load.overwrite_mid_table",
        "ensure_indices.post_stage_pre_commit_btree",
        "ensure_indices.post_phase_b_pre_manifest_commit",
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
        "init.after_schema_pg_written",
        "init.after_schema_contract_written",
        "init.after_tables_created",
        "init.post_manifest_create",
        "migrate.between_work_and_stamp",
        "schema_apply.after_lock",
        "schema_apply.after_table_effect",
        "schema_apply.before_staging_write",
        "schema_apply.after_staging_write",
        "schema_apply.after_manifest_commit",
        "schema_apply.between_renames",
        "branch_merge.post_phase_b_pre_manifest_commit",
        "table.lost_ack",
    }
)

_PAUSE_SECONDS = 60.0


@dataclass(slots=True)
class _Armed:
    action: str
    countdown: int


def _parse(text: str) -> dict[str, _Armed]:
    armed = {}
    for entry in filter(None, text.split(";")):
        name, _, action = entry.partition("=")
        action, _, nth = action.partition("@")
        if name not in NAMES or action.partition(":")[0] not in {"kill", "raise", "lose", "pause"}:
            raise InputError(f"unknown failpoint {entry!r}", hint="see omnigraph.failpoints.NAMES")
        armed[name] = _Armed(action, int(nth or 1))
    return armed


_armed = _parse(os.environ.get("OMNIGRAPH_FAILPOINTS", ""))
_lock = threading.Lock()


def arm(text: str) -> None:
    """Replace what is armed in this process; the empty text disarms everything."""
    global _armed
    _armed = _parse(text)


def reach(name: str) -> None:
    """Mark a place. Costs one look-up in an empty dictionary unless a test armed something."""
    if not _armed:
        return
    if name not in NAMES:
        raise InputError(f"failpoint {name!r} is not in the list")
    with _lock:
        point = _armed.get(name)
        if point is None:
            return
        point.countdown -= 1
        if point.countdown != 0:
            return
    _act(name, point.action)


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
