"""The same load through both engines: equal graphs, equal counts, equal rejects, equal errors with file and line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph import limits
from omnigraph.spark.loading import load_check
from omnigraph.spark.loading.key_scan import look_up_keys
from tests.language.load.fixtures import HERE as LOADS
from tests.language.load.fixtures import Case, cases, refusals
from tests.language.query.fixtures import HERE as SMALL
from tests.load.test_reject_model import SCHEMA as RULES
from tests.parity.both_engines import Pair

pytestmark = pytest.mark.usefixtures("spark", "small_splits")


@pytest.fixture
def small_splits(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A few lines make several tasks, so that nothing depends on all rows being in one."""
    monkeypatch.setattr(limits, "LOAD_BLOCK_BYTES", 400)
    monkeypatch.setattr(limits, "SPLIT_BYTES", 400)
    yield


@pytest.fixture
def every_step_on_spark(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The driver looks at no row itself, and no task sees all of them."""
    monkeypatch.setattr(limits, "DRIVER_ROWS", -1)
    monkeypatch.setattr(limits, "KEY_TASK_ROWS", 4)
    yield


@pytest.fixture
def looked_up(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Tables of which keys are looked up by index; here that is every table that can be."""
    tables: list[str] = []

    def noted(order: Any, asked: Any, pieces: Any) -> Any:
        tables.extend(key for key, _ in asked)
        return look_up_keys(order, asked, pieces)

    monkeypatch.setattr(load_check, "look_up_keys", noted)
    monkeypatch.setattr(limits, "INDEX_LOOKUP_SHARE", 1e6)
    return tables


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("template") / "small"
    with og.init(root, (SMALL / "schema.pg").read_text("utf-8")) as graph:
        graph.load(SMALL / "data.jsonl", "overwrite", engine="embedded")
    return root


@pytest.mark.usefixtures("every_step_on_spark")
def test_the_example_graph_is_the_same_whoever_loads_it(tmp_path: Path) -> None:
    pair = Pair(tmp_path, (SMALL / "schema.pg").read_text("utf-8"))
    made = pair.load(SMALL / "data.jsonl", "overwrite")
    assert made.counts == (
        {"Doc": 4, "Note": 3, "Person": 5, "Team": 3},
        {"Follows": 6, "MemberOf": 4, "Wrote": 3},
    )


@pytest.mark.parametrize("case", cases(), ids=str)
def test_an_example_gives_the_same(case: Case, small: Path, tmp_path: Path) -> None:
    pair = Pair(tmp_path, case.schema, small if case.schema is None else None)
    for step in case.steps:
        found = pair.load_lines(list(step.lines), step.mode)
        if found.error is None:
            assert f"{sum(found.counts[0].values())}/{sum(found.counts[1].values())}" == step.outcome
        else:
            assert f"{found.error[0]}: {found.error[1]}" == step.outcome


def test_every_refused_line_gives_the_same_error_and_line_in_any_split(tmp_path: Path) -> None:
    pair = Pair(tmp_path, (LOADS / "records.pg").read_text("utf-8"))
    good = '{"type":"All","data":{"k":"%s","i":1}}'
    lines: list[str] = []
    for number, refusal in enumerate(refusals()):
        lines += [good % f"g{number}", "", refusal.line]
    found = pair.load_lines(lines, "append", on_error="reject")
    assert len(found.rejects) == len(refusals())
    assert [row["line"] for row in found.rejects] == [3 * number + 3 for number in range(len(refusals()))]
    failed = pair.load_lines(lines, "append")
    assert failed.error is not None and failed.error[3] == 3


NODES = [{"type": "P", "data": {"k": k, "mail": f"{k}@x"}} for k in "abcde"]
NOTES = [{"type": "Free", "data": {"id": f"f{number}", "t": f"t{number}"}} for number in range(3)]


def _edge(type_: str, source: str, target: str, id_: str | None = None) -> dict[str, Any]:
    return {"edge": type_, "from": source, "to": target, "data": {"id": id_} if id_ else {}}


#: Every rule about rows together, broken alone and in company, in all modes; several rows break one another.
TOGETHER: dict[str, tuple[str, list[dict[str, Any]]]] = {
    "a key twice": ("append", [*NODES, NODES[1], NODES[0]]),
    "an id twice in an overwrite": ("overwrite", [*NOTES, NOTES[2]]),
    "the last record of an id wins a merge": (
        "merge",
        [*NODES, _edge("E", "a", "zz", "e1"), _edge("E", "a", "b", "e1"), _edge("E", "b", "c", "e1")],
    ),
    "a unique value twice": ("append", [*NODES, {"type": "P", "data": {"k": "z", "mail": "a@x"}}]),
    "a unique pair twice, and again stored": (
        "merge",
        [*NODES, _edge("Pair", "a", "b", "p1"), _edge("Pair", "a", "b", "p2"), _edge("Pair", "old", "old", "p3")],
    ),
    "a rejected node takes its edges and their counts along": (
        "append",
        [
            *NODES,
            *NOTES,
            {"type": "P", "data": {"k": "z", "mail": "b@x"}},
            _edge("Must", "z", "f0", "m1"),
            _edge("Must", "z", "f1", "m2"),
            _edge("Must", "a", "f0", "m3"),
            _edge("E", "z", "a"),
        ],
    ),
    "too many edges at a source": ("append", [*NODES, *(_edge("E", "a", to, f"e{to}") for to in "bcde")]),
    "a moved edge leaves too few behind": (
        "merge",
        [*NODES, *NOTES, _edge("Must", "a", "f0", "old1"), _edge("Must", "a", "f1", "n2")],
    ),
    "an overwrite strands edges that stay": ("overwrite", NODES),
    "an overwrite leaves a source with nothing": ("overwrite", [_edge("Must", "second", "g0", "x1")]),
    "replaced rows keep their unique values": (
        "merge",
        [{"type": "P", "data": {"k": "old", "mail": "old@x"}}, {"type": "P", "data": {"k": "new", "mail": "old@x"}}],
    ),
}
STORED = [
    {"type": "P", "data": {"k": "old", "mail": "old@x"}},
    {"type": "P", "data": {"k": "second"}},
    *({"type": "Free", "data": {"id": f"g{number}", "t": f"g{number}"}} for number in range(3)),
    _edge("Must", "old", "g0", "old1"),
    _edge("Must", "old", "g1", "old2"),
    _edge("E", "old", "old", "olde"),
    _edge("Pair", "old", "old", "oldp"),
]


@pytest.fixture(scope="module")
def ruled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("ruled") / "g"
    with og.init(root, RULES) as graph:
        path = root.parent / "in.jsonl"
        path.write_text("\n".join(map(json.dumps, STORED)))
        graph.load(path, "append")
    return root


#: Each kind of work that executors do for the rules, once: counting, cascades, collapsing, replacing.
ON_SPARK = (
    "a rejected node takes its edges and their counts along",
    "the last record of an id wins a merge",
    "an overwrite strands edges that stay",
    "replaced rows keep their unique values",
)


@pytest.mark.parametrize("name", TOGETHER)
def test_rows_that_do_not_fit_together_are_judged_alike(name: str, ruled: Path, tmp_path: Path) -> None:
    _judge(name, ruled, tmp_path)


@pytest.mark.parametrize("name", [name for name, (mode, _) in TOGETHER.items() if mode != "overwrite"])
def test_keys_that_are_looked_up_are_judged_as_those_that_are_read(
    name: str, ruled: Path, tmp_path: Path, looked_up: list[str]
) -> None:
    _judge(name, ruled, tmp_path)
    assert looked_up


def test_executors_look_keys_up_as_the_driver_does(
    ruled: Path, tmp_path: Path, looked_up: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "DRIVER_ROWS", -1)
    _judge("a moved edge leaves too few behind", ruled, tmp_path)
    assert {"edge:Must", "node:P", "node:Free"} <= set(looked_up)


@pytest.mark.usefixtures("every_step_on_spark")
@pytest.mark.parametrize("name", ON_SPARK)
def test_executors_judge_rows_together_as_the_driver_does(name: str, ruled: Path, tmp_path: Path) -> None:
    _judge(name, ruled, tmp_path)


@pytest.mark.torture
@pytest.mark.usefixtures("every_step_on_spark")
@pytest.mark.parametrize("name", sorted(set(TOGETHER) - set(ON_SPARK)))
def test_executors_judge_everything_as_the_driver_does(name: str, ruled: Path, tmp_path: Path) -> None:
    _judge(name, ruled, tmp_path)


def _judge(name: str, ruled: Path, tmp_path: Path) -> None:
    mode, records = TOGETHER[name]
    pair = Pair(tmp_path, None, ruled)
    lines = [json.dumps(record) for record in records]
    failed = pair.load_lines(lines, mode)
    kept = pair.load_lines(lines, mode, on_error="reject")
    assert (failed.error is None) == (kept.error is None and not kept.rejects)


def test_more_rejects_than_allowed_refuse_the_load_alike(ruled: Path, tmp_path: Path) -> None:
    pair = Pair(tmp_path, None, ruled)
    lines = [json.dumps(record) for record in [*NODES, *(_edge("E", "a", f"zz{number}") for number in range(6))]]
    found = pair.load_lines([*lines, "{"], "append", on_error="reject", max_rejects=3)
    assert found.error is not None and found.error[0] == "ResourceLimitExceeded"
    assert pair.load_lines([*lines, "{"], "append", on_error="reject", max_rejects=9).committed
