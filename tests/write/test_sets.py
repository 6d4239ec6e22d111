"""Rules about rows together: ids and keys once, unique tuples, endpoints, cardinality; and the three modes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.errors import (
    CardinalityViolation,
    EndpointMissing,
    ExpectedVersionMismatch,
    InputError,
    KeyConflict,
    PreconditionFailed,
    UniqueViolation,
)
from omnigraph.storage.metadata.manifest import table_version_of
from omnigraph.write.change import Change, Mode
from tests.support.small_graphs import ids_of, rows_of, without

SCHEMA = """
node Person { handle: String @key  name: String?  email: String? @unique  a: String?  b: I32?  @unique(a, b) }
node Team { code: String @key }
node Note { text: String? }
edge Follows: Person -> Person { since: Date?  @unique(src, dst) }
edge MemberOf: Person -> Team @card(0..2) { role: String? }
edge Leads: Person -> Team @card(1..1)
edge About: Note -> Person
"""


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    graph = og.init(tmp_path / "g", SCHEMA)
    graph.write([_put("node:Person", handle=["ana", "bo", "cy"]), _put("node:Team", code=["c1", "pl", "rs"])])
    return graph


def _put(key: str, mode: Mode = Mode.APPEND, remove: list[str] | None = None, **columns: Any) -> Change:
    going = None if remove is None else pa.array(remove, pa.string())
    return Change(key, pa.table(columns), mode, going)


def _refused(graph: og.Graph, error: type[og.OmniGraphError], message: str, *changes: Change) -> None:
    """The write fails with this message and changes nothing."""
    before = graph.snapshot().tables
    with pytest.raises(error) as caught:
        graph.write(list(changes))
    assert caught.value.message == message
    assert graph.snapshot().tables == before


ALL_MODES = pytest.mark.parametrize("mode", list(Mode))


def test_append_inserts_and_refuses_what_is_there(graph: og.Graph) -> None:
    graph.write([_put("node:Person", handle=["di"])])
    assert ids_of(graph, "Person") == {"ana", "bo", "cy", "di"}
    _refused(graph, KeyConflict, "node type 'Person' already has this id", _put("node:Person", handle=["x", "bo"]))
    graph.write([_put("edge:About", id=["e"], src=["n"], dst=["ana"]), _put("node:Note", id=["n"])])
    _refused(
        graph, KeyConflict, "edge type 'About' already has this id", _put("edge:About", id=["e"], src=["n"], dst=["bo"])
    )
    _refused(graph, KeyConflict, "node type 'Note' already has this id", _put("node:Note", id=["m", "n"]))


def test_merge_replaces_the_row_as_a_whole(graph: og.Graph) -> None:
    graph.write([_put("node:Person", Mode.MERGE, handle=["bo"], name=["Bo"], email=["b@x"])])
    graph.write([_put("node:Person", Mode.MERGE, handle=["bo", "di"], name=["Bo C.", "Di"])])
    row = rows_of(graph, "Person")["bo"]
    assert (row["name"], row["email"]) == ("Bo C.", None)
    assert ids_of(graph, "Person") == {"ana", "bo", "cy", "di"}


def test_overwrite_replaces_the_types_it_names_and_no_other(graph: og.Graph) -> None:
    graph.write([_put("node:Note", text=["kept"])])
    graph.write([_put("node:Team", Mode.OVERWRITE, code=["new"])])
    assert (ids_of(graph, "Team"), graph.snapshot().count("Note")) == ({"new"}, 1)
    done = graph.write([_put("node:Team", Mode.OVERWRITE, code=pa.array([], pa.string()))])
    assert (ids_of(graph, "Team"), done.removed) == (set(), {"node:Team": 1})
    assert graph.write([_put("node:Team", Mode.OVERWRITE, code=pa.array([], pa.string()))]).commit is None


def test_removing_ignores_unknown_ids_and_an_empty_change_commits_nothing(graph: og.Graph) -> None:
    head = graph.commits.head()
    for change in (
        without("node:Person", "nobody"),
        Change("node:Person", remove=pa.array([], pa.string())),
        Change("node:Person", remove=pa.array([None], pa.string())),
        Change("node:Person"),
        _put("node:Person", handle=pa.array([], pa.string())),
        _put("node:Note"),
    ):
        assert graph.write([change]).commit is None
    assert graph.write([]).commit is None
    assert graph.commits.head() == head
    done = graph.write([Change("node:Person", remove=pa.chunked_array([["cy"], ["cy", "nobody"]]))])
    assert (done.removed, ids_of(graph, "Person")) == ({"node:Person": 1}, {"ana", "bo"})


def test_one_write_puts_and_removes(graph: og.Graph) -> None:
    graph.write([_put("node:Person", Mode.MERGE, ["cy", "ana"], handle=["di", "ana"], name=["Di", "Ana"])])
    assert ids_of(graph, "Person") == {"ana", "bo", "di"}
    assert rows_of(graph, "Person")["ana"]["name"] == "Ana", "an id that is put is not removed"


def test_a_type_occurs_once_per_write(graph: og.Graph) -> None:
    _refused(
        graph,
        InputError,
        "'node:Team' occurs twice in one write",
        _put("node:Team", code=["x"]),
        _put("node:Team", code=["y"]),
    )


@ALL_MODES
def test_a_key_may_not_repeat_in_one_write(graph: og.Graph, mode: Mode) -> None:
    message = "duplicate key 'x' of Person.handle"
    _refused(graph, UniqueViolation, message, _put("node:Person", mode, handle=["x", "y", "x"], name=["1", "2", "1"]))


def test_repeated_ids_without_a_key_are_last_wins_in_a_merge_and_a_conflict_else(graph: og.Graph) -> None:
    graph.write([_put("node:Note", Mode.MERGE, id=["n", "m", "n"], text=["first", "m", "last"])])
    assert {id_: row["text"] for id_, row in rows_of(graph, "Note").items()} == {"n": "last", "m": "m"}
    for mode in (Mode.APPEND, Mode.OVERWRITE):
        change = _put("node:Note", mode, id=["q", "q"], text=["1", "2"])
        _refused(graph, KeyConflict, "node type 'Note' already has this id", change)


@ALL_MODES
def test_a_unique_value_may_not_repeat_in_one_write(graph: og.Graph, mode: Mode) -> None:
    message = "@unique violation on Person.email: value 'x' held by 'd' and 'e'"
    _refused(graph, UniqueViolation, message, _put("node:Person", mode, handle=["d", "e"], email=["x", "x"]))


def test_a_unique_value_is_checked_against_what_stays(graph: og.Graph) -> None:
    graph.write([_put("node:Person", Mode.MERGE, handle=["ana"], email=["x"])])
    message = "@unique violation on Person.email: value 'x' held by 'ana' and 'd'"
    for mode in (Mode.APPEND, Mode.MERGE):
        _refused(graph, UniqueViolation, message, _put("node:Person", mode, handle=["d"], email=["x"]))
    graph.write([_put("node:Person", Mode.MERGE, handle=["ana"], email=["x"], name=["Ana"])])
    graph.write([_put("node:Person", Mode.MERGE, handle=["ana", "d"], email=["y", "x"])])
    assert rows_of(graph, "Person")["d"]["email"] == "x", "a value that its holder gives up is free"
    graph.write([_put("node:Person", Mode.MERGE, ["d"], handle=["e"], email=["x"])])
    assert rows_of(graph, "Person")["e"]["email"] == "x", "a removed row holds nothing"
    graph.write([_put("node:Person", Mode.OVERWRITE, handle=["z"], email=["x"])])
    assert ids_of(graph, "Person") == {"z"}


def test_null_is_exempt_from_unique(graph: og.Graph) -> None:
    graph.write([_put("node:Person", handle=["d", "e"], email=pa.nulls(2, pa.string()))])
    graph.write([_put("node:Person", handle=["f", "g"], a=["1", "1"], b=pa.nulls(2, pa.int32()))])
    assert len(ids_of(graph, "Person")) == 7


@pytest.mark.parametrize(
    ("first", "second", "clash"),
    [
        (("x", 1), ("x", 1), True),
        (("x", 1), ("x", 2), False),
        (("x|1", 2), ("x", 12), False),
        (("x", 12), ("x,1", 2), False),
        (('x","1', 2), ("x", 1), False),
        (("", 1), ("", 1), True),
        (("é", 1), ("e\u0301", 1), False),
        (("\\", 1), ("\\\\", 1), False),
        (("'", 1), ("'", 1), True),
    ],
)
def test_a_unique_tuple_is_equal_exactly_when_its_parts_are(
    graph: og.Graph, first: tuple[str, int], second: tuple[str, int], clash: bool
) -> None:
    graph.write([_put("node:Person", handle=["d"], a=[first[0]], b=[first[1]])])
    change = _put("node:Person", handle=["e"], a=[second[0]], b=[second[1]])
    if clash:
        value = f"({second[0]}, {second[1]})"
        message = f"@unique violation on Person.(a, b): value '{value}' held by 'd' and 'e'"
        _refused(graph, UniqueViolation, message, change)
    else:
        assert graph.write([change]).commit


def test_unique_ends_of_edges_are_checked(graph: og.Graph) -> None:
    graph.write([_put("edge:Follows", id=["f"], src=["ana"], dst=["bo"])])
    message = "@unique violation on Follows.(dst, src): value '(bo, ana)' held by 'f' and 'g'"
    _refused(graph, UniqueViolation, message, _put("edge:Follows", id=["g"], src=["ana"], dst=["bo"]))
    graph.write([_put("edge:Follows", id=["g"], src=["bo"], dst=["ana"])])
    assert ids_of(graph, "Follows") == {"f", "g"}


def test_an_edge_needs_its_nodes(graph: og.Graph) -> None:
    _refused(graph, EndpointMissing, "dst 'zz' not found in Person", _put("edge:Follows", src=["ana"], dst=["zz"]))
    _refused(graph, EndpointMissing, "src 'zz' not found in Person", _put("edge:Follows", src=["zz"], dst=["ana"]))
    _refused(graph, EndpointMissing, "dst 'ana' not found in Team", _put("edge:MemberOf", src=["ana"], dst=["ana"]))
    graph.write([_put("edge:Follows", src=["new"], dst=["ana"]), _put("node:Person", handle=["new"])])
    assert graph.snapshot().count("Follows") == 1


def test_an_edge_may_not_point_at_a_node_that_the_same_write_removes(graph: og.Graph) -> None:
    changes = [_put("edge:Follows", src=["ana"], dst=["bo"]), without("node:Person", "bo")]
    _refused(graph, EndpointMissing, "dst 'bo' not found in Person", *changes)
    change = _put("node:Person", Mode.OVERWRITE, handle=["ana"])
    _refused(graph, EndpointMissing, "dst 'bo' not found in Person", changes[0], change)


def test_no_edge_is_left_behind(graph: og.Graph) -> None:
    graph.write([_put("edge:MemberOf", id=["m"], src=["ana"], dst=["c1"])])
    _refused(graph, EndpointMissing, "src 'ana' not found in Person", without("node:Person", "ana"))
    _refused(graph, EndpointMissing, "dst 'c1' not found in Team", _put("node:Team", Mode.OVERWRITE, code=["pl"]))
    graph.write([_put("node:Team", Mode.OVERWRITE, code=["c1"])])
    graph.write([_put("node:Team", Mode.MERGE, code=["c1"])])
    graph.write([without("node:Person", "ana"), without("edge:MemberOf", "m")])
    assert (ids_of(graph, "Person"), ids_of(graph, "MemberOf")) == ({"bo", "cy"}, set())


def test_an_edge_that_moves_away_in_the_same_write_frees_its_node(graph: og.Graph) -> None:
    graph.write([_put("edge:MemberOf", id=["m"], src=["ana"], dst=["c1"])])
    graph.write([_put("edge:MemberOf", Mode.MERGE, id=["m"], src=["ana"], dst=["pl"]), without("node:Team", "c1")])
    assert rows_of(graph, "MemberOf")["m"]["dst"] == "pl"
    graph.write([_put("edge:MemberOf", Mode.OVERWRITE, src=["bo"], dst=["rs"]), without("node:Team", "pl")])
    assert ids_of(graph, "Team") == {"rs"}


def test_cardinality_counts_what_is_there_afterwards(graph: og.Graph) -> None:
    graph.write([_put("edge:MemberOf", id=["m1", "m2"], src=["bo", "bo"], dst=["c1", "pl"])])
    message = "@card violation on edge MemberOf: source 'bo' has 3 edges (max 2)"
    for mode in (Mode.APPEND, Mode.MERGE):
        _refused(graph, CardinalityViolation, message, _put("edge:MemberOf", mode, src=["bo"], dst=["rs"]))
    change = _put("edge:MemberOf", src=["cy"] * 4, dst=["rs", "c1", "pl", "rs"])
    _refused(graph, CardinalityViolation, "@card violation on edge MemberOf: source 'cy' has 4 edges (max 2)", change)
    graph.write([_put("edge:MemberOf", Mode.MERGE, id=["m2"], src=["bo"], dst=["rs"])])
    graph.write([_put("edge:MemberOf", Mode.MERGE, ["m1"], id=["m3"], src=["bo"], dst=["c1"])])
    assert {row["dst"] for row in rows_of(graph, "MemberOf").values()} == {"rs", "c1"}


def test_a_moved_edge_recounts_the_source_it_left(graph: og.Graph) -> None:
    graph.write([_put("edge:Leads", id=["l1", "l2"], src=["ana", "bo"], dst=["c1", "pl"])])
    _refused(
        graph,
        CardinalityViolation,
        "@card violation on edge Leads: source 'ana' has 0 edges (min 1)",
        _put("edge:Leads", Mode.MERGE, id=["l1"], src=["cy"], dst=["c1"]),
    )
    _refused(
        graph,
        CardinalityViolation,
        "@card violation on edge Leads: source 'bo' has 2 edges (max 1)",
        _put("edge:Leads", Mode.MERGE, id=["l1", "l3"], src=["bo", "ana"], dst=["c1", "rs"]),
    )
    _refused(
        graph,
        CardinalityViolation,
        "@card violation on edge Leads: source 'ana' has 0 edges (min 1)",
        without("edge:Leads", "l1"),
    )
    graph.write([_put("edge:Leads", Mode.MERGE, id=["l1", "l2"], src=["bo", "ana"], dst=["c1", "pl"])])
    assert {row["src"]: id_ for id_, row in rows_of(graph, "Leads").items()} == {"bo": "l1", "ana": "l2"}


def test_a_source_that_goes_owes_no_edges(graph: og.Graph) -> None:
    graph.write([_put("edge:Leads", id=["l1"], src=["ana"], dst=["c1"])])
    graph.write([without("edge:Leads", "l1"), without("node:Person", "ana")])
    assert (ids_of(graph, "Person"), ids_of(graph, "Leads")) == ({"bo", "cy"}, set())


def test_an_overwrite_of_edges_counts_only_its_own(graph: og.Graph) -> None:
    graph.write([_put("edge:MemberOf", src=["bo", "bo"], dst=["c1", "pl"])])
    graph.write([_put("edge:MemberOf", Mode.OVERWRITE, src=["bo", "bo"], dst=["rs", "pl"])])
    assert graph.snapshot().count("MemberOf") == 2
    change = _put("edge:MemberOf", Mode.OVERWRITE, src=["cy"] * 3, dst=["rs", "pl", "c1"])
    _refused(graph, CardinalityViolation, "@card violation on edge MemberOf: source 'cy' has 3 edges (max 2)", change)


def test_the_first_violation_is_reported_in_order(graph: og.Graph) -> None:
    """Row rules, then unique, then endpoints, then cardinality; nodes before edges."""
    bad_edges = _put("edge:MemberOf", src=["zz"] * 3, dst=["c1"] * 3)
    graph.write([_put("node:Person", Mode.MERGE, handle=["ana"], email=["x"])])
    bad_nodes = _put("node:Person", handle=["d"], email=["x"])
    with pytest.raises(UniqueViolation):
        graph.write([bad_edges, bad_nodes])
    with pytest.raises(EndpointMissing):
        graph.write([bad_edges])


def test_several_types_land_in_one_commit_or_not_at_all(graph: og.Graph) -> None:
    done = graph.write(
        [_put("node:Person", handle=["d"]), _put("node:Team", code=["t"]), _put("edge:MemberOf", src=["d"], dst=["t"])]
    )
    assert done.put == {"node:Person": 1, "node:Team": 1, "edge:MemberOf": 1}
    assert graph.commits.head() == done.commit
    before = graph.snapshot().tables
    with pytest.raises(EndpointMissing):
        graph.write([_put("node:Person", handle=["e"]), _put("edge:MemberOf", src=["e"], dst=["nope"])])
    assert graph.snapshot().tables == before


def test_a_write_that_read_rows_is_refused_when_its_table_moved(graph: og.Graph) -> None:
    base = graph.snapshot()
    change = Change("node:Person", pa.table({"handle": ["ana"]}), Mode.MERGE, reads_rows=True)
    graph.write([_put("node:Team", code=["elsewhere"])])
    graph.write([change], base=base)
    with pytest.raises(ExpectedVersionMismatch, match=r"stale view of 'node:Person': expected manifest table version"):
        graph.write([change], base=base)
    with pytest.raises(ExpectedVersionMismatch):
        graph.write([without("node:Person", "cy")], base=base)
    assert graph.write([_put("node:Person", handle=["new"])], base=base).commit, "an insert read nothing"


def test_a_write_can_insist_on_the_head(graph: og.Graph) -> None:
    head = graph.commits.head().id
    done = graph.write([_put("node:Team", code=["x"])], if_commit=head).commit
    assert done is not None
    with pytest.raises(PreconditionFailed, match=f"is at commit {done.id}, not at {head}"):
        graph.write([_put("node:Team", code=["y"])], if_commit=head)
    assert "y" not in ids_of(graph, "Team")


def test_rows_that_stay_keep_their_identity_and_versions(graph: og.Graph) -> None:
    def physical() -> dict[str, tuple[int, int]]:
        pin = graph.snapshot().tables["node:Person"]
        handle = graph._store.tables.at(table_version_of(pin))
        names = ["id", "_row_created_at_version"]
        rows = handle.scanner(columns=names, with_row_id=True).to_table().to_pylist()
        return {row["id"]: (row["_rowid"], row["_row_created_at_version"]) for row in rows}

    before = physical()
    for number in range(20):
        graph.write([_put("node:Person", Mode.MERGE, handle=["bo", f"n{number}"], name=[str(number), None])])
    after = physical()
    assert {key: after[key] for key in before} == before
    assert len({row_id for row_id, _ in after.values()}) == len(after) == 23
