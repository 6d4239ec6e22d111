"""What one of several commits that were published together did to its tables.

Commits that are published together share one version of each table. Each of them but the last says which of the new
rows are its own and which old ones it took away, so that its state can be told from that of the others: see
`storage/grouped_states.py`, and decision 29.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class TablePart:
    """The part of one commit in a version of a table.

    Attributes:
        put: its rows among the new ones: which new fragment, the first row, the row behind the last one.
        gone: addresses of the rows that it took away, in the version before.
        rows: how many rows the table has after it.
    """

    put: tuple[tuple[int, int, int], ...]
    gone: tuple[int, ...]
    rows: int

    def to_json(self) -> dict[str, Any]:
        return {"put": [list(each) for each in self.put], "gone": list(self.gone), "rows": self.rows}


def parts_to_json(parts: Mapping[str, TablePart]) -> dict[str, Any]:
    """Parts by table key, as the row of a commit has them."""
    return {key: part.to_json() for key, part in parts.items()}


def parts_of(record: Mapping[str, Any]) -> dict[str, TablePart]:
    """Read what `parts_to_json` made; whatever a damaged record raises is for the caller to explain."""
    return {
        str(key): TablePart(
            tuple((int(fragment), int(first), int(stop)) for fragment, first, stop in part["put"]),
            tuple(int(address) for address in part["gone"]),
            int(part["rows"]),
        )
        for key, part in (record.get("parts") or {}).items()
    }
