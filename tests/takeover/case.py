"""One case, by name: who is held, who overtakes it, at which request, and how the late request ends."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field
from itertools import permutations
from typing import Literal

from tests.support.fault_proxy import WRITES
from tests.support.holding_proxy import End, Hold
from tests.support.ledger import Operation, State, Values, violations
from tests.takeover.writers import WRITERS, Ground, Step

#: ``late``: the held request has its effect after the other writer was told. ``lost``: it has none. ``unheard``: it
#: has its effect and nobody says so. ``stopped``: like late, and the whole process stands still meanwhile.
#: ``killed``: the process dies, its request has its effect all the same. ``dead``: the request dies with it.
Mode = Literal["late", "lost", "unheard", "stopped", "killed", "dead"]
MODES: tuple[Mode, ...] = ("late", "lost", "unheard", "stopped", "killed", "dead")
ENDS: dict[Mode, End] = {
    "late": "answered",
    "lost": "lost",
    "unheard": "unheard",
    "stopped": "answered",
    "killed": "unheard",
    "dead": "lost",
}
FATAL = frozenset({"killed", "dead"})

#: What a writer may hear when another one was faster. Anything else that refuses it is a fault of ours.
_FAIR = frozenset(
    {
        "BranchExists",
        "BranchInUse",
        "BranchNotFound",
        "ExpectedVersionMismatch",
        "KeyConflict",
        "QueryTypeError",
        "ReadSetChanged",
        "RowLevelCasContention",
        "SchemaApplyBlocked",
        "SchemaChanged",
        "TypeNotFound",
    }
)
_MAY_BE_TOLD_LATE = _FAIR | {"LockTimeout", "StoreUnavailable"}

#: What only those may hear who bring earlier rows back, or name them: the rows or their types were changed meanwhile,
#: or a cleanup took the state. Of two cleanups one may find that the other was faster.
_GONE = frozenset({"HistoricalVersionReclaimed"})
_FAIR_FOR = {
    **dict.fromkeys(("revert", "branch_restore"), _GONE | {"MergeConflict", "MergeSchemaMismatch"}),
    "tag": _GONE,
    "cleanup": frozenset({"ConflictError"}),
}


@dataclass(frozen=True, slots=True)
class StepEnd:
    """How a step of a writer ended. ``state`` is that of a ledger, or ``broken``: an error that is none of ours."""

    state: Literal["acknowledged", "refused", "unknown", "broken"]
    name: str
    text: str = ""


@dataclass(slots=True)
class Told:
    """What one writer did and was told."""

    kind: str
    mark: str
    ends: list[StepEnd]

    def happenings(self) -> list[tuple[Step, StepEnd]]:
        return list(zip(WRITERS[self.kind].steps, self.ends, strict=False))

    def complaints(self, *, overtook: bool) -> list[str]:
        """Answers that nobody should get from a store that works."""
        fair = (_FAIR if overtook else _MAY_BE_TOLD_LATE) | _FAIR_FOR.get(self.kind, frozenset())
        wrong = [
            end
            for end in self.ends
            if end.state == "broken"
            or (end.state == "refused" and end.name not in fair)
            or (end.state == "unknown" and overtook)
        ]
        who = "the second writer" if overtook else "the held writer"
        return [f"{who} ({self.kind}) was told {end.name}: {end.text}" for end in wrong]

    def __str__(self) -> str:
        return f"{self.kind} → {', '.join(end.name for end in self.ends)}"


@dataclass(slots=True)
class Case:
    """A case that was played.

    Attributes:
        request: what the held request asked for.
        noted: what was there before the two, and what others wrote beside or after them.
        existed: whether the case's branch was there before.
        wrong: sentences about everything that must not be.
    """

    held: str
    other: str
    hold: Hold
    mode: Mode
    ground: Ground
    request: str = ""
    told: list[Told] = field(default_factory=list)
    noted: list[Operation] = field(default_factory=list)
    existed: bool = False
    wrong: list[str] = field(default_factory=list)

    @property
    def kinds(self) -> tuple[str, str]:
        return self.held, self.other

    @property
    def was_stopped_for_good(self) -> bool:
        return self.mode in FATAL and bool(self.request)

    @property
    def overwrote(self) -> bool:
        """Whether an overwrite of main was acknowledged."""
        return any(
            "main" in step.wipes and end.state == "acknowledged"
            for told in self.told
            for step, end in told.happenings()
        )

    def compare(self, shown: Values) -> list[str]:
        """What does not fit: ``shown`` are all values of this case that the graph has now."""
        before = self.noted[0].adds
        return ledger_violations([*self.noted, *operations(self.ground, self.told, before)], shown)

    def __str__(self) -> str:
        ended = "; ".join(str(each) for each in self.told)
        which = [self.held, self.other, self.mode, str(self.hold.first), self.hold.part, self.hold.after]
        which.append("writes" if self.hold.methods == WRITES else "all")
        head = f"python -m tests.takeover.repeat {shlex.join(which)}"
        return "\n    ".join([f"{head}   # {self.request}: {ended}", *self.wrong])


def operations(ground: Ground, told: list[Told], before: Values) -> list[Operation]:
    """What both writers did, as a ledger has it.

    What one put where another wiped may be there or not, whatever the two were told: it is noted as unknown, which
    still means wholly or not at all. Two writers who bring and take the same values count as one.
    """
    noted: dict[tuple[str, ...], Operation] = {}
    for writer in told:
        others = [happening for other in told if other is not writer for happening in other.happenings()]
        for number, (step, end) in enumerate(writer.happenings()):
            adds = step.adds(ground, writer.mark)
            removes = step.removes(ground, writer.mark)
            if "main" in step.wipes:
                removes = {
                    name: values for name, values in before.items() if name in adds or name.startswith("merged ")
                }
            if "spare" in step.wipes:
                removes = {name: values for name, values in before.items() if name == f"main node:{ground.spare}"}
            state: State = "started" if end.state == "unknown" or end.state == "broken" else end.state
            if state == "acknowledged" and _wiped(step, others):
                state = "started"
            operation = Operation(f"{writer.mark}.{number}", adds, removes, state)
            same = (*_listed("+", adds), *_listed("-", removes))
            noted[same or (operation.name,)] = _joined(noted.get(same), operation) if same else operation
    return list(noted.values())


def _listed(sign: str, values: Values) -> list[str]:
    return sorted(f"{sign}{name} {value}" for name in values for value in values[name])


def _wiped(own: Step, others: list[tuple[Step, StepEnd]]) -> bool:
    return any(not step.wipes.isdisjoint({own.place, own.source}) and end.state != "refused" for step, end in others)


def _joined(first: Operation | None, second: Operation) -> Operation:
    if first is None or second.state == "acknowledged" or first.state == "refused":
        return second
    return first


def branch_violations(ground: Ground, told: list[Told], existed: bool, exists: bool) -> list[str]:
    """Whether some order of what was done to the case's branch explains whether it is there now."""
    groups: list[list[tuple[str, str]]] = [
        [(step.makes, end.state) for step, end in writer.happenings() if step.makes or step.place == "branch"]
        for writer in told
    ]
    orders = _orders(groups)
    if any(exists in _outcomes(order, existed) for order in orders):
        return []
    return [
        f"branch {ground.branch} {'is' if exists else 'is not'} there at the end, was {'' if existed else 'not '}there "
        f"at first, and no order of what was done explains it"
    ]


def _orders(groups: list[list[tuple[str, str]]]) -> list[list[tuple[str, str]]]:
    """Every order of all events that keeps the order within each group."""
    labels = [number for number, group in enumerate(groups) for _ in group]
    found = []
    for shuffled in set(permutations(labels)):
        rests = [iter(group) for group in groups]
        found.append([next(rests[number]) for number in shuffled])
    return found


def _outcomes(order: list[tuple[str, str]], exists: bool) -> set[bool]:
    """Whether the branch may be there after these events; an empty set when they cannot have been in this order.

    A delete that finds nothing may say that it is done.
    """
    states = {exists}
    for makes, end in order:
        if end == "refused":
            continue
        after: set[bool] = set() if end == "acknowledged" else set(states)
        for state in states:
            if makes == "create" and not state:
                after.add(True)
            elif makes == "delete":
                after.add(False)
            elif makes == "" and state:
                after.add(True)
        states = after
    return states


def ledger_violations(noted: list[Operation], shown: Values) -> list[str]:
    """What the ledger does not explain; a table that is gone shows nothing."""
    return violations(noted, {**{name: [] for operation in noted for name in operation.adds}, **shown})
