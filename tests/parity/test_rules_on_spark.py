"""The set rules on Spark blame the rows that every other caller blames, with the same words."""

from __future__ import annotations

from pathlib import Path

import pytest

from omnigraph import limits
from omnigraph.errors import OmniGraphError
from tests.write.test_rules_agree import CASES, Case, ids_on, load_file, stored

pytestmark = pytest.mark.usefixtures("spark")

#: One case of each rule, and those in which stored rows are moved.
CHOSEN = [
    case
    for case in CASES
    if case.name
    in (
        "unique on several columns",
        "unique with a null",
        "a key twice",
        "missing source",
        "too many edges",
        "too few edges of a new source",
        "the last edge moves away",
    )
]


@pytest.mark.parametrize("case", CHOSEN, ids=str)
@pytest.mark.parametrize("driver_rows", [limits.DRIVER_ROWS, -1], ids=["in the driver", "in tasks"])
def test_a_load_on_spark_gives_the_same_answer(
    case: Case, driver_rows: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "DRIVER_ROWS", driver_rows)
    graph = stored(tmp_path, case)
    path = load_file(tmp_path, case.theirs.put)
    if case.blame is not None:
        with pytest.raises(OmniGraphError) as caught:
            graph.load(path, "merge", engine="spark")
        assert caught.value.message == case.blame.message
        assert ids_on(case, [caught.value.details["line"]]) == case.blame.rows
    rejects = graph.load(path, "merge", on_error="reject", engine="spark").rejects.to_pylist()
    rows = () if case.blame is None else case.blame.rows
    assert ids_on(case, [row["line"] for row in rejects]) == rows
    assert {row["reason"] for row in rejects} == ({case.blame.message} if case.blame else set())
