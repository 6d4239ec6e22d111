"""`omnigraph serve`: what it serves, where, and why it does not start."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from omnigraph.errors import InputError, OmniGraphError, ServerFileError
from omnigraph.server.serve import bind
from omnigraph.server.server_file import graphs_at, read_server_file
from omnigraph.server.server_limits import ServerLimits
from omnigraph.server.tokens import TokenSources
from tests.support.http_call import call
from tests.support.s3_server import S3Server
from tests.support.server_process import server_process
from tests.support.small_graphs import people

COUNT = {"query": "query q() { match { $p: Person } return { count($p) as n } }"}


def counted(port: int, graph: str, token: str | None = None) -> int:
    answer = call(port, "POST", f"/graphs/{graph}/query", COUNT, token=token)
    assert answer.status == 200, answer.text
    found: int = answer.json()["rows"][0]["n"]
    return found


def test_one_graph_is_served_under_its_name(people_path: Path) -> None:
    with server_process(people_path) as found:
        assert counted(found.port, "people") == 2
        assert call(found.port, "GET", "/healthz").json()["version"].startswith("0.10.")
        assert found.stop() == 0


def test_a_directory_of_graphs_is_served(tmp_path: Path) -> None:
    people(tmp_path / "one.omni", "ana").close()
    people(tmp_path / "two.omni", "ana", "bo").close()
    (tmp_path / "notes.txt").write_text("no graph", "utf-8")
    with server_process(tmp_path, tokens={"act-ana": "tok"}) as found:
        assert (counted(found.port, "one", "tok"), counted(found.port, "two", "tok")) == (1, 2)
        assert call(found.port, "GET", "/graphs/one/branches").status == 401


def test_rules_of_the_server_are_a_flag(tmp_path: Path, people_path: Path) -> None:
    rules = tmp_path / "server-rules.yaml"
    rules.write_text(
        "version: 1\ngroups: {ops: [act-ana]}\n"
        "rules: [{id: list, allow: {actors: {group: ops}, actions: [graph_list]}}]\n",
        "utf-8",
    )
    with server_process(people_path, "--server-policy", rules, tokens={"act-ana": "a", "act-bo": "b"}) as found:
        asked = [call(found.port, "GET", "/graphs", token=token) for token in "ab"]
        assert [each.status for each in asked] == [200, 403]
        assert [each["graph_id"] for each in asked[0].json()["graphs"]] == ["people"]


@pytest.mark.s3
def test_a_graph_in_a_bucket_is_served(s3: S3Server, s3_root: str) -> None:
    people(f"{s3_root}/people.omni", "ana").close()
    with server_process(f"{s3_root}/people.omni", env=s3.env()) as found:
        assert counted(found.port, "people") == 1


def test_a_file_says_everything(tmp_path: Path, people_path: Path) -> None:
    (tmp_path / "tokens.json").write_text('{"act-ana": "tok"}', "utf-8")
    (tmp_path / "rules.yaml").write_text(
        "version: 1\ngroups: {team: [act-ana]}\n"
        "rules: [{id: r, allow: {actors: {group: team}, actions: [read, change]}}]\n",
        "utf-8",
    )
    file = tmp_path / "server.yaml"
    file.write_text(
        f"version: 1\ngraphs:\n  staff: {{uri: {people_path}, policy: rules.yaml}}\n"
        "tokens: {file: tokens.json}\naudit: audit.jsonl\nlimits: {json_body_bytes: 500}\n",
        "utf-8",
    )
    command = [sys.executable, "-c", "from omnigraph.cli.serving import main; main()"]
    child = subprocess.Popen(
        [*command, "--config", str(file), "--bind", "127.0.0.1:0"], stdout=subprocess.PIPE, text=True
    )
    with child:
        try:
            assert child.stdout is not None
            port = int(child.stdout.readline().rpartition(":")[2])
            assert counted(port, "staff", "tok") == 2
            assert call(port, "POST", "/graphs/staff/query", {"query": "x" * 500}, token="tok").status == 413
        finally:
            child.terminate()
    assert child.returncode == 0
    assert json.loads((tmp_path / "audit.jsonl").read_text("utf-8").splitlines()[0])["actor"] == "act-ana"


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        ((), 2, "PATHs or by --config"),
        (("{graph}",), 1, "--unauthenticated"),
        (("{graph}", "--config", "x.yaml"), 2, "give one of them"),
        (("--config", "missing.yaml", "--unauthenticated"), 1, "cannot read"),
        (("{graph}", "--unauthenticated", "--bind", "nonsense"), 1, "HOST:PORT"),
        (("{graph}", "--unauthenticated", "--bind", "{taken}"), 1, "listen at {taken}: Address already in use\n"),
        (("{graph}", "--policy", "{graph}/nothing"), 1, "no token"),
        (("{graph}", "--server-policy", "{graph}/nothing"), 1, "no token"),
        (("{graph}", "--tokens", "missing.json"), 1, "cannot be read"),
        (("missing.omni", "--unauthenticated"), 1, "none of the graphs"),
        (("a_b.omni", "--unauthenticated"), 1, "letters, digits and hyphens"),
        (("{graph}", "--unauthenticated", "--queries", "{wrong}"), 1, "wrong.gq:1:10: expected"),
    ],
)
def test_a_start_that_fails_says_why(
    tmp_path: Path, people_path: Path, words: tuple[str, ...], code: int, told: str
) -> None:
    (tmp_path / "wrong.gq").write_text("query x( {", "utf-8")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        places = {"graph": people_path, "taken": f"127.0.0.1:{port}", "wrong": tmp_path / "wrong.gq"}
        command = [sys.executable, "-m", "omnigraph", "serve", *(word.format(**places) for word in words)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == code and told.format(**places) in done.stderr and done.stdout == ""
    assert "Traceback" not in done.stderr


def test_addresses_become_graphs(tmp_path: Path) -> None:
    for name in ("a.omni", "b.omni"):
        (tmp_path / name).mkdir()
    assert [(each.id, each.uri) for each in graphs_at([str(tmp_path)], None)] == [
        ("a", str(tmp_path / "a.omni")),
        ("b", str(tmp_path / "b.omni")),
    ]
    assert graphs_at(["s3://bucket/some/people.omni/"], None)[0].id == "people"
    with pytest.raises(InputError, match="two graphs"):
        graphs_at(["x/a.omni", "y/a.omni"], None)


@pytest.mark.parametrize(
    ("text", "told", "line"),
    [
        ("graphs: {a: {uri: b}}", "lacks the key 'version'", 1),
        ("version: 2\ngraphs: {a: {uri: b}}", "version must be 1", 1),
        ("version: 1", "lacks the key 'graphs'", 1),
        ("version: 1\ngraphs: {}", "there is no graph", 2),
        ("version: 1\ngraphs:\n  a_b: {uri: b}", "'a_b' is no id", 3),
        ("version: 1\ngraphs:\n  a: {url: b}", "has no key 'url'", 3),
        ("version: 1\ngraphs: {a: {uri: b}}\nlimit: {}", "has no key 'limit'", 3),
        ("version: 1\ngraphs: {a: {uri: b}}\nlimits: {json_body_byte: 3}", "has no key 'json_body_byte'", 3),
        ("version: 1\ngraphs: {a: {uri: b}}\nlimits: {json_body_bytes: many}", "must be a number", 3),
        ("version: 1\ngraphs: {a: {uri: b}}\nlimits: {json_body_bytes: 0}", "from 1 on", 3),
        ("version: 1\ngraphs: {a: {uri: b}}\nlimits: {json_body_bytes: 1.5}", "whole number", 3),
        ("version: 1\ngraphs: {a: {uri: b}}\nlimits: {stall_seconds: .inf}", "decimal number", 3),
        ("version: 1\ngraphs: {a: {uri: b}}\ntraces: 1", "must be true or false", 3),
        ("version: 1\ngraphs: {a: {uri: b}}\ngraphs: {}", "occurs twice", 3),
        ("version: [", "cannot be read", 1),
    ],
)
def test_a_wrong_file_is_told_with_its_place(tmp_path: Path, text: str, told: str, line: int) -> None:
    file = tmp_path / "server.yaml"
    file.write_text(text, "utf-8")
    with pytest.raises(ServerFileError, match=told) as caught:
        read_server_file(file, {})
    assert (caught.value.line, caught.value.details["file"]) == (line, str(file))


def test_what_a_file_says(tmp_path: Path) -> None:
    file = tmp_path / "server.yaml"
    file.write_text(
        "version: 1\nbind: 127.0.0.1:9000\ngraphs:\n  a: {uri: a.omni, queries: gq, policy: /p.yaml}\n"
        "  b: {uri: s3://bucket/b}\npolicy: server-rules.yaml\naudit: '-'\ntraces: false\n"
        "limits: {stall_seconds: 1.5, waiting_reads: 0}\n",
        "utf-8",
    )
    found = read_server_file(file, {"OMNIGRAPH_SERVER_BEARER_TOKEN": "t", "OMNIGRAPH_PER_ACTOR_INFLIGHT_MAX": "2"})
    assert [(each.id, each.uri, each.queries.paths, each.policy) for each in found.graphs] == [
        ("a", str(tmp_path / "a.omni"), (tmp_path / "gq",), Path("/p.yaml")),
        ("b", "s3://bucket/b", (), None),
    ]
    assert (found.bind, found.policy, found.audit) == ("127.0.0.1:9000", tmp_path / "server-rules.yaml", "-")
    assert found.tokens == TokenSources(token="t") and found.traces is False
    assert found.limits == ServerLimits(stall_seconds=1.5, waiting_reads=0, actor_writes=2)


def test_addresses_to_bind() -> None:
    for address in ("127.0.0.1:0", "[::1]:0"):
        try:
            with bind(address) as listener:
                assert listener.getsockname()[1] > 0
        except OmniGraphError as error:
            assert "[::1]" in str(error)  # a machine may have no such address
    for wrong in ("", ":80", "127.0.0.1", "127.0.0.1:x", "127.0.0.1:70000", "no.such.host.invalid:80"):
        with pytest.raises(InputError):
            bind(wrong)
