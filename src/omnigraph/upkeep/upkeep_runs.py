"""What `Graph.upkeep` is: does what is due by the retention rule, and lists what was done.

Each run leaves one small object, and the oldest ones go. A task that fails does not stop the next one.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, TypeAlias

from omnigraph import ids, limits
from omnigraph.errors import OmniGraphError
from omnigraph.storage.graph_store import GraphStore
from omnigraph.storage.metadata.reclaimed import DIRECTORY
from omnigraph.storage.metadata.retention_rule import RetentionRule, default_rule, read_rule
from omnigraph.storage.store_guard import StoreFor
from omnigraph.upkeep.cleanup import CleanupRequest, cleanup
from omnigraph.upkeep.cleanup.policy import CleanupPolicy

RUNS = f"{DIRECTORY}/runs"

Outcome: TypeAlias = Literal["done", "not_due", "failed"]


@dataclass(frozen=True, slots=True)
class UpkeepTask:
    """One task of a run.

    Attributes:
        name: ``optimize`` or ``cleanup``.
        summary: what it did, or why it failed, in a line.
    """

    name: str
    outcome: Outcome
    summary: str = ""

    def to_dict(self) -> dict[str, str]:
        """The JSON form."""
        return {"name": self.name, "outcome": self.outcome, "summary": self.summary}


@dataclass(frozen=True, slots=True)
class UpkeepRun:
    """One run of `upkeep`.

    Attributes:
        id: a ULID; later runs have greater ones.
        started_at: clock of whoever ran it.
    """

    id: str
    started_at: datetime
    seconds: float
    actor: str | None
    tasks: tuple[UpkeepTask, ...]

    @property
    def ok(self) -> bool:
        """Whether no task failed."""
        return all(task.outcome != "failed" for task in self.tasks)

    def to_dict(self) -> dict[str, Any]:
        """The JSON form; times are in microseconds."""
        return {
            "id": self.id,
            "started_at": ids.micros(self.started_at),
            "seconds": round(self.seconds, 3),
            "actor_id": self.actor,
            "tasks": [task.to_dict() for task in self.tasks],
        }


class Upkeep:
    """Upkeep of one graph; call it to do what is due.

    Args:
        reader: gives the storage to read from, or raises when the graph may not be used.
        writer: the same for writing.
        optimize: puts the tables of all branches in order, and says what it did.
    """

    def __init__(
        self,
        reader: StoreFor,
        writer: StoreFor,
        actor: str | None,
        optimize: Callable[[], str],
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._actor = actor
        self._optimize = optimize

    def __call__(self) -> UpkeepRun:
        """Do what is due by the retention rule, and record it: put the tables in order, remove old states.

        Example:
            >>> [(task.name, task.outcome) for task in graph.upkeep().tasks]
            [('optimize', 'done'), ('cleanup', 'not_due')]
        """
        store = self._writer("admin")
        rule = read_rule(store.objects)[0] or default_rule()
        started_at, began = ids.now(), time.monotonic()
        tasks = (self._optimized(rule, started_at), self._cleaned(store, rule))
        run = UpkeepRun(ids.new_ulid(), started_at, time.monotonic() - began, self._actor, tasks)
        store.objects.write(f"{RUNS}/{run.id}.json", json.dumps(run.to_dict()).encode())
        names = store.objects.names(RUNS)
        store.objects.delete_all([f"{RUNS}/{name}" for name in names[: -limits.UPKEEP_RUNS]])
        return run

    def runs(self, limit: int | None = None) -> list[UpkeepRun]:
        """What was done, newest first; the last hundred runs are known.

        Example:
            >>> done = graph.upkeep()
            >>> graph.upkeep.runs(limit=1)[0].id == done.id
            True
        """
        objects = self._reader("admin").objects
        names = objects.names(RUNS)[::-1]
        contents = (objects.read(f"{RUNS}/{name}") for name in names[:limit])
        return [run for content in contents if content is not None and (run := _run_of(content)) is not None]

    def _optimized(self, rule: RetentionRule, now: datetime) -> UpkeepTask:
        every = rule.optimize_every
        if every is None:
            return UpkeepTask("optimize", "not_due", "the rule does not ask for it")
        last = next((run for run in self.runs() if _did(run, "optimize")), None)
        if last is not None and now - last.started_at < every:
            return UpkeepTask("optimize", "not_due", f"done at {last.started_at.isoformat(timespec='seconds')}")
        return _tried("optimize", lambda: ("done", self._optimize()))

    def _cleaned(self, store: GraphStore, rule: RetentionRule) -> UpkeepTask:
        def clean() -> tuple[Outcome, str]:
            done = cleanup(store, CleanupRequest(CleanupPolicy(rule.keep, rule.older_than), self._actor))
            if not done.commits:
                return "not_due", "nothing is older than the rule says"
            failed = [f"{table.table_key}: {table.error}" for table in done.tables if table.error]
            said = f"{done.states_removed} states, {done.files_removed} files, {done.bytes_removed} bytes removed"
            return ("failed", "; ".join([said, *failed])) if failed else ("done", said)

        return _tried("cleanup", clean)

    def __repr__(self) -> str:
        return "<upkeep: (), runs(…)>"


def _did(run: UpkeepRun, name: str) -> bool:
    return any((task.name, task.outcome) == (name, "done") for task in run.tasks)


def _tried(name: str, work: Callable[[], tuple[Outcome, str]]) -> UpkeepTask:
    try:
        return UpkeepTask(name, *work())
    except OmniGraphError as error:
        return UpkeepTask(name, "failed", str(error))


def _run_of(content: bytes) -> UpkeepRun | None:
    """A run as it was written; None for what nobody can read, which is no reason to fail."""
    try:
        values: Mapping[str, Any] = json.loads(content)
        tasks: Sequence[Mapping[str, Any]] = values["tasks"]
        return UpkeepRun(
            str(values["id"]),
            ids.from_micros(int(values["started_at"])),
            float(values["seconds"]),
            values["actor_id"],
            tuple(UpkeepTask(str(task["name"]), task["outcome"], str(task["summary"])) for task in tasks),
        )
    except (ValueError, KeyError, TypeError, OverflowError):
        return None
