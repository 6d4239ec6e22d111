"""Query parameters: texts, lists, numbers, truth values, and what is none of them."""

from __future__ import annotations

import msgspec
import pytest

from omnigraph.errors import InvalidRequest
from omnigraph.wire.query_string import parameters


class Asked(msgspec.Struct):
    branch: str | None = None
    from_: str | None = msgspec.field(name="from", default=None)
    limit: int | None = None
    force: bool | None = None
    kind: list[str] | None = None


class Needy(msgspec.Struct):
    type: str


def test_each_is_what_its_field_says() -> None:
    pairs = [("branch", "null"), ("from", "5"), ("limit", "-7"), ("force", "true"), ("kind", "a"), ("kind", "b")]
    assert parameters(Asked, pairs) == Asked("null", "5", -7, True, ["a", "b"])
    assert parameters(Asked, []) == Asked()
    assert parameters(Asked, [("branch", "")]) == Asked("")


@pytest.mark.parametrize(
    ("pairs", "says"),
    [
        ([("limit", "1.0")], "whole number"),
        ([("limit", "")], "whole number"),
        ([("limit", "\u0663")], "whole number"),
        ([("limit", "9" * 40)], "whole number"),
        ([("limit", "null")], "whole number"),
        ([("force", "1")], "true or false"),
        ([("branch", "a"), ("branch", "b")], "more than once"),
        ([("brnch", "a")], "there is no query parameter 'brnch' (did you mean 'branch'?)"),
    ],
)
def test_what_is_wrong_is_said(pairs: list[tuple[str, str]], says: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        parameters(Asked, pairs)
    assert says in str(caught.value)


def test_a_missing_one_is_said() -> None:
    with pytest.raises(InvalidRequest, match="type"):
        parameters(Needy, [])
