"""Lines, blocks and files: what separates records, what is counted, what is too long, what cannot be read."""

from __future__ import annotations

import gzip
import io
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph import limits
from omnigraph.errors import InputError, InvalidRecord, ResourceLimitExceeded
from omnigraph.write.load.line_blocks import blocks, lines_of
from tests.load.reading import parse, rows, said
from tests.support.small_graphs import people, rows_of

LINE = '{"type":"All","data":{"k":"%s"}}'


def test_lines_end_in_lf_with_or_without_cr_and_blank_ones_are_counted() -> None:
    text = f"{LINE % 'a'}\r\n\n  \r\n\t\n{LINE % 'b'}\n\r\n{LINE % 'c'}"
    assert {line: row["k"] for line, row in rows(parse(text), "node:All").items()} == {1: "a", 5: "b", 7: "c"}


@pytest.mark.parametrize("sign", ["\u2028", "\u2029", "\u0085", "\v", "\f"])
def test_other_line_breaks_are_not_line_breaks(sign: str) -> None:
    parsed = parse(f"{LINE % f'a{sign}b'}\n{LINE % 'c'}")
    if sign in "\v\f":  # control characters must be escaped
        assert [line for line, _, _ in said(parsed)] == [1]
        assert list(rows(parsed, "node:All")) == [2]
    else:
        assert [row["k"] for row in rows(parsed, "node:All").values()] == [f"a{sign}b", "c"]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\xef\xbb\xbf" + (LINE % "a").encode(), "a byte order mark is not allowed"),
        (b'{"type":"All","data":{"k":"\xff"}}', "byte 28 is not UTF-8"),
        (b'{"type":"All","data":{"k":"\xed\xa0\x80"}}', "byte 28 is not UTF-8"),
        (b'{"type":"All","data":{"k":"a\0"}}', "Invalid control character at at column 29"),
        ((LINE % "a").encode() + b"\0", "Extra data at column 32"),
        (b"{" * 5000, "it is nested too deeply"),
        (b'{"type":' + b"[" * 100_000, "it is nested too deeply"),
    ],
    ids=["bom", "utf-8", "surrogate bytes", "nul in text", "nul behind", "braces", "brackets"],
)
def test_a_line_that_is_no_text_is_refused_and_the_others_are_read(data: bytes, reason: str) -> None:
    good = (LINE % "good").encode()
    parsed = parse(b"\n".join([good, data, good]))
    if reason != "it is nested too deeply":
        assert said(parsed) == [(2, "InvalidRecord", f"invalid strict JSON at line 2: {reason}")]
    else:
        assert [(line, kind) for line, kind, _ in said(parsed)] == [(2, "InvalidRecord")]
    assert list(rows(parsed, "node:All")) == [1, 3]


@pytest.mark.parametrize("size", [1, 7, 64, 1000])
def test_blocks_hold_whole_lines_whatever_their_size(size: int) -> None:
    text = b"".join(b"x" * n + b"\n" for n in range(60)) + b"last"
    found = list(lines_of(io.BytesIO(text), "f", size))
    assert b"".join(block.data for block in found) == text + b"\n"
    assert all(block.data.endswith(b"\n") for block in found)
    numbers = [block.first_line for block in found]
    assert numbers == [1 + text[: text.index(block.data[:-1])].count(b"\n") for block in found[:1]] + numbers[1:]
    line = 1
    for block in found:
        assert block.first_line == line
        line += block.data.count(b"\n")


def test_an_empty_file_loads_nothing_and_makes_no_commit(tmp_path: Path) -> None:
    with people(tmp_path / "g", "ann") as graph:
        head = graph.commits.head().id
        for content in (b"", b"\n\n", b" \r\n"):
            (tmp_path / "empty.jsonl").write_bytes(content)
            result = graph.load(tmp_path / "empty.jsonl", "overwrite")
            assert (result.commit, result.nodes, result.edges, result.total) == (None, {}, {}, 0)
        assert graph.commits.head().id == head
        assert set(rows_of(graph, "Person")) == {"ann"}


def test_a_line_over_the_limit_is_refused_with_its_length(tmp_path: Path) -> None:
    path = tmp_path / "long.jsonl"
    size = 40_000_000
    path.write_bytes(b'{"type":"Person"}\n' + b"x" * size + b"\n{}\n")
    with pytest.raises(ResourceLimitExceeded) as caught:
        list(blocks(str(path)))
    limit = limits.LOAD_LINE_BYTES
    assert caught.value.message == f"resource limit exceeded for graph_batch_line_bytes: actual {size}, limit {limit}"
    assert (caught.value.details["file"], caught.value.details["line"]) == (str(path), 2)


def test_a_line_within_the_limit_is_read(tmp_path: Path) -> None:
    text = "x" * (limits.LOAD_LINE_BYTES - 100)
    with og.init(tmp_path / "g", "node T { k: String @key  t: String }") as graph:
        (tmp_path / "long.jsonl").write_text(f'{{"type":"T","data":{{"k":"a","t":"{text}"}}}}\n')
        assert graph.load(tmp_path / "long.jsonl", "append").nodes == {"T": 1}
        assert rows_of(graph, "T")["a"]["t"] == text


def test_a_line_with_too_much_structure_is_refused() -> None:
    most = limits.LOAD_LINE_SLOTS
    parsed = parse('{"type":"All","data":{"k":"a","ns":[' + ",".join("1" * most) + "]}}")
    assert [kind for _, kind, _ in said(parsed)] == ["ResourceLimitExceeded"]
    assert f"graph_batch_json_structural_slots: actual {most + 11}, limit {most}" in said(parsed)[0][2]
    signs = '{"type":"All","data":{"k":"a","t":"' + "{" * (2 * most) + '"}}'
    assert said(parse(signs)) == []


def test_gzip_is_recognised_by_its_content(tmp_path: Path) -> None:
    path = tmp_path / "people.jsonl"
    path.write_bytes(gzip.compress(b'{"type":"Person","data":{"handle":"ann"}}\n'))
    with people(tmp_path / "g") as graph:
        assert graph.load(path, "append").nodes == {"Person": 1}


@pytest.mark.parametrize("damage", ["cut", "flip", "tail"])
def test_damaged_gzip_is_an_error_that_names_the_file(tmp_path: Path, damage: str) -> None:
    good = gzip.compress(b'{"type":"Person","data":{"handle":"ann"}}\n' * 50)
    bad = {"cut": good[:-9], "flip": good[:30] + b"\xff\x00\xff" + good[33:], "tail": good + b"garbage"}[damage]
    (tmp_path / "people.jsonl.gz").write_bytes(bad)
    with people(tmp_path / "g") as graph:
        with pytest.raises(InputError, match=r"people\.jsonl\.gz is damaged"):
            graph.load(tmp_path / "people.jsonl.gz", "append")
        assert rows_of(graph, "Person") == {}


def test_a_file_that_is_not_there_is_an_error_that_names_it(tmp_path: Path) -> None:
    with people(tmp_path / "g") as graph, pytest.raises(InputError, match=r"nope\.jsonl does not exist"):
        graph.load(tmp_path / "nope.jsonl", "append")


def test_the_first_violation_of_each_kind_is_in_the_details(tmp_path: Path) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text(
        "\n".join(
            [
                '{"type":"Person","data":{"handle":"a"}}',
                '{"type":"Person","data":{"handle":"b","age":"old"}}',
                "",
                '{"type":"Person","data":{"handle":"c","age":"older"}}',
                "{",
                '{"type":"Person","data":{}}',
            ]
        )
    )
    with people(tmp_path / "g") as graph, pytest.raises(og.OmniGraphError) as caught:
        graph.load(path, "append")
    error = caught.value
    assert str(error) == f"property 'age' expects I32, got \"old\" ({path}:2)"
    assert (error.details["file"], error.details["line"]) == (str(path), 2)
    assert [(each["line"], each["code"]) for each in error.details["violations"]] == [
        (2, "row"),
        (5, InvalidRecord.code),
        (6, "row.missing_value"),
    ]


def test_what_cannot_be_read_comes_before_what_breaks_a_rule(tmp_path: Path) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text('{"type":"A","data":{"k":"a","n":10}}\n{"type":"A","data":{"k":"b","n":"x"}}\n')
    with og.init(tmp_path / "g", "node A { k: String @key n: I32? @range(n, 0..9) }") as graph:
        with pytest.raises(og.OmniGraphError, match="property 'n' expects I32") as caught:
            graph.load(path, "append")
        assert [each["line"] for each in caught.value.details["violations"]] == [2, 1]


def test_line_numbers_hold_across_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "LOAD_BLOCK_BYTES", 256)
    lines = [f'{{"type":"Person","data":{{"handle":"p{n:04}"}}}}' for n in range(500)]
    lines[321] = lines[321].replace("p0321", "p0007")
    path = tmp_path / "people.jsonl"
    path.write_text("\n".join(lines))
    with people(tmp_path / "g") as graph:
        with pytest.raises(og.OmniGraphError, match="duplicate key 'p0007' of") as caught:
            graph.load(path, "append")
        assert caught.value.details["line"] == 322
        lines[321] = ""
        path.write_text("\n".join(lines))
        assert graph.load(path, "append").nodes == {"Person": 499}
        assert len(rows_of(graph, "Person")) == 499
