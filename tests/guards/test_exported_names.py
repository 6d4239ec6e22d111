"""The front door shows these names and no others."""

from __future__ import annotations

from types import ModuleType

import omnigraph

EXPECTED = ("Graph", "OmniGraphError", "Result", "Snapshot", "errors", "init", "open")


def test_the_front_door_shows_exactly_the_expected_names() -> None:
    assert tuple(sorted(omnigraph.__all__)) == EXPECTED


def test_every_expected_name_is_there() -> None:
    assert [name for name in EXPECTED if not hasattr(omnigraph, name)] == []


def test_names_are_listed_before_they_are_loaded() -> None:
    assert set(EXPECTED) <= set(dir(omnigraph))


def test_a_name_that_does_not_exist_is_an_attribute_error() -> None:
    assert not hasattr(omnigraph, "nothing_of_this_name")


def test_nothing_public_stands_in_the_front_door_by_accident() -> None:
    shown = {
        name
        for name, value in vars(omnigraph).items()
        # Python itself adds every imported submodule to its package.
        if not name.startswith("_") and not (isinstance(value, ModuleType) and value.__name__.startswith("omnigraph."))
    }
    assert shown <= set(EXPECTED)
