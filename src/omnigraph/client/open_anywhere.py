"""Opens a graph wherever it is: in a storage, or behind a server. What a server needs is loaded only for one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, overload

from omnigraph.client.address import is_server
from omnigraph.errors import InputError, MissingExtra, NotOffered
from omnigraph.graph.graph import Graph
from omnigraph.graph.opening import open_graph
from omnigraph.storage.objects.object_store import Location

if TYPE_CHECKING:
    from typing import TextIO

    from omnigraph.choices import OpenMode
    from omnigraph.client.remote_graph import RemoteGraph
    from omnigraph.policy.access_policy import Policy
    from omnigraph.policy.audit_log import AuditLog


@overload
def open_anywhere(
    uri: str | os.PathLike[str] | Location,
    *,
    mode: OpenMode = "rw",
    actor: str | None = None,
    policy: str | Path | Policy | None = None,
    audit: str | os.PathLike[str] | TextIO | AuditLog | None = None,
    token: None = None,
) -> Graph: ...


@overload
def open_anywhere(uri: str, *, mode: OpenMode = "rw", token: str) -> RemoteGraph: ...


def open_anywhere(
    uri: str | os.PathLike[str] | Location,
    *,
    mode: OpenMode = "rw",
    actor: str | None = None,
    policy: str | Path | Policy | None = None,
    audit: str | os.PathLike[str] | TextIO | AuditLog | None = None,
    token: str | None = None,
) -> Graph | RemoteGraph:
    """Open a graph.

    Args:
        uri: directory, ``file://`` or ``s3://bucket/prefix``; a location brings its own options of the object store.
            Or a graph behind a server: ``http://host:8080/graphs/people``; without the name when it serves only one.
        mode: ``"rw"`` finishes interrupted writes and migrates old layouts first; ``"ro"`` never writes anything.
        actor: who the writes of this handle belong to, and whom a policy decides about. A server knows it by the token.
        policy: what the actor may do: the YAML text, the path of a file, which is read again when it changes, or a
            `Policy`. Without one everything is allowed. A server has its own.
        audit: where each decision and each commit is recorded as a line of JSON: a path, ``"-"`` for the standard
            output, or an open file. A server has its own.
        token: for a server; by default ``OMNIGRAPH_BEARER_TOKEN``.

    Raises:
        GraphNotFound: nothing is there.
        PolicyError: the policy breaks a rule of its language.
        NewerFormat: the graph was written by newer software.
        Unauthenticated, ServerUnavailable: the server wants another token, or nobody answers.

    Example:
        >>> with og.open("people.omni", mode="ro") as people:
        ...     people.snapshot().count("Person")
        2
    """
    if not is_server(uri):
        if token is not None:
            raise InputError("a token is for a graph behind a server", hint="leave it out, or give an http address")
        return open_graph(uri, mode=mode, actor=actor, policy=policy, audit=audit)
    if mode not in ("rw", "ro"):
        raise InputError(f"mode {mode!r} is not 'rw' or 'ro'")
    for what, given, instead in (
        ("actor", actor, "pass the token of the actor"),
        ("policy", policy, "give the server the policy"),
        ("audit", audit, "the server keeps the audit log"),
    ):
        if given is not None:
            raise NotOffered(f"{what} belongs to the storage of a graph, not to one behind a server", hint=instead)
    require_client()
    from omnigraph.client.opened import open_remote

    return open_remote(str(uri), mode=mode, token=token)


def require_client() -> None:
    try:
        import httpx2  # noqa: F401
    except ImportError:
        raise MissingExtra(
            "httpx2 is not installed; get it with: pip install 'omnigraph[client]'", extra="client"
        ) from None
