"""errors.py keeps its promises: a right drawing, one stable code a class, and a safe trip between processes."""

from __future__ import annotations

import inspect
import pickle
import re
from typing import Any, get_type_hints

import pytest

from omnigraph import errors
from omnigraph.errors import OmniGraphError

_NODE = re.compile(r"^(?P<stem>(?:│   |    )*(?:├── |└── )?)(?P<name>[A-Z]\w+)(?:\s{2,}.*)?$")
_STEP = len("├── ")


def classes_of(module: Any) -> list[type[OmniGraphError]]:
    return [
        value
        for value in vars(module).values()
        if inspect.isclass(value)
        and issubclass(value, OmniGraphError)
        and value.__module__ in (module.__name__, OmniGraphError.__module__)
    ]


def parent_of(kind: type[OmniGraphError]) -> str | None:
    return next((base.__name__ for base in kind.__bases__ if issubclass(base, OmniGraphError)), None)


def drawn_tree(text: str) -> dict[str, str | None]:
    """Name → parent, as drawn. The drawing starts at the line that is just the name of the root."""
    lines = text.splitlines()
    start = lines.index("OmniGraphError")
    parents: dict[str, str | None] = {}
    path: list[str] = []
    for line in lines[start:]:
        if not line.strip():
            break
        node = _NODE.match(line)
        assert node, f"cannot read this line of the drawing: {line!r}"
        depth = len(node["stem"]) // _STEP
        assert depth <= len(path), f"{node['name']} hangs in the air"
        assert node["name"] not in parents, f"{node['name']} is drawn twice"
        parents[node["name"]] = path[depth - 1] if depth else None
        path[depth:] = [node["name"]]
    return parents


def real_tree(kinds: list[type[OmniGraphError]]) -> dict[str, str | None]:
    return {kind.__name__: parent_of(kind) for kind in kinds}


def code_faults(kinds: list[type[OmniGraphError]]) -> list[str]:
    """Classes without a code of their own, with a malformed one, or with one that is taken."""
    owner: dict[str, str] = {}
    faults = []
    for kind in kinds:
        code = vars(kind).get("code")
        if code is None:
            faults.append(f"{kind.__name__} has no code of its own")
        elif not re.fullmatch(r"[a-z][a-z_]*(\.[a-z][a-z_]*)?", code):
            faults.append(f"{kind.__name__} has the malformed code {code!r}")
        elif code in owner:
            faults.append(f"{kind.__name__} has the code of {owner[code]}")
        else:
            owner[code] = kind.__name__
    return faults


def sample(kind: type[OmniGraphError]) -> OmniGraphError:
    """An instance made through the class's own constructor, every parameter filled by its annotation."""
    values = {"str": "some text", "int": 7, "object": "a thing", "bool": True, "list": ["a"], "dict": {"a": 1}}
    hints = get_type_hints(kind.__init__)
    arguments: dict[str, Any] = {}
    for name, parameter in list(inspect.signature(kind.__init__).parameters.items())[1:]:
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            arguments["extra"] = ["detail"]
        elif parameter.kind is not inspect.Parameter.VAR_POSITIONAL:
            words = re.findall(r"\w+", getattr(hints[name], "__name__", "") + " " + str(hints[name]))
            arguments[name] = next((values[word] for word in words if word in values), "a thing")
    positional_only = [
        arguments.pop(name)
        for name, parameter in inspect.signature(kind.__init__).parameters.items()
        if parameter.kind is inspect.Parameter.POSITIONAL_ONLY and name in arguments
    ]
    return kind(*positional_only, **arguments)


def pickle_faults(error: OmniGraphError) -> list[str]:
    try:
        again = pickle.loads(pickle.dumps(error))
    except Exception as problem:
        return [f"{type(error).__name__} does not pickle: {problem!r}"]
    pairs = {
        "class": (type(again), type(error)),
        "text": (str(again), str(error)),
        "arguments": (again.args, error.args),
        "fields": (vars(again), vars(error)),
    }
    return [f"{type(error).__name__} comes back with another {what}" for what, (a, b) in pairs.items() if a != b]


KINDS = classes_of(errors)


def test_the_drawing_is_the_class_tree() -> None:
    assert drawn_tree(errors.__doc__ or "") == real_tree(KINDS)


def test_every_class_has_its_own_unique_code() -> None:
    assert code_faults(KINDS) == []


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_an_error_survives_the_trip_to_another_process(kind: type[OmniGraphError]) -> None:
    assert pickle_faults(sample(kind)) == []


class Lossy(OmniGraphError):
    """A class that forgets a field on the way, for the test below."""

    code = "lossy"

    def __init__(self, first: str, second: int) -> None:
        super().__init__(first)
        self.second = second


class NoCode(OmniGraphError):
    """A class that inherits its parent's code, for the test below."""


class SameCode(OmniGraphError):
    """A class with a code that is taken, for the test below."""

    code = Lossy.code


def test_planted_faults_are_found() -> None:
    assert pickle_faults(sample(Lossy)) == ["Lossy comes back with another fields"]
    assert code_faults([Lossy, NoCode, SameCode]) == [
        "NoCode has no code of its own",
        "SameCode has the code of Lossy",
    ]


@pytest.mark.parametrize(
    "drawing",
    [
        pytest.param("OmniGraphError\n├── NoCode\n└── SameCode\n", id="one class missing"),
        pytest.param("OmniGraphError\n├── NoCode\n│   └── Lossy\n└── SameCode\n", id="wrong parent"),
        pytest.param("OmniGraphError\n├── NoCode\n├── Lossy   says why\n├── Ghost\n└── SameCode\n", id="ghost"),
    ],
)
def test_a_wrong_drawing_is_found(drawing: str) -> None:
    real = real_tree([OmniGraphError, NoCode, Lossy, SameCode])
    assert drawn_tree(drawing) != real
    assert drawn_tree("OmniGraphError\n├── NoCode\n├── Lossy   says why\n└── SameCode\n") == real


def test_a_drawing_with_a_node_in_the_air_is_refused() -> None:
    with pytest.raises(AssertionError, match="hangs in the air"):
        drawn_tree("OmniGraphError\n│   └── Lossy\n")
