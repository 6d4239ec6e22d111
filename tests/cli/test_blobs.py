"""`omnigraph blob get|stat`."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from lance.blob import Blob

import omnigraph as og
from tests.blobs.blob_graphs import EVERY, SIZES, add_reference, doc_graph, put
from tests.cli.conftest import shell_in
from tests.support.command_line import EXECUTABLE, CommandLine

STORE = ("--store", "docs.omni")


@pytest.fixture(scope="module")
def docs(tmp_path_factory: pytest.TempPathFactory) -> CommandLine:
    """A command line beside a graph with blobs on two branches, one of them a reference; to read only."""
    folder = tmp_path_factory.mktemp("docs")
    (folder / "assets").mkdir()
    (folder / "assets" / "a.bin").write_bytes(b"outside")
    with doc_graph(folder / "docs.omni", EVERY) as graph:
        graph.branches.create("side")
        put(graph, {"inline": b"of the side"}, "merge", "side")
        graph.load([{"id": "e", "from": "inline", "to": "empty", "note": b"n"}], "append", type="Cites")
        pin = graph.snapshot().tables["node:Doc"]
    add_reference(folder / "docs.omni", pin, "ref", Blob.from_uri(f"file://{folder}/assets/a.bin"))
    return shell_in(folder)


def got(docs: CommandLine, *words: str) -> bytes:
    """What a command writes, byte by byte."""
    ended = subprocess.run(
        [EXECUTABLE, "blob", "get", *words, *STORE],
        cwd=docs.folder,
        env=dict(docs.environment),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=True,
    )
    assert ended.stderr == b""
    return ended.stdout


def test_get_writes_the_bytes_as_they_are(docs: CommandLine) -> None:
    content = SIZES["packed"]
    assert got(docs, "node", "Doc", "packed", "body") == content
    assert got(docs, "node", "Doc", "packed", "body", "--offset", "255999") == content[255_999:]
    assert got(docs, "node", "Doc", "packed", "body", "--offset", "10", "--length", "5") == content[10:15]
    assert got(docs, "node", "Doc", "packed", "body", "--length", "999999") == content
    assert got(docs, "node", "Doc", "empty", "body") == b""
    assert got(docs, "edge", "Cites", "e", "note") == b"n"
    assert got(docs, "node", "Doc", "inline", "body", "--branch", "side") == b"of the side"


def test_get_writes_a_file_that_is_complete_or_untouched(docs: CommandLine, tmp_path: Path) -> None:
    target = tmp_path / "out.bin"
    shown = docs.ok("blob", "get", "node", "Doc", "dedicated", "body", "--out", str(target), *STORE)
    assert (shown.out, shown.err, target.read_bytes()) == ("", "", SIZES["dedicated"])
    for words in (("nobody", "body"), ("null", "body"), ("inline", "body", "--offset", "99")):
        assert docs.run("blob", "get", "node", "Doc", *words, "--out", str(target), *STORE).code == 1
    assert target.read_bytes() == SIZES["dedicated"]
    assert [each.name for each in tmp_path.iterdir()] == ["out.bin"]


def test_a_terminal_gets_bytes_only_when_it_is_asked_for(docs: CommandLine) -> None:
    refused = docs.on_terminal("blob", "get", "node", "Doc", "inline", "body", *STORE)
    assert refused.code == 2 and "error: the bytes of a blob may confuse a terminal\n" in refused.out
    assert "some bytes" not in refused.out
    assert "some bytes" in docs.on_terminal("blob", "get", "node", "Doc", "inline", "body", "--force", *STORE).out


def test_stat_says_what_a_blob_is_without_reading_it(docs: CommandLine) -> None:
    with og.open(docs.folder / "docs.omni", mode="ro") as graph:
        head, etag = graph.snapshot().commit_id, graph.blob("Doc", "inline", "body").etag
    assert docs.ok("blob", "stat", "node", "Doc", "inline", "body", "--json", *STORE).json == {
        "selector": {"entity": "node", "type": "Doc", "id": "inline", "property": "body"},
        "kind": "managed",
        "size": 10,
        "etag": etag,
        "target": {"branch": "main", "resolved_snapshot": head},
    }
    text = docs.ok("blob", "stat", "node", "Doc", "inline", "body", *STORE).out
    assert text == f"node:Doc/inline body\nkind: managed\nsize: 10\netag: {etag}\nsnapshot: {head}\n"
    past = docs.ok("blob", "stat", "node", "Doc", "empty", "body", "--snapshot", "3", "--json", *STORE).json
    assert (past["size"], past["target"]["snapshot"], "branch" in past["target"]) == (0, "3", False)


def test_a_reference_is_shown_and_read_where_it_is_allowed(docs: CommandLine) -> None:
    uri = f"file://{docs.folder}/assets/a.bin"
    shown = docs.ok("blob", "stat", "node", "Doc", "ref", "body", "--json", *STORE).json
    assert (shown["kind"], shown["uri"]) == ("external", uri)
    assert not {"size", "etag"} & set(shown)
    denied = docs.run("blob", "get", "node", "Doc", "ref", "body", *STORE)
    assert (denied.code, denied.out) == (1, "")
    assert f"error: external blob URI '{uri}' is not allowed: " in denied.err
    allowed = docs.ok(
        "blob", "get", "node", "Doc", "ref", "body", *STORE, OMNIGRAPH_EXTERNAL_BLOBS=f"{docs.folder}/assets"
    )
    assert allowed.out == "outside"


def test_mistakes_are_one_sentence_and_a_way_out(docs: CommandLine) -> None:
    cases = {
        ("get", "node", "Dox", "inline", "body"): (1, "error: type 'node:Dox' does not exist at this version\n"),
        ("get", "node", "Doc", "nobody", "body"): (1, "error: 'node:Doc' has no row with the id 'nobody'\n"),
        ("get", "node", "Doc", "inline", "stars"): (1, "error: 'node:Doc' has no Blob property 'stars'\n"),
        ("stat", "node", "Doc", "null", "body"): (1, "error: 'body' of 'node:Doc' 'null' is null\n"),
        ("get", "node", "Doc", "inline", "body", "--offset", "11"): (1, "error: the blob has 10 bytes, and byte 11"),
        ("get", "node", "Doc", "inline", "body", "--length", "0"): (2, "Invalid value for '--length'"),
        ("get", "node", "Doc", "inline", "body", "--offset", "-1"): (2, "Invalid value for '--offset'"),
        ("get", "row", "Doc", "inline", "body"): (2, "Invalid value for 'ENTITY'"),
        ("get", "node", "Doc", "inline"): (2, "Missing argument 'PROPERTY'"),
        ("get", "node", "Doc", "inline", "body", "--branch", "side", "--snapshot", "3"): (2, "both say what to read"),
        ("get", "node", "Doc", "inline", "body", "--out", "missing/x"): (1, "there is no directory missing"),
        ("stat", "node", "Doc", "inline", "body", "--as", "act-x"): (2, "--as"),
    }
    ended = docs.run_all([("blob", *words, *STORE) for words in cases])
    for found, (words, (code, said)) in zip(ended, cases.items(), strict=True):
        assert (found.code, said in found.err) == (code, True), (words, found)
