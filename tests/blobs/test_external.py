"""Blobs that are named by an address: only below allowed bases, copied by every write, read where they are."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from lance.blob import Blob

import omnigraph as og
from omnigraph import limits
from omnigraph.errors import (
    ExternalBlobDenied,
    ExternalBlobSettingsError,
    ExternalBlobUnavailable,
    ResourceLimitExceeded,
)
from omnigraph.storage.objects.external_blobs import external_bytes
from tests.blobs.blob_graphs import SCHEMA, add_reference, bodies, doc_graph
from tests.support.s3_server import S3Server

VARIABLE = "OMNIGRAPH_EXTERNAL_BLOBS"
OUTSIDE = "URI is outside every configured external Blob base"


@pytest.fixture
def assets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory that is allowed, with files in it, beside it and behind links."""
    base = tmp_path / "assets"
    (base / "deep").mkdir(parents=True)
    (base / "a.bin").write_bytes(b"allowed")
    (base / "deep" / "a b%c.bin").write_bytes(b"spaced")
    (tmp_path / "secret.bin").write_bytes(b"secret")
    (tmp_path / "assets-too").mkdir()
    (tmp_path / "assets-too" / "a.bin").write_bytes(b"secret")
    (base / "to-secret").symlink_to(tmp_path / "secret.bin")
    (base / "up").symlink_to(tmp_path)
    (base / "to-a").symlink_to(base / "a.bin")
    monkeypatch.setenv(VARIABLE, f"{base}")
    return base


def test_nothing_is_allowed_by_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    (tmp_path / "a.bin").write_bytes(b"x")
    for uri in (f"file://{tmp_path}/a.bin", f"{tmp_path}/a.bin", "s3://b/k", "a word"):
        with pytest.raises(
            ExternalBlobDenied, match="new external Blob URI ingress is denied for this graph"
        ) as denied:
            external_bytes(uri)
        assert "OMNIGRAPH_EXTERNAL_BLOBS" in str(denied.value)


@pytest.mark.parametrize("spelling", ["{base}", "{base}/", "file://{base}", "file://localhost{base}/", "FILE://{base}"])
def test_a_base_and_an_address_may_be_a_path_or_a_uri(
    assets: Path, monkeypatch: pytest.MonkeyPatch, spelling: str
) -> None:
    monkeypatch.setenv(VARIABLE, f"s3://elsewhere/x {spelling.format(base=assets)}")
    for uri in (f"{assets}/a.bin", f"file://{assets}/a.bin", f"file://localhost{assets}/a.bin", f"{assets}/to-a"):
        assert external_bytes(uri) == b"allowed"
    assert (
        external_bytes(f"{assets}/deep/a b%c.bin") == external_bytes(f"file://{assets}/deep/a%20b%25c.bin") == b"spaced"
    )


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("{base}/../secret.bin", r"it has a segment '\.\.'"),
        ("file://{base}/../secret.bin", r"it has a segment '\.\.'"),
        ("file://{base}/%2e%2E/secret.bin", r"it has a segment '\.\.'"),
        ("file://{base}/.%2e/secret.bin", r"it has a segment '\.\.'"),
        ("file://{base}/..%2Fsecret.bin", "it encodes a slash"),
        ("file://{base}/..%5csecret.bin", "it encodes a slash"),
        ("file://{base}/%252e%252e/secret.bin", None),
        ("file://{base}/./a.bin", r"it has a segment '\.'"),
        ("file://{base}//a.bin", "it has an empty segment"),
        ("{base}/deep/", "it has an empty segment"),
        ("file://{base}/a.bin?x=1", "has to be encoded"),
        ("file://{base}/a.bin#x", "has to be encoded"),
        ("file://{base}/a%00.bin", "it encodes a slash, a backslash or a control character"),
        ("file://{base}/a%zz.bin", "it has a '%' that encodes nothing"),
        ("file://{base}/a%ff.bin", "no UTF-8"),
        ("{base}/a\x00.bin", "control character"),
        ("file://other{base}/a.bin", "it names the host 'other'"),
        ("file:{base}/a.bin", "no s3:// or file:// URI"),
        ("https://host/a.bin", "no s3:// or file:// URI"),
        ("assets/a.bin", "no s3:// or file:// URI"),
        ("", "no s3:// or file:// URI"),
        ("{base}", OUTSIDE),
        ("{base}-too/a.bin", OUTSIDE),
        ("file://{base}-too/a.bin", OUTSIDE),
        ("{base}/to-secret", OUTSIDE),
        ("{base}/up/secret.bin", OUTSIDE),
        ("file://{base}/up/assets-too/a.bin", OUTSIDE),
        ("/etc/hostname", OUTSIDE),
        ("s3://bucket/a", OUTSIDE),
        ("s3:///a", "it names no bucket"),
        ("s3://user:pass@bucket/a", "it names no bucket"),
    ],
)
def test_no_spelling_leads_out_of_the_base(assets: Path, address: str, why: str | None) -> None:
    uri = address.format(base=assets)
    if why is None:  # a file whose name has percent signs; it is looked for below the base
        with pytest.raises(ExternalBlobUnavailable):
            external_bytes(uri)
        return
    with pytest.raises(ExternalBlobDenied, match=why):
        external_bytes(uri)


def test_what_is_allowed_and_no_file_is_named(assets: Path) -> None:
    os.mkfifo(assets / "pipe")
    for name, why in (("missing", "No such file"), ("deep", "it is no file"), ("pipe", "it is no file")):
        with pytest.raises(ExternalBlobUnavailable, match=why) as failed:
            external_bytes(f"{assets}/{name}")
        assert set(failed.value.details) == {"uri", "reason"}
    with pytest.raises(ExternalBlobUnavailable):
        external_bytes(f"{assets}/a.bin/x")


def test_an_address_and_its_bytes_have_limits(assets: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ResourceLimitExceeded, match="blob URI bytes: actual 65537, limit 65536"):
        external_bytes("/" + "a" * 65_536)
    monkeypatch.setattr(limits, "EXTERNAL_BLOB_BYTES", 6)
    with pytest.raises(ResourceLimitExceeded, match="bytes of an external blob: actual 7, limit 6"):
        external_bytes(f"{assets}/a.bin")
    monkeypatch.setattr(limits, "EXTERNAL_BLOB_BYTES", 7)
    assert external_bytes(f"{assets}/a.bin") == b"allowed"


@pytest.mark.parametrize(
    ("setting", "why"),
    [
        ("assets", "'assets' is no base: it is no s3:// or file:// URI"),
        ("/data/../etc", r"'/data/../etc' is no base: it has a segment '\.\.'"),
        ("https://host/x", "is no base"),
        ("s3://u@bucket/x", "is no base: it names no bucket"),
        ("/data /data/deep", "'/data/deep' and '/data' overlap"),
        ("s3://b/x/y s3://b/x", "overlap"),
        ("/data file:///data/", "overlap"),
    ],
)
def test_a_wrong_setting_is_refused(monkeypatch: pytest.MonkeyPatch, setting: str, why: str) -> None:
    monkeypatch.setenv(VARIABLE, setting)
    with pytest.raises(ExternalBlobSettingsError, match=f"OMNIGRAPH_EXTERNAL_BLOBS: .*{why}"):
        external_bytes("/data/x")


def test_a_prefix_of_a_name_is_no_base_on_s3(s3: S3Server, s3_root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    prefix = s3_root.removeprefix(f"{s3.url}/")
    for key in ("a/x", "ab/x", "a/b c"):
        s3.client().put_object(Bucket=s3.bucket, Key=f"{prefix}/{key}", Body=key.encode())
    monkeypatch.setenv(VARIABLE, f"{s3_root}/a")
    assert external_bytes(f"{s3_root}/a/x") == b"a/x"
    assert external_bytes(f"{s3_root}/a/b%20c") == b"a/b c"
    for uri in (
        f"{s3_root}/ab/x",
        f"{s3_root}/a",
        f"{s3_root}/a/../ab/x",
        f"{s3_root}/a/%2e%2e/ab/x",
        "s3://other/a/x",
    ):
        with pytest.raises(ExternalBlobDenied):
            external_bytes(uri)
    with pytest.raises(ExternalBlobUnavailable):
        external_bytes(f"{s3_root}/a/missing")
    monkeypatch.setenv(VARIABLE, f"{s3.url}/")
    assert external_bytes(f"{s3_root}/ab/x") == b"ab/x"


def _line(name: str, uri: str) -> str:
    return json.dumps({"type": "Doc", "data": {"name": name, "body": uri}}) + "\n"


@pytest.mark.parametrize("mode", ["append", "merge", "overwrite"])
def test_a_load_copies_the_bytes(assets: Path, tmp_path: Path, mode: str) -> None:
    (tmp_path / "docs.jsonl").write_text(_line("a", f"file://{assets}/a.bin") + _line("b", "base64:"))
    (tmp_path / "Doc.csv").write_text(f"name,body\nc,{assets}/to-a\n")
    with og.init(tmp_path / "g", SCHEMA) as graph:
        graph.load(tmp_path / "docs.jsonl", mode)  # type: ignore[arg-type]
        graph.load(tmp_path / "Doc.csv", "append")
        graph.load([{"name": "d", "body": f"{assets}/deep/a b%c.bin"}], "append", type="Doc")
        (assets / "a.bin").unlink()
        assert bodies(graph) == {"a": b"allowed", "b": b"", "c": b"allowed", "d": b"spaced"}
        assert graph.blob("Doc", "a", "body").kind == "managed"


def test_a_mutation_and_a_transaction_copy_the_bytes(assets: Path, tmp_path: Path) -> None:
    with doc_graph(tmp_path / "g", {"a": b"x"}) as graph:
        text = 'query q($b: Blob?) { update Doc set { body: $b } where name = "a" }'
        graph.mutate(text, {"b": f"file://{assets}/a.bin"})
        assert graph.blob("Doc", "a", "body").read() == b"allowed"
        with pytest.raises(ExternalBlobDenied):
            graph.mutate(text, {"b": f"file://{assets}/up/secret.bin"})
        assert graph.blob("Doc", "a", "body").read() == b"allowed"


def test_a_refused_address_refuses_the_load_or_is_a_rejected_row(assets: Path, tmp_path: Path) -> None:
    lines = _line("a", f"{assets}/a.bin") + _line("b", f"{assets}/../secret.bin") + _line("c", f"{assets}/missing")
    (tmp_path / "docs.jsonl").write_text(lines)
    with og.init(tmp_path / "g", SCHEMA) as graph:
        with pytest.raises(ExternalBlobDenied, match=r"segment '\.\.'"):
            graph.load(tmp_path / "docs.jsonl", "append")
        assert graph.snapshot().count("Doc") == 0
        loaded = graph.load(tmp_path / "docs.jsonl", "append", on_error="reject")
        assert bodies(graph) == {"a": b"allowed"}
        assert loaded.rejects.column("line").to_pylist() == [2, 3]


def test_many_bytes_behind_short_addresses_are_counted(
    assets: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "LOAD_COLUMN_BYTES", 20)
    (tmp_path / "docs.jsonl").write_text("".join(_line(name, f"{assets}/a.bin") for name in "abc"))
    with og.init(tmp_path / "g", SCHEMA) as graph:
        with pytest.raises(ResourceLimitExceeded, match="bytes of one column in one load: actual 21, limit 20"):
            graph.load(tmp_path / "docs.jsonl", "append")
        assert graph.snapshot().count("Doc") == 0


def test_a_stored_reference_is_read_only_where_it_is_allowed(
    assets: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "g"
    with doc_graph(root, {"own": b"own"}) as graph:
        pin = graph.snapshot().tables["node:Doc"]
    add_reference(root, pin, "whole", Blob.from_uri(f"file://{assets}/a.bin"))
    with og.open(root) as graph:
        blob = graph.blob("Doc", "whole", "body")
        assert (blob.kind, blob.uri, blob.etag) == ("external", f"file://{assets}/a.bin", None)
        assert (blob.size, blob.read(2, 3), blob.read(), blob.open().read()) == (7, b"low", b"allowed", b"allowed")
        monkeypatch.setenv(VARIABLE, "s3://elsewhere")
        for ask in (lambda: blob.size, blob.read, blob.open):
            with pytest.raises(ExternalBlobDenied, match=OUTSIDE):
                ask()
        assert graph.blob("Doc", "whole", "body").uri == blob.uri
        monkeypatch.setenv(VARIABLE, str(assets))
        (assets / "a.bin").unlink()
        with pytest.raises(ExternalBlobUnavailable, match="No such file"):
            blob.read()


def test_a_part_of_a_file_may_be_a_stored_reference(assets: Path, tmp_path: Path) -> None:
    with doc_graph(tmp_path / "g", {"own": b"own"}) as graph:
        pin = graph.snapshot().tables["node:Doc"]
    add_reference(tmp_path / "g", pin, "part", Blob.from_uri(f"file://{assets}/a.bin", 2, 3))
    with og.open(tmp_path / "g") as graph:
        blob = graph.blob("Doc", "part", "body")
        assert (blob.size, blob.read(), blob.read(1), blob.read(1, 1), blob.read(3)) == (3, b"low", b"ow", b"o", b"")


def test_a_stored_reference_becomes_bytes_when_its_row_is_written(assets: Path, tmp_path: Path) -> None:
    with doc_graph(tmp_path / "g", {"own": b"own"}) as graph:
        pin = graph.snapshot().tables["node:Doc"]
    add_reference(tmp_path / "g", pin, "whole", Blob.from_uri(f"file://{assets}/a.bin"))
    with og.open(tmp_path / "g") as graph:
        graph.mutate('query q() { update Doc set { stars: 5 } where name = "whole" }')
        (assets / "a.bin").unlink()
        blob = graph.blob("Doc", "whole", "body")
        assert (blob.kind, blob.read()) == ("managed", b"allowed")
