"""The machine of `merging.py` with upkeep: optimize, cleanup, tags, clones and changes of the schema between all other
operations, also killed on the way.

What must be readable is readable with the right rows: the newest commits of each branch, every tag, every head. Any
other state may be gone and then says so, and never shows other rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import event
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

import omnigraph as og
from omnigraph.errors import HistoricalVersionReclaimed, MergeSchemaMismatch
from tests.merge.oracle import Merged, same_state
from tests.model.machine import index, state_of
from tests.model.merging import MergingMachine
from tests.model.oracle import SCHEMA, Record

TAGS = ["t0", "t1"]

#: Schemas that the rows of the model fit; the first is where a graph begins.
SCHEMAS = (
    SCHEMA,
    f"{SCHEMA}node Extra {{ name: String @key }}\n",
    SCHEMA.replace("size: I64?", "size: I64?  motto: String?"),
)

#: Where upkeep can be killed, and what the child does.
UPKEEP_CUTS = (
    *(("optimize", cut) for cut in ("optimize.after_rewrite", "optimize.after_build", "optimize.between_commits")),
    *(("optimize", cut) for cut in ("write.after_table_commit[Optimize]", "publish.before_commit", "publish.lost_ack")),
    *(
        ("cleanup", f"cleanup.{cut}")
        for cut in ("after_listing", "after_reclaimed", "between_commits", "after_commits")
    ),
    *(
        ("cleanup", f"cleanup.{cut}")
        for cut in ("before_removal", "after_list", "between_files", "before_list_removed")
    ),
    *(("tag", cut) for cut in ("tag_create.after_entry", "tag_create.after_live")),
    *(
        ("clone", cut)
        for cut in ("clone.between_files", "clone.before_names", "clone.before_main", "clone.before_schema")
    ),
)

#: So many removed states are more than the commits that say so.
MANY_STATES = 8


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
        self.schemas = 0

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
        before = self.stored_bytes()
        result = self.graph.cleanup(keep=keep, grace=0, confirm=confirm)
        assert result.ok
        if not confirm:
            return
        if result.states_removed >= MANY_STATES:
            assert self.stored_bytes() < before, f"{result.states_removed} states went, and the graph grew"
        self.cleaned(keep)
        event(f"cleanup: {min(result.states_removed, 3)} states")

    def stored_bytes(self) -> int:
        return self.graph.stats().stored.bytes

    def cleaned(self, keep: int) -> None:
        """A cleanup ran, or a part of one."""
        self.follow_upkeep("cleanup")
        kept = {record.commit.id for line in self.model.branches.values() for record in line.chain[-keep:]}
        kept |= {record.commit.id for record, _ in self.tagged.values()}
        every = {record.commit.id for line in self.model.branches.values() for record in line.chain}
        self.doubtful |= every - kept

    def follow_upkeep(self, kind: str) -> None:
        """Whatever upkeep committed to each branch has the rows of before."""
        for branch, line in self.model.branches.items():
            known = {record.commit.id for record in line.chain}
            new = [commit for commit in self.graph.commits.list(branch) if commit.id not in known]
            for commit in reversed(new):
                assert (commit.kind, commit.rows) == (kind, {})
                self.model.commit(branch, commit, line.head.state)

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
        self.clone_to(f"{self.uri}-clone-{self.clones}")

    def clone_to(self, target: str) -> None:
        og.clone(self.uri, target)
        with og.open(target) as twin:
            for branch, line in self.model.branches.items():
                assert state_of(twin.snapshot(branch)) == line.head.state, f"{branch} of the clone"
            for name, (record, _) in self.tagged.items():
                assert state_of(twin.snapshot(at=f"tag:{name}")) == record.state, f"tag {name} of the clone"

    @rule(number=index)
    def change_schema(self, number: int) -> None:
        """Rows stay; only main may exist."""
        wanted = number % len(SCHEMAS)
        try:
            applied = self.graph.schema.apply(SCHEMAS[wanted])
        except og.OmniGraphError as error:
            assert error.code == "conflict.schema_apply" and len(self.model.branches) > 1, repr(error)
            return
        if applied.commit is not None:
            self.schemas += 1
            self.model.commit("main", applied.commit, self.model.branches["main"].head.state)
            event("schema changed")

    @rule(number=index, position=index)
    def restore(self, number: int, position: int) -> None:
        """The rows of any state that is there and has the schema of now."""
        branch = self.branch(number)
        line = self.model.branches[branch]
        record = line.chain[position % len(line.chain)]
        try:
            commit = self.graph.restore(record.commit.id, branch=branch).commit
        except MergeSchemaMismatch:
            assert self.schemas
        except HistoricalVersionReclaimed as error:
            assert self.is_gone(error, record), repr(error)
        else:
            if commit is not None:
                self.model.commit(branch, commit, record.state)
            assert same_state(record.state, line.head.state)

    @precondition(lambda self: self.crashes_left > 0)
    @rule(which=st.sampled_from(UPKEEP_CUTS), keep=st.integers(1, 3), name=st.sampled_from(TAGS), nth=st.integers(1, 2))
    def crash_upkeep(self, which: tuple[str, str], keep: int, name: str, nth: int) -> None:
        """Another process is killed in the middle of upkeep; no row changes, and what it began can be done."""
        do, cut = which
        head = self.model.branches["main"].head
        self.clones += 1
        target = f"{self.uri}-clone-{self.clones}"
        if do == "tag" and name in self.tagged:
            return
        order = {"do": do, "keep": keep, "name": target if do == "clone" else name, "at": head.commit.id}
        self.kill(order, cut, nth)
        if do == "optimize":
            self.follow_upkeep("optimize")
        elif do == "cleanup":
            self.cleaned(keep)
        elif do == "tag" and name in list(self.graph.tags):
            self.tagged[name] = (head, head.line)
        elif do == "clone" and not is_graph(target):
            self.clone_to(target)
        assert self.graph.verify().ok

    # What other operations may meet.

    def expected(self, source: str, target: str) -> Merged | None:
        try:
            return super().expected(source, target)
        except MergeSchemaMismatch:
            assert self.schemas
            event("merge: other schema")
            return None

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


def is_graph(uri: str) -> bool:
    """Whether a clone came to its end."""
    try:
        og.open(uri).close()
    except og.OmniGraphError:
        return False
    return True
