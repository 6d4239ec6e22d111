"""Conflicts that the caller decided: keep ours, take theirs, or this row instead.

Decisions are given for single entities, as a rule for all conflicts, or both. An entity may be named that is in no
conflict itself, such as the node whose removal would leave an edge behind; the merged result is validated afterwards
either way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.errors import Conflict, InputError
from omnigraph.history.merge.merge_result import RowConflict
from omnigraph.history.merge.three_way import MergeSide, RowOutcomes, split
from omnigraph.schema.arrow import table_schema
from omnigraph.schema.catalog import EdgeType, NodeType
from omnigraph.write.row_rules import conform

#: ``ours`` keeps the target's row or its absence, ``theirs`` takes the source's, a mapping is the row itself.
Choice: TypeAlias = Literal["ours", "theirs"] | Mapping[str, Any]

#: One choice for every conflict, a choice by entity (`REST` for all others), or a function that chooses (None leaves
#: the conflict open).
Resolve: TypeAlias = Literal["ours", "theirs"] | Mapping[str, Choice] | Callable[[RowConflict], Choice | None]

#: Stands for every conflict that is not named.
REST = "*"

#: Decisions that an example shows.
_SHOWN_DECISIONS = 3

_RULES = ("ours", "theirs")
_MESSAGES = {
    "DivergentInsert": "both sides inserted it with different values",
    "DivergentUpdate": "both sides changed it differently",
    "DeleteVsUpdate": "one side deleted it, the other changed it",
}


@dataclass(frozen=True, slots=True)
class DecidedRows:
    """The rows of one table after the caller's decisions.

    Attributes:
        given: rows that replace or add to those of the target, beside the source's own.
        open: conflicts that nobody decided.
        if_taken: the same with the source's side of those, to see which rules that would break; None without any.
    """

    put: pa.Array
    remove: pa.Array
    given: pa.Table
    open: tuple[RowConflict, ...] = ()
    if_taken: DecidedRows | None = None


def check_resolve(resolve: Resolve | None) -> None:
    """Refuse what can never be a decision, before any work."""
    if resolve is None or callable(resolve) or resolve in _RULES:
        return
    if not isinstance(resolve, Mapping):
        raise InputError(f"cannot resolve by {resolve!r}", hint="use 'ours', 'theirs', a mapping or a function")
    for entity, choice in resolve.items():
        if entity == REST:
            if choice not in _RULES:
                raise InputError(f"cannot resolve all other conflicts by {choice!r}", hint="use 'ours' or 'theirs'")
            continue
        kind, _, rest = entity.partition(":")
        if kind not in ("node", "edge") or not all(rest.partition("/")[::2]):
            raise InputError(f"'{entity}' names no entity", hint="write node:Person/Eve or edge:Knows/<id>")
        _check_choice(entity, choice)


def named_tables(resolve: Resolve | None) -> set[str]:
    """Tables of the entities that are named one by one."""
    named = resolve if isinstance(resolve, Mapping) else ()
    return {entity.partition("/")[0] for entity in named if entity != REST}


def decide_conflicts(
    type_: NodeType | EdgeType, outcome: RowOutcomes, source: MergeSide, target: MergeSide, resolve: Resolve | None
) -> DecidedRows:
    """The outcome of the row table with the caller's decisions in it."""
    settling = _Decisions(type_, outcome, source, target)
    ids = outcome.conflicts.column("id").combine_chunks()
    if isinstance(resolve, str):
        settling.decide_all(ids, resolve)
    elif isinstance(resolve, Mapping):
        settling.decide_each(_choices(type_.table_key, resolve, source, target))
        if REST in resolve:
            settling.decide_all(settling.undecided, str(resolve[REST]))
    elif resolve is not None:
        chosen = ((conflict.row_id, resolve(conflict), conflict) for conflict in settling.open_conflicts())
        settling.decide_each({str(id_): _checked(each, choice) for id_, choice, each in chosen if choice is not None})
    return settling.decided()


def example(conflicts: Sequence[Conflict], resolve: Resolve | None) -> str:
    """A mapping that settles the first of some conflicts, beside what was decided already."""
    rule = resolve if isinstance(resolve, str) else resolve.get(REST) if isinstance(resolve, Mapping) else None
    decisions: dict[str, object] = {} if rule is None else {REST: rule}
    for conflict in conflicts[:_SHOWN_DECISIONS]:
        for decision in conflict.settled_by[:1]:
            entity, _, side = decision.rpartition("=")
            decisions[entity] = side
    return repr(decisions) if decisions else "'ours'"


class _Decisions:
    """Moves ids between what is put, removed and open."""

    def __init__(self, type_: NodeType | EdgeType, outcome: RowOutcomes, source: MergeSide, target: MergeSide) -> None:
        self._type = type_
        self._outcome = outcome
        self._source, self._target = source, target
        self._given = [table_schema(type_).empty_table()]

    def decide_all(self, ids: pa.Array, rule: str) -> None:
        put, rest = split(ids, self._source.put)
        remove, left = split(rest, self._source.deleted)  # left: the source has the row of the base
        self._forget(ids)
        if rule == "ours":
            return
        back, gone = split(left, pa.concat_arrays([self._target.updated, self._target.deleted]))
        self._outcome = replace(
            self._outcome,
            put=pa.concat_arrays([self._outcome.put, put]),
            remove=pa.concat_arrays([self._outcome.remove, remove, gone]),
        )
        if len(back):
            rows = self._target.base_rows(back)
            self._given.append(conform(self._type, rows.select(table_schema(self._type).names)).rows)

    def decide_each(self, choices: Mapping[str, Choice]) -> None:
        for rule in _RULES:
            ids = [id_ for id_, choice in choices.items() if choice == rule]
            self.decide_all(pa.array(ids, pa.string()), rule)
        for id_, choice in choices.items():
            if isinstance(choice, Mapping):
                self._forget(pa.array([id_], pa.string()))
                self._given.append(_row(self._type, id_, choice))

    @property
    def undecided(self) -> pa.Array:
        return self._outcome.conflicts.column("id").combine_chunks()

    def open_conflicts(self) -> Iterator[RowConflict]:
        ids, kinds = self.undecided, self._outcome.conflicts.column("kind").to_pylist()
        images = three_images(self._source, self._target, ids)
        for id_, kind in zip(ids.to_pylist(), kinds, strict=True):
            entity = f"{self._type.table_key}/{id_}"
            settled_by = tuple(f"{entity}={rule}" for rule in _RULES)
            message = f"{entity}: {_MESSAGES[kind]}"
            yield RowConflict(
                self._type.table_key, id_, kind, message, *images[id_], arises=None, settled_by=settled_by
            )

    def decided(self) -> DecidedRows:
        decided = DecidedRows(self._outcome.put, self._outcome.remove, pa.concat_tables(self._given))
        conflicts = tuple(self.open_conflicts())
        if not conflicts:
            return decided
        self.decide_all(self.undecided, "theirs")
        return replace(decided, open=conflicts, if_taken=self.decided())

    def _forget(self, ids: pa.Array) -> None:
        """Take ids out of everything: for the target that means that they stay as they are."""
        conflicts = self._outcome.conflicts
        undecided = pc.invert(pc.is_in(conflicts.column("id"), value_set=ids))
        self._outcome = RowOutcomes(
            split(self._outcome.put, ids)[1], split(self._outcome.remove, ids)[1], conflicts.filter(undecided)
        )


Image: TypeAlias = Mapping[str, Any] | None


def three_images(source: MergeSide, target: MergeSide, ids: pa.Array) -> dict[str, tuple[Image, Image, Image]]:
    """The rows of ids that a side touched: in the base, on the target and on the source."""
    known = [pa.concat_arrays([side.updated, side.deleted]) for side in (target, source)]
    base = _images(target.base_rows, ids, known[0])
    base |= _images(source.base_rows, split(ids, known[0])[1], known[1])
    ours, theirs = (
        base | dict.fromkeys(split(ids, side.deleted)[0].to_pylist()) | _images(side.rows, ids, side.put)
        for side in (target, source)
    )
    return {id_: (base.get(id_), ours.get(id_), theirs.get(id_)) for id_ in ids.to_pylist()}


def _images(rows: Callable[[pa.Array], pa.Table], ids: pa.Array, there: pa.Array) -> dict[str, dict[str, Any]]:
    wanted = split(ids, there)[0]
    return {row["id"]: row for row in rows(wanted).to_pylist()} if len(wanted) else {}


def _choices(table_key: str, resolve: Mapping[str, Choice], source: MergeSide, target: MergeSide) -> dict[str, Choice]:
    """The choices for entities of one table. An entity that neither side touched is a mistake of the caller."""
    own = {entity.partition("/")[2]: choice for entity, choice in resolve.items() if _is_of(entity, table_key)}
    ids = pa.array(list(own), pa.string())
    unknown = split(ids, pa.concat_arrays([source.touched, target.touched]))[1]
    if len(unknown):
        raise InputError(
            f"'{table_key}/{unknown[0]}' was changed by neither side of the merge", hint="see a dry run for what was"
        )
    return own


def _is_of(entity: str, table_key: str) -> bool:
    return entity.partition("/")[0] == table_key


def _checked(conflict: Conflict, choice: Choice) -> Choice:
    _check_choice(conflict.entity, choice)
    return choice


def _check_choice(entity: str, choice: Any) -> None:
    if choice not in _RULES and not isinstance(choice, Mapping):
        raise InputError(f"cannot resolve '{entity}' by {choice!r}", hint="use 'ours', 'theirs' or a row")


def _row(type_: NodeType | EdgeType, id_: str, given: Mapping[str, Any]) -> pa.Table:
    """A row as the caller wrote it, in the schema of its table and under the id that it resolves."""
    values = dict(given)
    if not (isinstance(type_, NodeType) and type_.key):
        values.setdefault("id", id_)
    try:
        row = conform(type_, pa.Table.from_pylist([values])).rows
    except pa.ArrowException as error:
        raise InputError(f"the row given for '{type_.table_key}/{id_}' cannot be read: {error}") from None
    found = row.column("id")[0].as_py()
    if found != id_:
        raise InputError(f"the row given for '{type_.table_key}/{id_}' has the id '{found}'", hint="keep its key")
    return row
