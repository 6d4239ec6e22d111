"""Graphs behind servers for coroutines: `omnigraph.aio.open` gives an `AsyncRemoteGraph`.

    graph = await omnigraph.aio.open("http://host:8080/graphs/people", token="…")
    result = await graph.query("query all() { match { $p: Person } return { $p.name as name } }")

A graph in a storage has no coroutines: its verbs use the processor more than they wait.
"""

from __future__ import annotations

from omnigraph.client.async_graph import AsyncRemoteBlob as AsyncRemoteBlob
from omnigraph.client.async_graph import AsyncRemoteBranches as AsyncRemoteBranches
from omnigraph.client.async_graph import AsyncRemoteCommitChanges as AsyncRemoteCommitChanges
from omnigraph.client.async_graph import AsyncRemoteCommits as AsyncRemoteCommits
from omnigraph.client.async_graph import AsyncRemoteDiff as AsyncRemoteDiff
from omnigraph.client.async_graph import AsyncRemoteGraph as AsyncRemoteGraph
from omnigraph.client.async_graph import AsyncRemoteSchema as AsyncRemoteSchema
from omnigraph.client.async_graph import AsyncRemoteSnapshot as AsyncRemoteSnapshot
from omnigraph.client.async_graph import AsyncRemoteTags as AsyncRemoteTags
from omnigraph.client.async_opened import open_async as open

__all__ = [
    "AsyncRemoteBlob",
    "AsyncRemoteBranches",
    "AsyncRemoteCommitChanges",
    "AsyncRemoteCommits",
    "AsyncRemoteDiff",
    "AsyncRemoteGraph",
    "AsyncRemoteSchema",
    "AsyncRemoteSnapshot",
    "AsyncRemoteTags",
    "open",
]
