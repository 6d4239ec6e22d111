"""Loads over HTTP: text in JSON, NDJSON, Arrow."""

from __future__ import annotations

import gzip
import io
import json
import struct

import pyarrow as pa
import pytest

from omnigraph.server.server_limits import ServerLimits
from omnigraph.wire.arrow_results import MEDIA_TYPE
from tests.server.operations.api import Api, api, lines, person, refused
from tests.support.http_call import Reply

LINES = "application/x-ndjson"
EDGE = {"edge": "Knows", "from": "Eve", "to": "Alice", "data": {"since": "2020-01-01"}}


def ndjson(shared: Api, text: str, query: str) -> Reply:
    return shared.send("POST", f"/load/ndjson?{query}", text.encode(), headers={"Content-Type": LINES})


def arrow(table: pa.Table) -> bytes:
    file = io.BytesIO()
    with pa.ipc.new_stream(file, table.schema) as writer:
        writer.write_table(table)
    return file.getvalue()


def test_a_load_makes_the_branch_that_it_needs(shared: Api) -> None:
    base = shared.head()
    done = shared.done("/load", data=lines(person("Eve"), EDGE), branch="loaded/json", from_="main", message="new")
    commit = done.pop("commit")
    timings = done.pop("timings")
    assert done == {
        "uri": shared.server.app.opened.graphs["alpha"].uri,
        "branch": "loaded/json",
        "base_branch": "main",
        "branch_created": True,
        "mode": "merge",
        "nodes": [{"name": "Person", "entities_loaded": 1}],
        "edges": [{"name": "Knows", "entities_loaded": 1}],
        "total_entities": 2,
        "actor_id": None,
        "rejected": 0,
        "rejects": [],
        "index_commit": None,
    }
    assert set(timings) == {"read", "commit"}
    assert (commit["parent_commit_id"], commit["message"], commit["graph_branch"]) == (base, "new", "loaded/json")
    assert shared.told(f"/commits/{commit['graph_commit_id']}") == commit
    assert shared.head("loaded/json") == commit["graph_commit_id"]


def test_a_body_of_lines_is_loaded_the_same_way(shared: Api) -> None:
    text = "\n" + lines(person("Eve"), EDGE) + "\n\n"
    reply = ndjson(shared, text, "branch=loaded%2Flines&from=main&mode=append")
    done = reply.json()
    assert reply.status == 200 and "uri" not in done
    assert (done["branch"], done["branch_created"], done["mode"]) == ("loaded/lines", True, "append")
    assert (done["total_entities"], done["commit"]["kind"]) == (2, "load")
    assert "Eve" in shared.names(branch="loaded/lines")


def test_the_older_path_loads_too(shared: Api, branch: str) -> None:
    reply = shared.post("/ingest", data=lines(person("Eve")), branch=branch)
    assert reply.json()["mode"] == "merge" and reply.headers["link"] == '<load>; rel="successor-version"'


def test_a_compressed_body_says_so(shared: Api, branch: str) -> None:
    packed = gzip.compress(lines(person("Eve")).encode())
    path = f"/load/ndjson?branch={branch}"
    refused(shared.send("POST", path, packed, headers={"Content-Type": LINES}), 400, "bad_request")
    headers = {"Content-Type": LINES, "Content-Encoding": "gzip"}
    assert shared.send("POST", path, packed, headers=headers).json()["total_entities"] == 1


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ('{"type": "Person", "data": {"name": "X"}, "more": 1}', "row.record"),
        ('{"type": "Person", "data": {"name": "X", "name": "Y"}}', "row.record"),
        ('{"type": "Person", "data": {"name": "X", "_rowid": 1}}', "row.record"),
        ('{"type": "Persn", "data": {"name": "X"}}', "row.record"),
        ('{"type": "Person", "data": {"name": "X", "age": "old"}}', "row"),
        ('{"type": "Person", "data": {}}', "row.missing_value"),
        ("{", "row.record"),
        ("[]", "row.record"),
    ],
)
def test_a_bad_record_is_refused_with_its_line_and_can_be_left_out(
    shared: Api, branch: str, line: str, code: str
) -> None:
    text = lines(person("Eve")) + line
    before = shared.head(branch)
    envelopes = [
        refused(shared.post("/load", data=text, branch=branch), 400, "bad_request"),
        refused(ndjson(shared, text, f"branch={branch}"), 400, "bad_request"),
    ]
    for envelope in envelopes:
        assert envelope["problem"]["details"]["line"] == 2
        assert "body:2" in envelope["error"]
    assert shared.head(branch) == before
    done = shared.done("/load", data=text, branch=branch, on_error="reject")
    (reject,) = done["rejects"]
    assert (done["rejected"], done["total_entities"]) == (1, 1)
    assert (reject["file"], reject["line"], reject["code"], reject["record"]) == ("body", 2, code, line)
    again = shared.post("/load", data=text, branch=branch, on_error="reject", max_rejects=0)
    assert refused(again, 413, "bad_request")["resource_limit"] == {"resource": "rejects", "limit": 0, "actual": 1}


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"data": lines(person("X")), "branch": "nope"}, 404, "not_found"),
        ({"data": lines(person("X")), "branch": "fresh", "from": "nope"}, 404, "not_found"),
        ({"data": lines(person("X")), "mode": "replace"}, 400, "bad_request"),
        ({"data": lines(person("X")), "columns": "keep", "mode": "append"}, 400, "bad_request"),
        ({"data": lines(person("X")), "branch": "a b", "from": "main"}, 400, "bad_request"),
        ({"data": 1}, 400, "bad_request"),
        ({}, 400, "bad_request"),
        ({"data": lines({"edge": "Knows", "from": "Alice", "to": "Nobody"})}, 400, "bad_request"),
    ],
)
def test_what_is_wrong_with_a_load_is_said(shared: Api, body: dict[str, object], status: int, code: str) -> None:
    before = shared.told("/branches")
    refused(shared.send("POST", "/load", body), status, code)
    assert shared.told("/branches") == before


def test_a_refused_load_leaves_no_branch_behind(shared: Api) -> None:
    refused(shared.post("/load", data="{", branch="never", from_="main"), 400, "bad_request")
    assert "never" not in shared.told("/branches")["branches"]


def test_the_body_of_lines_wants_its_media_type_and_known_options(shared: Api) -> None:
    reply = shared.send("POST", "/load/ndjson", b"{}", headers={"Content-Type": "application/json"})
    refused(reply, 415, "bad_request")
    refused(ndjson(shared, "", "mode=replace"), 400, "bad_request")
    refused(ndjson(shared, "", "max_rejects=many"), 400, "bad_request")


def test_a_body_above_the_limit_is_413(tmp_path_factory: pytest.TempPathFactory) -> None:
    limits = ServerLimits(load_body_bytes=4096)
    with api(tmp_path_factory.mktemp("small"), limits=limits) as small:
        text = lines(*(person(f"p{number}") for number in range(200)))
        envelope = refused(ndjson(small, text, ""), 413, "bad_request")
        assert envelope["resource_limit"]["resource"] == "graph_batch_request_bytes"
        assert envelope["resource_limit"]["limit"] == 4096
        refused(small.post("/load", data=text), 413, "bad_request")
        assert len(small.names()) == 4


def test_rows_as_arrow(shared: Api, branch: str) -> None:
    headers = {"Content-Type": MEDIA_TYPE}
    rows = pa.table({"name": ["Eve", "Fay"], "age": pa.array([1, None], pa.int32())})
    reply = shared.send("POST", f"/load/arrow?type=Person&branch={branch}&mode=append", arrow(rows), headers=headers)
    assert reply.json()["nodes"] == [{"name": "Person", "entities_loaded": 2}]
    assert shared.names(branch=branch)[-2:] == ["Eve", "Fay"]
    whole = arrow(rows)
    for wrong in (b"", b"nothing", whole[: len(whole) // 2], json.dumps([1]).encode()):
        refused(shared.send("POST", "/load/arrow?type=Person", wrong, headers=headers), 400, "bad_request")
    refused(shared.send("POST", "/load/arrow", whole, headers=headers), 400, "bad_request")
    refused(shared.send("POST", "/load/arrow?type=Nothing", whole, headers=headers), 404, "not_found")


@pytest.mark.parametrize("codec", ["zstd", "lz4"])
def test_arrow_that_would_grow_when_it_is_unpacked_is_refused(shared: Api, codec: str) -> None:
    file = io.BytesIO()
    table = pa.table({"name": pa.array(["x" * 100_000] * 100)})
    with pa.ipc.new_stream(file, table.schema, options=pa.ipc.IpcWriteOptions(compression=codec)) as writer:
        writer.write_table(table)
    headers = {"Content-Type": MEDIA_TYPE}
    reply = shared.send("POST", "/load/arrow?type=Person", file.getvalue(), headers=headers)
    assert "compressed" in refused(reply, 400, "bad_request")["error"]


def test_arrow_with_more_rows_than_bytes_is_refused(shared: Api) -> None:
    headers = {"Content-Type": MEDIA_TYPE}
    endless = pa.table({"age": pa.nulls(10**9)})
    values = pa.DictionaryArray.from_arrays(pa.array([0] * 10_000, pa.int32()), pa.array(["x" * 100_000]))
    for table in (endless, pa.table({"name": values})):
        reply = shared.send("POST", "/load/arrow?type=Person", arrow(table), headers=headers)
        limit = refused(reply, 413, "bad_request")["resource_limit"]
        assert limit["resource"] == "strict_input_arrow_bytes"


def views(rows: int, text: bytes) -> pa.Array:
    """Rows that all show the same text."""
    entry = struct.pack("<i4sii", len(text), text[:4], 0, 0)
    return pa.Array.from_buffers(pa.string_view(), rows, [None, pa.py_buffer(entry * rows), pa.py_buffer(text)])


def pointing(rows: int, values: pa.Array) -> pa.Array:
    """Rows that all point at the first of some values."""
    return pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int16()), values)


SHARED_VALUES = {
    "views": views(10_000, b"x" * 100_000),
    "a dictionary of lists": pointing(10_000, pa.array([["x" * 100] * 1_000])),
    "a dictionary with a long value": pointing(10_000, pa.array(["x" * 100_000, *"abcdefghij"])),
    "dictionaries in lists": pa.ListArray.from_arrays(
        pa.array(range(10_001), pa.int32()), pointing(10_000, pa.array(["x" * 100_000]))
    ),
}


@pytest.mark.parametrize("rows", SHARED_VALUES.values(), ids=SHARED_VALUES)
def test_arrow_whose_rows_share_long_values_is_refused(shared: Api, rows: pa.Array) -> None:
    body = arrow(pa.table({"name": rows}))
    assert len(body) < 500_000
    reply = shared.send("POST", "/load/arrow?type=Person", body, headers={"Content-Type": MEDIA_TYPE})
    assert refused(reply, 413, "bad_request")["resource_limit"]["resource"] == "strict_input_arrow_bytes"


def test_arrow_whose_rows_lie_in_an_order_of_their_own_is_refused(shared: Api) -> None:
    body = arrow(pa.table({"name": pa.array([["Eve"]], pa.list_view(pa.string()))}))
    reply = shared.send("POST", "/load/arrow?type=Person", body, headers={"Content-Type": MEDIA_TYPE})
    assert "list_view" in refused(reply, 400, "bad_request")["error"]


def test_arrow_with_repeated_values_is_loaded(shared: Api, branch: str) -> None:
    table = pa.table({"name": pa.array(["Eve", "Fay"]).dictionary_encode(), "age": pa.array([7, 7])})
    path = f"/load/arrow?type=Person&branch={branch}"
    reply = shared.send("POST", path, arrow(table), headers={"Content-Type": MEDIA_TYPE})
    assert reply.status == 200, reply.text
    assert shared.names(branch=branch)[-2:] == ["Eve", "Fay"]


def test_arrow_with_offsets_that_lie_is_refused(shared: Api) -> None:
    whole = arrow(pa.table({"name": ["Eve"]}))
    ends = (0).to_bytes(4, "little") + (3).to_bytes(4, "little")
    assert whole.count(ends) >= 1
    start = whole.rindex(ends)
    lying = whole[:start] + ends[:4] + b"\xff\xff\xff\x7f" + whole[start + 8 :]
    reply = shared.send("POST", "/load/arrow?type=Person", lying, headers={"Content-Type": MEDIA_TYPE})
    refused(reply, 400, "bad_request")
