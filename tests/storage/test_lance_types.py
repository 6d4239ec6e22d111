"""The installed Lance has every member that our types name, with every parameter that they name."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from lance.fragment import LanceFragment

from omnigraph.storage.tables.lance_types import Fragment, LanceTable, TableScan

PAIRS = [(LanceTable, lance.LanceDataset), (Fragment, LanceFragment), (TableScan, lance.LanceScanner)]
MEMBERS = [
    pytest.param(ours, theirs, name, id=f"{ours.__name__}.{name}")
    for ours, theirs in PAIRS
    for name in sorted(vars(ours))
    if inspect.isfunction(vars(ours)[name]) or isinstance(vars(ours)[name], property)
    if name not in ("__init__", "__subclasshook__", "_no_init_or_replace_init", "_proto_hook")
]


def test_the_types_name_members_of_lance() -> None:
    assert len(MEMBERS) > 35


@pytest.fixture(scope="module")
def objects(tmp_path_factory: pytest.TempPathFactory) -> dict[type, Any]:
    place: Path = tmp_path_factory.mktemp("lance") / "t"
    table = lance.write_dataset(pa.table({"id": ["a"]}), str(place))
    return {LanceTable: table, Fragment: table.get_fragments()[0], TableScan: table.scanner()}


@pytest.mark.parametrize(("ours", "theirs", "name"), MEMBERS)
def test_lance_has_the_member(objects: dict[type, Any], ours: type, theirs: type, name: str) -> None:
    wanted = vars(ours)[name]
    if isinstance(wanted, property):
        assert not callable(getattr(objects[ours], name))
        return
    found = getattr(theirs, name)
    given = inspect.signature(wanted).parameters
    taken = inspect.signature(found).parameters
    takes_more = any(each.kind is inspect.Parameter.VAR_KEYWORD for each in taken.values())
    for parameter in list(given.values())[1:]:
        if parameter.kind is not inspect.Parameter.VAR_KEYWORD:
            assert parameter.name in taken or takes_more, f"{name} takes no {parameter.name}"
    required = [each.name for each in list(taken.values())[1:] if _is_required(each)]
    assert [each for each in required if each not in given] == []
    assert _positional(given)[: len(required)] == required
    places = _positional(taken)
    assert [each for each in _positional(given) if each in places] == places[: len(_positional(given))]


def _is_required(parameter: inspect.Parameter) -> bool:
    kinds = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    return parameter.default is inspect.Parameter.empty and parameter.kind not in kinds


def _positional(parameters: Any) -> list[str]:
    """Names of the parameters that can be given by their place, without ``self``."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [each.name for each in list(parameters.values())[1:] if each.kind in kinds]
