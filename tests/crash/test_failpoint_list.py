"""The list of failpoints is closed: each is reached by the source and used by a crash test, and no other name is."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator

import pytest

from omnigraph import failpoints
from omnigraph.errors import InputError, StoreUnavailable
from omnigraph.storage.commit.sidecar import WriterKind
from tests.support.kill_runner import CHILD_SECONDS
from tests.support.source_tree import Source, python_sources
from tests.support.waiting import wait_until


def _reached(source: Source) -> Iterator[object]:
    """The argument of every call of ``failpoints.reach``; None when it is not a plain text."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "failpoints.reach":
            argument = node.args[0]
            yield argument.value if isinstance(argument, ast.Constant) else None


def _texts(source: Source) -> Iterator[str]:
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def test_every_name_is_reached_by_the_source_and_every_reached_name_is_listed() -> None:
    reached = {name for source in python_sources("src") for name in _reached(source)}
    assert reached == failpoints.NAMES


def test_every_name_is_used_by_a_crash_test() -> None:
    texts = [
        text
        for source in python_sources("tests/crash")
        if not source.path.endswith("test_failpoint_list.py")
        for text in _texts(source)
    ]
    unused = {name for name in failpoints.NAMES if not any(name in text for text in texts)}
    assert unused == set()


@pytest.mark.parametrize(
    "text",
    [
        "write.after_lunch=kill",
        "write.after_stage=explode",
        "write.after_stage",
        "=kill",
        "write.after_stage=",
        "write.after_table_commit[Lunch]=kill",
        "write.after_table_commit[Load=kill",
    ],
)
def test_a_misspelt_setting_is_refused_and_arms_nothing(text: str) -> None:
    with pytest.raises(InputError):
        failpoints.arm(text)
    failpoints.reach("write.after_stage")


def test_reaching_a_name_that_is_not_in_the_list_is_an_error_once_anything_is_armed() -> None:
    failpoints.arm("write.after_stage=raise")
    with pytest.raises(InputError):
        failpoints.reach("write.after_lunch")


def test_a_failpoint_strikes_once_and_at_the_time_that_was_asked_for() -> None:
    failpoints.arm("write.after_stage=raise@2;publish.lost_ack=lose")
    failpoints.reach("write.after_stage")
    with pytest.raises(StoreUnavailable):
        failpoints.reach("write.after_stage")
    failpoints.reach("write.after_stage")
    with pytest.raises(ConnectionError):
        failpoints.reach("publish.lost_ack")


def test_a_point_can_be_armed_for_one_kind_of_writer() -> None:
    assert set(WriterKind) == failpoints.KINDS
    failpoints.arm("write.after_table_commit[Load]=raise@2")
    failpoints.reach("write.after_table_commit", WriterKind.MUTATION)
    failpoints.reach("write.after_table_commit", WriterKind.LOAD)
    failpoints.reach("write.after_table_commit", WriterKind.MUTATION)
    with pytest.raises(StoreUnavailable, match=r"write.after_table_commit\[Load\]"):
        failpoints.reach("write.after_table_commit", WriterKind.LOAD)


def test_a_pause_holds_until_it_is_released(tmp_path: os.PathLike[str]) -> None:
    place = os.path.join(tmp_path, "meeting")
    with open(f"{place}.release", "w", encoding="utf-8"):
        failpoints.arm(f"write.after_stage=pause:{place}")
    failpoints.reach("write.after_stage")
    wait_until(lambda: os.path.exists(f"{place}.reached"), timeout=CHILD_SECONDS, what="the mark of the pause")
    assert os.path.exists(f"{place}.reached")
