"""Random operations on a real graph against the model in memory, see the machines of this folder."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from tests.model.merging import MergingMachine
from tests.model.upkeep import UpkeepMachine
from tests.model.verbs import VerbMachine


def play(root: str, *, examples: int, steps: int, crashes: int, kind: type[MergingMachine] = VerbMachine) -> int:
    """Run the machine on a new graph per example; returns how many graphs it made."""
    numbers = itertools.count()
    made: list[str] = []

    def make_root() -> str:
        made.append(f"{root}/graph-{next(numbers)}")
        return made[-1]

    class Machine(kind):  # type: ignore[valid-type, misc]
        def __init__(self) -> None:
            super().__init__(make_root, crashes)

    run_state_machine_as_test(Machine, settings=settings(max_examples=examples, stateful_step_count=steps))
    return len(made)


def test_a_graph_behaves_like_the_model(tmp_path: Path) -> None:
    assert play(str(tmp_path), examples=12, steps=15, crashes=1) >= 12


@pytest.mark.s3
def test_a_graph_on_an_object_store_behaves_like_the_model(s3_root: str) -> None:
    assert play(s3_root, examples=1, steps=10, crashes=1) >= 1


def test_a_graph_that_is_optimized_cleaned_up_tagged_and_cloned_behaves_like_the_model(tmp_path: Path) -> None:
    assert play(str(tmp_path), examples=8, steps=15, crashes=1, kind=UpkeepMachine) >= 8


@pytest.mark.s3
@pytest.mark.torture
def test_a_graph_on_an_object_store_under_upkeep_behaves_like_the_model(s3_root: str) -> None:
    assert play(s3_root, examples=10, steps=20, crashes=1, kind=UpkeepMachine) >= 10


@pytest.mark.torture
def test_a_graph_under_upkeep_behaves_like_the_model_for_long(tmp_path: Path) -> None:
    assert play(str(tmp_path), examples=200, steps=40, crashes=2, kind=UpkeepMachine) >= 200


@pytest.mark.torture
def test_a_graph_behaves_like_the_model_for_long(tmp_path: Path) -> None:
    assert play(str(tmp_path), examples=300, steps=40, crashes=2) >= 300


@pytest.mark.torture
@pytest.mark.s3
def test_a_graph_on_an_object_store_behaves_like_the_model_for_long(s3_root: str) -> None:
    assert play(s3_root, examples=20, steps=20, crashes=1) >= 20
