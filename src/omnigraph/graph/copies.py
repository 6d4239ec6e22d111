"""Copies of whole graphs, with the engine that carries their files. How a copy is made is in `upkeep/clone/`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from omnigraph.storage.objects.object_store import Location

if TYPE_CHECKING:
    from omnigraph.choices import Engine
    from omnigraph.upkeep.clone.copy_graph import CloneResult


def clone(
    source: str | os.PathLike[str] | Location,
    target: str | os.PathLike[str] | Location,
    *,
    engine: Engine = "auto",
) -> CloneResult:
    """Copy a whole graph, with all branches and their history, to a place where nothing is.

    Works from and to local disks and object stores. The source may be written to meanwhile; the clone has one state of
    every branch, as of about the beginning. Every file is compared with its source. Until all of them are there, the
    clone cannot be opened, and a second call goes on where an interrupted one stopped.

    Args:
        source: the graph, or a backup of one.
        target: an empty or missing directory, or an empty ``s3://bucket/prefix``.
        engine: ``"embedded"`` copies in this process, ``"spark"`` on Spark; ``"auto"`` gives many files of an object
            store to Spark, if it is installed.

    Raises:
        GraphNotFound: the source is no graph.
        AlreadyInitialized: the target is a graph.
        InputError: the target is not empty, or one of the two lies in the other.
        MissingExtra: Spark was asked for and is not installed.

    Example:
        >>> og.clone("people.omni", "twin.omni").branches
        1
    """
    from omnigraph.graph.engines import copy_engine
    from omnigraph.upkeep.clone.clone_graph import clone_graph

    return clone_graph(source, target, copy_engine(engine))


def backup(
    source: str | os.PathLike[str] | Location,
    target: str | os.PathLike[str] | Location,
    *,
    prune: bool = False,
    engine: Engine = "auto",
) -> CloneResult:
    """Make a backup of a graph, or bring one up to date by copying what is new.

    The target is a graph that can be read with ``mode="ro"`` and with every command that reads; writers are refused. To
    bring a backup back, clone it. While a run is under way, and after one that was interrupted, main shows the state
    before or after it.

    Args:
        source: the graph.
        target: an empty place, or the backup of this graph from before.
        prune: remove what the source has no more: deleted branches, dropped tables, files of writes that failed.
        engine: as for `clone`.

    Raises:
        ConflictError: the target is a backup of another graph, or has a state that the source does not have.
        AlreadyInitialized: the target is a graph, not a backup.
        InputError: the target is not empty, or one of the two lies in the other.
        MissingExtra: Spark was asked for and is not installed.

    Example:
        >>> og.backup("people.omni", "backup.omni").copied_files > 0
        True
        >>> og.backup("people.omni", "backup.omni").copied_files
        0
    """
    from omnigraph.graph.engines import copy_engine
    from omnigraph.upkeep.clone.keep_backup import keep_backup

    return keep_backup(source, target, prune, copy_engine(engine))
