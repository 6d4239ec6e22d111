"""Reads a recovery record without redo information: per table what happened, for the record what to do.

Pure decisions on numbers; `roll.py` looks at the tables and acts. The two tables below are the specification.
"""

from __future__ import annotations

from enum import Enum, auto

from omnigraph.storage.commit.sidecar import Sidecar, TableIntent, WriterKind


class TableState(Enum):
    NO_MOVEMENT = auto()
    ROLLED_PAST_EXPECTED = auto()
    UNEXPECTED_AT_P1 = auto()
    UNEXPECTED_MULTISTEP = auto()
    INCOMPLETE_PHASE_B = auto()
    INVARIANT_VIOLATION = auto()


class Decision(Enum):
    ABORT = auto()
    STALE = auto()
    ROLL_BACK = auto()
    ROLL_FORWARD = auto()


def classify(
    kind: WriterKind, table: TableIntent, head: int, pin: int, *, maintenance_only: bool, schema_staged: bool = False
) -> TableState:
    """What happened to one table.

    Args:
        head: newest version of the table on the record's lineage.
        pin: version that the record's graph branch shows, 0 when it shows none.
        maintenance_only: every transaction above the pin preserves content.
        schema_staged: the new schema files lie beside the live ones; a schema change writes them after its last table.
    """
    if head < pin:
        return TableState.INVARIANT_VIOLATION
    if head == pin:
        return TableState.NO_MOVEMENT
    if kind.is_strict:
        if head > pin + 1:
            return TableState.UNEXPECTED_MULTISTEP
        exact = table.expected_version == pin and table.post_commit_pin == head
        return TableState.ROLLED_PAST_EXPECTED if exact else TableState.UNEXPECTED_AT_P1
    if table.expected_version != pin:
        return TableState.UNEXPECTED_AT_P1 if head == pin + 1 else TableState.UNEXPECTED_MULTISTEP
    if kind.preserves_content:
        return TableState.ROLLED_PAST_EXPECTED if maintenance_only else TableState.INCOMPLETE_PHASE_B
    if kind is WriterKind.SCHEMA_APPLY and schema_staged:
        return TableState.ROLLED_PAST_EXPECTED
    # A writer that commits several times per table leaves no proof that it came to its end.
    return TableState.INCOMPLETE_PHASE_B


def decide(
    record: Sidecar, states: dict[str, TableState], pins: dict[str, int], *, schema_staged: bool = False
) -> Decision:
    """What to do with the record; the first rule that matches wins."""
    found = set(states.values())
    if TableState.INVARIANT_VIOLATION in found:
        return Decision.ABORT
    if record.aborted:
        return Decision.ROLL_BACK
    still = found == {TableState.NO_MOVEMENT}
    if still and any(pins[table.table_key] > table.expected_version for table in record.tables):
        return Decision.STALE
    if record.kind is WriterKind.SCHEMA_APPLY and not schema_staged:
        return Decision.ROLL_BACK
    if record.kind.preserves_content and found <= {TableState.NO_MOVEMENT, TableState.ROLLED_PAST_EXPECTED}:
        return Decision.ROLL_BACK if still else Decision.ROLL_FORWARD  # tables are independent: keep what is done
    if found - {TableState.ROLLED_PAST_EXPECTED}:
        return Decision.ROLL_BACK
    return Decision.ROLL_FORWARD
