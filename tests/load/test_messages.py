"""Every case of `messages/`: what the load says, word for word, and that a refused load leaves nothing behind."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import omnigraph as og
from tests.load.messages.fixtures import Message, messages


@pytest.mark.parametrize("case", messages(), ids=str)
def test_a_load_says_what_is_wrong(case: Message, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    case.write_files(tmp_path)
    with og.init("g", case.schema) as graph:
        if case.stored:
            (tmp_path / "stored").write_text("\n".join(case.stored))
            graph.load("stored", "append", format="jsonl")
        head = graph.commits.head().id
        try:
            result = graph.load(case.source, case.mode, engine="embedded", **case.options)
        except og.OmniGraphError as error:
            assert f"{type(error).__name__}: {error}" == case.outcome
            assert graph.commits.head().id == head
        else:
            assert f"ok {json.dumps(result.nodes | result.edges)}" == case.outcome
