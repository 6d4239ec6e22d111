"""Names in addresses and bodies: nothing leaves its graph, dodges a rule, or breaks anything."""

from __future__ import annotations

import json
from urllib.parse import quote

import pytest

from tests.server.security.places import BELOW, GRAPH, Place

TRICKS = [
    "..", ".", "%2e%2e", "..%2f..%2fetc%2fpasswd", "%2e%2e%2f%2e%2e", "..%5c..", "%252e%252e%252f", "a%2f..%2f..%2fb",
    "%00", "a%00b", "%ff%fe", "%c0%ae%c0%ae", "%ed%a0%80", "%", "%zz", "%2", "a;b", "a%0d%0aX-Evil:%201", "%e2%80%ae",
    "a%20b", "'%20or%20'1'='1", "%22", "%3Cscript%3E", "*", "main%2f", "%2fmain", "refs%2fheads%2fmain", "tag%3at",
    "~", "$(id)", "%60id%60", "{name}", "x" * 300,
]  # fmt: skip
PLACES = [
    ("GET", "/graphs/{}/snapshot"), ("GET", "/graphs/{}/branches"), ("DELETE", BELOW + "/branches/{}"),
    ("DELETE", BELOW + "/tags/{}"), ("GET", BELOW + "/commits/{}"), ("GET", BELOW + "/commits/{}/changes"),
    ("POST", BELOW + "/queries/{}"), ("POST", BELOW + "/queries/{}/if-graph-commit"),
    ("GET", BELOW + "/{}"), ("GET", "/{}"),
    ("GET", BELOW + "/snapshot?branch={}"), ("GET", BELOW + "/snapshot?at={}"), ("GET", BELOW + "/commits?branch={}"),
    ("GET", BELOW + "/commits?before={}"), ("GET", BELOW + "/commits?since={}"), ("GET", BELOW + "/changes?branch={}"),
    ("GET", BELOW + "/changes?start={}"), ("GET", BELOW + "/blob?entity=node&type={}&id=Ana&property=photo"),
    ("GET", BELOW + "/blob?entity=node&type=Person&id={}&property=photo"),
    ("GET", BELOW + "/blob?entity=node&type=Person&id=Ana&property={}"),
    ("GET", BELOW + "/blob?entity=node&type=Person&id=Ana&property=photo&snapshot={}"),
]  # fmt: skip


@pytest.mark.parametrize(("method", "where"), PLACES)
def test_no_name_in_an_address_reaches_anything(policy_place: Place, method: str, where: str) -> None:
    for trick in TRICKS:
        if where == "/{}" and trick in ("..", "."):
            continue
        reply = policy_place.ask(method, where.format(trick), {} if method == "POST" else None)
        text = f"{method} {where.format(trick)[:120]}: {reply.status} {reply.text[:300]}"
        assert reply.status in (400, 404, 405, 413), text
        assert "x-evil" not in reply.headers, text
        assert "root:" not in reply.text, text


STRINGS = [
    "'", '"', "\\", "\x00", "a\x00b", "\n", "\r\n\r\n", "\u2028", "\ufeff", "\ud800", "😀", "é", "e\u0301", "İ", "ﬀ",
    "') or ('1'='1", '"; drop table Person; --', "${jndi:ldap://x}", "{{7*7}}", "%s%n%x", "$p.name", "a' } return { $p",
    "../../etc/passwd", "file:///etc/passwd", "s3://bucket/key", "nul", "-1", "1e309", "NaN", "true", "null",
    "x" * 10_000,
]  # fmt: skip


def test_a_text_is_a_text_wherever_it_comes_from(policy_place: Place) -> None:
    put = "query put($name: String, $text: String) { insert Person { name: $name, text: $text } }"
    get = "query get($name: String) { match { $p: Person { name: $name } } return { $p.name, $p.text } }"
    drop = "query drop($name: String) { delete Person where name = $name }"
    before = policy_place.ask("POST", f"{BELOW}/queries/people", {}).json()["row_count"]
    for text in STRINGS:
        params = {"name": f"n-{text}", "text": text}
        done = policy_place.ask("POST", f"{BELOW}/mutate", {"query": put, "params": params, "branch": "draft"})
        if text == "\ud800":
            assert done.status == 400
            continue
        assert done.status == 200, (text, done.text)
        found = policy_place.ask(
            "POST", f"{BELOW}/query", {"query": get, "params": {"name": f"n-{text}"}, "branch": "draft"}
        )
        assert found.json()["rows"] == [{"p.name": f"n-{text}", "p.text": text}]
        gone = policy_place.ask(
            "POST", f"{BELOW}/mutate", {"query": drop, "params": {"name": f"n-{text}"}, "branch": "draft"}
        )
        assert gone.json()["affected_nodes"] == 1
    assert policy_place.ask("POST", f"{BELOW}/queries/people", {}).json()["row_count"] == before


#: Bodies with a hole for a text.
HOLES: dict[str, list[dict[str, object]]] = {
    "/query": [{"query": "?"}, {"query": "query q() { match { $p: Person } return { $p.name } }", "name": "?"},
               {"query": "query q() { match { $p: Person } return { $p.name } }", "branch": "?"},
               {"query": "query q() { match { $p: Person } return { $p.name } }", "snapshot": "?"},
               {"query": "query q() { match { $p: Person } return { $p.name } }", "at": "?"},
               {"query": "query q() { match { $p: Person } return { $p.name } }", "params": {"?": 1}}],
    "/mutate": [{"query": "?"}, {"query": 'query q() { delete Person where name = "no" }', "branch": "?"},
                {"query": 'query q() { delete Person where name = "no" }', "commit_id": "?"},
                {"query": 'query q() { delete Person where name = "no" }', "message": "?"}],
    "/lint": [{"query": "?"}],
    "/search": [{"words": "?"}, {"words": "ana", "types": ["?"]}],
    "/rows": [{"type": "?"}, {"type": "Person", "columns": ["?"]}],
    "/export": [{"type_names": ["?"]}, {"branch": "?"}],
    "/changes/baseline": [{"branch": "?"}, {"type": ["?"]}, {"kind": ["?"]}, {"op": ["?"]}],
    "/branches": [{"name": "?", "from": "?"}, {"name": "y", "from": "?"}, {"name": "y", "at": "?"}],
    "/branches/merge": [{"source": "?"}, {"source": "draft", "target": "?", "dry_run": True}],
    "/branches/rename": [{"name": "?", "new_name": "y"}],
    "/tags": [{"name": "?", "at": "tag:none"}, {"name": "t", "at": "?", "branch": "?"}],
    "/revert": [{"commit": "?"}],
    "/restore": [{"at": "?"}],
    "/diff": [{"from": "?", "to": "main"}, {"from": "main", "to": "main", "types": ["?"]},
              {"from": "main", "to": "main", "kinds": ["?"]}, {"from": "main", "to": "main", "ops": ["?"]}],
    "/schema/plan": [{"schema_source": "?"}],
    "/schema/apply": [{"schema_source": "?"}, {"schema_source": "node Person { name: String @key }", "if_hash": "?"}],
    "/load": [{"data": "?"}, {"data": '{"type": "?", "data": {}}'}, {"data": "", "branch": "?"}],
}  # fmt: skip


@pytest.mark.parametrize("path", HOLES)
def test_no_text_in_a_body_breaks_anything(policy_place: Place, path: str) -> None:
    for hole in HOLES[path]:
        for text in STRINGS:
            if path in ("/restore", "/revert", "/tags") and text in ("true", "-1"):
                continue
            body = json.dumps(hole).replace("?", json.dumps(text)[1:-1].replace("\\", "\\"))
            reply = policy_place.ask("POST", BELOW + path, body.encode())
            assert reply.status < 500, (path, body[:200], reply.text[:300])


PADDED = [
    " main", "main ", "\tmain\n", "\u00a0main", "main\u200b", "MAIN", "Main", "ｍain", "mаin", "main\x00", "main/",
    "/main", "./main", "refs/heads/main", "heads/main", "main%20", "ma\u00adin", "\ufeffmain", "main@{0}",
]  # fmt: skip


@pytest.mark.parametrize("branch", PADDED)
def test_no_spelling_of_a_protected_branch_dodges_its_rule(policy_place: Place, branch: str) -> None:
    before = policy_place.head()
    put = 'query q() { insert Person { name: "intruder" } }'
    line = '{"type": "Person", "data": {"name": "intruder"}}\n'
    fold = f"?branch={quote(branch)}&from=draft"
    tries: list[tuple[str, object, dict[str, str]]] = [
        ("/mutate", {"query": put, "branch": branch}, {}),
        ("/change", {"query": put, "branch": branch}, {}),
        ("/mutate/if-graph-commit", {"query": put, "branch": branch}, {"Omnigraph-If-Graph-Commit": before}),
        ("/load", {"data": line, "branch": branch, "from": "draft"}, {}),
        ("/load/ndjson" + fold, line.encode(), {"Content-Type": "application/x-ndjson"}),
        ("/ingest", {"data": line, "branch": branch}, {}),
        ("/restore", {"at": before, "branch": branch}, {}),
        ("/revert", {"commit": before, "branch": branch}, {}),
    ]
    for path, body, headers in tries:
        reply = policy_place.ask("POST", BELOW + path, body, headers, actor="act-writer")
        assert reply.status in (400, 403, 404), (path, branch, reply.text)
    assert policy_place.head() == before


def test_a_writer_may_write_where_nothing_is_protected(policy_place: Place) -> None:
    body = {"query": 'query q() { insert Person { name: "drafted" } }', "branch": " draft "}
    reply = policy_place.ask("POST", f"{BELOW}/mutate", body, actor="act-writer")
    assert (reply.status, reply.json()["branch"]) == (200, "draft")


@pytest.mark.parametrize(
    "tail", ["/", "//", "/..;/", "/%2e%2e/" + GRAPH + "/snapshot", "/../../healthz", "/./snapshot", "//snapshot"]
)
def test_a_path_is_taken_as_it_is_written(policy_place: Place, tail: str) -> None:
    assert policy_place.ask("GET", BELOW + tail).status in (400, 404)


def test_the_routes_of_older_servers_are_not_there(policy_place: Place) -> None:
    for path in (
        "/snapshot",
        "/query",
        "/read",
        "/mutate",
        "/branches",
        "/schema",
        "/policies",
        "/runs",
        "/.env",
        "/admin",
    ):
        assert policy_place.ask("GET", path).status == 404, path


FORGED = [
    "",
    "x",
    "0",
    "null",
    "eyJ9",
    "A" * 4_096,
    "A" * 4_097,
    "A" * 6_000,
    "%00",
    "{}",
    "../x",
    "é",
    "Zm9v",
    "=" * 10,
]


@pytest.mark.parametrize("parameter", ["cursor", "page_token"])
def test_a_forged_cursor_is_refused(policy_place: Place, parameter: str) -> None:
    for value in FORGED:
        reply = policy_place.ask("GET", f"{BELOW}/changes?{parameter}={quote(value)}")
        assert reply.status in (400, 413), (value, reply.text)
        text = policy_place.ask("GET", f"{BELOW}/commits/{policy_place.head()}/changes?page_token={quote(value)}")
        assert text.status in (400, 413), (value, text.text)


def test_a_cursor_that_was_changed_or_belongs_elsewhere_is_refused(policy_place: Place) -> None:
    cursor = policy_place.ask("GET", f"{BELOW}/changes").json()["cursor"]
    assert policy_place.ask("GET", f"{BELOW}/changes?cursor={quote(cursor)}").status == 200
    for place in range(0, len(cursor), 7):
        other = "A" if cursor[place] != "A" else "B"
        changed = cursor[:place] + other + cursor[place + 1 :]
        reply = policy_place.ask("GET", f"{BELOW}/changes?cursor={quote(changed)}")
        assert reply.status in (200, 400, 404, 410), (place, reply.text)
    assert policy_place.ask("GET", f"{BELOW}/changes?branch=draft&cursor={quote(cursor)}").status == 400
    assert policy_place.ask("GET", f"{BELOW}/changes?type=Person&cursor={quote(cursor)}").status == 400
    longer = f"{BELOW}/changes?cursor={quote(cursor + 'A')}"
    assert policy_place.ask("GET", longer).status == 400
