"""At most one process at a time commits to a branch, and nobody waits for ever."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.errors import LockTimeout
from omnigraph.storage.objects.locks import CONTROL, Sections
from omnigraph.storage.objects.object_store import ObjectStore, parse_location
from tests.support.small_graphs import people, persons, start_child

HOLD = (
    "import sys\n"
    "from pathlib import Path\n"
    "from omnigraph.storage.objects.object_store import parse_location\n"
    "from omnigraph.storage.objects.object_store import ObjectStore\n"
    "from omnigraph.storage.objects.locks import Sections\n"
    "place = parse_location(sys.argv[1])\n"
    "with Sections(place, ObjectStore(place)).hold(sys.argv[2]):\n"
    "    print('held', flush=True)\n"
    "    sys.stdin.read()\n"
)


def _sections(root: Path) -> Sections:
    root.mkdir(exist_ok=True)
    location = parse_location(root)
    return Sections(location, ObjectStore(location))


def test_a_section_held_by_another_process_times_out_with_a_typed_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = people(tmp_path / "g")
    graph.branches.create("side")
    monkeypatch.setenv("OMNIGRAPH_LOCK_TIMEOUT", "0.1")
    holder = start_child(HOLD, str(tmp_path / "g"), "main")
    with holder:
        try:
            assert holder.stdout is not None
            assert holder.stdout.readline() == "held\n"
            with pytest.raises(LockTimeout, match="OMNIGRAPH_LOCK_TIMEOUT") as caught:
                graph.write([persons("a")])
            assert caught.value.details["branch"] == "main"
            assert caught.value.details.get("pid") in (holder.pid, None), "where the kernel tells, it is named"
            assert graph.write([persons("a")], branch="side").commit, "another branch is free"
            assert graph.snapshot().count("Person") == 0, "readers never wait"
        finally:
            holder.kill()
    assert graph.write([persons("a")]).commit, "the kernel frees the lock of a dead process"


def test_threads_of_one_process_wait_for_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = _sections(tmp_path / "g"), _sections(tmp_path / "g")
    monkeypatch.setenv("OMNIGRAPH_LOCK_TIMEOUT", "0.05")
    with one.hold("b"), one.hold("c"), one.hold(CONTROL), pytest.raises(LockTimeout), other.hold("b"):
        raise AssertionError("held twice")
    with other.hold("b") as fence:
        assert fence.epoch == 0
        assert fence.is_held()


def test_a_waiting_writer_goes_on_when_the_holder_ends(tmp_path: Path) -> None:
    sections = _sections(tmp_path / "g")
    order: list[str] = []

    def second() -> None:
        with sections.hold("b"):
            order.append("second")

    thread = threading.Thread(target=second)
    with sections.hold("b"):
        thread.start()
        order.append("first")
    thread.join(10)
    assert order == ["first", "second"]


def test_an_exception_inside_frees_the_section(tmp_path: Path) -> None:
    sections = _sections(tmp_path / "g")
    with pytest.raises(RuntimeError), sections.hold("b"):
        raise RuntimeError
    with sections.hold("b"):
        pass


def test_names_with_slashes_and_the_control_section_do_not_share_a_lock(tmp_path: Path) -> None:
    sections = _sections(tmp_path / "g")
    with sections.hold("a/b"), sections.hold("a"), sections.hold("control"), sections.hold("branch.a"):
        files = {path.name for path in (tmp_path / "g" / "__recovery").iterdir()}
    assert len(files) == 4
    assert not [name for name in files if name.endswith(".json")]


def test_lock_files_are_no_recovery_records(tmp_path: Path) -> None:
    graph = people(tmp_path / "g", "a")
    graph.branches.create("control")
    graph.write([persons("b")], branch="control")
    assert graph.recover() == 0
    assert og.open(tmp_path / "g").snapshot("control").count("Person") == 2


def test_many_processes_write_one_branch_and_every_row_is_there(tmp_path: Path) -> None:
    people(tmp_path / "g").close()
    code = (
        "import sys\n"
        "import omnigraph as og\n"
        "from tests.support.small_graphs import persons\n"
        "with og.open(sys.argv[1]) as graph:\n"
        "    for number in range(5):\n"
        "        graph.write([persons(f'{sys.argv[2]}-{number}')])\n"
    )
    children = [start_child(code, str(tmp_path / "g"), str(number)) for number in range(3)]
    for child in children:
        _, errors = child.communicate(timeout=120)
        assert child.returncode == 0, errors
    with og.open(tmp_path / "g") as graph:
        chain = graph.commits.list()
        assert graph.snapshot().count("Person") == 15
        assert len(chain) == 16
