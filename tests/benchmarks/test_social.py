"""The made-up social graph, and the questions about it."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from benchmarks.query.questions import ANALYSES, HOPS, LOOKUP, MANY, draw_parameters, phrasings
from benchmarks.social import SCHEMA, Social, make, write_jsonl, write_parquet
from omnigraph.query import check_read, parse_queries
from omnigraph.schema.compiled_schema import compile_schema

QUESTIONS = (*ANALYSES, LOOKUP, *HOPS, *MANY)


@pytest.fixture(scope="module")
def social() -> Social:
    return make(scale=0.01)


def test_the_same_seed_gives_the_same_graph_and_another_seed_another(social: Social) -> None:
    again, other = make(scale=0.01), make(scale=0.01, seed=8)
    assert all(table.equals(again.tables[name]) for name, table in social.tables.items())
    assert not social.edges["Follows"].equals(other.edges["Follows"])


@pytest.mark.parametrize("name", ["Follows", "HasInterest", "LivesIn", "InState", "InCountry"])
def test_no_two_edges_of_a_type_are_parallel(social: Social, name: str) -> None:
    edges = social.edges[name]
    assert edges.group_by(["src", "dst"]).aggregate([]).num_rows == edges.num_rows > 0


def test_nobody_follows_oneself(social: Social) -> None:
    follows = social.edges["Follows"]
    assert not pc.any(pc.equal(follows["src"], follows["dst"])).as_py()


def test_every_edge_ends_at_nodes_of_its_types(social: Social) -> None:
    catalog = compile_schema(SCHEMA).catalog
    for name, edges in social.edges.items():
        ends = catalog.edges[name]
        for column, type_name in (("src", ends.source), ("dst", ends.target)):
            keys = social.nodes[type_name].column(0).combine_chunks()
            assert pc.all(pc.is_in(edges[column], value_set=keys)).as_py(), f"{name}.{column}"


def test_the_jsonl_has_one_object_per_row_in_the_dialect_of_load(social: Social, tmp_path: Path) -> None:
    write_jsonl(social, tmp_path / "social.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "social.jsonl").read_text(encoding="utf-8").splitlines()]
    assert len(lines) == sum(table.num_rows for table in social.tables.values())
    person = social.nodes["Person"].slice(0, 1).to_pylist()[0]
    assert lines[0] == {"type": "Person", "data": {**person, "birthday": person["birthday"].isoformat()}}
    edge = social.edges["Follows"].slice(0, 1).to_pylist()[0]
    written = next(line for line in lines if line.get("edge") == "Follows")
    assert written == {
        "edge": "Follows",
        "from": edge["src"],
        "to": edge["dst"],
        "data": {"since": edge["since"].isoformat()},
    }


def test_the_parquet_files_hold_the_tables(social: Social, tmp_path: Path) -> None:
    files = write_parquet(social, tmp_path)
    assert {name: pq.read_table(path) for name, path in files.items()} == dict(social.tables)


@pytest.mark.parametrize("question", QUESTIONS)
def test_the_gq_text_of_a_question_fits_the_schema(question: str) -> None:
    catalog = compile_schema(SCHEMA).catalog
    for phrasing in phrasings("gq")[question]:
        for step in phrasing.steps:
            checked = [check_read(found, catalog) for found in parse_queries(step.text).queries]
            assert len(checked) == 1 and checked[0].columns


@pytest.mark.parametrize("language", ["gq", "cypher", "sql"])
def test_every_question_is_asked_in_every_language_with_its_parameters(language: str) -> None:
    parameters = draw_parameters(2_000)
    assert set(phrasings(language)) == set(QUESTIONS)
    for question in QUESTIONS:
        wanted = set(parameters.of(question)[0])
        for phrasing in phrasings(language)[question]:
            assert wanted <= {name for step in phrasing.steps for name in step.names}, f"{question} {phrasing.label}"


def test_the_parameters_are_persons_of_the_graph(social: Social) -> None:
    parameters = draw_parameters(social.nodes["Person"].num_rows, many=100)
    drawn = pa.array([*parameters.handles, *parameters.many])
    assert pc.all(pc.is_in(drawn, value_set=social.nodes["Person"]["handle"].combine_chunks())).as_py()
    assert len(pc.unique(drawn)) == len(drawn)
