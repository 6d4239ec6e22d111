"""Addresses in version files: found, replaced by longer and shorter ones, and nothing else is touched."""

from __future__ import annotations

from pathlib import Path

import lance
import pyarrow as pa
import pytest

from omnigraph.errors import CorruptGraph
from omnigraph.storage.tables.version_addresses import addresses, is_at, with_table_at


def _forked(place: Path) -> list[Path]:
    """Version files of a branch of a branch, with deletions, an index and several fragments."""
    table = lance.write_dataset(pa.table({"a": range(100)}), str(place), enable_stable_row_ids=True)
    table.create_scalar_index("a", "BTREE")
    branch = table.create_branch("x/y", (None, table.version))
    branch.insert(pa.table({"a": range(100, 120)}))
    branch.delete("a = 7")
    nested = branch.create_branch("z", ("x/y", branch.version))
    nested.insert(pa.table({"a": [500]}))
    nested.create_scalar_index("a", "BTREE", replace=True)
    return sorted(place.glob("tree/**/_versions/*.manifest"))


@pytest.mark.parametrize("name", ["b", "a directory with a much longer name" * 4, "same_"])
def test_every_version_opens_where_the_table_lies_now(tmp_path: Path, name: str) -> None:
    old, new = tmp_path / "table", tmp_path / name
    found = _forked(old)
    assert len(found) >= 6
    before = {path.relative_to(old): _rows(path) for path in found}
    old.rename(new)
    for path in sorted(new.glob("tree/**/_versions/*.manifest")):
        content = path.read_bytes()
        assert set(addresses(content)) <= {str(old), f"{old}/tree/x/y"}
        fitting = with_table_at(content, str(new))
        assert set(addresses(fitting)) <= {str(new), f"{new}/tree/x/y"}
        assert with_table_at(fitting, str(new)) == fitting
        assert with_table_at(fitting, str(old)) == content
        path.write_bytes(fitting)
    assert {path: _rows(new / path) for path in before} == before


def _rows(path: Path) -> tuple[int, list[int], str, int]:
    number = 2**64 - 1 - int(path.name.partition(".")[0])
    table = lance.dataset(str(path.parent.parent), version=number)
    made = table.read_transaction(number)
    assert made is not None
    indexes = sum(len(index.segments) for index in table.describe_indices())
    return number, sorted(table.to_table(filter="a >= 0").column("a").to_pylist()), made.uuid, indexes


def test_a_main_lineage_names_no_address_and_stays_as_it_is(tmp_path: Path) -> None:
    lance.write_dataset(pa.table({"a": [1]}), str(tmp_path / "table"))
    (path,) = (tmp_path / "table").glob("_versions/*.manifest")
    assert addresses(path.read_bytes()) == []
    assert with_table_at(path.read_bytes(), "/elsewhere") == path.read_bytes()


def test_what_is_no_version_file_is_refused(tmp_path: Path) -> None:
    content = _forked(tmp_path / "table")[0].read_bytes()
    message = int.from_bytes(content[-16:-8], "little")
    damaged = [
        b"",
        b"LANC",
        content[:-1],
        content[:-40] + content[-16:],
        content[:-4] + b"LAND",
        content[: message + 4] + b"\xff" * (len(content) - message - 20) + content[-16:],
        content[: message + 4] + b"\x07" * (len(content) - message - 20) + content[-16:],
    ]
    for each in damaged:
        with pytest.raises(CorruptGraph):
            with_table_at(each, "/elsewhere")


def test_files_outside_of_the_table_are_no_part_of_a_graph(tmp_path: Path) -> None:
    table = lance.write_dataset(pa.table({"a": [1]}), str(tmp_path / "table"))
    branch = table.create_branch("x", (None, table.version))
    other = tmp_path / "somewhere quite different"
    branch.add_bases([lance.DatasetBasePath(str(other), name="other")])
    path = min((tmp_path / "table" / "tree" / "x" / "_versions").glob("*.manifest"))
    with pytest.raises(CorruptGraph, match="outside of its table"):
        with_table_at(path.read_bytes(), "/elsewhere")


def test_one_place_may_be_spelled_in_several_ways() -> None:
    table = "/data/g/nodes/1"
    for same in (table, f"{table}/tree/x/y", f"file://{table}", f"file-object-store://{table}", table[1:]):
        assert is_at(same, table)
    for other in (f"{table}1", "/data/h/nodes/1", f"{table}/tree", f"/old{table}", "s3://data/g/nodes/1"):
        assert not is_at(other, table)
    assert is_at("file-object-store:///a%20b/nodes/1", "/a b/nodes/1")
