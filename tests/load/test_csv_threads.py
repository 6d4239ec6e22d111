"""A reader that is given up leaves nothing of ours with Arrow's threads: one that lets go of it while the process ends
aborts the process."""

from __future__ import annotations

import io

import pytest

from omnigraph import limits
from omnigraph.errors import InputError
from omnigraph.write.load import csv_text
from omnigraph.write.load.load_source import Format, Part

TEXTS = {
    "short": (b"a,b\n1,2\n", 1),
    "many blocks": (b"a,b\n" + b"1,2\n" * 20_000, 1),
    "no header": (b"", 0),
    "a quote that stays open": (b'a,"b\n1,2\n', 0),
    "no text": (b"a,b\n\xff,2\n", 0),
}


@pytest.mark.parametrize("name", TEXTS)
def test_a_reader_that_is_given_up_leaves_nothing_behind(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "LOAD_BLOCK_BYTES", 256)
    lent: list[csv_text.Lent] = []

    class Watched(csv_text.Lent):
        def __init__(self) -> None:
            super().__init__()
            lent.append(self)

    monkeypatch.setattr(csv_text, "Lent", Watched)
    text, batches = TEXTS[name]
    part = Part("T.csv", Format.CSV, stream=io.BytesIO(text))
    rows = csv_text.csv_batches(part, lambda *_: None, lambda _: None)
    if batches:
        next(rows)
        assert lent[0].count > 0
        rows.close()
    else:
        with pytest.raises(InputError):
            next(rows)
    assert [each.count for each in lent] == [0]
