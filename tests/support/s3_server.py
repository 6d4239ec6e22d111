"""The S3 server that tests talk to: one of our own on loopback, or the one that ``OMNIGRAPH_TEST_S3`` names.

A server that was named gets a bucket of this run's own, which is emptied and removed at the end. Its keys come from
``AWS_ACCESS_KEY_ID`` and ``AWS_SECRET_ACCESS_KEY``. Inside the block the environment points Lance, obstore and boto3
at the server; afterwards the environment is what it was.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import boto3

REGION = "us-east-1"
NAMED_BY = "OMNIGRAPH_TEST_S3"

# A developer's own account must not leak into a test run.
_FOREIGN = ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL_S3")


@dataclass(frozen=True, slots=True)
class S3Server:
    """A running server with one bucket."""

    endpoint: str
    bucket: str
    access_key: str = "test"
    secret_key: str = "test"
    region: str = REGION

    @property
    def url(self) -> str:
        """The bucket as an address, without a slash at the end."""
        return f"s3://{self.bucket}"

    def env(self) -> dict[str, str]:
        """What a client needs; pass it to child processes that do not inherit the environment."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": self.access_key,
            "AWS_SECRET_ACCESS_KEY": self.secret_key,
            "AWS_REGION": self.region,
            "AWS_ALLOW_HTTP": "1",
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def client(self) -> Any:
        """A new boto3 S3 client."""
        return boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            aws_access_key_id=self.access_key,
            aws_secret_access_key=self.secret_key,
            region_name=self.region,
        )

    def reset(self) -> None:
        """Drop everything in the bucket."""
        client = self.client()
        for page in client.get_paginator("list_objects_v2").paginate(Bucket=self.bucket):
            keys = [{"Key": entry["Key"]} for entry in page.get("Contents", ())]
            if keys:
                client.delete_objects(Bucket=self.bucket, Delete={"Objects": keys, "Quiet": True})

    @property
    def is_slow_when_full(self) -> bool:
        """Whether a listing costs what the server holds, so that tests with many listings want it empty."""
        return False

    @property
    def checks_signatures(self) -> bool:
        """Whether it answers only to requests that are signed."""
        return True


@contextmanager
def named_server(endpoint: str) -> Iterator[S3Server]:
    """A server that somebody else runs, with a bucket for the length of the block."""
    server = S3Server(
        endpoint=endpoint.rstrip("/"),
        bucket=f"omnigraph-test-{uuid4().hex[:12]}",
        access_key=os.environ["AWS_ACCESS_KEY_ID"],
        secret_key=os.environ["AWS_SECRET_ACCESS_KEY"],
        region=os.environ.get("AWS_REGION") or REGION,
    )
    with environment(server.env()):
        client = server.client()
        client.create_bucket(Bucket=server.bucket)
        try:
            yield server
        finally:
            server.reset()
            client.delete_bucket(Bucket=server.bucket)


@contextmanager
def s3_server() -> Iterator[S3Server]:
    """The server that the environment names, or else one of our own."""
    from tests.support.moto_server import moto_server

    endpoint = os.environ.get(NAMED_BY)
    with named_server(endpoint) if endpoint else moto_server() as server:
        yield server


@contextmanager
def environment(wanted: Mapping[str, str]) -> Iterator[None]:
    """These variables inside the block, and none of a developer's own account."""
    exempt = ",".join(filter(None, ["127.0.0.1", os.environ.get("NO_PROXY", "")]))
    changes: dict[str, str | None] = {**wanted, **dict.fromkeys(_FOREIGN), "NO_PROXY": exempt}
    before = {name: os.environ.get(name) for name in changes}
    _apply(changes)
    try:
        yield
    finally:
        _apply(before)


def _apply(changes: Mapping[str, str | None]) -> None:
    for name, value in changes.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
