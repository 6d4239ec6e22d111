"""Small files that become huge when they are unpacked are refused by a limit, in bounded memory."""

from __future__ import annotations

import gzip
import tracemalloc
from pathlib import Path

import pytest

from omnigraph.errors import ResourceLimitExceeded
from tests.support.small_graphs import ids_of, people

MEBIBYTE = 1024**2


def bomb(path: Path, piece: bytes, times: int) -> Path:
    """A compressed file of many equal members, which unpack as one text."""
    path.write_bytes(gzip.compress(piece, 9) * times)
    assert path.stat().st_size * 100 < len(piece) * times
    return path


@pytest.mark.parametrize("byte", [b"x", b"["], ids=["one word", "one deep value"])
def test_a_packed_file_is_unpacked_no_further_than_a_line_may_be_long(tmp_path: Path, byte: bytes) -> None:
    path = bomb(tmp_path / "in.jsonl.gz", byte * MEBIBYTE, 512)
    with people(tmp_path / "g", "ann") as graph:
        tracemalloc.start()
        try:
            with pytest.raises(ResourceLimitExceeded):
                graph.load(path, "append", engine="embedded")
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert peak < 192 * MEBIBYTE, f"{peak // MEBIBYTE} MiB"
        assert ids_of(graph, "Person") == {"ann"}
