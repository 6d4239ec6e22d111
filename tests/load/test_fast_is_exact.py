"""The fast reader and the exact one agree: on every value, on every refusal and its words."""

from __future__ import annotations

import json
import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.write.load import parse_lines as parsing
from omnigraph.write.load.parse_lines import Parsed
from tests.load.reading import parse, rows, said

KEYS = ("node:All", "node:Free", "edge:Link")

#: Members with values that are right, nearly right, and wrong; the pools are small so that lines agree often.
POOLS: dict[str, list[str]] = {
    "k": ['"a"', '"\\u00e9"', '""', "1"],
    "t": ['"x"', "null", '"\\ud83d\\ude00"', '"\u2028"', '"\\u0000"', "[]"],
    "b": ["true", "false", "null", "0"],
    "i": ["1", "-0", "2147483647", "2147483648", "1.0", "1e0"],
    "l": ["-9223372036854775808", "9223372036854775808", "null"],
    "u": ["4294967295", "-1", "0"],
    "w": ["18446744073709551615", "18446744073709551616", "-0"],
    "f": ["0.1", "3.4028236e38", "3.5e38", "1", "-0.0", "NaN"],
    "d": ["1e308", "1e309", "123456789012345678901234567890", "-0.0", "Infinity", "0.1e-400"],
    "day": ['"2024-02-29"', "19723", '"2023-02-29"', '"0000-01-01"', '"9999-12-31"', "2932897", "-719162", "null"],
    "at": [
        '"2025-06-01T10:00:00Z"',
        '"2025-06-01 10:00:00.123456789"',
        '"2025-06-01t10:00:00z"',
        '"2025-06-01"',
        '"2025-06-01T10:00:60Z"',
        '"2025-06-01T10:00:00+0200"',
        '"2025-06-01T10:00:00.1+23:59"',
        '"0001-01-01T00:00:00+01:00"',
        '"2025-06-01T10:00Z"',
        "1748764800000",
        "253402300800000",
        "null",
    ],
    "v": ["[1,2]", "[1.5,-0.0]", "[1]", "[1,null]", "[1e39,0]", "null", "[]"],
    "x": ['"base64:aGk="', '"base64:"', '"base64:a"', '"file:///x"', "null"],
    "e": ['"red"', '"green"', "null"],
    "ts": ['["a","b"]', "[]", '["a",null]', '"a"', "null"],
    "ns": ["[1,2]", "[2147483648]", "[1.0]"],
    "us": ["[18446744073709551615]", "[-1]", "[]"],
    "fs": ["[0.1,1e39]", "[0.1]"],
    "ds": ['["2024-01-01"]', "[19723,1]", '[19723,"2024-01-01"]', '["x"]', "[]"],
    "ats": ['["2025-06-01"]', "[0]", '["2025-06-01T10:00:00Z","2025-06-01"]'],
    "id": ['"a"', '"é"', "null", "1"],
}


@st.composite
def lines(draw: st.DrawFn) -> str:
    """A line of the usual form, or one that is a little off."""
    space = draw(st.sampled_from(["", "", "", " "]))
    kind = draw(st.integers(0, 9))
    if kind == 0:
        return draw(st.sampled_from(["", " ", "{}", "null", '{"type":"Free"}', '{"type":"Free","data":{"type":"x"}}']))
    if kind <= 2:
        ends = draw(st.sampled_from(['"from":"a","to":"b"', '"from":"a"', '"from":"a","to":1', '"to":"b","from":"a"']))
        data = draw(st.sampled_from(["", ',"data":{"n":1}', ',"data":{"since":19723}', ',"data":null', ',"data":{}']))
        word = draw(st.sampled_from(["Link", "link", "Nope"]))
        return f'{{"edge":{space}"{word}",{ends}{data}}}'
    names = draw(st.lists(st.sampled_from(sorted(POOLS)), max_size=3))
    members = [f'"{name}":{space}{draw(st.sampled_from(POOLS[name]))}' for name in names]
    if "k" not in names and draw(st.integers(0, 9)):
        members.insert(0, '"k":"a"')
    return f'{{"type":"All","data":{{{",".join(members)}}}}}'


def exactly(text: str | bytes, monkeypatch: pytest.MonkeyPatch) -> Parsed:
    """The same block with every line read the slow way."""
    with monkeypatch.context() as patch:
        patch.setattr(parsing._Lines, "usual", lambda lines: np.zeros(len(lines.ends), bool))
        return parse(text, most=10_000)


def shown(parsed: Parsed) -> Any:
    found = {key: rows(parsed, key) for key in KEYS}
    for by_line in found.values():
        for row in by_line.values():
            if len(row.get("id", "")) == 26:
                row["id"] = "fresh"
    return repr(found), said(parsed)


@given(given=st.lists(lines(), max_size=40), ends=st.sampled_from(["\n", "\r\n"]))
def test_both_readers_see_the_same(given: list[str], ends: str) -> None:
    text = ends.join(given)
    with pytest.MonkeyPatch.context() as patch:
        assert shown(parse(text, most=10_000)) == shown(exactly(text, patch))


@settings(max_examples=60)
@given(seed=st.integers(0, 2**32), line=lines())
def test_both_readers_see_the_same_in_damaged_lines(seed: int, line: str) -> None:
    chance = random.Random(seed)
    damaged = []
    for _ in range(30):
        data = bytearray((line or "{}").encode("utf-8", "surrogatepass"))
        for _ in range(chance.randint(1, 3)):
            at = chance.randrange(len(data) + 1)
            match chance.randrange(3):
                case 0:
                    data[at:at] = chance.choice([b'"', b"{", b"}", b",", b"\\", b"\0", b"\xff", b"1", b" ", b"[", b"]"])
                case 1:
                    del data[at : at + 1]
                case _:
                    data[at : at + 1] = bytes([chance.randrange(256)])
        damaged.append(bytes(data).replace(b"\n", b""))
    text = b"\n".join(damaged)
    with pytest.MonkeyPatch.context() as patch:
        assert shown(parse(text, most=10_000)) == shown(exactly(text, patch))


def test_values_of_every_type_arrive_as_they_are() -> None:
    """What Python's own reader says, over many rows at once."""
    texts = [
        {"k": f"k{n}", "t": "x" * n, "i": n - 50, "w": 2**64 - 1 - n, "d": n / 7, "v": [n, -n], "ts": ["a"] * (n % 3)}
        for n in range(100)
    ]
    parsed = parse("\n".join(json.dumps({"type": "All", "data": each}) for each in texts))
    assert parsed.violations == []
    assert len(parsed.rows["node:All"]) == 1, "the lines did not take the fast way"
    got = rows(parsed, "node:All")
    assert [{name: got[n + 1][name] for name in texts[n]} for n in range(100)] == texts
