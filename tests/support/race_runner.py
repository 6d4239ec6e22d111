"""Runs racing processes, kills some of them on the way, and holds the graph against their ledgers afterwards.

Children are spawned, never forked. Moments of a kill come from a seed; the child that is killed is started again and
goes on where its ledger ends.
"""

from __future__ import annotations

import json
import random
import subprocess
import time
from collections import Counter
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import omnigraph as og
from omnigraph.storage.metadata import commit_log
from omnigraph.storage.metadata.manifest import fold
from tests.support import ledger as ledgers
from tests.support.children import running
from tests.support.crash_checks import assert_mirrored, assert_pins_are_heads, assert_whole, files, records
from tests.support.light_python import run_module
from tests.support.race_graph import marks, perform
from tests.support.waiting import wait_until

RACE_SECONDS = 240.0
PARENT = 99  # number of the parent among the writers


@dataclass(frozen=True, slots=True)
class Race:
    """Who runs, on what, and where they meet.

    Attributes:
        kind: name of the operation that writers repeat, see `race_graph.STEPS`.
        victims: how many of the writers are killed once and started again.
    """

    uri: str
    folder: Path
    kind: str
    branch: str = "main"
    writers: int = 8
    operations: int = 25
    readers: int = 2
    victims: int = 2
    seed: int = 0
    env: dict[str, str] = field(default_factory=dict)

    def ledger(self, writer: int) -> Path:
        return self.folder / f"writer-{writer}.jsonl"

    def operations_noted(self) -> list[ledgers.Operation]:
        return ledgers.read(*sorted(self.folder.glob("writer-*.jsonl")))


def spawn(race: Race, role: str, number: int) -> AbstractContextManager[subprocess.Popen[str]]:
    """A child; whatever happens in the block, it is gone afterwards."""
    place = (race.uri, race.branch, str(race.folder))
    command = run_module("tests.support.race_child", role, *place, str(number), str(race.operations))
    return running(command, race.env, reads_output=False)


def run(race: Race) -> None:
    """The whole race: start together, kill and restart the victims, wait for all, stop the readers."""
    rng = random.Random(race.seed)
    with ExitStack() as stack:
        readers = [stack.enter_context(spawn(race, "reader", number)) for number in range(race.readers)]
        writers = {number: stack.enter_context(spawn(race, race.kind, number)) for number in range(race.writers)}
        _await_ready(race, [*readers, *writers.values()])
        (race.folder / "go").touch()
        for victim in rng.sample(sorted(writers), race.victims):
            notes = 2 * rng.randrange(1, max(2, race.operations - 2)) - 1
            kill_at_random(writers[victim], race.ledger(victim), notes, rng)
            writers[victim] = stack.enter_context(spawn(race, race.kind, victim))
        for number, writer in writers.items():
            complaint = writer.communicate(timeout=RACE_SECONDS)[1]
            assert writer.returncode == 0, f"writer {number} of {race} failed: {complaint[-3000:]}"
        (race.folder / "stop").touch()
        for reader in readers:
            complaint = reader.communicate(timeout=RACE_SECONDS)[1]
            assert reader.returncode == 0, f"a reader of {race} failed: {complaint[-3000:]}"


def kill_at_random(child: subprocess.Popen[str], ledger: Path, notes: int, rng: random.Random) -> None:
    """Let a writer come to a note in its ledger and to a random moment after it, then kill it."""
    wait_until(
        lambda: child.poll() is not None or notes_in(ledger) >= notes, timeout=RACE_SECONDS, what="a note", pause=0.001
    )
    moment = time.monotonic() + rng.uniform(0, 0.08)
    wait_until(lambda: time.monotonic() >= moment, timeout=5, what="a random moment", pause=0.0005)
    child.kill()
    child.communicate()


def notes_in(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


def _await_ready(race: Race, children: list[subprocess.Popen[str]]) -> None:
    def met() -> bool:
        dead = [child for child in children if child.poll() is not None]
        assert not dead, f"a child of {race} ended early: {dead[0].communicate()[1][-3000:]}"
        return len(list(race.folder.glob("*.ready"))) >= len(children)

    wait_until(met, timeout=RACE_SECONDS, what="all processes of the race")


def assert_sound(race: Race) -> None:
    """Everything that must hold once all processes are gone."""
    assert_readers_saw_whole_commits(race)
    with og.open(race.uri) as graph:
        assert records(race.uri) == {}, "a recovery record is left"
        assert_history_is_one_chain(graph, race.branch, race.operations_noted())
        assert_rows_are_sound(graph, race.branch)
        assert_pins_are_heads(graph, race.branch)
        assert_pins_are_heads(graph, "main")
        graph.recover()  # copies what a killed writer did not
        assert_whole(graph)
        newest = graph.snapshot(race.branch)._stored
        assert fold(newest.handle, race.branch).pins == newest.pins, "the newest fragment and the history disagree"
        shown = marks(graph.snapshot(race.branch))
    assert ledgers.violations(race.operations_noted(), shown) == [], str(race)
    before = files(race.uri)
    with og.open(race.uri):
        pass
    assert files(race.uri) == before, "a second open changed something"


def write_once_more(race: Race) -> None:
    """A killed writer may have left its branch without the copy of its last commit; the next commit brings it."""
    ledger = race.ledger(PARENT)
    with og.open(race.uri) as graph:
        perform(graph, "group", race.branch, ledgers.Ledger(ledger), PARENT, len(ledgers.read(ledger)), [])


def assert_mirrors_are_complete(race: Race) -> None:
    """Right after the last writer closed: nobody else has opened the graph for writing since."""
    with og.open(race.uri, mode="ro") as reader:
        for branch in {race.branch, "main"}:
            store = reader._store
            known = commit_log.commits_of(store.tables, store.snapshot(branch))
            copied = Counter(commit.id for commit in commit_log.mirrored_commits(store.tables, branch))
            missing = sorted(commit.version for commit in known.values() if commit.id not in copied)
            twice = [commit for commit, count in copied.items() if count > 1]
            assert not missing and not twice, f"{race}: versions {missing} not copied, {twice} copied twice"
            assert_mirrored(reader, branch)


def assert_readers_saw_whole_commits(race: Race) -> None:
    for number in range(race.readers):
        report = json.loads((race.folder / f"reader-{number}.json").read_text())
        assert report["faults"] == [], f"reader {number} of {race}: {report}"
        assert report["polls"] > 0, f"reader {number} of {race} never read"


def assert_history_is_one_chain(graph: og.Graph, branch: str, operations: list[ledgers.Operation]) -> None:
    """From head to genesis every commit once, nothing beside the chain, and one commit per operation that happened."""
    chain = graph.commits.list(branch)
    assert [commit.parent for commit in chain] == [*(commit.id for commit in chain[1:]), None]
    versions = [commit.version for commit in chain]
    assert versions == sorted(set(versions), reverse=True)
    known = commit_log.commits_of(graph._store.tables, graph._store.snapshot(branch))
    assert set(known) == {commit.id for commit in chain}, "a commit lies beside the chain"
    assert len(known) == len(chain)
    receipts = Counter(str(operation.receipt) for operation in operations if operation.state == "acknowledged")
    found = Counter(commit.id for commit in chain)
    assert all(found[receipt] == count == 1 for receipt, count in receipts.items()), "a receipt is not one commit"
    unknown = sum(operation.state == "started" for operation in operations)
    written = len(chain) - 2  # without genesis and the counter's first row
    assert len(receipts) <= written <= len(receipts) + unknown, f"{written} commits, {len(receipts)} + {unknown} ops"


def assert_rows_are_sound(graph: og.Graph, branch: str) -> None:
    """No id twice, no edge without its nodes, counts as promised, and the table itself holds what the graph shows."""
    snapshot = graph.snapshot(branch)
    found = {key: snapshot.arrow(key).to_pylist() for key in snapshot.tables}
    for key, rows in found.items():
        ids = [row["id"] for row in rows]
        assert len(set(ids)) == len(ids) == snapshot.count(key), f"{key}: {len(ids)} rows, {len(set(ids))} ids"
        pin = snapshot.tables[key]
        newest = graph._store.tables.newest(pin.location, pin.branch)
        raw = newest.checkout_version(pin.version).to_table().to_pylist()
        assert sorted(map(repr, raw)) == sorted(map(repr, rows)), f"{key}: the raw table differs"
    people, cities = ({row["id"] for row in found[key]} for key in ("node:Person", "node:City"))
    for edge in found["edge:LivesIn"]:
        assert edge["src"] in people and edge["dst"] in cities, f"dangling edge {edge}"
