"""The change feed: whole commits in order, positions that survive, gaps that are told."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.errors import (
    ChangeCursorRejected,
    ChangeFeedGap,
    CommitNotFound,
    CommitWithoutParent,
    InputError,
    ResourceLimitExceeded,
    StorageError,
    TypeNotFound,
)
from omnigraph.history.feed.page import ChangeBlock, ChangePage
from omnigraph.write.change import Change, Mode
from tests.support.change_histories import GraphHistory, Model, apply, model_of
from tests.support.small_graphs import knows, people, persons, run_child, without


def _poll(graph: og.Graph, since: str, **asked: Any) -> tuple[list[ChangeBlock], str]:
    """All pages until the branch is caught up, parts of one block put together, and the last cursor."""
    blocks: list[ChangeBlock] = []
    page = graph.changes(since, **asked)
    while True:
        for block in page.blocks:
            if blocks and blocks[-1].commit.id == block.commit.id:
                block = ChangeBlock(block.commit, (*blocks.pop().changes, *block.changes))
            blocks.append(block)
        if page.page_token is not None:
            page = graph.changes(page_token=page.page_token, **asked)
        elif not page.caught_up:
            assert page.cursor is not None
            page = graph.changes(page.cursor, **asked)
        else:
            assert page.cursor is not None
            return blocks, page.cursor


def _ids(page: ChangePage) -> list[list[str]]:
    return [[change.id for change in block.changes] for block in page.blocks]


def test_a_feed_gives_one_block_per_commit_in_order(tmp_path: Path) -> None:
    graph = people(tmp_path / "g", "a", "b", actor="act-anna")
    graph.write([persons("a", mode=Mode.MERGE, age=[3]), knows(("a", "b"), id=["e"])])
    graph.ensure_indices()
    graph.write([without("edge:Knows", "e")])
    page = graph.changes("beginning")
    commits = list(reversed(graph.commits.list()))[1:]
    assert [block.commit.id for block in page.blocks] == [commit.id for commit in commits]
    assert [[(each.op, each.id) for each in block.changes] for block in page.blocks] == [
        [("insert", "a"), ("insert", "b")],
        [("update", "a"), ("insert", "e")],
        [],  # building indexes moves files only
        [("delete", "e")],
    ]
    assert page.caught_up and page.page_token is None
    assert page.blocks[0].cause == {
        "graph_commit_id": commits[0].id,
        "parent_commit_id": commits[0].parent,
        "authored_branch": "main",
        "actor_id": "act-anna",
        "authored_at": commits[0].to_dict()["created_at"],
    }


def test_a_feed_starts_now_unless_told_otherwise(tmp_path: Path) -> None:
    graph = people(tmp_path / "g", "a")
    page = graph.changes()
    assert page.blocks == () and page.caught_up and page.cursor is not None
    graph.write([persons("b")])
    assert _ids(graph.changes(page.cursor)) == [["b"]]
    first = graph.commits.list()[-1].id
    assert _ids(graph.changes(f"after:{first}")) == [["a"], ["b"]]
    with pytest.raises(CommitNotFound):
        graph.changes("after:01ARZ3NDEKTSV4RRFFQ69G5FAV")


def test_a_merge_on_the_source_branch_is_not_seen_until_it_is_on_the_branch(tmp_path: Path) -> None:
    graph = people(tmp_path / "g", "a")
    graph.branches.create("side")
    cursor = graph.changes(branch="main").cursor
    side = graph.changes(branch="side").cursor
    graph.write([persons("b")], branch="side")
    assert cursor is not None and side is not None
    assert graph.changes(cursor).blocks == ()
    assert _ids(graph.changes(side, branch="side")) == [["b"]]
    assert _ids(graph.changes("beginning", branch="side")) == [["a"], ["b"]]


@pytest.mark.parametrize(("seed", "limit"), [(1, 1), (2, 3), (3, 1_000)])
def test_a_feed_replayed_from_the_beginning_rebuilds_every_branch(tmp_path: Path, seed: int, limit: int) -> None:
    _replay(tmp_path, seed, limit)


@pytest.mark.torture
@pytest.mark.parametrize("seed", range(100, 200))
def test_feeds_of_many_histories_rebuild_every_branch(tmp_path: Path, seed: int) -> None:
    _replay(tmp_path, seed, seed % 7 + 1)


def _replay(tmp_path: Path, seed: int, limit: int) -> None:
    history = GraphHistory(tmp_path / "g", seed).grow(30)
    graph = history.graph
    first = history.commits()[0]
    for branch in history.branches:
        model: Model = {}
        blocks, _ = _poll(graph, "beginning", branch=branch, limit=limit)
        assert [block.commit.id for block in blocks] == history.commits(branch)[1:]
        for block in blocks:
            apply(model, block.changes)
        assert repr(sorted(model.items())) == repr(sorted(model_of(graph.diff(first, branch)).items()))


def test_a_page_ends_at_its_limit_and_goes_on_where_it_ended(tmp_path: Path) -> None:
    graph = people(tmp_path / "g", *"abcde")
    graph.write([persons("f")])
    page = graph.changes("beginning", limit=2)
    assert _ids(page) == [["a", "b"]] and page.cursor is None and not page.caught_up
    graph.write([persons("g")])  # behind the cut of this answer
    second = graph.changes(page_token=page.page_token, limit=3)
    assert _ids(second) == [["c", "d", "e"]] and second.page_token is None and not second.caught_up
    assert second.cursor is not None
    third = graph.changes(second.cursor, limit=1)
    assert _ids(third) == [["f"]] and not third.caught_up
    assert third.cursor is not None
    assert _ids(graph.changes(third.cursor)) == [["g"]]


def test_a_continued_answer_stops_at_its_own_cut(tmp_path: Path) -> None:
    graph = people(tmp_path / "g", "a", "b")
    page = graph.changes("beginning", limit=1)
    graph.write([persons("c")])
    rest = graph.changes(page_token=page.page_token)
    assert _ids(rest) == [["b"]] and not rest.caught_up
    assert rest.cursor is not None and _ids(graph.changes(rest.cursor)) == [["c"]]


def test_a_change_larger_than_a_page_comes_alone_and_whole(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "g", "node Doc { name: String @key  text: String }")
    texts = ["small", "x" * 200_000, "small"]
    graph.write([Change("node:Doc", pa.table({"name": ["a", "b", "c"], "text": texts}))])
    sizes = []
    page = graph.changes("beginning", max_bytes=1_000)
    while True:
        sizes.append([len(change.after["properties"]["text"]) for block in page for change in block.changes])  # type: ignore[index]
        if page.page_token is None:
            break
        page = graph.changes(page_token=page.page_token, max_bytes=1_000)
    assert sizes == [[5], [200_000], [5]]


def test_a_poll_walks_as_many_commits_as_allowed(tmp_path: Path) -> None:
    graph = people(tmp_path / "g")
    for name in "abc":
        graph.write([persons(name)])
    page = graph.changes("beginning", max_commits=2)
    assert _ids(page) == [["a"], ["b"]] and not page.caught_up and page.cursor is not None
    assert _ids(graph.changes(page.cursor)) == [["c"]]


def test_long_ids_do_not_lengthen_tokens(tmp_path: Path) -> None:
    graph = people(tmp_path / "g")
    names = [f"{'ü' * 3_000}{number}" for number in range(4)]
    graph.write([persons(*names)])
    seen = []
    page = graph.changes("beginning", limit=1)
    while page.page_token is not None:
        assert len(page.page_token) < 1_500
        seen += _ids(page)[0]
        page = graph.changes(page_token=page.page_token, limit=1)
    assert seen + _ids(page)[0] == sorted(names)


@pytest.mark.parametrize(
    ("asked", "error"),
    [
        ({"limit": 0}, InputError),
        ({"limit": 8_193}, ResourceLimitExceeded),
        ({"max_bytes": 33 * 1024**2}, ResourceLimitExceeded),
        ({"max_commits": 513}, ResourceLimitExceeded),
        ({"types": ["Nobody"]}, TypeNotFound),
        ({"kinds": ["table"]}, InputError),
        ({"since": "yesterday"}, ChangeCursorRejected),
        ({"since": "now", "page_token": "x"}, InputError),
    ],
)
def test_requests_that_make_no_sense_are_refused(tmp_path: Path, asked: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        people(tmp_path / "g", "a").changes(**asked)


def test_filtered_feeds_still_pass_every_commit(tmp_path: Path) -> None:
    graph = people(tmp_path / "g", "a", "b")
    graph.write([knows(("a", "b"), id=["e"])])
    blocks, _ = _poll(graph, "beginning", types=["Knows"], ops=["insert"])
    assert [[change.id for change in block.changes] for block in blocks] == [[], ["e"]]


def test_a_baseline_hands_over_to_the_feed(tmp_path: Path) -> None:
    graph = people(tmp_path / "g", "a", "b")
    graph.write([knows(("a", "b"), id=["e"])])
    made = graph.baseline(tmp_path / "base.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "base.jsonl").read_text().splitlines()]
    assert lines[-1] == {"baseline": made.to_dict()}
    assert made.snapshot_commit_id == graph.commits.head().id
    copy = people(tmp_path / "copy")
    (tmp_path / "rows.jsonl").write_text("\n".join(json.dumps(line) for line in lines[:-1]))
    copy.load(tmp_path / "rows.jsonl", mode="append")
    graph.write([persons("c")])
    page = graph.changes(made.resume_cursor)
    assert _ids(page) == [["c"]]
    copy.write([persons(*_ids(page)[0])])
    assert copy.export().text == graph.export().text
    text = graph.baseline(kinds=["edge"], types=["Knows"]).text
    assert text is not None and [next(iter(json.loads(line))) for line in text.splitlines()] == ["edge", "baseline"]


def test_an_interrupted_baseline_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = people(tmp_path / "g", "a")

    def fail(*_: Any) -> Any:
        raise RuntimeError("the disk is gone")

    monkeypatch.setattr("omnigraph.history.feed.baseline.lines_of", fail)
    with pytest.raises(RuntimeError):
        graph.baseline(tmp_path / "base.jsonl")
    assert list(tmp_path.glob("*base*")) == []


def test_a_cursor_survives_its_process(tmp_path: Path) -> None:
    graph = people(tmp_path / "g", "a")
    code = "import sys, omnigraph as og; print(og.open(sys.argv[1], mode='ro').changes().cursor)"
    cursor = run_child(code, graph.uri).stdout.strip()
    graph.write([persons("b")])
    again = "import sys, omnigraph as og\nfor b in og.open(sys.argv[1]).changes(sys.argv[2]): print(b.changes[0].id)"
    assert run_child(again, graph.uri, cursor).stdout.split() == ["b"]


def _cleaned_up(tmp_path: Path) -> tuple[og.Graph, list[str], str]:
    """A graph whose table of people lost its second version, with the commits and a cursor from before."""
    graph = people(tmp_path / "g")
    cursor = graph.changes().cursor
    for name in "abcd":
        graph.write([persons(name)])
    commits = [commit.id for commit in reversed(graph.commits.list())]
    pin = graph.snapshot(at=commits[2]).tables["node:Person"]
    versions = Path(graph.uri, pin.location, "_versions")
    (versions / f"{2**64 - 1 - pin.version:020d}.manifest").unlink()
    assert cursor is not None
    return og.open(graph.uri), commits, cursor


def test_history_that_was_cleaned_up_is_a_gap_and_never_a_silent_skip(tmp_path: Path) -> None:
    graph, commits, cursor = _cleaned_up(tmp_path)
    page = graph.changes(cursor)
    assert _ids(page) == [["a"]] and not page.caught_up and page.cursor is not None
    with pytest.raises(ChangeFeedGap) as caught:
        graph.changes(page.cursor)
    assert caught.value.details == {"cursor": page.cursor, "first_unreadable_commit_id": commits[2]}
    with pytest.raises(ChangeFeedGap):
        graph.changes(f"after:{commits[2]}")  # its parent's rows are gone
    assert _ids(graph.changes(f"after:{commits[3]}")) == [["d"]]
    resumed = graph.baseline().resume_cursor
    graph.write([persons("e")])
    assert _ids(graph.changes(resumed)) == [["e"]]


def test_a_commit_whose_manifest_is_gone_is_a_gap_too(tmp_path: Path) -> None:
    graph = people(tmp_path / "g")
    for name in "abc":
        graph.write([persons(name)])
    lost = graph.commits.list()[1]
    Path(graph.uri, "__manifest", "_versions", f"{2**64 - 1 - lost.version:020d}.manifest").unlink()
    page = og.open(graph.uri).changes("beginning")
    assert _ids(page) == [["a"]] and page.cursor is not None
    with pytest.raises(ChangeFeedGap) as caught:
        og.open(graph.uri).changes(page.cursor)
    assert caught.value.details["first_unreadable_commit_id"] == lost.id


def test_a_page_is_given_whole_or_not_at_all(tmp_path: Path) -> None:
    graph = people(tmp_path / "g", "a")
    graph.write([persons("b")])
    pin = graph.snapshot().tables["node:Person"]
    newest = graph._store.tables.newest(pin.location).get_fragments()[-1]
    Path(graph.uri, pin.location, "data", newest.metadata.files[0].path).unlink()
    broken = og.open(graph.uri, mode="ro")
    with pytest.raises(StorageError):
        broken.changes("beginning")
    assert _ids(broken.changes("beginning", limit=1)) == [["a"]]


def test_a_consumer_beside_writers_misses_nothing_and_sees_nothing_twice(tmp_path: Path) -> None:
    uri = people(tmp_path / "g").uri
    names = [[f"w{writer}-{number}" for number in range(12)] for writer in range(2)]

    def write(own: list[str]) -> None:
        graph = og.open(uri)
        for name in own:
            graph.write([persons(name)])

    threads = [threading.Thread(target=write, args=(own,)) for own in names]
    for thread in threads:
        thread.start()
    seen: list[str] = []
    consumer, cursor = og.open(uri, mode="ro"), "beginning"
    is_last = False
    while not is_last:
        is_last = not any(thread.is_alive() for thread in threads)
        blocks, cursor = _poll(consumer, cursor, limit=3)
        seen += [change.id for block in blocks for change in block.changes]
    made = [commit.id for commit in reversed(consumer.commits.list())][1:]
    assert sorted(seen) == sorted(names[0] + names[1])
    assert seen == [each.changes[0].id for each in _poll(consumer, "beginning")[0]] and len(made) == 24


def test_the_changes_of_one_commit_are_those_against_its_first_parent(tmp_path: Path) -> None:
    graph = people(tmp_path / "g", "a")
    result = graph.write([persons("b"), persons_note("n")])
    assert result.commit is not None
    changes = graph.commit_changes(result.commit.id)
    assert [(change.type, change.op) for change in changes] == [("Note", "insert"), ("Person", "insert")]
    assert json.loads(changes.to_json())["cause"]["graph_commit_id"] == result.commit.id
    assert [change.type for change in graph.commit_changes(result.commit.id, types=["Note"])] == ["Note"]
    with pytest.raises(CommitWithoutParent):
        graph.commit_changes(graph.commits.list()[-1].id)
    with pytest.raises(CommitNotFound):
        graph.commit_changes("01ARZ3NDEKTSV4RRFFQ69G5FAV")


def test_the_changes_of_one_commit_come_in_pages(tmp_path: Path) -> None:
    graph = people(tmp_path / "g")
    made = graph.write([persons(*"abcde")]).commit
    assert made is not None
    changes = graph.commit_changes(made.id)
    first = changes.page(2)
    second = changes.page(2, page_token=first.page_token)
    last = graph.commit_changes(made.id).page(page_token=second.page_token)
    assert [[change.id for change in page.changes] for page in (first, second, last)] == [["a", "b"], ["c", "d"], ["e"]]
    assert last.page_token is None and "next_page_token" not in last.to_dict()
    assert json.loads(first.to_json())["next_page_token"] == first.page_token
    graph.write([persons("f")])
    for foreign in (graph.changes("beginning", limit=1).page_token, graph.changes().cursor):
        with pytest.raises(ChangeCursorRejected):
            changes.page(page_token=foreign)


def test_a_merge_is_one_block_on_its_target(tmp_path: Path) -> None:
    graph = people(tmp_path / "g", "a")
    cursor = graph.changes().cursor
    graph.branches.create("side")
    for name in "bc":
        graph.write([persons(name)], branch="side")
    source = graph.commits.head("side").id
    graph.write([persons("d")])
    graph.branches.merge("side", delete_branch=True)
    assert cursor is not None
    page = graph.changes(cursor)
    assert _ids(page) == [["d"], ["b", "c"]]
    assert page.blocks[1].cause["merged_parent_commit_id"] == source


def persons_note(text: str) -> Change:
    return Change("node:Note", pa.table({"text": [text]}))
