"""A store that is full, read-only, forbidden, absent or damaged: one typed error in bounded time, nothing broken."""

from __future__ import annotations

import os
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.errors import (
    CorruptGraph,
    GraphNotFound,
    OmniGraphError,
    RecoveryRequired,
    SchemaFilesDisagree,
    StorageError,
    StoreUnavailable,
    UnreadableSidecar,
)
from tests.support.moto_server import moto_server
from tests.support.s3_server import S3Server
from tests.support.small_graphs import ids_of, listing, people, persons, run_child

BOUND_SECONDS = 30.0


@pytest.fixture
def small_disk() -> Iterator[Path]:
    """A file system of three megabytes of its own."""
    with tempfile.TemporaryDirectory() as place:
        mounted = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=3m,mode=777", "tmpfs", place], capture_output=True, check=False
        )
        if mounted.returncode != 0:
            pytest.skip(f"`mount -t tmpfs` is not allowed here: {mounted.stderr.decode().strip()}")
        try:
            yield Path(place)
        finally:
            subprocess.run(["umount", "-l", place], check=True)


def _fill(disk: Path, leave: int) -> Path:
    """Take all space but some bytes."""
    filler = disk / "filler"
    space = os.statvfs(disk)
    with filler.open("wb") as file:
        file.write(b"\0" * max(0, space.f_bavail * space.f_frsize - leave))
    return filler


def _remount(disk: Path, option: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{option}", str(disk)], check=True)


@pytest.mark.parametrize("leave", [0, 4_096, 12_288, 20_480, 28_672, 36_864, 45_056, 57_344])
def test_a_full_disk_fails_the_write_and_nothing_else(small_disk: Path, leave: int) -> None:
    root = small_disk / "g"
    with people(root, "a") as graph:
        filler = _fill(small_disk, leave)
        acknowledged = set()
        failed = None
        for number in range(8):
            try:
                graph.write([persons(f"p{number}")])
                acknowledged.add(f"p{number}")
            except OmniGraphError as error:
                failed = error
                break
        assert isinstance(failed, (StorageError, RecoveryRequired)), failed
        assert "full" in str(failed) or "RecoveryRequired" in type(failed).__name__, failed
        with og.open(root, mode="ro") as reader:
            assert ids_of(reader, "Person") >= {"a"} | acknowledged, "the disk took something back"
        filler.unlink()
        graph.write([persons("z")])
        seen = ids_of(graph, "Person")
        assert {"a", "z"} | acknowledged <= seen <= {"a", "z", f"p{len(acknowledged)}"} | acknowledged
    with og.open(root) as graph:
        assert ids_of(graph, "Person") == seen
        assert graph.recover() == 0


def test_an_init_on_a_full_disk_leaves_nothing(small_disk: Path) -> None:
    root = small_disk / "g"
    filler = _fill(small_disk, 24_576)
    with pytest.raises(StorageError, match="full"):
        people(root)
    filler.unlink()
    with people(root, "a") as graph:
        assert ids_of(graph, "Person") == {"a"}


def test_a_read_only_file_system_is_readable_and_refuses_writes(small_disk: Path) -> None:
    root = small_disk / "g"
    people(root, "a").close()
    _remount(small_disk, "ro")
    try:
        with og.open(root, mode="ro") as graph:
            assert ids_of(graph, "Person") == {"a"}
        with pytest.raises(StoreUnavailable, match="read-only"), og.open(root) as graph:
            graph.write([persons("b")])
        with pytest.raises(StoreUnavailable, match="read-only"):
            people(small_disk / "other")
    finally:
        _remount(small_disk, "rw")
    with og.open(root) as graph:
        graph.write([persons("b")])
        assert ids_of(graph, "Person") == {"a", "b"}


def test_an_open_graph_survives_its_disk_becoming_read_only(small_disk: Path) -> None:
    with people(small_disk / "g", "a") as graph:
        _remount(small_disk, "ro")
        try:
            for attempt in (
                lambda: graph.write([persons("b")]),
                lambda: graph.branches.create("x"),
                lambda: graph.ensure_indices(),
            ):
                with pytest.raises(StoreUnavailable, match="read-only"):
                    attempt()
            assert ids_of(graph, "Person") == {"a"}
        finally:
            _remount(small_disk, "rw")
        graph.write([persons("b")])
        assert ids_of(graph, "Person") == {"a", "b"}


AS_NOBODY = """
import os, sys, tempfile
import omnigraph as og
from tests.support.small_graphs import people, persons
with tempfile.TemporaryDirectory() as warm:  # imports that come late must not need the rights of root
    people(warm + "/g").close()
    with og.open(warm + "/g") as graph:  # closed, so that no copy of a commit comes late
        graph.write([persons("b")])
    og.open(warm + "/g", mode="ro").snapshot().arrow("Person")
os.setgroups([]); os.setgid(65534); os.setuid(65534)
with og.open(sys.argv[1], mode="ro") as graph:
    print(sorted(graph.snapshot().arrow("Person").column("id").to_pylist()))
for attempt in (
    lambda: og.open(sys.argv[1]).write([persons("b")]),
    lambda: people(sys.argv[1] + "/inner"),
    lambda: og.open(sys.argv[1] + "/secret", mode="ro"),
):
    try:
        attempt()
        print("it worked")
    except og.OmniGraphError as error:
        print(error.code, "|", error)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_without_permission_reading_works_and_writing_says_so(tmp_path: Path) -> None:
    with tempfile.TemporaryDirectory() as place:  # tmp_path is closed to other users
        os.chmod(place, 0o755)
        root = Path(place, "g")
        people(root, "a").close()
        (root / "secret").mkdir(mode=0o700)
        before = listing(root)
        child = run_child(AS_NOBODY, str(root))
        assert child.returncode == 0, child.stderr
        lines = child.stdout.splitlines()
        assert lines[0] == "['a']"
        assert [line.partition(" ")[0] for line in lines[1:]] == ["storage.unavailable"] * 3, lines
        assert all("permission was denied" in line for line in lines[1:]), lines
        assert listing(root) == before


def _within_bound(call: Callable[[], object]) -> OmniGraphError:
    started = time.monotonic()
    with pytest.raises(OmniGraphError) as caught:
        call()
    assert time.monotonic() - started < BOUND_SECONDS
    return caught.value


@pytest.mark.s3
def test_a_missing_bucket_is_named(s3: S3Server) -> None:
    for call in (
        lambda: og.open("s3://no-such-bucket-here/g"),
        lambda: og.open("s3://no-such-bucket-here/g", mode="ro"),
        lambda: people("s3://no-such-bucket-here/g"),
    ):
        error = _within_bound(call)
        assert isinstance(error, StoreUnavailable), error
        assert "the bucket does not exist" in str(error)


@pytest.mark.s3
def test_an_empty_prefix_is_no_graph(s3_root: str) -> None:
    assert isinstance(_within_bound(lambda: og.open(f"{s3_root}/nothing")), GraphNotFound)


def _closed_port() -> int:
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.mark.slow
def test_an_endpoint_that_does_not_answer_is_a_typed_error_in_bounded_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{_closed_port()}")
    monkeypatch.delenv("AWS_ENDPOINT_URL_S3", raising=False)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION"):
        monkeypatch.setenv(name, "test")
    for call in (lambda: og.open("s3://bucket/g", mode="ro"), lambda: people("s3://bucket/g")):
        error = _within_bound(call)
        assert isinstance(error, StoreUnavailable), error
        assert "does not answer" in str(error), error
        assert "test" not in str(error).replace("bucket", ""), "a credential is in the message"


@pytest.mark.s3
@pytest.mark.torture  # the retries of the storage library take their time
def test_an_endpoint_that_goes_away_fails_the_next_write_in_bounded_time() -> None:
    with moto_server("short-lived") as server:
        graph = people(f"{server.url}/g", "a")
        graph._store.mirror.flush()
    with pytest.MonkeyPatch.context() as patch:
        for name, value in server.env().items():
            patch.setenv(name, value)
        error = _within_bound(lambda: graph.write([persons("b")]))
        assert isinstance(error, StoreUnavailable), error
        assert isinstance(_within_bound(lambda: graph.snapshot()), StoreUnavailable)


def _newest_version_file(table: Path) -> Path:
    return max((table / "_versions").glob("*.manifest"), key=lambda path: -int(path.stem))


@pytest.mark.parametrize(
    "content", [b"", b"{", b'{"schema_version": 1}', b"\xff\xfe", b'{"schema_version": 99}', b"[]"]
)
def test_a_damaged_recovery_record_stops_writers_and_is_kept(tmp_path: Path, content: bytes) -> None:
    root = tmp_path / "g"
    graph = people(root, "a")
    record = root / "__recovery" / "01JZ8V6N3T5Y7Q2K4M9X0B1C2D.json"
    record.write_bytes(content)
    for call in (lambda: og.open(root), lambda: graph.write([persons("b")]), lambda: graph.recover()):
        with pytest.raises(UnreadableSidecar, match="01JZ8V6N3T5Y7Q2K4M9X0B1C2D"):
            call()
    with og.open(root, mode="ro") as reader:
        assert ids_of(reader, "Person") == {"a"}
    assert record.read_bytes() == content
    record.unlink()
    graph.write([persons("b")])
    assert ids_of(graph, "Person") == {"a", "b"}


def test_a_record_that_was_cut_off_is_refused(tmp_path: Path) -> None:
    root = tmp_path / "g"
    people(root, "a").close()
    code = (
        "import sys, omnigraph as og\nfrom tests.support.small_graphs import persons\n"
        "og.open(sys.argv[1]).write([persons('b')])\n"
    )
    run_child(code, str(root), env={"OMNIGRAPH_FAILPOINTS": "write.after_all_table_commits=kill"})
    (record,) = (root / "__recovery").glob("*.json")
    whole = record.read_bytes()
    for length in (len(whole) - 1, len(whole) // 2, 1):
        record.write_bytes(whole[:length])
        with pytest.raises(UnreadableSidecar):
            og.open(root)
    record.write_bytes(whole)
    with og.open(root) as graph:
        assert ids_of(graph, "Person") == {"a", "b"}


def test_a_missing_table_directory_is_a_typed_error_and_other_tables_work(tmp_path: Path) -> None:
    root = tmp_path / "g"
    graph = people(root, "a")
    place = root / graph.snapshot().tables["node:Person"].location
    place.rename(tmp_path / "away")
    with og.open(root) as fresh:
        for call in (lambda: fresh.snapshot().arrow("Person"), lambda: fresh.write([persons("b")])):
            with pytest.raises(OmniGraphError):
                call()
        assert fresh.snapshot().arrow("Note").num_rows == 0
    (tmp_path / "away").rename(place)
    with og.open(root) as fresh:
        fresh.write([persons("b")])
        assert ids_of(fresh, "Person") == {"a", "b"}


@pytest.mark.parametrize("damage", ["missing", "empty", "cut"])
@pytest.mark.parametrize("what", ["data", "version"])
@pytest.mark.parametrize("table", ["__manifest", "nodes/40d76f1f51639ec0"])
def test_a_damaged_file_of_a_table_is_a_typed_error(tmp_path: Path, table: str, what: str, damage: str) -> None:
    root = tmp_path / "g"
    people(root, "a").close()
    place = root / table
    file = _newest_version_file(place) if what == "version" else max((place / "data").iterdir(), key=os.path.getmtime)
    content = file.read_bytes()
    if damage == "missing":
        file.unlink()
        (place / "_versions" / "latest_version_hint.json").unlink(missing_ok=True)
    else:
        file.write_bytes(b"" if damage == "empty" else content[: len(content) // 2])

    def use() -> None:
        with og.open(root) as graph:
            ids_of(graph, "Person")
            graph.write([persons("b")])
            assert ids_of(graph, "Person") == {"a", "b"}

    if (table, what, damage) == ("__manifest", "version", "missing"):
        with og.open(root, mode="ro") as graph:
            assert graph.snapshot().count("Person") == 0, "the previous version is the newest that is there"
    else:
        with pytest.raises(OmniGraphError) as caught:
            use()
        assert ".rs:" not in str(caught.value), "a source place of a library is in the message"
    file.write_bytes(content)
    use()


def test_a_damaged_entry_is_a_typed_error_of_that_branch(tmp_path: Path) -> None:
    root = tmp_path / "g"
    graph = people(root, "a")
    graph.branches.create("side")
    ref = root / "__branches" / "side.json"
    content = ref.read_bytes()
    for damaged in (b"", b"{}", b"[]", content[:20]):
        ref.write_bytes(damaged)
        with pytest.raises(CorruptGraph, match="side"):
            graph.snapshot("side")
        with pytest.raises(OmniGraphError):
            graph.branches.list()
        graph.write([persons("x", mode=og.write.change.Mode.MERGE)])
    ref.unlink()
    assert graph.snapshot("side").count("Person") == 1, "its Lance ref says that it is there, as for other software"


@pytest.mark.parametrize(
    ("file", "change"),
    [
        ("_schema.pg", lambda text: text + "node New { x: String }"),
        ("_schema.pg", lambda text: text.replace("Person", "Human")),
        ("_schema.pg", lambda text: "not a schema"),
        ("_schema.ir.json", lambda text: text.replace('"Person"', '"Human"')),
        ("_schema.ir.json", lambda text: text[:50]),
        ("__schema_state.json", lambda text: "[]"),
    ],
)
def test_a_schema_file_edited_by_hand_is_refused_and_named(
    tmp_path: Path, file: str, change: Callable[[str], str]
) -> None:
    root = tmp_path / "g"
    people(root, "a").close()
    path = root / file
    path.write_text(change(path.read_text()))
    for mode in ("rw", "ro"):
        with pytest.raises(SchemaFilesDisagree) as caught:
            og.open(root, mode=mode)
        assert caught.value.details["file"] == file


def test_schema_files_that_are_not_text_are_refused(tmp_path: Path) -> None:
    people(tmp_path / "g").close()
    (tmp_path / "g" / "_schema.pg").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(SchemaFilesDisagree, match=r"_schema\.pg"):
        og.open(tmp_path / "g")


def test_a_file_where_the_graph_should_be_is_a_typed_error(tmp_path: Path) -> None:
    (tmp_path / "g").write_text("a file")
    calls: list[tuple[Callable[[Path], og.Graph], Path]] = [
        (og.open, tmp_path / "g"),
        (people, tmp_path / "g"),
        (people, tmp_path / "g" / "h"),
    ]
    for call, place in calls:
        with pytest.raises(OmniGraphError):
            call(place)
    assert (tmp_path / "g").read_text() == "a file"
