"""How rows look: widths, long cells, signs that would steer a terminal, columns with the same name."""

from __future__ import annotations

from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.cli.printing import TableLook, print_result, shown_width


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    graph = og.init(tmp_path_factory.mktemp("g") / "g.omni", "node N { k: String @key  v: String?  l: [I32]? }")
    texts = {"a": "x" * 30, "b": "日本", "c": "\x1b[31mred\tend", "d": "👩‍🚀", "e": None}
    for key, value in texts.items():
        graph.mutate(
            "query q($k: String, $v: String?) { insert N { k: $k, v: $v, l: [1, 2] } }", params={"k": key, "v": value}
        )
    return graph


def shown(graph: og.Graph, returned: str, capsys: pytest.CaptureFixture[str], format_: str, look: TableLook) -> str:
    result = graph.query(f"query q() {{ match {{ $n: N }} return {{ {returned} }} order {{ $n.k }} }}")
    print_result(result, format_, look)
    return capsys.readouterr().out


def test_long_cells_are_cut_and_wide_signs_take_two_columns(
    graph: og.Graph, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = shown(graph, "$n.k as k, $n.v as v", capsys, "table", TableLook(10)).splitlines()
    assert lines[1:3] == ["k | v", "--+-----------"]
    assert lines[3:] == ["a | xxxxxxxxx…", "b | 日本", "c | \\x1b[31mr…", "d | 👩‍🚀", "e | null"]
    assert shown_width("日本") == 4


def test_a_column_is_never_narrower_than_eight(graph: og.Graph, capsys: pytest.CaptureFixture[str]) -> None:
    lines = shown(graph, "$n.v as v", capsys, "table", TableLook(1)).splitlines()
    assert lines[3] == "xxxxxxx…"


def test_long_cells_wrap_when_asked(graph: og.Graph, capsys: pytest.CaptureFixture[str]) -> None:
    lines = shown(graph, "$n.k as k, $n.v as v", capsys, "table", TableLook(12, wraps=True)).splitlines()
    assert lines[3:6] == ["a | xxxxxxxxxxxx", "  | xxxxxxxxxxxx", "  | xxxxxx"]


def test_lists_are_compact_json_and_columns_of_one_name_are_kept(
    graph: og.Graph, capsys: pytest.CaptureFixture[str]
) -> None:
    text = shown(graph, "$n.l as x, $n.k as x", capsys, "csv", TableLook())
    assert text.splitlines()[:2] == ["x,x", '"[1,2]",a']


def test_csv_of_a_read_can_be_loaded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    schema = """node T { k: String @key  s: String?  b: Bool?  i: I64?  u: U64?  f: F64?  g: F32?  d: Date?
        at: DateTime?  l: [String]?  n: [I32]?  v: Vector(2)? }"""
    full = {"s": 'a, "b"\r\nc', "b": True, "i": -(2**63), "u": 2**64 - 1, "f": 1e300, "g": 0.1, "d": "2024-02-29"}
    full |= {"at": "2024-02-29T12:00:00.123Z", "l": ["x", ""], "n": [1, 2], "v": [0.5, 1.5]}
    odd = [{"k": "nothing"}, {"k": "empty", "s": ""}, {"k": "null", "s": "null"}, {"k": "list", "l": []}]
    with og.init(tmp_path / "a.omni", schema) as graph, og.init(tmp_path / "b.omni", schema) as copy:
        graph.load({"T": [{"k": "full"} | full, *odd]}, "append")
        names = ", ".join(f"$t.{name} as {name}" for name in ["k", *full])
        result = graph.query(f"query q() {{ match {{ $t: T }} return {{ {names} }} order {{ k }} }}")
        print_result(result, "csv", TableLook())
        (tmp_path / "T.csv").write_text(capsys.readouterr().out, "utf-8", newline="")
        copy.load(tmp_path / "T.csv", "append")
        assert copy.export().text == graph.export().text
    lines = (tmp_path / "T.csv").read_text("utf-8").splitlines()
    assert lines[1] == 'empty,"",,,,,,,,,,'
    assert lines[-1] == "null,null,,,,,,,,,,"


def test_an_empty_result_is_still_a_document(graph: og.Graph, capsys: pytest.CaptureFixture[str]) -> None:
    empty = graph.query('query q() { match { $n: N { k: "zz" } } return { $n.k as k } }')
    for format_, wanted in {
        "table": "0 rows from branch main via q\nk\n-\n",
        "csv": "k\n",
        "kv": "0 rows from branch main via q\n(no rows)\n",
    }.items():
        print_result(empty, format_, TableLook())
        assert capsys.readouterr().out == wanted
    print_result(empty, "json", TableLook())
    assert capsys.readouterr().out == empty.to_json(indent=2) + "\n"


def test_rows_come_as_values_in_the_order_of_the_columns(graph: og.Graph) -> None:
    result = graph.query("query q() { match { $n: N } return { $n.k as x, $n.v as x } order { $n.k } limit 2 }")
    assert list(result.values()) == [("a", "x" * 30), ("b", "日本")]


@pytest.mark.parametrize("format_", ["json", "jsonl", "csv", "kv", "table"])
def test_dates_and_instants_are_text_in_every_format(
    format_: str, graph: og.Graph, capsys: pytest.CaptureFixture[str]
) -> None:
    returned = 'date("2024-02-29") as day, datetime("2024-02-29T12:00:00Z") as at'
    text = shown(graph, returned, capsys, format_, TableLook())
    assert text.count("2024-02-29T12:00:00.000Z") == 5
    assert text.count("2024-02-29") == 10


def test_an_explanation_has_a_json_form(graph: og.Graph) -> None:
    text = "query q() { match { $n: N } return { $n.k } }"
    plan = graph.explain(text).to_dict()
    assert (plan["row_count"], plan["steps"][0]["rows"]) == (None, None)
    assert graph.explain(text, run=True).to_dict()["row_count"] == 5


def test_a_process_knows_whether_it_is_inside_a_commit(tmp_path: Path) -> None:
    with og.init(tmp_path / "g.omni", "node N { k: String @key }") as graph:
        seen = []
        with graph._store.sections.hold("main"):
            seen.append(graph.is_committing)
        seen.append(graph.is_committing)
    assert seen == [True, False]
