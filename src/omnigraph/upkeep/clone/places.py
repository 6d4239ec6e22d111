"""The two places of a copy: where the graph is, and where the copy may be."""

from __future__ import annotations

import os

from omnigraph import ids
from omnigraph.errors import AlreadyInitialized, ConflictError, InputError, InvalidUri
from omnigraph.storage.graph_store import GraphStore
from omnigraph.storage.metadata import copy_claim, manifest
from omnigraph.storage.metadata.copy_claim import CopyClaim
from omnigraph.storage.objects.file_tree import FileTree
from omnigraph.storage.objects.locks import RECOVERY_DIRECTORY
from omnigraph.storage.objects.object_store import Location, parse_location


def two_graphs(
    source: str | os.PathLike[str] | Location, target: str | os.PathLike[str] | Location
) -> tuple[GraphStore, GraphStore]:
    """The stores of a source that is a graph, and of a target that lies apart from it."""
    one, other = parse_location(source), parse_location(target)
    for location in (one, other):
        if location.is_local and os.path.isfile(location.uri):
            raise InvalidUri(f"{location.uri} is a file, and a graph is a directory", uri=location.uri)
    if one.uri == other.uri:
        raise InputError(f"{one.uri} is both the source and the target", hint="choose another place for the copy")
    for inner, outer in ((one, other), (other, one)):
        if inner.uri.startswith(f"{outer.uri}/"):
            raise InputError(f"{inner.uri} lies inside {outer.uri}", hint="choose a place apart from the source")
    graph = GraphStore(one)
    require_graph(graph)
    return graph, GraphStore(other)


def require_graph(store: GraphStore) -> None:
    """Raise GraphNotFound where no graph is, and say so if a copy began there."""
    claim = copy_claim.read(store.objects)
    if claim is not None and (claim.kind == "clone" or store.tables.newest_or_none(manifest.PATH) is None):
        raise copy_claim.unfinished(claim, store.location.uri)
    store.snapshot(ids.MAIN)


def require_place(target: GraphStore, claim: CopyClaim) -> None:
    """Raise unless the target is empty, or holds what the same copy began."""
    uri = target.location.uri
    found = copy_claim.read(target.objects)
    if found == claim:
        return
    if found is not None:
        raise ConflictError(
            f"{uri} holds a {found.kind} of {found.source}", hint="choose another place, or remove it", uri=uri
        )
    files = FileTree(target.location).files()
    if all(file.path.startswith(f"{RECOVERY_DIRECTORY}/") for file in files):
        return
    if target.tables.newest_or_none(manifest.PATH) is not None:
        raise AlreadyInitialized(f"there is a graph at {uri} already", hint="choose another place", uri=uri)
    raise InputError(f"{uri} is not empty", hint="choose an empty or a new place", uri=uri)
