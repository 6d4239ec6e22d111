"""The machine of `machine.py` with merges: any branch into any other, also interrupted and killed.

What a merge must do is said by the naive oracle of the merge tests, from the state of the base that the graph names.
"""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import event, note
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

import omnigraph as og
from omnigraph import failpoints
from omnigraph.errors import HistoricalVersionReclaimed, MergeConflict
from omnigraph.storage.metadata.manifest import Commit
from tests.merge.oracle import Merged, Rules, merge, shared_state
from tests.model.machine import CUTS, GraphMachine, index, state_of
from tests.model.oracle import ENDS, State

RULES = Rules(ends=ENDS, uniques={"node:Person": ("tag",)}, cards={"edge:LivesIn": (0, 1)})

#: Where a merge can be cut, besides the places of every write.
MERGE_CUTS = (*CUTS, "write.after_all_table_commits[BranchMerge]")


class MergingMachine(GraphMachine):
    """Branches that also come together again."""

    def __init__(self, make_root: Callable[[], str], crashes: int) -> None:
        super().__init__(make_root, crashes)
        self.states: dict[str, State] = {}
        self.commits: dict[str, Commit] = {}

    def expected(self, source: str, target: str) -> Merged | None:
        """What merging should do; None when there is nothing to merge or its base is gone."""
        for line in self.model.branches.values():
            self.states |= {record.commit.id: record.state for record in line.chain}
            self.commits |= {record.commit.id: record.commit for record in line.chain}
        try:
            preview = self.old.branches.merge(source, target, dry_run=True)
        except HistoricalVersionReclaimed as error:
            lost = error.details["commit_id"]
            held = [line for line in self.model.branches.values() if any(r.commit.id == lost for r in line.chain)]
            assert not held, f"the base {lost} is still there"
            event("merge: base is gone")
            return None
        if preview.outcome == "already_up_to_date":
            event("merge: up to date")
            return None
        heads = [self.model.branches[name].head for name in (source, target)]
        base = shared_state(heads[0].commit.id, heads[1].commit.id, self.commits, self.states)
        wanted = merge(base, heads[0].state, heads[1].state, RULES)
        assert bool(preview.conflicts) == bool(wanted.conflicts), f"{preview.conflicts} against {wanted.conflicts}"
        return wanted

    def apart(self, number: int) -> tuple[str, str] | None:
        """Two branches of which the first has something for the second, if there are such."""
        names = self.model.names()
        pairs = [(one, other) for one in names for other in names if one != other]
        for step in range(len(pairs)):
            source, target = pairs[(number + step) % len(pairs)]
            known = [record.commit.id for record in self.model.branches[target].chain]
            if self.model.branches[source].head.commit.id not in known:
                return source, target
        return None

    @rule(number=index, resolve=st.sampled_from([None, None, "ours", "theirs"]))
    def merge(self, number: int, resolve: str | None) -> None:
        pair = self.apart(number)
        if pair is None:
            return
        source, target = pair
        wanted = self.expected(source, target)
        line = self.model.branches[target]
        if wanted is None:
            return
        try:
            result = self.graph.branches.merge(source, target, resolve=resolve)  # type: ignore[arg-type]
        except MergeConflict as error:
            assert wanted.conflicts
            event(f"merge refused: {error.conflicts[0].kind}")
            return
        assert result.commit is not None
        assert result.commit.merged_parent == self.model.branches[source].head.commit.id
        event(f"merge done: {result.outcome}")
        if wanted.conflicts:
            assert resolve is not None, f"should have been refused with {wanted.conflicts}"
            found = state_of(self.graph.snapshot(target))
            assert not RULES.broken_by(found), "a resolved merge broke a rule"
            self.model.commit(target, result.commit, found)
            return
        self.model.commit(target, result.commit, wanted.state)
        assert line.head.commit == self.graph.commits.head(target)

    @rule(number=index, cut=st.sampled_from(MERGE_CUTS), action=st.sampled_from(["raise", "lose"]))
    def interrupt_merge(self, number: int, cut: str, action: str) -> None:
        pair = self.apart(number)
        wanted = self.expected(*pair) if pair else None
        if pair is None or wanted is None or wanted.conflicts:
            return
        source, target = pair
        failpoints.arm(f"{cut}={action}")
        try:
            self.graph.branches.merge(source, target)
        except (og.OmniGraphError, ConnectionError) as error:
            note(f"interrupted: {error!r}")
        finally:
            failpoints.arm("")
        self.graph.recover()
        self.settle(target, wanted.state)

    @precondition(lambda self: self.crashes_left > 0)
    @rule(number=index, cut=st.sampled_from(MERGE_CUTS), nth=st.integers(1, 2))
    def crash_merge(self, number: int, cut: str, nth: int) -> None:
        pair = self.apart(number)
        wanted = self.expected(*pair) if pair else None
        if pair is None or wanted is None or wanted.conflicts:
            return
        source, target = pair
        self.kill({"do": "merge", "branch": target, "name": source}, cut, nth)
        self.settle(target, wanted.state)
