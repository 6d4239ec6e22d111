"""The few operations on control objects mean the same on a disk and on S3."""

from __future__ import annotations

from pathlib import Path

import pytest

from omnigraph.storage.objects.object_store import ObjectStore, parse_location


@pytest.fixture(params=["local", pytest.param("s3", marks=pytest.mark.s3)])
def objects(request: pytest.FixtureRequest, tmp_path: Path) -> ObjectStore:
    if request.param == "local":
        (tmp_path / "g").mkdir()
        return ObjectStore(parse_location(tmp_path / "g"))
    return ObjectStore(parse_location(request.getfixturevalue("s3_root")))


def test_what_was_written_is_read(objects: ObjectStore) -> None:
    objects.write("a/b.json", b"one")
    objects.write("a/b.json", b"two")
    assert objects.read("a/b.json") == b"two"


def test_an_absent_object_is_none(objects: ObjectStore) -> None:
    objects.write("dir/x", b"1")
    assert objects.read("a") is None
    assert objects.read("dir") is None
    assert objects.read_versioned("dir/y") is None


def test_an_empty_object_is_not_an_absent_one(objects: ObjectStore) -> None:
    objects.write("empty", b"")
    assert objects.read("empty") == b""


def test_create_wins_once(objects: ObjectStore) -> None:
    assert objects.create("claim", b"mine") is not None
    assert objects.create("claim", b"yours") is None
    assert objects.read("claim") == b"mine"


def test_delete_removes_and_an_absent_object_is_success(objects: ObjectStore) -> None:
    objects.write("a/b", b"1")
    objects.delete("a/b")
    objects.delete("a/b")
    objects.delete("never/there")
    assert objects.read("a/b") is None


def test_names_are_the_files_of_one_directory_in_order(objects: ObjectStore) -> None:
    for path in ("d/b.json", "d/a.json", "d/deep/c.json", "dd/x.json", "d/.hidden"):
        objects.write(path, b"1")
    assert objects.names("d") == [".hidden", "a.json", "b.json"]
    assert objects.names("nothing") == []
    assert objects.names("d/deep") == ["c.json"]


def test_any_below_looks_at_every_depth_and_respects_the_boundary(objects: ObjectStore) -> None:
    objects.write("tree/a/b/c", b"1")
    assert objects.any_below("tree")
    assert objects.any_below("tree/a")
    assert not objects.any_below("tre")
    assert not objects.any_below("nothing")


def test_delete_below_removes_exactly_one_directory(objects: ObjectStore) -> None:
    for path in ("tree/x/1", "tree/x/y/2", "tree/xx/3", "tree/x.json"):
        objects.write(path, b"1")
    objects.delete_below("tree/x")
    objects.delete_below("tree/nothing")
    assert not objects.any_below("tree/x")
    assert objects.read("tree/xx/3") == objects.read("tree/x.json") == b"1"


def test_a_missing_root_is_empty(tmp_path: Path) -> None:
    objects = ObjectStore(parse_location(tmp_path / "nowhere"))
    assert objects.read("a") is None
    assert objects.names("a") == []
    assert not objects.any_below("a")
    assert not (tmp_path / "nowhere").exists(), "looking made the directory"


@pytest.mark.s3
def test_replace_needs_the_tag_that_was_seen(s3_root: str) -> None:
    objects = ObjectStore(parse_location(s3_root))
    first = objects.create("lease", b"1")
    assert first
    second = objects.replace("lease", b"2", first)
    assert second
    assert objects.replace("lease", b"3", first) is None
    assert objects.read_versioned("lease") == (b"2", second)
    objects.delete("lease")
    assert objects.replace("lease", b"4", second) is None
    assert objects.read("lease") is None


def test_strange_names_stay_inside_the_root(tmp_path: Path) -> None:
    root = tmp_path / "g"
    root.mkdir()
    objects = ObjectStore(parse_location(root))
    for name in ("a b", "ü", "a%2Fb", "a#b", "a'b"):
        objects.write(f"d/{name}", name.encode())
        assert objects.read(f"d/{name}") == name.encode()
    assert {path.name for path in (root / "d").iterdir()} == set(objects.names("d"))
    assert [path.name for path in tmp_path.iterdir()] == ["g"]
