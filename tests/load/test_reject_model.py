"""Whatever is left out, the rest is a load of its own: the same rows, without a complaint."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

import omnigraph as og

SCHEMA = """
node P { k: String @key  mail: String? @unique  n: I32?  @range(n, 0..9) }
node Free { t: String @unique }
edge E: P -> P @card(0..2)
edge Must: P -> Free @card(2..3)
edge Pair: P -> P { @unique(src, dst) }
"""
KEYS = st.sampled_from(["a", "b", "c", "zz"])
NOTES = st.sampled_from(["x", "y"])
IDS = st.integers(0, 12).map(lambda number: f"i{number}")


@st.composite
def records(draw: st.DrawFn) -> str:
    match draw(st.integers(0, 6)):
        case 0 | 1:
            data = {"k": draw(KEYS.filter(lambda key: key != "zz")), "mail": draw(st.sampled_from([None, "m", "n"]))}
            return json.dumps({"type": "P", "data": {**data, "n": draw(st.sampled_from([1, 2, 10, "x"]))}})
        case 2:
            return json.dumps({"type": "Free", "data": {"id": draw(NOTES), "t": draw(NOTES)}})
        case 3:
            return _edge("E", draw(KEYS), draw(KEYS), draw(IDS))
        case 4:
            return _edge("Pair", draw(KEYS), draw(KEYS), draw(IDS))
        case 5:
            return _edge("Must", draw(KEYS), draw(NOTES), draw(IDS))
        case _:
            return draw(st.sampled_from(["{", "", '{"type":"Nope"}', '{"edge":"E","from":"a"}']))


def _edge(type_: str, source: str, target: str, id_: str) -> str:
    return json.dumps({"edge": type_, "from": source, "to": target, "data": {"id": id_}})


@settings(max_examples=15)
@given(first=st.lists(records(), max_size=12), second=st.lists(records(), max_size=25), merge=st.booleans())
def test_what_is_left_loads_by_itself(first: list[str], second: list[str], merge: bool) -> None:
    mode = "merge" if merge else "append"
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        with og.init(root / "a", SCHEMA) as graph, og.init(root / "b", SCHEMA) as other:
            for step, lines in (("append", first), (mode, second)):
                result = _load(graph, root, lines, step, on_error="reject")
                bad = set(result.rejects.column("line").to_pylist())
                kept = [line for number, line in enumerate(lines, start=1) if number not in bad]
                again = _load(other, root, kept, step)
                assert (again.nodes, again.edges) == (_filled(result.nodes), _filled(result.edges))
                assert again.total == sum(1 for line in kept if line)
                assert graph.export().text == other.export().text


def _filled(counts: dict[str, int]) -> dict[str, int]:
    return {name: count for name, count in counts.items() if count}


def _load(graph: og.Graph, root: Path, lines: list[str], mode: str, **options: Any) -> Any:
    (root / "in.jsonl").write_text("\n".join(lines))
    return graph.load(root / "in.jsonl", mode, **options)  # type: ignore[arg-type]
