"""The machine of `merging.py` with upkeep: optimize, cleanup, tags and clones between all other operations.

What must be readable is readable with the right rows: the newest commits of each branch, every tag, every head. Any
other state may be gone and then says so, and never shows other rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import event
from hypothesis import strategies as st
from hypothesis.stateful import rule

import omnigraph as og
from omnigraph.errors import HistoricalVersionReclaimed
from tests.model.machine import index, state_of
from tests.model.merging import MergingMachine
from tests.model.oracle import Record

TAGS = ["t0", "t1"]


class UpkeepMachine(MergingMachine):
    """Histories that are also cut off.

    Attributes:
        doubtful: commits whose states a cleanup was allowed to remove.
        tagged: what each tag names, and the branch it was made on.
    """

    def __init__(self, make_root: Callable[[], str], crashes: int) -> None:
        super().__init__(make_root, crashes)
        self.doubtful: set[str] = set()
        self.tagged: dict[str, tuple[Record, object]] = {}
        self.clones = 0

    # Upkeep.

    @rule(number=index, every=st.booleans())
    def optimize(self, number: int, every: bool) -> None:
        """No row changes; each commit of it is one more with the same state."""
        report = self.graph.optimize(None if every else self.branch(number))
        for commit in report.commits:
            assert commit.kind == "optimize"
            self.model.commit(commit.branch, commit, self.model.branches[commit.branch].head.state)
        event(f"optimize: {len(report.commits)} commits")

    @rule(keep=st.integers(1, 4), confirm=st.sampled_from([True, True, False]))
    def cleanup(self, keep: int, confirm: bool) -> None:
        result = self.graph.cleanup(keep=keep, grace=0, confirm=confirm)
        assert result.ok
        if not confirm:
            return
        for branch, line in self.model.branches.items():
            head = self.graph.commits.head(branch)
            if head.id != line.head.commit.id:
                assert (head.kind, head.rows) == ("cleanup", {})
                self.model.commit(branch, head, line.head.state)
        kept = {record.commit.id for line in self.model.branches.values() for record in line.chain[-keep:]}
        kept |= {record.commit.id for record, _ in self.tagged.values()}
        every = {record.commit.id for line in self.model.branches.values() for record in line.chain}
        self.doubtful |= every - kept
        event(f"cleanup: {min(result.states_removed, 3)} states")

    @rule(name=st.sampled_from(TAGS), number=index, position=index)
    def tag(self, name: str, number: int, position: int) -> None:
        branch = self.branch(number)
        line = self.model.branches[branch]
        record = line.chain[position % len(line.chain)]
        try:
            self.graph.tags.create(name, record.commit.id)
        except og.OmniGraphError as error:
            if name in self.tagged:
                assert error.code == "conflict.tag_exists"
            else:
                assert isinstance(error, HistoricalVersionReclaimed) and record.commit.id in self.doubtful, repr(error)
            return
        assert name not in self.tagged
        self.tagged[name] = (record, record.line)

    @rule(name=st.sampled_from(TAGS))
    def untag(self, name: str) -> None:
        if name in self.tagged:
            self.graph.tags.delete(name)
            del self.tagged[name]

    @rule()
    def clone(self) -> None:
        """A clone has the same heads and tags."""
        self.clones += 1
        target = f"{self.uri}-clone-{self.clones}"
        og.clone(self.uri, target)
        with og.open(target) as twin:
            for branch, line in self.model.branches.items():
                assert state_of(twin.snapshot(branch)) == line.head.state, f"{branch} of the clone"
            for name, (record, _) in self.tagged.items():
                assert state_of(twin.snapshot(at=f"tag:{name}")) == record.state, f"tag {name} of the clone"

    # What other operations may meet.

    def refusals_of_delete(self, name: str) -> frozenset[str] | set[str]:
        """A branch with tags of its own stays."""
        line = self.model.branches.get(name)
        own = line is not None and any(made_on is line.line for _, made_on in self.tagged.values())
        return {"conflict.branch_in_use"} if own else super().refusals_of_delete(name)

    def compare_past(self, record: Record) -> None:
        try:
            super().compare_past(record)
        except HistoricalVersionReclaimed:
            assert record.commit.id in self.doubtful, f"{record.commit} is gone"

    def read_at(self, branch: str, at: Any, wanted: Record, old: bool) -> None:
        try:
            super().read_at(branch, at, wanted, old)
        except HistoricalVersionReclaimed:
            assert wanted.commit.id in self.doubtful, f"{wanted.commit} is gone"

    def is_gone(self, error: og.OmniGraphError, record: Record) -> bool:
        return isinstance(error, HistoricalVersionReclaimed) and record.commit.id in self.doubtful

    def teardown(self) -> None:
        if hasattr(self, "model"):
            for name, (record, _) in self.tagged.items():
                assert state_of(self.graph.snapshot(at=f"tag:{name}")) == record.state, f"tag {name}"
        super().teardown()
