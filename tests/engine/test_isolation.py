"""A query sees one commit, whoever writes meanwhile, and the past does not change."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.write.change import Change, Mode
from tests.support.example_graph import example_graph
from tests.support.small_graphs import knows, listing, people, persons, run_child, without
from tests.support.waiting import wait_until

HANDLES = ("ann", "bob", "cyd", "dan", "eve")

# After commit k every person is k years old and has written k notes.
STATES = "query q() { match { $p: Person  $p wrote $n } return { $p as who, $p.age as age, count($n) as notes } }"
COUNTS = "query q() { match { $p: Person } return { count($p) as n, min($p.age) as lo, max($p.age) as hi } }"
PAIRS = "query q() { match { $a: Person  $a knows $b } return { $a.handle as a, $b.handle as b } order { a, b } }"
LONELY = "query q() { match { $p: Person  not { $p knows $_ } } return { $p.handle as h, $p.age as y } order { h } }"
FAR = "query q() { match { $a: Person  $a knows{2,3} $b } return { $a.handle as a, $b.handle as b } order { a, b } }"


def older(number: int) -> list[Change]:
    """The commit that makes everybody older by one and adds a note by each."""
    notes = [f"{handle}-{number}" for handle in HANDLES]
    return [
        persons(*HANDLES, mode=Mode.MERGE, age=pa.array([number] * len(HANDLES), pa.int32())),
        Change("node:Note", pa.table({"id": notes, "text": notes})),
        Change("edge:Wrote", pa.table({"id": notes, "src": list(HANDLES), "dst": notes})),
    ]


def ages(graph: og.Graph, **where: Any) -> int:
    """The age of everybody, or an AssertionError when the answer is a mixture of commits."""
    rows = graph.query(STATES, **where).rows()
    assert all(row["age"] == row["notes"] for row in rows), rows
    assert len({row["age"] for row in rows}) <= 1, rows
    return rows[0]["age"] if rows else 0


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[og.Graph]:
    with people(tmp_path / "graph", *HANDLES) as graph:
        yield graph


def test_query_during_commits_sees_one_of_them(graph: og.Graph) -> None:
    commits, readers = 20, 3
    seen: list[list[int]] = [[] for _ in range(readers)]
    done = threading.Event()

    def read(number: int) -> None:
        while not done.is_set():
            seen[number].append(ages(graph))

    def moved_on(sofar: list[int], waiting: list[Future[None]]) -> bool:
        read_again = all(len(now) > then for now, then in zip(seen, sofar, strict=True))
        return read_again or any(each.done() for each in waiting)

    with ThreadPoolExecutor(readers) as pool:
        waiting = [pool.submit(read, number) for number in range(readers)]
        try:
            for number in range(1, commits + 1):
                graph.write(older(number))
                sofar = [len(each) for each in seen]
                wait_until(partial(moved_on, sofar, waiting), timeout=60, what="every reader to have read again")
        finally:
            done.set()
        for each in waiting:
            each.result(timeout=60)
    for answers in seen:
        assert answers == sorted(answers)  # nobody goes back in time
        assert len(set(answers)) > commits / 2
    assert ages(graph) == commits


_WRITER = """
import sys
import omnigraph as og
from tests.engine.test_isolation import older
graph = og.open(sys.argv[1])
for number in range(1, 11):
    graph.write(older(number))
graph.close()
"""


def test_commits_of_another_process_are_seen_whole(graph: og.Graph) -> None:
    assert ages(graph) == 0
    answers: list[int] = []
    with ThreadPoolExecutor(1) as pool:
        child = pool.submit(run_child, _WRITER, graph.uri)
        while not child.done():
            answers.append(ages(graph))
        finished = child.result()
    assert finished.returncode == 0, finished.stderr
    assert answers == sorted(answers)
    assert ages(graph) == 10


def grow(graph: og.Graph) -> None:
    """Commits of every kind: inserts, updates, removals, a type written anew, a node that goes and comes back."""
    graph.write([knows(("ann", "bob"), ("bob", "cyd"), ("cyd", "ann"), id=["1", "2", "3"])])
    graph.write([persons("ann", "bob", mode=Mode.MERGE, age=pa.array([30, None], pa.int32()))])
    graph.write([knows(("dan", "dan"), ("ann", "bob"), id=["4", "5"]), persons("fay")])
    graph.write([without("edge:Knows", "1", "2"), without("node:Person", "eve")])
    graph.write([persons("eve", age=pa.array([9], pa.int32())), knows(("eve", "ann"), id=["6"])])
    everybody = persons(*HANDLES, "fay", mode=Mode.OVERWRITE, age=pa.array([7] * 6, pa.int32()))
    graph.write([everybody])
    graph.write([knows(("ann", "eve"), ("eve", "dan"), mode=Mode.OVERWRITE, id=["7", "8"])])


QUERIES = (COUNTS, PAIRS, LONELY, FAR)


def answers(graph: og.Graph, **where: Any) -> list[Any]:
    return [graph.query(text, **where).rows() for text in QUERIES]


class Diary:
    """What a graph answered right after each commit."""

    def __init__(self, graph: og.Graph) -> None:
        self.pages: list[tuple[str, int, datetime, list[Any]]] = []
        self.inner = graph.write
        self.graph = graph

    def write(self, changes: list[Change]) -> None:
        self.inner(changes)
        head = self.graph.commits.head()
        self.pages.append((head.id, head.version, datetime.now(UTC), answers(self.graph)))


@pytest.fixture
def diary(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> Diary:
    diary = Diary(graph)
    monkeypatch.setattr(graph, "write", diary.write)
    grow(graph)
    monkeypatch.undo()
    return diary


def check(diary: Diary, graph: og.Graph) -> None:
    assert len({repr(page[3]) for page in diary.pages}) == len(diary.pages) == 7
    for order in (diary.pages, diary.pages[::-1], diary.pages[::3] + diary.pages[::2]):
        for commit_id, version, moment, expected in order:
            assert answers(graph, at=commit_id) == expected
            assert answers(graph, at=version) == expected
            assert answers(graph, at=moment) == expected


def test_query_at_an_old_commit_answers_as_it_did_then(diary: Diary, graph: og.Graph) -> None:
    check(diary, graph)


def test_fresh_handle_answers_for_the_past_as_the_first_one_did(diary: Diary, graph: og.Graph) -> None:
    with og.open(graph.uri, mode="ro") as fresh:
        check(diary, fresh)


def test_indexes_do_not_change_the_past_or_the_present(diary: Diary, graph: og.Graph) -> None:
    now = answers(graph)
    graph.ensure_indices()
    assert answers(graph) == now
    check(diary, graph)


def test_a_cold_cache_gives_the_same_answers(diary: Diary, graph: og.Graph) -> None:
    from omnigraph.engine.version_cache import SHARED

    for commit_id, _, _, expected in diary.pages:
        SHARED.clear()
        assert answers(graph, at=commit_id) == expected


def test_threads_share_a_graph(graph: og.Graph) -> None:
    from omnigraph.engine.version_cache import SHARED

    grow(graph)
    moments: list[Any] = [None, *(commit.id for commit in graph.commits.list())]
    expected = {moment: answers(graph, at=moment) for moment in moments}
    SHARED.clear()
    barrier = threading.Barrier(6)

    def ask(number: int) -> None:
        barrier.wait(timeout=60)
        turned = moments[number:] + moments[:number]
        for moment in turned * 2:
            assert answers(graph, at=moment) == expected[moment]

    with ThreadPoolExecutor(6) as pool:
        for each in [pool.submit(ask, number) for number in range(6)]:
            each.result(timeout=120)


def test_result_does_not_change_with_later_commits(graph: og.Graph) -> None:
    before = graph.query(LONELY)
    shown = before.rows()
    grow(graph)
    assert before.rows() == shown
    assert graph.query(LONELY).rows() != shown


def test_branches_do_not_see_each_other(graph: og.Graph) -> None:
    graph.write(older(1))
    graph.branches.create("review")
    graph.write(older(2), branch="review")
    graph.write([persons("gus")])
    assert ages(graph, branch="review") == 2
    assert ages(graph) == 1
    assert graph.query(COUNTS).rows()[0]["n"] == 6
    assert graph.query(COUNTS, branch="review").rows()[0]["n"] == 5


def test_branch_made_again_under_the_same_name_starts_from_its_origin(graph: og.Graph) -> None:
    graph.write(older(1))
    for handle in ("gus", "hal", "ida"):
        graph.branches.create("draft")
        graph.write([persons(handle), knows((handle, "ann"), id=["x"])], branch="draft")
        found = graph.query(PAIRS, branch="draft").rows()
        assert found == [{"a": handle, "b": "ann"}]
        graph.branches.delete("draft")


def test_graph_made_again_at_the_same_place_is_another_graph(tmp_path: Path) -> None:
    place = tmp_path / "again"
    for pair in (("ann", "bob"), ("bob", "ann"), ("cyd", "dan")):
        with people(place, *HANDLES) as graph:
            graph.write([knows(pair, id=["1"])])
            assert graph.query(PAIRS).rows() == [{"a": pair[0], "b": pair[1]}]
        shutil.rmtree(place)


def test_two_graphs_in_one_process_are_not_mixed_up(tmp_path: Path) -> None:
    with people(tmp_path / "one", *HANDLES) as one, people(tmp_path / "two", *HANDLES) as two:
        one.write([knows(("ann", "bob"), id=["1"])])
        two.write([knows(("bob", "cyd"), id=["1"])])
        assert one.query(PAIRS).rows() == [{"a": "ann", "b": "bob"}]
        assert two.query(PAIRS).rows() == [{"a": "bob", "b": "cyd"}]


def test_reading_through_a_read_only_handle_writes_nothing(graph: og.Graph, tmp_path: Path) -> None:
    grow(graph)
    expected = answers(graph)
    graph.close()
    before = listing(tmp_path)
    with og.open(graph.uri, mode="ro") as reader:
        assert answers(reader) == expected
        assert answers(reader, at=reader.commits.list()[2].id) != expected
    assert listing(tmp_path) == before


@pytest.mark.parametrize("at", ["01HZZZZZZZZZZZZZZZZZZZZZZZ", 10_000, 0, datetime(1999, 1, 1, tzinfo=UTC)])
def test_moment_that_never_was_is_refused(graph: og.Graph, at: Any) -> None:
    with pytest.raises(og.errors.NotFoundError):
        graph.query(COUNTS, at=at)


def test_unknown_branch_is_refused(graph: og.Graph) -> None:
    with pytest.raises(og.errors.BranchNotFound):
        graph.query(COUNTS, branch="nowhere")


PAYLOADS = [
    "'", "''", '"', "\\", "\\'", '\\"', "`", "' OR '1'='1", "' OR 1=1 --", "'; DROP TABLE Person; --", "\" OR \"\"=\"",
    "' UNION SELECT * FROM x --", "x' AND substr(id,1,1)='a", "%", "_", "%%", "a%", "\\%", "[a-z]", ".*", "^a", "$a",
    "$h", "${x}", "{{x}}", "{0}", "%s", "}", "} return { 1 }", "/* x */", "// x", "--", "#", "a\nb", "a\r\nb", "\t",
    "\u2019", "\u2018 OR \u20181\u2019=\u20181", "\uff07", "\u00a0", "\u200b", "\u202e", "e\u0301", "\u00e9", "ﬁ",
    "\U0001f600", "null", "NULL", "true", "0", "-1", "1e3", "NaN", "date(\"2024-01-01\")", "CAST(1 AS INT)",
    "array_contains(x, 'y')", "'||'", "id", "handle", "\x7f", "\x01", "x" * 5_000, " lead", "trail ", "A", "a",
]  # fmt: skip

EQUALITIES = {
    "binding": "query q($h: String) { match { $p: Person { email: $h } } return { $p.email as e } }",
    "key": "query q($h: String) { match { $p: Person { handle: $h } } return { $p.email as e } }",
    "equal": "query q($h: String) { match { $p: Person  $p.email = $h } return { $p.email as e } }",
    "turned": "query q($h: String) { match { $p: Person  $h = $p.email } return { $p.email as e } }",
    "or": "query q($h: String) { match { $p: Person  $p.email = $h or $p.email = $h } return { $p.email as e } }",
    "in list": "query q($h: String) { match { $p: Person  $p.email in [$h] } return { $p.email as e } }",
    "twice": "query q($h: String) { match { $p: Person { handle: $h }  $p.email >= $h  $p.email <= $h } "
    "return { $p.email as e } }",
    "negated": "query q($h: String) { match { $p: Person  not { $p.email != $h } } return { $p.email as e } }",
    "joined": "query q($h: String) { match { $p: Person { handle: $h }  $p knows $f } return { $f.email as e } }",
    "reached": "query q($h: String) { match { $f: Person { email: $h }  $p knows $f } return { $p.email as e } }",
}


def quoted(text: str) -> str:
    escapes = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
    return '"' + "".join(escapes.get(sign, sign) for sign in text) + '"'


@pytest.fixture(scope="module")
def payloads(tmp_path_factory: pytest.TempPathFactory) -> Iterator[og.Graph]:
    """Everybody's handle and e-mail is a payload, and everybody knows himself."""
    with people(tmp_path_factory.mktemp("payloads") / "graph") as graph:
        graph.write([persons(*PAYLOADS, email=PAYLOADS), knows(*zip(PAYLOADS, PAYLOADS, strict=True))])
        graph.ensure_indices()
        yield graph


@pytest.mark.parametrize("position", EQUALITIES)
def test_value_is_never_read_as_language(position: str, payloads: og.Graph) -> None:
    text = EQUALITIES[position]
    for payload in [*PAYLOADS, "nobody", ""]:
        expected = [{"e": payload}] if payload in PAYLOADS else []
        assert payloads.query(text, params={"h": payload}).rows() == expected, payload
        written = text.replace("($h: String)", "()").replace("$h", quoted(payload))
        assert payloads.query(written).rows() == expected, payload


PARTS: dict[str, Callable[[str, str], bool]] = {
    "contains": lambda value, part: part in value,
    "starts_with": lambda value, part: value.startswith(part),
    "<": lambda value, part: value.encode() < part.encode(),
    ">=": lambda value, part: value.encode() >= part.encode(),
    "!=": lambda value, part: value != part,
}


@pytest.mark.parametrize("operator", PARTS)
def test_wildcards_and_signs_are_ordinary_characters(operator: str, payloads: og.Graph) -> None:
    text = f"query q($h: String) {{ match {{ $p: Person  $p.email {operator} $h }} return {{ $p.email as e }} }}"
    for payload in [*PAYLOADS, "nobody", ""]:
        found = sorted(row["e"] for row in payloads.query(text, params={"h": payload}).rows())
        assert found == sorted(each for each in PAYLOADS if PARTS[operator](each, payload)), payload


def test_list_parameter_holds_values_only(payloads: og.Graph) -> None:
    text = "query q($h: [String]) { match { $p: Person  $p.email in $h } return { $p.email as e } order { e } }"
    assert [row["e"] for row in payloads.query(text, params={"h": PAYLOADS}).rows()] == sorted(PAYLOADS)
    assert payloads.query(text, params={"h": ["nobody", "' OR 1=1 --x"]}).rows() == []


def test_values_with_a_zero_character_are_found(tmp_path: Path) -> None:
    names = ["a\x00b", "a", "a\x00"]
    with people(tmp_path / "graph") as graph:
        graph.write([persons("1", "2", "3", email=names)])
        for name in names:
            found = graph.query(EQUALITIES["equal"], params={"h": name}).rows()
            assert found == [{"e": name}]


@pytest.mark.parametrize("payload", PAYLOADS)
def test_moment_and_branch_are_never_read_as_language(payload: str, payloads: og.Graph) -> None:
    text = "query q() { match { $p: Person } return { count($p) as n } }"
    with pytest.raises(og.OmniGraphError):
        payloads.query(text, branch=payload)
    with pytest.raises(og.OmniGraphError):
        payloads.query(text, at=payload)
    assert payloads.branches.list() == ["main"]


def test_example_graph_survives_its_own_queries(tmp_path: Path) -> None:
    with example_graph(tmp_path / "graph") as graph:
        head = graph.commits.head().id
        for _ in range(3):
            graph.query("query q() { match { $p: Person  $p follows{1,3} $f } return { $p, $f } }")
        assert graph.commits.head().id == head
