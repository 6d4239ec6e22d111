"""What the front door shows: every type that a user can receive or pass, each with a docstring, and nothing else.

The types are found by walking the annotations of the public functions, methods, properties and fields from `init` and
`open` on. What stays inside although a public class names it is listed in `INTERNAL`, with the reason.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import importlib
import inspect
import subprocess
import sys
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import omnigraph
from omnigraph import Graph, errors
from omnigraph.errors import OmniGraphError

#: Attributes of public classes that are for this package itself.
INTERNAL = {
    "Graph.internals": "storage and schemas, for the other engine",
    "Explanation.plan": "the plan as the engine holds it; `str()` and `to_dict()` show it",
    "PlanLine.step": "the same",
    "Diff.changes_of": "changes of one table in the form of the storage",
    "ChangeBatch.rows": "the same",
    "Commit.parts": "which rows of a version belong to a commit that was published with others",
    "Pin.derived": "the same",
    "RemoteDiff.changes_of": "not offered",
    "RemoteCommitChanges.changes_of": "not offered",
}
#: Types of arguments that are a choice of words.
CHOICES = {
    "AbsentColumns",
    "CommitKind",
    "Engine",
    "ExportFormat",
    "LoadFormat",
    "LoadMode",
    "OnBadRow",
    "OpenMode",
    "TooFineTimes",
}

#: Public names that are no types reached from annotations: functions, the module, the root of errors, type aliases.
FUNCTIONS = {"new_commit_id", "embed_file", "init", "open", "clone", "backup", "relocate"}
BESIDES = {*FUNCTIONS, "errors", "OmniGraphError", "ProgressListener", "SchemaWarning", *CHOICES}


def reachable(*functions: Callable[..., Any]) -> dict[type, str]:
    """Every class of ours that the annotations of the functions lead to, and where it was met first."""
    found: dict[type, str] = {}
    waiting = [(name, hint) for function in functions for name, hint in _hints(function).items()]
    while waiting:
        where, hint = waiting.pop(0)
        for kind in _classes_in(hint):
            if kind not in found and kind.__module__.partition(".")[0] in ("omnigraph", __name__.partition(".")[0]):
                found[kind] = where
                waiting += _members(kind)
    return found


def _members(kind: type) -> Iterator[tuple[str, Any]]:
    """Annotations of the fields, properties and methods of a class that are public."""
    for owner in kind.__mro__:
        if owner.__module__.partition(".")[0] not in ("omnigraph", __name__.partition(".")[0]):
            continue
        for name, hint in typing.get_type_hints(owner, _names(owner.__module__)).items():
            if _is_public(owner, name):
                yield f"{owner.__name__}.{name}", hint
        for name, member in vars(owner).items():
            function = _function(member)
            if function is not None and _is_public(owner, name):
                yield from ((f"{owner.__name__}.{name}", hint) for hint in _hints(function).values())


def _is_public(owner: type, name: str) -> bool:
    return not name.startswith("_") and f"{owner.__name__}.{name}" not in INTERNAL


def _function(member: Any) -> Callable[..., Any] | None:
    if isinstance(member, property):
        return member.fget
    if isinstance(member, functools.cached_property):
        return typing.cast("Callable[..., Any]", member.func)
    inner = getattr(member, "__func__", member)
    return inner if inspect.isfunction(inner) else None


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    return typing.get_type_hints(function, _names(function.__module__))


@functools.cache
def _names(module: str) -> dict[str, Any]:
    """The names of a module, with those that it imports for type checkers only."""
    loaded = importlib.import_module(module)
    names = dict(vars(loaded))
    for node in ast.walk(ast.parse(inspect.getsource(loaded))):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            for each in node.body:
                if isinstance(each, ast.ImportFrom):
                    found = importlib.import_module(each.module or "")
                    names |= {alias.asname or alias.name: getattr(found, alias.name) for alias in each.names}
                elif isinstance(each, ast.Import):
                    names |= {alias.asname or alias.name: importlib.import_module(alias.name) for alias in each.names}
    return names


def _classes_in(hint: Any) -> Iterator[type]:
    """The classes of an annotation: ``dict[str, Commit | None]`` holds dict, str, Commit and None."""
    if isinstance(hint, list):
        for each in hint:
            yield from _classes_in(each)
    elif isinstance(hint, type) and typing.get_origin(hint) is None:
        yield hint
    else:
        for each in typing.get_args(hint):
            yield from _classes_in(each)


def has_docstring(kind: type) -> bool:
    """Whether a class says what it is; the signature that a dataclass writes by itself does not count."""
    text = vars(kind).get("__doc__") or ""
    return bool(text.strip()) and not (dataclasses.is_dataclass(kind) and text.startswith(f"{kind.__name__}("))


def faults(kinds: dict[type, str], exported: set[str]) -> list[str]:
    hidden = [
        f"{kind.__name__} (of {where}) is not exported"
        for kind, where in kinds.items()
        if kind.__name__ not in exported and not issubclass(kind, OmniGraphError)
    ]
    silent = [
        f"{kind.__name__} (of {where}) has no docstring" for kind, where in kinds.items() if not has_docstring(kind)
    ]
    return hidden + silent


REACHED = reachable(*(getattr(omnigraph, name) for name in sorted(FUNCTIONS)))
EXPORTED = set(omnigraph.__all__)


def test_every_type_that_a_user_meets_is_exported_and_documented() -> None:
    assert Graph in REACHED
    assert len(REACHED) > 50
    assert faults(REACHED, EXPORTED) == []


def test_nothing_else_is_exported() -> None:
    assert {kind.__name__ for kind in REACHED} | BESIDES >= EXPORTED


def test_every_exported_name_is_there_under_its_own_name() -> None:
    for name in EXPORTED - BESIDES:
        assert getattr(omnigraph, name).__name__ == name
    assert omnigraph.errors is errors


def test_what_is_internal_exists() -> None:
    """An entry for an attribute that was renamed would hide the next one of its name."""
    named = {
        f"{kind.__name__}.{name}"
        for kind in REACHED
        for name in [*vars(kind), *typing.get_type_hints(kind, _names(kind.__module__))]
    }
    assert set(INTERNAL) <= named


def test_type_checkers_are_told_the_same_names() -> None:
    tree = ast.parse(Path(omnigraph.__file__).read_text("utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    told = {
        (each.module, alias.name) for each in block.body if isinstance(each, ast.ImportFrom) for alias in each.names
    }
    homes = {(module, name) for module, names in omnigraph._HOMES.items() for name in names.split()}
    homes = homes - {("omnigraph.client.open_anywhere", "open")} | {
        ("omnigraph.client.open_anywhere", "open_anywhere"),
        ("omnigraph", "aio"),
        ("omnigraph", "errors"),
        ("omnigraph", "spark"),
    }
    assert told == homes


def test_names_are_listed_before_they_are_loaded() -> None:
    code = "import omnigraph, sys; print(*dir(omnigraph)); print(sum(n.startswith('omnigraph.') for n in sys.modules))"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60).stdout
    listed, loaded = said.splitlines()
    assert {name for name in listed.split() if not name.startswith("__")} == EXPORTED | {"aio", "spark"}
    assert loaded == "0"


def test_a_name_that_does_not_exist_is_an_attribute_error() -> None:
    assert not hasattr(omnigraph, "nothing_of_this_name")


def test_nothing_public_stands_in_the_front_door_by_accident() -> None:
    shown = {
        name
        for name, value in vars(omnigraph).items()
        # Python itself adds every imported submodule to its package.
        if not name.startswith("_") and not (isinstance(value, ModuleType) and value.__name__.startswith("omnigraph."))
    }
    assert shown <= EXPORTED


@dataclasses.dataclass
class Silent:
    names: list[str]


class Planted:
    """A public class that leads to one without a docstring."""

    @property
    def found(self) -> dict[str, Silent | None]:
        """What was found."""
        return {}

    def _inside(self) -> Graph:
        raise NotImplementedError


def give() -> Planted:
    """Planted for the test below."""
    return Planted()


def test_a_planted_type_is_found() -> None:
    kinds = reachable(give)
    assert set(kinds) == {Planted, Silent}
    assert faults(kinds, {"Planted"}) == [
        "Silent (of Planted.found) is not exported",
        "Silent (of Planted.found) has no docstring",
    ]
