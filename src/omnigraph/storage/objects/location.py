"""Where a graph lives: a local directory or a prefix in an S3 bucket.

One place turns what a user typed into a normal form, and the environment into the options that Lance and obstore both
need. Two spellings of one graph give equal locations, so locks and caches can be keyed by them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote

from omnigraph.errors import InvalidUri

_UNUSABLE = re.compile(r"[?\x00-\x1f\x7f]")  # the storage library cuts or refuses addresses that hold these
_TRUTHY = frozenset({"1", "true", "TRUE", "True", "yes", "YES", "on", "ON"})


@dataclass(frozen=True, slots=True)
class Location:
    """A graph's root in normal form.

    Attributes:
        uri: absolute path without trailing slash, or ``s3://bucket/prefix``.
        options: what Lance takes as ``storage_options``; empty for a local path.
    """

    uri: str
    options: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)

    @property
    def is_local(self) -> bool:
        return not self.uri.startswith("s3://")

    def child(self, relative: str) -> str:
        return f"{self.uri.rstrip('/')}/{relative}"

    @property
    def bucket_and_prefix(self) -> tuple[str, str]:
        bucket, _, prefix = self.uri.removeprefix("s3://").partition("/")
        return bucket, prefix


def parse_location(text: str | os.PathLike[str] | Location, environ: Mapping[str, str] | None = None) -> Location:
    """Understand a path, a ``file://`` or an ``s3://`` address; raise InvalidUri for anything else."""
    if isinstance(text, Location):
        return text
    address = os.fspath(text)
    if not address.strip() or "\0" in address:
        raise InvalidUri(f"{address!r} is not a graph address", hint="give a directory or s3://bucket/prefix")
    if "://" not in address:
        return _local(address)
    scheme, _, rest = address.partition("://")
    scheme = scheme.lower()
    if scheme == "file":
        host, slash, path = rest.partition("/")
        if host not in ("", "localhost"):
            raise InvalidUri(f"{address!r} names another host", hint="use file:///absolute/path")
        return _local(unquote(f"{slash}{path}"))
    if scheme == "s3":
        return _s3(address, os.environ if environ is None else environ)
    if scheme in ("http", "https"):
        raise InvalidUri(f"{address!r} is a server address, not a storage address", hint="use a path or s3://")
    raise InvalidUri(f"{address!r} has an unknown scheme", hint="use a path, file:// or s3://bucket/prefix")


def _local(path: str) -> Location:
    if not path or "\0" in path:
        raise InvalidUri(f"{path!r} is not a path")
    absolute = os.path.realpath(os.path.expanduser(path))
    if _UNUSABLE.search(absolute):
        raise InvalidUri(f"{absolute!r} holds a question mark or a control character", hint="choose another directory")
    return Location(absolute)


def _s3(address: str, environ: Mapping[str, str]) -> Location:
    bucket, _, prefix = address[len("s3://") :].partition("/")
    segments = [segment for segment in prefix.split("/") if segment]
    if not bucket or _UNUSABLE.search(address) or any(segment in (".", "..") for segment in segments):
        raise InvalidUri(f"{address!r} is not s3://bucket/prefix")
    return Location("/".join([f"s3://{bucket}", *segments]), s3_options(environ))


def s3_options(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment as object-store options, the same for Lance and for the control objects."""
    options = {
        name.lower(): environ[name]
        for name in ("AWS_REGION", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
        if environ.get(name)
    }
    if "aws_region" not in options and environ.get("AWS_DEFAULT_REGION"):
        options["aws_region"] = environ["AWS_DEFAULT_REGION"]
    endpoint = environ.get("AWS_ENDPOINT_URL_S3") or environ.get("AWS_ENDPOINT_URL")
    if endpoint:
        options["aws_endpoint"] = endpoint
    if environ.get("AWS_ALLOW_HTTP") in _TRUTHY or (endpoint or "").startswith("http://"):
        options["allow_http"] = "true"
    if "AWS_S3_FORCE_PATH_STYLE" in environ:
        path_style = environ["AWS_S3_FORCE_PATH_STYLE"] in _TRUTHY
        options["aws_virtual_hosted_style_request"] = "false" if path_style else "true"
    return options
