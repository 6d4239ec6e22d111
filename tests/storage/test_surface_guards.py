"""Facts about pylance and obstore that the storage code rests on. An upgrade that changes one fails here first."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import lance
import obstore
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from lance import LanceDataset, LanceOperation, Transaction
from lance.commit import CommitConflictError
from lance.fragment import FragmentMetadata, RowIdSequence, write_fragments
from obstore.exceptions import AlreadyExistsError
from obstore.store import LocalStore

from omnigraph.storage.commit import sidecar
from omnigraph.storage.objects.object_store import parse_location
from omnigraph.storage.tables.datasets import Tables, TableVersion, maker, version_file
from omnigraph.storage.tables.stage_rows import StagedTransaction
from tests.support.small_graphs import run_child
from tests.support.transactions import transaction_of

SCHEMA = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False, metadata={b"lance-schema:unenforced-primary-key": b"true"}),
        pa.field("x", pa.int64(), metadata={b"note": b"kept"}),
    ],
    metadata={b"stamp": b"3"},
)


def _table(uri: Path, *ids: str) -> Any:
    return lance.write_dataset(
        _rows(*ids), str(uri), mode="create", enable_stable_row_ids=True, data_storage_version="2.2"
    )


def _rows(*ids: str, x: int = 0) -> pa.Table:
    return pa.table({"id": list(ids), "x": [x] * len(ids)}, schema=SCHEMA)


def _write(table: Any, rows: pa.Table) -> list[FragmentMetadata]:
    return write_fragments(rows, table, schema=table.schema, mode="append", data_storage_version="2.2")


def _commit(table: Any, operation: Any) -> Any:
    return LanceDataset.commit(table, Transaction(table.version, operation), max_retries=0)


def _append(table: Any, *ids: str) -> Any:
    return LanceOperation.Append(_write(table, _rows(*ids)))


def _update(table: Any, id_: str, x: int) -> Any:
    """Replace a row and keep its row id, the way a write stages it."""
    found = table.scanner(
        columns=["id"], filter=pc.field("id") == id_, with_row_id=True, with_row_address=True
    ).to_table()
    address, row_id = found["_rowaddr"][0].as_py(), found["_rowid"][0].as_py()
    left = table.get_fragment(address >> 32).delete_rows([address & 0xFFFFFFFF])
    new = _write(table, _rows(id_, x=x))
    new[0].row_id_meta = RowIdSequence([row_id]).to_inline_metadata()
    if left is None:
        return LanceOperation.Update(removed_fragment_ids=[address >> 32], updated_fragments=[], new_fragments=new)
    return LanceOperation.Update(removed_fragment_ids=[], updated_fragments=[left], new_fragments=new)


def _ids(table: Any) -> list[str]:
    return sorted(table.to_table(columns=["id"]).column(0).to_pylist())


def _meta(table: Any) -> dict[str, dict[str, int]]:
    names = ["id", "_row_created_at_version", "_row_last_updated_at_version"]
    rows = table.scanner(columns=names, with_row_id=True).to_table().to_pylist()
    return {row.pop("id"): row for row in rows}


def test_a_stale_append_is_rebased_even_without_retries(tmp_path: Path) -> None:
    first = _table(tmp_path / "t", "a")
    stale = _append(first, "b")
    _commit(first, _append(first, "c"))
    landed = _commit(first, stale)
    assert landed.version == first.version + 2
    assert _ids(landed) == ["a", "b", "c"]


def test_a_merge_operation_on_a_moved_table_conflicts_and_on_a_still_one_gives_row_ids(tmp_path: Path) -> None:
    first = _table(tmp_path / "t", "a")
    merge = LanceOperation.Merge(
        [*(fragment.metadata for fragment in first.get_fragments()), *_write(first, _rows("b"))], first.lance_schema
    )
    moved = _commit(first, _append(first, "c"))
    with pytest.raises(CommitConflictError):
        LanceDataset.commit(first, merge, read_version=first.version, max_retries=0)
    merge = LanceOperation.Merge(
        [*(fragment.metadata for fragment in moved.get_fragments()), *_write(moved, _rows("b"))], moved.lance_schema
    )
    landed = LanceDataset.commit(moved, merge, read_version=moved.version, max_retries=0)
    assert sorted(row["_rowid"] for row in _meta(landed).values()) == [0, 1, 2]


def test_two_updates_that_remove_a_fragment_which_is_not_there_conflict_while_the_newest_of_them_is_there(
    tmp_path: Path,
) -> None:
    """Also when the versions between them are gone. Without such a fragment the stale one lands on top of all."""

    def operation(table: Any, id_: str, *removed: int) -> Any:
        newest = max(fragment.fragment_id for fragment in table.get_fragments())
        new = _write(table, _rows(id_))
        return LanceOperation.Update(removed_fragment_ids=[newest, *removed], updated_fragments=[], new_fragments=new)

    first = table = _table(tmp_path / "t", "a")
    stale, unmarked = operation(first, "late", 2**32 - 1), operation(first, "late")
    for id_ in ("b", "c", "d"):
        table = _commit(table, operation(table, id_, 2**32 - 1))
    assert _ids(table) == ["d"]
    for version in (2, 3):
        (tmp_path / "t" / "_versions" / f"{2**64 - 1 - version:020d}.manifest").unlink()
    with pytest.raises(CommitConflictError):
        _commit(first, stale)
    assert _ids(_commit(first, unmarked)) == ["d", "late"]


def test_a_transaction_is_found_in_history_by_its_uuid(tmp_path: Path) -> None:
    table = _table(tmp_path / "t", "a")
    transaction = Transaction(table.version, _append(table, "b"), uuid="0f6e7f4e-6f3c-4d4e-9a51-3d5b8f3a2c11")
    landed = LanceDataset.commit(table, transaction, max_retries=0)
    found = transaction_of(landed)
    assert found.uuid == transaction.uuid
    assert isinstance(found.operation, LanceOperation.Append)


def test_a_transaction_is_part_of_its_version_file(tmp_path: Path) -> None:
    table = _table(tmp_path / "t", "a")
    transaction = Transaction(table.version, _update(table, "a", 5))
    LanceDataset.commit(table, transaction, max_retries=0)
    for file in (tmp_path / "t" / "_transactions").iterdir():
        file.unlink()
    lost = run_child(
        "import lance, sys\nprint(lance.dataset(sys.argv[1]).read_transaction(2).uuid)\n", str(tmp_path / "t")
    )
    assert lost.stdout.strip() == transaction.uuid, "then transaction files must be synced too"


def test_replaying_a_committed_append_commits_it_again(tmp_path: Path) -> None:
    table = _table(tmp_path / "t", "a")
    transaction = Transaction(table.version, _append(table, "b"))
    LanceDataset.commit(table, transaction, max_retries=0)
    again = LanceDataset.commit(table, transaction, max_retries=0)
    assert _ids(again) == ["a", "b", "b"]


def _staged_append(table: Any) -> Any:
    return _append(table, "n")


def _staged_update(table: Any) -> Any:
    return _update(table, "b", 7)


def _staged_overwrite(table: Any) -> Any:
    return LanceOperation.Overwrite(table.schema, _write(table, _rows("n")))


def _staged_emptying(table: Any) -> Any:
    return LanceOperation.Overwrite(table.schema, [])


def _staged_index(table: Any) -> Any:
    segment = table.create_index_uncommitted("x", "BTREE", name="x_idx", fragment_ids=[0])
    return LanceOperation.CreateIndex([segment], [])


@pytest.mark.parametrize(
    ("stage", "expected"),
    [
        (_staged_append, ["a", "b", "c", "n"]),
        (_staged_update, ["a", "b", "c"]),
        (_staged_overwrite, ["n"]),
        (_staged_emptying, []),
        (_staged_index, ["a", "b", "c"]),
    ],
)
def test_a_staged_transaction_survives_json_and_commits_later(
    tmp_path: Path, stage: Callable[[Any], Any], expected: list[str]
) -> None:
    table = _table(tmp_path / "t", "a", "b", "c")
    staged = StagedTransaction(stage(table), table.version, len(expected))
    assert lance.dataset(str(tmp_path / "t")).version == table.version, "staging moved the table"
    read = sidecar.transaction_from_json(json.loads(json.dumps(sidecar.transaction_to_json(staged))))
    landed = LanceDataset.commit(lance.dataset(str(tmp_path / "t")), sidecar.transaction(read, "op"), max_retries=0)
    assert (landed.version, _ids(landed)) == (table.version + 1, expected)
    assert transaction_of(landed).uuid == staged.uuid
    if stage is _staged_update:
        assert landed.to_table(filter=pc.field("x") == 7).column("id").to_pylist() == ["b"]
    if stage is _staged_index:
        assert [index.name for index in landed.describe_indices()] == ["x_idx"]
        assert "ScalarIndexQuery" in landed.scanner(filter=pc.field("x") == 0).explain_plan()


@pytest.mark.parametrize("stage", [_staged_append, _staged_update, _staged_overwrite])
def test_a_record_tells_of_a_fragment_what_lance_tells(tmp_path: Path, stage: Callable[[Any], Any]) -> None:
    operation = stage(_table(tmp_path / "t", "a", "b", "c"))
    recorded = sidecar.transaction_to_json(StagedTransaction(operation, 1, 3))["operation"]
    for name in ("fragments", "new_fragments", "updated_fragments"):
        assert recorded.get(name, []) == [fragment.to_json() for fragment in getattr(operation, name, [])]


def test_an_update_keeps_row_id_and_creation_version(tmp_path: Path) -> None:
    table = _table(tmp_path / "t", "a", "b")
    before = _meta(table)
    table = _commit(table, _update(table, "b", 9))
    after = _meta(table)
    assert after["a"] == before["a"]
    assert after["b"]["_rowid"] == before["b"]["_rowid"]
    assert after["b"]["_row_created_at_version"] == before["b"]["_row_created_at_version"]
    assert after["b"]["_row_last_updated_at_version"] == table.version
    table = _commit(table, _append(table, "c"))
    assert len({row["_rowid"] for row in _meta(table).values()}) == 3


def test_an_indexed_column_finds_the_new_value_and_not_the_old_after_an_update(tmp_path: Path) -> None:
    table = _table(tmp_path / "t", "a", "b", "c")
    table.create_scalar_index("x", "BTREE")
    table.create_scalar_index("id", "BTREE")
    table = lance.dataset(str(tmp_path / "t"))
    table = _commit(table, _update(table, "b", 9))
    found = {x: sorted(table.to_table(filter=pc.field("x") == x).column("id").to_pylist()) for x in (0, 9)}
    assert found == {0: ["a", "c"], 9: ["b"]}
    assert table.to_table(filter=pc.field("id") == "b").column("x").to_pylist() == [9]


def test_two_updates_of_one_fragment_conflict(tmp_path: Path) -> None:
    table = _table(tmp_path / "t", "a", "b")
    one, other = _update(table, "a", 1), _update(table, "b", 2)
    _commit(table, one)
    with pytest.raises(CommitConflictError):
        _commit(table, other)


def test_staged_files_move_no_version(tmp_path: Path) -> None:
    table = _table(tmp_path / "t", "a", "b")
    _update(table, "a", 1)
    _append(table, "c")
    table.create_index_uncommitted("x", "BTREE", name="x_idx", fragment_ids=[0])
    assert table.latest_version == 1
    assert len(list((tmp_path / "t" / "_versions").glob("*.manifest"))) == 1


def test_a_branch_lies_below_tree_and_its_ref_is_percent_encoded(tmp_path: Path) -> None:
    table = _table(tmp_path / "t", "a")
    table.create_branch("review/a", (None, 1))
    branch = lance.dataset(str(tmp_path / "t" / "tree" / "review" / "a"))
    landed = _commit(branch, _append(branch, "b"))
    assert (branch.version, landed.version, _ids(landed)) == (1, 2, ["a", "b"])
    assert _ids(lance.dataset(str(tmp_path / "t"))) == ["a"]
    ref = json.loads((tmp_path / "t" / "_refs" / "branches" / "review%2Fa.json").read_text())
    assert (ref["parentBranch"], ref["parentVersion"]) == (None, 1)
    assert ref["identifier"]
    assert list((tmp_path / "t" / "tree" / "review" / "a" / "data").glob("*.lance"))


def test_opening_a_branch_by_path_does_not_check_its_ref(tmp_path: Path) -> None:
    table = _table(tmp_path / "t", "a")
    table.create_branch("b", (None, 1))
    (tmp_path / "t" / "_refs" / "branches" / "b.json").unlink()
    assert lance.dataset(str(tmp_path / "t" / "tree" / "b")).count_rows() == 1, "then the ref need not be read"


def test_a_re_created_branch_has_another_identifier(tmp_path: Path) -> None:
    table = _table(tmp_path / "t", "a")
    ref = tmp_path / "t" / "_refs" / "branches" / "b.json"
    seen = []
    for _ in range(2):
        table.create_branch("b", (None, 1))
        seen.append(json.dumps(json.loads(ref.read_text())["identifier"]))
        table.branches.delete("b")
        assert not ref.exists()
    assert seen[0] != seen[1]


def test_deleting_an_absent_branch_is_told_by_its_text(tmp_path: Path) -> None:
    table = _table(tmp_path / "t", "a")
    with pytest.raises(ValueError, match=r"(?i)does not exist|not found"):
        table.branches.delete("nobody")


def test_a_branch_with_children_cannot_be_deleted(tmp_path: Path) -> None:
    table = _table(tmp_path / "t", "a")
    child = table.create_branch("b", (None, 1))
    child.create_branch("c", ("b", 1))
    with pytest.raises((ValueError, OSError)):
        table.branches.delete("b")


def test_a_restore_is_a_transaction_that_names_its_version(tmp_path: Path) -> None:
    table = _table(tmp_path / "t", "a")
    _commit(table, _append(table, "b"))
    table.checkout_version(1).restore()
    newest = lance.dataset(str(tmp_path / "t"))
    operation = transaction_of(newest).operation
    assert isinstance(operation, LanceOperation.Restore)
    assert (operation.version, newest.version, _ids(newest)) == (1, 3, ["a"])


def test_schema_metadata_survives_branches_updates_and_compaction(tmp_path: Path) -> None:
    table = _table(tmp_path / "t", "a", "b")
    table.create_branch("b", (None, 1))
    branch = lance.dataset(str(tmp_path / "t" / "tree" / "b"))
    branch = _commit(branch, _append(branch, "c"))
    branch = _commit(branch, _update(branch, "a", 5))
    branch.optimize.compact_files()
    branch = lance.dataset(str(tmp_path / "t" / "tree" / "b"))
    assert branch.schema.metadata[b"stamp"] == b"3"
    assert branch.schema.field("id").metadata[b"lance-schema:unenforced-primary-key"] == b"true"


@pytest.mark.parametrize("ids", [("n", "m"), ()])
def test_an_overwrite_keeps_stable_row_ids_and_field_metadata(tmp_path: Path, ids: tuple[str, ...]) -> None:
    table = _table(tmp_path / "t", "a", "b")
    fragments = _write(table, _rows(*ids)) if ids else []
    table = _commit(table, LanceOperation.Overwrite(table.schema, fragments))
    assert table.has_stable_row_ids
    assert table.schema.field("x").metadata == {b"note": b"kept"}
    assert table.schema.metadata == {b"stamp": b"3"}
    assert _ids(table) == sorted(ids)
    table = _commit(table, _append(table, "z"))
    assert _meta(table)["z"]["_row_created_at_version"] == table.version


def test_the_primary_key_mark_cannot_be_set_twice(tmp_path: Path) -> None:
    table = _table(tmp_path / "t", "a")
    with pytest.raises((ValueError, OSError)):
        table.update_field_metadata({"id": {"lance-schema:unenforced-primary-key": "true"}})


def test_a_version_file_is_named_by_the_complement_of_its_number(tmp_path: Path) -> None:
    table = _table(tmp_path / "t", "a")
    for id_ in ("b", "c"):
        table = _commit(table, _append(table, id_))
    assert version_file(3) == "_versions/18446744073709551612.manifest"
    assert {(tmp_path / "t" / version_file(number)).exists() for number in (1, 2, 3)} == {True}
    assert not (tmp_path / "t" / version_file(4)).exists()


def test_the_latest_version_sees_commits_of_other_processes(tmp_path: Path) -> None:
    table = _table(tmp_path / "t", "a")
    code = (
        "import lance, pyarrow as pa, sys\n"
        "lance.write_dataset(pa.table({'id': ['b'], 'x': [1]}, schema=lance.dataset(sys.argv[1]).schema), "
        "sys.argv[1], mode='append')\n"
    )
    child = run_child(code, str(tmp_path / "t"))
    assert child.returncode == 0, child.stderr
    assert (table.version, table.latest_version) == (1, 2)
    assert table.checkout_version(2).count_rows() == 2


def test_a_missing_table_and_a_missing_version_raise_different_things(tmp_path: Path) -> None:
    with pytest.raises((ValueError, FileNotFoundError), match=r"(?i)not found"):
        lance.dataset(str(tmp_path / "nothing"))
    _table(tmp_path / "t", "a")
    with pytest.raises((ValueError, FileNotFoundError)):
        lance.dataset(str(tmp_path / "t"), version=9)


def test_a_zero_row_delete_still_makes_a_version(tmp_path: Path) -> None:
    table = _table(tmp_path / "t", "a")
    table.delete(pc.field("id") == "nobody")
    assert table.latest_version == 2, "then the write path may stop avoiding empty deletes"


def test_deleting_the_last_row_of_a_fragment_gives_none(tmp_path: Path) -> None:
    table = _table(tmp_path / "t", "a", "b")
    assert table.get_fragment(0).delete_rows([0, 1]) is None
    left = table.get_fragment(0).delete_rows([0])
    assert left.num_deletions == 1
    assert (tmp_path / "t" / left.deletion_file.path(0)).exists()


def test_the_newest_fragment_has_the_highest_id(tmp_path: Path) -> None:
    table = _table(tmp_path / "t", "a", "b")
    table = _commit(table, _update(table, "a", 1))
    table = _commit(table, _append(table, "c"))
    newest = max(table.get_fragments(), key=lambda fragment: fragment.fragment_id)
    assert newest.to_table(columns=["id"]).column(0).to_pylist() == ["c"]


def test_a_reservation_of_fragment_ids_reads_as_a_bare_operation(tmp_path: Path) -> None:
    table = _table(tmp_path / "t", "a", "b")
    table = _commit(table, _append(table, "c"))
    before = table.version
    table.optimize.compact_files()
    newest = lance.dataset(str(tmp_path / "t"))
    kinds = [type(transaction_of(newest, v).operation) for v in range(before + 1, newest.version + 1)]
    assert kinds == [LanceOperation.BaseOperation, LanceOperation.Rewrite]


def test_a_full_text_segment_can_be_searched_only_after_it_was_merged(tmp_path: Path) -> None:
    texts = pa.table({"id": ["a", "b"], "t": ["red fox", "red hen"]})
    table = lance.write_dataset(texts, str(tmp_path / "t"), enable_stable_row_ids=True, data_storage_version="2.2")
    raw = table.create_index_uncommitted("t", "INVERTED", name="t_idx", fragment_ids=[0])
    assert [path.name for path in (tmp_path / "t" / "_indices" / raw.uuid).iterdir()] == ["staging"]
    whole = table.merge_existing_index_segments([raw])
    table = _commit(table, LanceOperation.CreateIndex([whole], []))
    found = table.to_table(columns=["id", "_score"], full_text_query="fox")
    assert found.column("id").to_pylist() == ["a"]


@pytest.mark.parametrize(("kind", "word"), [("BTREE", "btree"), ("INVERTED", "inverted"), ("IVF_FLAT", "ivf")])
def test_the_kind_of_an_index_is_told_by_its_type(
    tmp_path: Path, kind: Literal["BTREE", "INVERTED", "IVF_FLAT"], word: str
) -> None:
    rows = {"x": ["a"], "v": pa.array([[1.0, 2.0]], pa.list_(pa.float32(), 2))}
    table = lance.write_dataset(pa.table(rows), str(tmp_path / "t"), data_storage_version="2.2")
    if kind == "IVF_FLAT":
        table.create_index("v", kind, num_partitions=1, metric="l2")
    else:
        table.create_scalar_index("x", kind)
    (index,) = lance.dataset(str(tmp_path / "t")).describe_indices()
    assert word in str(index.index_type).lower()
    assert [list(segment.fragment_ids) for segment in index.segments] == [[0]]


def test_branches_are_listed_with_parent_and_identifier(tmp_path: Path) -> None:
    _table(tmp_path / "t", "a")
    tables = Tables(parse_location(tmp_path))
    tables.fork(TableVersion("t", None, 1), "one")
    tables.fork(TableVersion("t", "one", 1), "two/x")
    listed = tables.branches("t")
    assert sorted(listed) == ["one", "two/x"]
    assert (listed["one"]["parent_branch"], listed["two/x"]["parent_branch"]) == (None, "one")
    assert listed["one"]["branch_identifier"] != listed["two/x"]["branch_identifier"]


def test_a_local_create_is_exclusive_and_a_local_put_leaves_no_part_behind(tmp_path: Path) -> None:
    store = LocalStore(str(tmp_path))
    obstore.put(store, "claim", b"first", mode="create")
    with pytest.raises(AlreadyExistsError):
        obstore.put(store, "claim", b"second", mode="create")
    obstore.put(store, "claim", b"third")
    assert (tmp_path / "claim").read_bytes() == b"third"
    assert [path.name for path in tmp_path.iterdir()] == ["claim"]


def test_blob_columns_keep_null_and_empty_apart_and_large_values_in_files_of_their_own(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("id", pa.string()), lance.blob_field("b")])
    values = [b"x", None, b"", b"y" * 200_000]
    table = lance.write_dataset(
        pa.table([pa.array(list("abcd")), lance.blob_array(values)], schema=schema),
        str(tmp_path / "t"),
        data_storage_version="2.2",
    )
    assert table.scanner(blob_handling="all_binary").to_table().column("b").to_pylist() == values
    data_file = next((tmp_path / "t" / "data").glob("*.lance"))
    assert [path.stat().st_size for path in data_file.with_suffix("").iterdir()] == [200_000]


def test_reading_a_transaction_leaves_the_handle_to_other_threads(tmp_path: Path) -> None:
    table = lance.write_dataset(pa.table({"x": [1]}), str(tmp_path / "t"))
    ended = threading.Event()

    def read() -> None:
        while not ended.is_set():
            maker(table, 1)

    thread = threading.Thread(target=read)
    thread.start()
    try:
        assert {len(table.schema) for _ in range(2_000)} == {1}
    finally:
        ended.set()
        thread.join()
