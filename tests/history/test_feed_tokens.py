"""Cursors and page tokens: what does not belong here is refused with a reason, and nothing else happens."""

from __future__ import annotations

import base64
import hashlib
import json
import random
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.errors import ChangeCursorRejected
from tests.support.small_graphs import people, persons


def _tokens(graph: og.Graph, **asked: Any) -> tuple[str, str]:
    cursor = graph.changes(**asked).cursor
    page_token = graph.changes("beginning", limit=1, **asked).page_token
    assert cursor is not None and page_token is not None
    return cursor, page_token


def _reason(graph: og.Graph, **asked: Any) -> str:
    with pytest.raises(ChangeCursorRejected) as caught:
        graph.changes(**asked)
    assert caught.value.message.startswith("change cursor rejected: ")
    return str(caught.value.details["reason"])


def _opened(token: str) -> dict[str, Any]:
    raw = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
    content: dict[str, Any] = json.loads(raw[:-32])
    return content


def _sealed(content: Any) -> str:
    raw = json.dumps(content).encode()
    return base64.urlsafe_b64encode(raw + hashlib.sha256(raw).digest()).decode().rstrip("=")


def test_no_damaged_token_is_ever_taken(tmp_path: Path) -> None:
    graph = people(tmp_path / "g", "a", "b")
    cursor, page_token = _tokens(graph)
    chance = random.Random(1)
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    for token, name in ((cursor, "since"), (page_token, "page_token")):
        damaged = {token[:-1], token[1:], token + "A", token[: len(token) // 2], "", "💥", "====", token + "="}
        for place in chance.sample(range(len(token) - 1), 60):
            sign = chance.choice(alphabet.replace(token[place], ""))
            damaged.add(token[:place] + sign + token[place + 1 :])
        for text in damaged - {""}:
            assert _reason(graph, **{name: text}) in ("it is damaged", "it is no cursor", "it is no page token")


def test_tokens_of_other_graphs_branches_and_filters_are_refused(tmp_path: Path) -> None:
    graph, other = people(tmp_path / "g", "a", "b"), people(tmp_path / "h", "a", "b")
    graph.branches.create("side")
    for position, name in enumerate(("since", "page_token")):
        assert _reason(other, **{name: _tokens(graph)[position]}) == "it belongs to another graph"
        token = _tokens(graph, branch="side")[position]
        assert _reason(graph, **{name: token}) == "it belongs to branch 'side'"
        token = _tokens(graph, kinds=["node"])[position]
        assert _reason(graph, **{name: token}) == "it was made with another filter"
    cursor, page_token = _tokens(graph)
    assert _reason(graph, since=page_token) == "it is no cursor"
    assert _reason(graph, page_token=cursor) == "it is no page token"


def test_tokens_of_an_earlier_branch_of_the_same_name_are_refused(tmp_path: Path) -> None:
    graph = people(tmp_path / "g", "a", "b")
    graph.branches.create("side")
    graph.write([persons("c")], branch="side")
    tokens = _tokens(graph, branch="side")
    graph.branches.delete("side")
    graph.branches.create("side")
    graph.write([persons("d")], branch="side")
    for name, token in zip(("since", "page_token"), tokens, strict=True):
        assert _reason(graph, branch="side", **{name: token}) == "branch 'side' was deleted and made again since"


def test_filters_that_mean_the_same_share_their_tokens(tmp_path: Path) -> None:
    graph = people(tmp_path / "g", "a")
    cursor = graph.changes(kinds=["node", "edge"], ops=["insert", "delete"]).cursor
    assert cursor is not None
    assert graph.changes(cursor, kinds=["edge", "node", "edge"], ops=["delete", "insert"]).caught_up


def test_sealed_nonsense_is_refused(tmp_path: Path) -> None:
    graph = people(tmp_path / "g", "a", "b")
    cursor, page_token = (_opened(token) for token in _tokens(graph))
    missing = {name: value for name, value in cursor.items() if name != "commit"}
    nonsense: list[tuple[str, Any]] = [
        ("since", []),
        ("since", None),
        ("since", {**cursor, "v": 2}),
        ("since", {**cursor, "more": 1}),
        ("since", {**cursor, "commit": 7}),
        ("since", {**cursor, "binding": "main"}),
        ("since", missing),
        ("since", {**cursor, "commit": "01ARZ3NDEKTSV4RRFFQ69G5FAV"}),
        ("page_token", {**page_token, "position": {"table_key": "node:Person"}}),
        ("page_token", {**page_token, "position": {**page_token["position"], "id": "nobody"}}),
        ("page_token", {**page_token, "position": {**page_token["position"], "table_key": "node:None"}}),
        ("page_token", {**page_token, "cut": graph.commits.list()[-1].id}),
        ("page_token", {**page_token, "commit": graph.commits.list()[-1].id}),
    ]
    for name, content in nonsense:
        assert _reason(graph, **{name: _sealed(content)})


def test_an_overlong_token_is_refused_before_it_is_read(tmp_path: Path) -> None:
    graph = people(tmp_path / "g", "a")
    assert _reason(graph, since="A" * 5_000) == "it has more than 4096 characters"


def test_tokens_hold_no_paths_and_no_physical_versions(tmp_path: Path) -> None:
    graph = people(tmp_path / "g", "a", "b")
    for token in _tokens(graph):
        text = json.dumps(_opened(token))
        assert str(tmp_path) not in text and "version" not in text and ".lance" not in text
