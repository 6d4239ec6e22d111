"""What a user may type for a graph's place, and what the environment means."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from omnigraph.errors import InvalidUri
from omnigraph.storage.objects.object_store import parse_location, s3_options


@pytest.mark.parametrize("spelling", ["{0}/g", "{0}/g/", "{0}/./g", "{0}/x/../g", "file://{0}/g/", "FILE://{0}/g"])
def test_spellings_of_one_directory_are_one_location(tmp_path: Path, spelling: str) -> None:
    location = parse_location(spelling.format(tmp_path))
    assert location == parse_location(tmp_path / "g")
    assert (location.uri, location.is_local) == (f"{tmp_path}/g", True)
    assert location.child("a/b") == f"{tmp_path}/g/a/b"


def test_a_relative_path_is_made_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert parse_location("g").uri == parse_location("./g/").uri == f"{tmp_path}/g"


def test_a_home_directory_is_expanded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert parse_location("~/g").uri == f"{tmp_path}/g"
    monkeypatch.chdir(tmp_path)
    assert parse_location("~nobody-of-this-name/g").uri == f"{tmp_path}/~nobody-of-this-name/g"


def test_a_symbolic_link_is_the_directory_behind_it(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert parse_location(tmp_path / "link" / "g") == parse_location(tmp_path / "real" / "g")


def test_the_root_directory_keeps_its_slash() -> None:
    location = parse_location("/")
    assert (location.uri, location.child("x")) == ("/", "/x")


@pytest.mark.parametrize(
    ("text", "uri"),
    [
        ("s3://bucket/a/b/", "s3://bucket/a/b"),
        ("s3://bucket//a///b", "s3://bucket/a/b"),
        ("S3://bucket/A", "s3://bucket/A"),
        ("s3://bucket", "s3://bucket"),
        ("s3://bucket/a b/ü", "s3://bucket/a b/ü"),
    ],
)
def test_an_s3_address_has_one_normal_form(text: str, uri: str) -> None:
    location = parse_location(text, {})
    assert (location.uri, location.is_local) == (uri, False)


def test_bucket_and_prefix_are_told_apart() -> None:
    assert parse_location("s3://bucket/a/b", {}).bucket_and_prefix == ("bucket", "a/b")
    assert parse_location("s3://bucket", {}).bucket_and_prefix == ("bucket", "")


NOT_A_GRAPH = [
    *("", "  ", "a\0b", "/a?b", "/a\nb", "/a\x7fb", "://x", "ftp://x", "gs://b/x", "http://h/g", "https://h/g"),
    *("file://", "file://otherhost/x", "file:///a%00b"),
    *("s3://", "s3:///x", "s3://b/../x", "s3://b/./x", "s3://b/a\0", "s3://b/a?b", "s3://b/a\nb"),
]


@pytest.mark.parametrize("text", NOT_A_GRAPH)
def test_what_is_no_graph_address_is_refused(text: str) -> None:
    with pytest.raises(InvalidUri):
        parse_location(text, {})


def test_percent_signs_mean_themselves_in_paths_and_are_decoded_in_file_addresses(tmp_path: Path) -> None:
    assert parse_location(f"{tmp_path}/a%20b").uri == f"{tmp_path}/a%20b"
    assert parse_location(f"file://{tmp_path}/a%20b").uri == f"{tmp_path}/a b"
    assert parse_location(f"file://{tmp_path}/a#b").uri == f"{tmp_path}/a#b"


def test_credentials_are_not_shown_and_do_not_make_two_locations() -> None:
    secret = parse_location("s3://b/x", {"AWS_SECRET_ACCESS_KEY": "hunter2"})
    assert "hunter2" not in repr(secret)
    assert secret == parse_location("s3://b/x", {})


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, {}),
        ({"AWS_REGION": "eu-1", "AWS_DEFAULT_REGION": "us-1"}, {"aws_region": "eu-1"}),
        ({"AWS_DEFAULT_REGION": "us-1"}, {"aws_region": "us-1"}),
        (
            {"AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "s", "AWS_SESSION_TOKEN": "t"},
            {"aws_access_key_id": "k", "aws_secret_access_key": "s", "aws_session_token": "t"},
        ),
        ({"AWS_ACCESS_KEY_ID": ""}, {}),
        (
            {"AWS_ENDPOINT_URL": "https://a", "AWS_ENDPOINT_URL_S3": "https://b"},
            {"aws_endpoint": "https://b"},
        ),
        ({"AWS_ENDPOINT_URL": "http://a"}, {"aws_endpoint": "http://a", "allow_http": "true"}),
        ({"AWS_ALLOW_HTTP": "yes"}, {"allow_http": "true"}),
        ({"AWS_ALLOW_HTTP": "no"}, {}),
        ({"AWS_S3_FORCE_PATH_STYLE": "on"}, {"aws_virtual_hosted_style_request": "false"}),
        ({"AWS_S3_FORCE_PATH_STYLE": "0"}, {"aws_virtual_hosted_style_request": "true"}),
        ({"UNRELATED": "x"}, {}),
    ],
)
def test_the_environment_becomes_store_options(environ: dict[str, str], expected: dict[str, str]) -> None:
    assert s3_options(environ) == expected


@pytest.mark.parametrize("word", ["1", "true", "TRUE", "True", "yes", "YES", "on", "ON"])
def test_each_truthy_word_is_understood(word: str) -> None:
    assert s3_options({"AWS_ALLOW_HTTP": word}) == {"allow_http": "true"}


def test_the_process_environment_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_REGION", "eu-test-1")
    assert parse_location("s3://b/x").options["aws_region"] == "eu-test-1" == os.environ["AWS_REGION"]
