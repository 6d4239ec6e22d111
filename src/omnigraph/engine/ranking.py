"""The order of rows by search scores: `nearest`, `bm25`, and `rrf` of two of them.

A ranked variable that leads its pattern is ranked before traversals, among the rows that pass its own conditions; one
that is reached by a traversal is ranked among the matches. Equal scores are ordered by id.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.binding_table import BindingTable
from omnigraph.engine.evaluate import measured
from omnigraph.engine.execution_context import ExecutionContext
from omnigraph.engine.node_scan import candidates, passing
from omnigraph.engine.position_deltas import Positions
from omnigraph.engine.result_table import number_of
from omnigraph.query.plan.logical_plan import RankedScan
from omnigraph.query.plan.rules.rank_first import leads, selects_rows
from omnigraph.query.typed import Distance, FusedScore, Predicate, Rank, TextScore, TypedQuery, Variable
from omnigraph.query.typed.walk import variables_in_predicate

#: Without an index of vectors, up to one row in this many is measured by itself.
_FEW_NEAR = 16

#: For up to so many rows their rank is counted; for more, all rows are put in order.
_FEW_RANKS = 64

Measures = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class _BestRows:
    """The rows of a ranked variable that survive, best first, and their fused scores if two rankings were fused."""

    positions: Positions
    fused: Measures | None = None

    def fused_scores(self, positions: Positions) -> Measures:
        """The fused scores of rows that survived."""
        assert self.fused is not None
        return self.fused[_places(self.positions, positions)]


def best_of_scan(context: ExecutionContext, step: RankedScan) -> Positions:
    """The rows that a ranked scan binds its variable to."""
    limit = number_of(context, step.limit)
    wanted = None if limit is None else limit + (number_of(context, step.offset) or 0)
    return _leading(context, step.rank, step.predicates, wanted).positions


def ranked(context: ExecutionContext, query: TypedQuery, bindings: BindingTable, wanted: int | None) -> BindingTable:
    """Keep the bindings of the best entities, best first; rows of one entity by the ids of their variables."""
    rank = query.rank
    assert rank is not None
    wanted = wanted if selects_rows(query) else None
    if leads(query, rank.variable):
        own = tuple(p for p in query.match.predicates if variables_in_predicate(p) == {rank.variable})
        best = _leading(context, rank, own, wanted)
    else:
        among = np.unique(bindings.of(rank.variable))
        best = _best(context, rank, _Candidates(context, rank.variable, (), among), wanted)
        context.ranking[rank] = best
    place = _places(best.positions, bindings.of(rank.variable))
    kept = bindings.take(place >= 0)
    keys = [pa.array(place[place >= 0])]
    bound = sorted([*query.match.variables, *query.match.optional_variables], key=lambda variable: variable.name)
    keys += [context.rows(v).values("id", kept.of(v)) for v in bound if kept.has(v) and v != rank.variable]
    table = pa.table(keys, names=[str(number) for number in range(len(keys))])
    order = pc.sort_indices(table, sort_keys=[(name, "ascending", "at_start") for name in table.column_names])
    return kept.take(np.asarray(order, np.int64))


def _leading(context: ExecutionContext, rank: Rank, predicates: tuple[Predicate, ...], wanted: int | None) -> _BestRows:
    """The best rows of a whole table under conditions; a query asks for them twice."""
    found = context.ranking.get(rank)
    if found is None:
        among = _Candidates(context, rank.variable, predicates)
        found = context.ranking[rank] = _best(context, rank, among, wanted)
    return found


@dataclass(slots=True)
class _Candidates:
    """The rows that compete: all rows of a variable that pass predicates, or some rows that are known."""

    context: ExecutionContext
    variable: Variable
    predicates: tuple[Predicate, ...]
    known: Positions | None = None

    @property
    def is_whole(self) -> bool:
        """Whether every row of the variable competes."""
        return self.known is None and not self.predicates

    def all(self) -> Positions:
        """Every candidate, ascending."""
        if self.known is None:
            self.known = np.sort(candidates(self.context, self.variable, self.predicates))
        return self.known

    def among(self, found: Positions) -> Positions:
        """Those of the rows that a search found, ascending."""
        size = len(self.context.rows(self.variable))
        if self.known is None:
            return passing(self.context, self.variable, self.predicates, found, size)
        kept = np.intersect1d(found, self.known, assume_unique=True)
        self.context.note(f"search found {len(found):,} of {size:,} rows, {len(kept):,} of them are matched")
        return kept


@dataclass(frozen=True, slots=True)
class _Arm:
    """One ranking: rows, ascending, and a measure of each; the smallest is best, equal ones go by id.

    Attributes:
        most: only so many of the best belong to it.
    """

    positions: Positions
    measures: Measures
    ids: Callable[[Positions], pa.Array]
    most: int | None

    def best(self, wanted: int | None) -> Positions:
        """The best rows, best first."""
        chosen = np.arange(len(self.positions))
        if wanted is not None and wanted < len(chosen):
            if wanted == 0:
                return self.positions[:0]
            chosen = np.flatnonzero(self.measures <= np.partition(self.measures, wanted - 1)[wanted - 1])
        order = self._order(chosen)
        return self.positions[chosen[order][:wanted]]

    def _order(self, chosen: Positions) -> Positions:
        measures = self.measures[chosen]
        order = np.argsort(measures, kind="stable")
        if bool((measures[order][1:] != measures[order][:-1]).all()):
            return order
        table = pa.table([pa.array(measures), self.ids(self.positions[chosen])], names=["measure", "id"])
        return np.asarray(pc.sort_indices(table, sort_keys=[("measure", "ascending"), ("id", "ascending")]), np.int64)

    def ranks(self, rows: Positions) -> Positions:
        """How many rows are better than each of some rows; -1 for rows that do not belong here."""
        if self.most is not None or len(rows) > _FEW_RANKS:
            return _places(self.best(self.most), rows)
        ranks = _places(self.positions, rows)
        measures = np.sort(self.measures)
        for number in np.flatnonzero(ranks >= 0).tolist():
            measure = self.measures[ranks[number]]
            better, equal = np.searchsorted(measures, [measure, np.nextafter(measure, np.inf)]).tolist()
            ranks[number] = better
            if equal - better > 1:
                tied = self.positions[self.measures == measure]
                own = self.ids(rows[number : number + 1])[0]
                ranks[number] += pc.sum(pc.less(self.ids(tied), own)).as_py()
        return ranks


def _best(context: ExecutionContext, rank: Rank, among: _Candidates, wanted: int | None) -> _BestRows:
    score = rank.score
    if not isinstance(score, FusedScore):
        return _BestRows(_arm(context, score, among, wanted, alone=True).best(wanted))
    assert wanted is not None  # a fused ranking has a limit
    arms = [_arm(context, each, among, wanted, alone=False) for each in (score.first, score.second)]
    k = context.value(score.k)
    # Behind these places two ranks together weigh less than one of the first `wanted` places does alone.
    first, second = (arm.best(k + 2 * wanted if arm.most is None else arm.most) for arm in arms)
    contenders = np.concatenate([first, np.setdiff1d(second, first, assume_unique=True)])
    fused = np.zeros(len(contenders))
    ranks = [arm.ranks(contenders) for arm in arms]
    for each in ranks:
        fused[each >= 0] += 1 / (k + each[each >= 0] + 1)
    # Equal scores stay in the order of the first arm; those that it does not have follow in the order of the second.
    place = np.where(
        ranks[0] >= 0, ranks[0], len(contenders) + ranks[1].max(initial=0) + ranks[0].max(initial=0) + ranks[1]
    )
    order = np.lexsort([place, -fused])[:wanted]
    return _BestRows(contenders[order], fused[order])


def _arm(
    context: ExecutionContext, score: Distance | TextScore, among: _Candidates, wanted: int | None, *, alone: bool
) -> _Arm:
    """A ranking of the candidates. Alone, a `bm25` needs only the best; in a fusion any rank may be asked for."""
    rows, query = context.rows(among.variable), context.value(score.query)

    def ids(positions: Positions) -> pa.Array:
        return rows.values("id", positions)

    if query is None or wanted == 0:
        return _Arm(np.zeros(0, np.int64), np.zeros(0), ids, None)
    if isinstance(score, Distance):
        assert wanted is not None  # `nearest` has a limit
        return _Arm(*_near(context, score, among, wanted), ids, wanted)
    most = wanted if alone and among.is_whole else None
    hits = context.texts(score.field).ranked(query, most)
    assert hits.scores is not None
    if most is not None:
        context.note(f"{len(hits.positions):,} of {len(rows):,} rows compete")
        return _Arm(hits.positions, -hits.scores, ids, None)
    positions = among.among(hits.positions)
    scores = hits.scores if len(positions) == len(hits.positions) else hits.scores[_places(hits.positions, positions)]
    return _Arm(positions, -scores, ids, None)


def _near(context: ExecutionContext, score: Distance, among: _Candidates, wanted: int) -> tuple[Positions, Measures]:
    """At least the nearest candidates, ascending, and their distances."""
    field, size = score.field, len(context.rows(among.variable))
    candidates = None if among.is_whole else among.all()
    if candidates is not None and len(candidates) * _FEW_NEAR < size and not _has_index(context, score):
        context.note(f"{len(candidates):,} of {size:,} rows measured")
        far = measured(context, score, candidates)
        return candidates[~np.isnan(far)], far[~np.isnan(far)]
    index = context.view.vector_index(field.variable.type_name, field.property)
    positions, far = index.nearest(context.vector(score), wanted, candidates)
    context.note(f"{len(positions):,} of {size if candidates is None else len(candidates):,} rows compete")
    return positions, far


def _has_index(context: ExecutionContext, score: Distance) -> bool:
    return context.view.has_index(score.field.variable.type_name, score.field.property)


def _places(rows: Positions, wanted: Positions) -> Positions:
    """Where each wanted row is among different rows, -1 where it is not."""
    if len(rows) == 0:
        return np.full(len(wanted), -1, np.int64)
    ascending = len(rows) < 2 or bool((rows[1:] > rows[:-1]).all())
    order = None if ascending else np.argsort(rows)
    where = np.minimum(np.searchsorted(rows, wanted, sorter=order), len(rows) - 1)
    place = where if order is None else order[where]
    return np.where(rows[place] == wanted, place, -1)
