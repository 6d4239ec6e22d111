"""YAML that means exactly what it says: every key is known, every value has the kind that was asked for, nothing occurs
twice. What is wrong is told with line and column.

Values are read from the composed nodes and never constructed, so a tag or an alias can make nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import yaml

from omnigraph import limits
from omnigraph.errors import PolicyError, ResourceLimitExceeded
from omnigraph.ids import did_you_mean

_STRING, _INTEGER = "tag:yaml.org,2002:str", "tag:yaml.org,2002:int"
_FLOAT, _BOOLEAN = "tag:yaml.org,2002:float", "tag:yaml.org,2002:bool"
_KINDS = {
    _STRING: "a text",
    _INTEGER: "a number",
    "tag:yaml.org,2002:float": "a number",
    "tag:yaml.org,2002:bool": "true or false",
    "tag:yaml.org,2002:null": "empty",
    "tag:yaml.org,2002:timestamp": "a date",
    "tag:yaml.org,2002:map": "a mapping",
    "tag:yaml.org,2002:seq": "a list",
}

Choice = TypeVar("Choice", bound=str)


@dataclass(frozen=True, slots=True)
class Value:
    """One value of a text, its name for messages, and its place."""

    node: yaml.Node
    name: str
    text: str
    file: str | None

    @property
    def is_mapping(self) -> bool:
        return isinstance(self.node, yaml.MappingNode)

    @property
    def is_list(self) -> bool:
        return isinstance(self.node, yaml.SequenceNode)

    def wrong(self, message: str, *, hint: str | None = None) -> PolicyError:
        """The error about this place."""
        offset = self.node.start_mark.index
        return PolicyError(message, source=self.text, file=self.file, offset=offset, hint=hint)

    def _is_no(self, kind: str, *, hint: str | None = None) -> PolicyError:
        actual = _KINDS.get(self.node.tag, "something else")
        return self.wrong(f"{self.name} must be {kind}, and is {actual}", hint=hint)

    def mapping(self, known: Sequence[str] | None = None, required: Sequence[str] = ()) -> dict[str, Value]:
        """The values by their keys.

        Args:
            known: the only keys that may occur; None for any.
        """
        if not isinstance(self.node, yaml.MappingNode):
            raise self._is_no("a mapping")
        found: dict[str, Value] = {}
        for key_node, value_node in self.node.value:
            key = Value(key_node, f"a key of {self.name}", self.text, self.file)
            name = key.string()
            if known is not None and name not in known:
                raise key.wrong(f"{self.name} has no key '{name}'", hint=did_you_mean(name, known))
            if name in found:
                raise key.wrong(f"'{name}' occurs twice in {self.name}")
            inner = name if self.name == _WHOLE else f"{self.name}.{name}"
            found[name] = Value(value_node, inner, self.text, self.file)
        for name in required:
            if name not in found:
                raise self.wrong(f"{self.name} lacks the key '{name}'")
        return found

    def items(self) -> Iterator[Value]:
        """The values of a list."""
        if not isinstance(self.node, yaml.SequenceNode):
            raise self._is_no("a list")
        for place, node in enumerate(self.node.value):
            yield Value(node, f"{self.name}[{place}]", self.text, self.file)

    def string(self) -> str:
        """A text that is not blank."""
        if not isinstance(self.node, yaml.ScalarNode) or self.node.tag != _STRING:
            quotes = "put it in quotes" if isinstance(self.node, yaml.ScalarNode) and self.node.value else None
            raise self._is_no("a text", hint=quotes)
        found: str = self.node.value
        if not found.strip() or found != found.strip():
            raise self.wrong(f"{self.name} is blank, or has blanks around it")
        if any("\ud800" <= sign <= "\udfff" for sign in found):
            raise self.wrong(f"{self.name} holds half of a surrogate pair and is not valid UTF-8")
        return found

    def strings(self) -> tuple[str, ...]:
        """A list of texts, none of them twice."""
        found: list[str] = []
        for item in self.items():
            text = item.string()
            if text in found:
                raise item.wrong(f"'{text}' occurs twice in {self.name}")
            found.append(text)
        return tuple(found)

    def one_of(self, known: Sequence[Choice]) -> Choice:
        """One of some words."""
        found = self.string()
        for word in known:
            if word == found:
                return word
        raise self.wrong(f"{self.name} cannot be '{found}'", hint=did_you_mean(found, known))

    def number(self, lowest: float = 0) -> float:
        """A number that is not below another one; a whole one comes as `int`."""
        if not isinstance(self.node, yaml.ScalarNode) or self.node.tag not in (_INTEGER, _FLOAT):
            raise self._is_no("a number")
        text = self.node.value.replace("_", "")
        try:
            found = int(text) if self.node.tag == _INTEGER else float(text)
        except ValueError:
            raise self.wrong(f"{self.name} is not a decimal number") from None
        if not lowest <= found < float("inf"):
            raise self.wrong(f"{self.name} must be a number from {lowest} on")
        return found

    def boolean(self) -> bool:
        """``true`` or ``false``."""
        if self.node.tag != _BOOLEAN or self.node.value not in ("true", "false"):
            raise self._is_no("true or false")
        return bool(self.node.value == "true")

    def require_number(self, wanted: int) -> None:
        if self.node.tag != _INTEGER or self.node.value != str(wanted):
            raise self.wrong(f"{self.name} must be {wanted}")


_WHOLE = "the file"


def read_yaml(text: str, file: str | None = None) -> Value:
    """The whole of a text.

    Raises:
        PolicyError: it is no YAML, or empty.
        ResourceLimitExceeded: it is longer than such a file may be.
    """
    text = text.removeprefix("\ufeff")
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > limits.POLICY_BYTES:
        raise ResourceLimitExceeded("policy file bytes", size, limits.POLICY_BYTES)
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        offset = mark.index if mark is not None else getattr(error, "position", None)
        problem = getattr(error, "problem", None) or getattr(error, "reason", None) or "it is not YAML"
        raise PolicyError(f"the file cannot be read: {problem}", source=text, file=file, offset=offset) from None
    except RecursionError:
        raise PolicyError("the file is nested too deeply", file=file) from None
    if node is None:
        raise PolicyError("the file is empty", file=file, hint="it begins with version: 1")
    return Value(node, _WHOLE, text, file)
