"""Every kind of writer, as steps whose effects a ledger can hold against what the graph shows afterwards.

Both sides of a case use them: the one that is held and the one that overtakes it. A value is the mark of a row; the
marks of rows that were written on a branch end with ``@``, so that a branch does not show what it shares with main.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

import pyarrow as pa

import omnigraph as og
from tests.support.ledger import Values

SCHEMA = """
node Person { name: String @key  mark: String }
node Company { name: String @key  mark: String }
edge Knows: Person -> Person { mark: String }
"""
ACTOR = "act-anna"
PERSON, KNOWS, COMPANY = "main node:Person", "main edge:Knows", "main node:Company"

_ADD = "query add($m: String) { insert Person { name: $m, mark: $m } insert Knows { from: $m, to: $m, mark: $m } }"
_PERSON = "query person($m: String) { insert Person { name: $m, mark: $m } }"
_KNOWS = "query knows($m: String) { insert Knows { from: $m, to: $m, mark: $m } }"
_FIRM = "query firm($m: String) { insert Company { name: $m, mark: $m } }"
_ALL = f"{_ADD[:-1]} insert Company {{ name: $m, mark: $m }} }}"
_CHANGE = "query change($old: String, $new: String) { update Person set { mark: $new } where name = $old }"
_DROP = "query drop($m: String) { delete Person where name = $m }"

#: Commits among which a writer finds the one that the case began with.
_RECENT = 20

#: What has to be there before a case: rows of the writer's own, a type of the case's own, the record of a write that
#: died, the case's branch with nothing or with rows of its own.
Need = Literal["old", "spare", "dead", "branch", "base"]

#: Where the rows of a step are. A step that wipes a place takes with it what others put there.
Place = Literal["main", "branch", "base", "name", "spare", "schema", "elsewhere"]


@dataclass(frozen=True, slots=True)
class Ground:
    """What the two writers of one case share. ``based``: the branch has rows of its own at first."""

    number: int
    based: bool = False

    @property
    def branch(self) -> str:
        return f"d{self.number}"

    @property
    def spare(self) -> str:
        return f"S_{self.number}"

    @property
    def base(self) -> str:
        """Mark of the rows that the branch has of its own."""
        return f"base{self.number}@"

    def on_branch(self, mark: str) -> Values:
        return {f"{self.branch} node:Person": [mark], f"{self.branch} edge:Knows": [mark]}


def _nothing(ground: Ground, mark: str) -> Values:
    return {}


@dataclass(frozen=True, slots=True)
class Step:
    """One write that is acknowledged or not.

    Attributes:
        makes: what it does to the case's branch.
        place: where its rows are.
        source: where it has them from.
        wipes: what it takes away there that others put.
    """

    run: Callable[[og.Graph, Ground, str], object]
    adds: Callable[[Ground, str], Values] = _nothing
    removes: Callable[[Ground, str], Values] = _nothing
    makes: Literal["", "create", "delete"] = ""
    place: Place = "elsewhere"
    source: Place = "elsewhere"
    wipes: frozenset[Place] = frozenset()


@dataclass(frozen=True, slots=True)
class Writer:
    steps: tuple[Step, ...]
    needs: frozenset[Need] = field(default=frozenset())


def pair_values(mark: str) -> Values:
    return {PERSON: [mark], KNOWS: [mark]}


def old(mark: str) -> str:
    return f"{mark}-old"


def insert(graph: og.Graph, mark: str, branch: str = "main") -> object:
    """A person who knows itself. The message of the commit is the mark."""
    return graph.mutate(_ADD, params={"m": mark}, branch=branch, message=mark)


def write_all(graph: og.Graph, mark: str, branch: str) -> object:
    """A row for every table."""
    return graph.mutate(_ALL, params={"m": mark}, branch=branch)


def _rows(*marks: tuple[str, str]) -> pa.Table:
    return pa.table({"name": [name for name, _ in marks], "mark": [mark for _, mark in marks]})


def _load(graph: og.Graph, mark: str, mode: str, *people: tuple[str, str]) -> object:
    edge = pa.table({"id": [mark], "from": [mark], "to": [mark], "mark": [mark]})
    return graph.load({"Person": _rows(*people, (mark, mark)), "Knows": edge}, mode, engine="embedded", progress=False)  # type: ignore[arg-type]


def _add_type(graph: og.Graph, ground: Ground, mark: str) -> object:
    return graph.schema.apply(f"{graph.schema.text}\nnode T_{mark} {{ name: String @key  mark: String }}\n")


def _add_property(graph: og.Graph, ground: Ground, mark: str) -> object:
    head, opening, rest = graph.schema.text.partition("node Company {")
    return graph.schema.apply(f"{head}{opening} p_{mark}: String? {rest}")


def spare_line(ground: Ground) -> str:
    return f"node {ground.spare} {{ name: String @key  mark: String }}\n"


def _drop_type(graph: og.Graph, ground: Ground, mark: str) -> object:
    return graph.schema.apply(graph.schema.text.replace(spare_line(ground), ""), allow_data_loss=True)


def insert_spare(graph: og.Graph, ground: Ground, mark: str) -> object:
    query = "query add($m: String) { insert " + ground.spare + " { name: $m, mark: $m } }"
    return graph.mutate(query, params={"m": mark})


def _transaction(graph: og.Graph, ground: Ground, mark: str) -> object:
    """The same rows as an insert, in two parts that see each other."""
    with graph.transaction() as changes:
        changes.mutate(_PERSON, params={"m": mark})
        changes.mutate(_KNOWS, params={"m": mark})
    return changes


def _commit_of(graph: og.Graph, mark: str, branch: str = "main") -> og.Commit | None:
    return next((commit for commit in graph.commits.list(branch, limit=_RECENT) if commit.message == mark), None)


def _revert(graph: og.Graph, ground: Ground, mark: str) -> object:
    commit = _commit_of(graph, old(mark))
    assert commit is not None
    return graph.revert(commit.id)


def _restore(graph: og.Graph, ground: Ground, mark: str) -> object:
    """The branch as it was made; where it has no rows of its own, as it is."""
    commit = _commit_of(graph, ground.base, ground.branch)
    before = commit.parent if commit is not None else None
    return graph.restore(before or graph.commits.head(ground.branch).id, branch=ground.branch)


def _tag(graph: og.Graph, ground: Ground, mark: str) -> object:
    """A name for the state that the writer's own rows came with, which is no longer the newest one."""
    commit = _commit_of(graph, old(mark))
    assert commit is not None
    return graph.tags.create(mark, commit.id)


def _cleanup(graph: og.Graph, ground: Ground, mark: str) -> object:
    """Everything that is not the newest state of a branch."""
    return graph.cleanup(keep=1, grace=0, confirm=True)


def _reopen(graph: og.Graph, ground: Ground, mark: str) -> object:
    with og.open(graph.uri, actor=ACTOR) as other:
        return other


#: A schema is applied as a whole text, made from the one that its writer read: it takes back what came between.
_SCHEMA: frozenset[Place] = frozenset({"schema"})

_create = Step(lambda graph, ground, mark: graph.branches.create(ground.branch), makes="create")
_delete = Step(
    lambda graph, ground, mark: graph.branches.delete(ground.branch),
    removes=lambda ground, mark: ground.on_branch(ground.base),
    makes="delete",
    place="name",  # whoever renames the branch leaves another one to delete, or none
    wipes=frozenset({"branch"}),
)
_write = Step(
    lambda graph, ground, mark: insert(graph, f"{mark}@", ground.branch),
    lambda ground, mark: ground.on_branch(f"{mark}@"),
    place="branch",
)
_rename = Step(
    lambda graph, ground, mark: graph.branches.rename(ground.branch, f"{ground.branch}-{mark}"),
    makes="delete",
    place="branch",
    wipes=frozenset({"name"}),
)
_back = Step(
    _restore,
    removes=lambda ground, mark: ground.on_branch(ground.base) if ground.based else {},
    place="branch",
    wipes=frozenset({"branch", "base"}),
)
_merge = Step(
    lambda graph, ground, mark: graph.branches.merge(ground.branch, engine="embedded"),
    lambda ground, mark: (
        {"merged node:Person": [ground.base], "merged edge:Knows": [ground.base]} if ground.based else {}
    ),
    place="main",
    source="base",
)


def _on_main(
    run: Callable[[og.Graph, Ground, str], object], removes: Callable[[Ground, str], Values] = _nothing
) -> Step:
    return Step(run, lambda ground, mark: pair_values(mark), removes, place="main")


WRITERS: Mapping[str, Writer] = {
    "insert": Writer((_on_main(lambda graph, ground, mark: insert(graph, mark)),)),
    "company": Writer(
        (
            Step(
                lambda graph, ground, mark: graph.mutate(_FIRM, params={"m": mark}),
                lambda ground, mark: {COMPANY: [mark]},
            ),
        ),
    ),
    "update": Writer(
        (
            Step(
                lambda graph, ground, mark: graph.mutate(_CHANGE, params={"old": old(mark), "new": mark}),
                lambda ground, mark: {PERSON: [mark]},
                lambda ground, mark: {PERSON: [old(mark)]},
                place="main",
            ),
        ),
        frozenset({"old"}),
    ),
    "delete": Writer(
        (
            Step(
                lambda graph, ground, mark: graph.mutate(_DROP, params={"m": old(mark)}),
                removes=lambda ground, mark: pair_values(old(mark)),
                place="main",
            ),
        ),
        frozenset({"old"}),
    ),
    "append": Writer((_on_main(lambda graph, ground, mark: _load(graph, mark, "append")),)),
    "merge_load": Writer(
        (
            Step(
                lambda graph, ground, mark: _load(graph, mark, "merge", (old(mark), f"{mark}-new")),
                lambda ground, mark: {PERSON: [mark, f"{mark}-new"], KNOWS: [mark]},
                lambda ground, mark: {PERSON: [old(mark)]},
                place="main",
            ),
        ),
        frozenset({"old"}),
    ),
    "overwrite": Writer(
        (
            Step(
                lambda graph, ground, mark: _load(graph, mark, "overwrite"),
                lambda ground, mark: pair_values(mark),
                place="main",
                wipes=frozenset({"main"}),
            ),
        ),
        frozenset({"old"}),
    ),
    "transaction": Writer((_on_main(_transaction),)),
    "revert": Writer(
        (Step(_revert, removes=lambda ground, mark: pair_values(old(mark)), place="main"),), frozenset({"old"})
    ),
    "add_type": Writer(
        (Step(_add_type, lambda ground, mark: {"type": [f"T_{mark}"]}, place="schema", wipes=_SCHEMA),),
    ),
    "add_property": Writer(
        (Step(_add_property, lambda ground, mark: {"property": [f"p_{mark}"]}, place="schema", wipes=_SCHEMA),),
    ),
    "drop_type": Writer((Step(_drop_type, place="schema", wipes=_SCHEMA | {"spare"}),), frozenset({"spare"})),
    "insert_spare": Writer(
        (Step(insert_spare, lambda ground, mark: {f"main node:{ground.spare}": [mark]}, place="spare"),),
        frozenset({"spare"}),
    ),
    "branch_create": Writer((_create,)),
    "create_write": Writer((_create, _write)),
    "create_delete": Writer((_create, _delete)),
    "create_again": Writer((_create, _delete, _create, _write)),
    "first_write": Writer((_write,), frozenset({"branch"})),
    "branch_write": Writer((_write,), frozenset({"base"})),
    "branch_delete": Writer((_delete,), frozenset({"base"})),
    "recreate": Writer((_delete, _create, _write), frozenset({"base"})),
    "branch_rename": Writer((_rename,), frozenset({"base"})),
    "branch_restore": Writer((_back,), frozenset({"base"})),
    "branch_merge": Writer((_merge,), frozenset({"base"})),
    "indices": Writer((Step(lambda graph, ground, mark: graph.ensure_indices()),), frozenset({"old"})),
    "optimize": Writer((Step(lambda graph, ground, mark: graph.optimize(engine="embedded")),), frozenset({"old"})),
    "cleanup": Writer((Step(_cleanup),), frozenset({"old"})),
    "tag": Writer((Step(_tag, lambda ground, mark: {"tag": [mark]}),), frozenset({"old"})),
    "recover": Writer((Step(lambda graph, ground, mark: graph.recover()),), frozenset({"dead"})),
    "heal": Writer((Step(lambda graph, ground, mark: graph.recover()),)),
    "reopen": Writer((Step(_reopen),), frozenset({"dead"})),
}

#: Those that can be held: writers of one step that find something to do.
HELD = tuple(name for name, writer in WRITERS.items() if len(writer.steps) == 1 and name != "heal")
SCHEMA_KINDS = frozenset({"add_type", "add_property", "drop_type", "insert_spare"})
