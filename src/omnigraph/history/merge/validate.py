"""Does the merged state keep the rules of its schema? Every violation is a conflict, and all of them are found.

Looks only at what the merge changes on the target and asks the tables about what that touches. Both sides were valid
before, so this gives the answer of a full check. The rules themselves are those of `write/`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from omnigraph.errors import Conflict
from omnigraph.schema.catalog import Catalog, EdgeType, NodeType
from omnigraph.storage.commit.preparation import Workspace
from omnigraph.write import set_rules
from omnigraph.write.change import Resolved, type_of
from omnigraph.write.row_rules import split_valid
from omnigraph.write.set_rules import RULES, Proposal, SetRule, StoredRows, error_of

ORPHAN_EDGE = "OrphanEdge"
UNIQUE_VIOLATION = "UniqueViolation"
CARDINALITY_VIOLATION = "CardinalityViolation"
VALUE_VIOLATION = "ValueConstraintViolation"

_KINDS = {
    SetRule.UNIQUE: UNIQUE_VIOLATION,
    SetRule.ENDPOINT: ORPHAN_EDGE,
    SetRule.CARDINALITY: CARDINALITY_VIOLATION,
}


@dataclass(frozen=True, slots=True)
class BrokenRule:
    """A rule that the merged state breaks, and its row of `VIOLATIONS`; None for a rule about a row alone."""

    conflict: Conflict
    violation: Mapping[str, Any] | None = None


def violations(
    workspace: Workspace,
    catalog: Catalog,
    changes: Mapping[str, Resolved],
    values: Callable[[Resolved], Iterable[Conflict]] | None = None,
) -> list[BrokenRule]:
    """Every rule that the target would break with these changes, by table key and id.

    Args:
        values: checks the rows one by one, for changes that hold only the columns of the other rules.
    """
    found: list[BrokenRule] = []
    for change in changes.values():
        found += map(BrokenRule, values(change) if values else broken_values(change.type, change.rows))
    for table in set_rules.violations(Proposal(catalog, changes, StoredRows(workspace)), RULES):
        found += [BrokenRule(_conflict(catalog, violation), violation) for violation in table.to_pylist()]
    unique = {conflict_order(each.conflict): each for each in found}
    return [unique[each] for each in sorted(unique)]


def _conflict(catalog: Catalog, violation: Mapping[str, Any]) -> Conflict:
    key, id_ = violation["table_key"], violation["id"]
    error = error_of(type_of(catalog, key), violation)
    message = error.message if id_ is None else f"{key}/{id_}: {error.message}"
    return Conflict(key, id_, _KINDS[SetRule(violation["rule"])], message)


def conflict_order(conflict: Conflict) -> tuple[str, str, str, str]:
    return conflict.table_key, conflict.row_id or "", conflict.kind, conflict.message


def broken_values(type_: NodeType | EdgeType, rows: pa.Table) -> Iterator[Conflict]:
    """Required, range, pattern and enum of each row that is put."""
    for invalid in split_valid(type_, rows)[1]:
        id_ = rows.column("id")[invalid.position].as_py()
        message = f"{type_.table_key}/{id_}: {invalid.error.message}"
        yield Conflict(type_.table_key, id_, VALUE_VIOLATION, message)
