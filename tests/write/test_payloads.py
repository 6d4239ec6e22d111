"""Nothing in an id or a value changes what a filter means: five hundred payloads, each only itself."""

from __future__ import annotations

import itertools
from pathlib import Path

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.errors import EndpointMissing, KeyConflict, UniqueViolation
from omnigraph.storage.metadata.manifest import table_version_of
from omnigraph.storage.tables.row_lookup import find_rows
from omnigraph.write.change import Change, Mode
from tests.support.small_graphs import ids_of

SCHEMA = """
node Thing { k: String @key  u: String? @unique  plain: String? }
edge Link: Thing -> Thing
"""

_QUOTES = ["'", '"', "`", "\\", "\\'", '\\"', "''", '""', "’", "‘", "＇", "ʼ", "\u2032"]
_SQL = [
    *("OR 1=1", "OR true", "AND false", "; DROP TABLE x", "--", "/*", "*/", "#", "UNION SELECT id", "IS NOT NULL"),
    *(") OR (1=1", "IN (SELECT 1)", "LIKE '%'", "= id", "BETWEEN 'a' AND 'z'", "cast(1 as string)", "length(id) > 0"),
]
_ODD = [
    *("%", "_", "%%", "*", "?", "[a]", "$1", "{}", "{0}", "%s", "${id}", "@x", "|", "||", "&&", "!", "~", "^", "null"),
    *("NULL", "true", "false", "0", "-1", "1e9", "nan", "inf", " ", "  ", "\t", "\n", "\r\n", "\0", "a\0b", "\x1f"),
    *(
        "\x7f",
        "\u200b",
        "\u202e",
        "\ufeff",
        "\u2028",
        "é",
        "e\u0301",
        "ß",
        "ẞ",
        "İ",
        "ı",
        "图",
        "😀",
        "👨‍👩‍👧‍👦",
        "\U0010ffff",
    ),
    *("id", "src", "dst", "_rowid", "graph_head:main", "node:Person$00000000000000000001", "../x", "a/b", "a|b", "a,b"),
    *('["7","acme"]', '{"a":1}', "<script>", "&amp;", "=1+1", "x" * 5_000, "ﬁ", "Å", "A\u030a"),
]


def _corpus() -> list[str]:
    broken_out = [f"{quote} {text} {quote}" for quote, text in itertools.product(_QUOTES, _SQL)]
    tight = [f"a{quote}{text}" for quote, text in itertools.product(_QUOTES[:10], _SQL)]
    doubled = [f"{a}{b}" for a, b in itertools.product(_QUOTES, repeat=2)]
    return list(dict.fromkeys([*_QUOTES, *_SQL, *_ODD, *broken_out, *tight, *doubled]))[:500]


CORPUS = _corpus()


@pytest.fixture(scope="module", params=["scan", "index"])
def graph(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    graph = og.init(tmp_path_factory.mktemp("payloads") / "g", SCHEMA)
    graph.write([Change("node:Thing", pa.table({"k": CORPUS, "u": CORPUS, "plain": CORPUS}))])
    if request.param == "index":
        graph.ensure_indices()
    return graph


def test_the_corpus_is_large_and_has_no_doubles() -> None:
    assert len(CORPUS) == len(set(CORPUS)) == 500


def test_every_payload_comes_back_as_it_was(graph: og.Graph) -> None:
    rows = graph.snapshot().arrow("Thing").to_pylist()
    assert {row["id"] for row in rows} == set(CORPUS)
    assert all(row["id"] == row["k"] == row["u"] == row["plain"] for row in rows)


def test_a_payload_finds_itself_and_nothing_else(graph: og.Graph) -> None:
    """One at a time through the filter, the way a small write looks its ids up."""
    pin = graph.snapshot().tables["node:Thing"]
    handle = graph._store.tables.at(table_version_of(pin))
    for payload in CORPUS[::3]:
        assert find_rows(handle, pa.array([payload])).column("id").to_pylist() == [payload]
        assert find_rows(handle, pa.array([f"{payload}?"])).num_rows == (f"{payload}?" in CORPUS)
    assert find_rows(handle, pa.array(CORPUS), "u", ("id",)).num_rows == 500


def test_appending_a_payload_that_exists_is_a_conflict_and_a_longer_one_is_not(graph: og.Graph) -> None:
    fresh = [f"{payload}\u2603" for payload in CORPUS[:40]]
    for payload in CORPUS[:40:4]:
        with pytest.raises(KeyConflict) as caught:
            graph.write([Change("node:Thing", pa.table({"k": [payload]}))])
        assert caught.value.details["id"] == payload
    graph.write([Change("node:Thing", pa.table({"k": fresh}))])
    graph.write([Change("node:Thing", remove=pa.array(fresh))])
    assert ids_of(graph, "Thing") == set(CORPUS)


def test_a_unique_payload_is_held_by_its_row_only(graph: og.Graph) -> None:
    for payload in CORPUS[5:45:5]:
        with pytest.raises(UniqueViolation) as caught:
            graph.write([Change("node:Thing", pa.table({"k": [f"{payload}-new"], "u": [payload]}))])
        assert caught.value.details["ids"] == [payload, f"{payload}-new"]


def test_payloads_as_endpoints_are_found_and_unknown_ones_are_not(graph: og.Graph) -> None:
    ends = pa.table({"id": [f"e{n}" for n in range(500)], "src": CORPUS, "dst": CORPUS[::-1]})
    graph.write([Change("edge:Link", ends, Mode.OVERWRITE)])
    with pytest.raises(EndpointMissing) as caught:
        graph.write([Change("edge:Link", pa.table({"src": CORPUS[:3], "dst": ["'", "' OR '1'='1", '"']}))])
    assert caught.value.details["id"] == "' OR '1'='1"
    with pytest.raises(EndpointMissing) as caught:
        graph.write([Change("node:Thing", remove=pa.array(["' OR 1=1 '"]))])
    assert caught.value.details["id"] == "' OR 1=1 '"
    graph.write([Change("edge:Link", pa.table({"src": ["'"], "dst": ["'"]}).slice(0, 0), Mode.OVERWRITE)])


def test_replacing_and_removing_touch_exactly_the_payloads_named(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "g", SCHEMA)
    graph.write([Change("node:Thing", pa.table({"k": CORPUS, "plain": ["old"] * 500}))])
    changed, gone = set(CORPUS[::7]), set(CORPUS[3::11]) - set(CORPUS[::7])
    graph.write(
        [
            Change(
                "node:Thing",
                pa.table({"k": sorted(changed), "plain": ["new"] * len(changed)}),
                Mode.MERGE,
                pa.array(sorted(gone)),
            )
        ]
    )
    rows = graph.snapshot().arrow("Thing").to_pylist()
    assert {row["k"] for row in rows} == set(CORPUS) - gone
    assert {row["k"] for row in rows if row["plain"] == "new"} == changed


@pytest.mark.torture
def test_every_payload_alone_is_removed_alone(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "g", SCHEMA)
    graph.write([Change("node:Thing", pa.table({"k": CORPUS}))])
    graph.ensure_indices()
    left = set(CORPUS)
    for payload in CORPUS:
        graph.write([Change("node:Thing", remove=pa.array([payload]))])
        left.discard(payload)
        assert graph.snapshot().count("Thing") == len(left)
    assert left == set()
