"""Makes and opens graphs. What an open graph can do is in `graph.py`."""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from omnigraph import ids
from omnigraph.errors import GraphNotFound, InputError, InvalidUri, LockTimeout, SchemaFilesDisagree
from omnigraph.graph.graph import Graph
from omnigraph.schema.compiled_schema import CompiledSchema, compile_schema
from omnigraph.schema.contract import (
    IR_FILE,
    SOURCE_FILE,
    STATE_FILE,
    check_files,
    hashes_of_file,
    missing_files,
    state_text,
)
from omnigraph.schema_registry import read_schema
from omnigraph.storage.graph_store import GraphStore
from omnigraph.storage.metadata import copy_claim, schema_files
from omnigraph.storage.objects.object_store import Location, parse_location
from omnigraph.storage.objects.user_text import text_of

if TYPE_CHECKING:
    from typing import TextIO

    from omnigraph.choices import OpenMode
    from omnigraph.policy.access_policy import Policy
    from omnigraph.policy.audit_log import AuditLog


def init(
    uri: str | os.PathLike[str],
    schema: str | Path,
    *,
    actor: str | None = None,
    force: bool = False,
    allow_unknown_annotations: bool = False,
) -> Graph:
    """Create a graph and open it.

    Args:
        uri: directory, ``file://`` or ``s3://bucket/prefix``; a missing directory is made.
        schema: the `.pg` text, or the path of a file that holds it.
        actor: who the first commit and later writes belong to.
        force: replace schema files that belong to no graph.
        allow_unknown_annotations: take also an unknown annotation that looks like a known one. Any other unknown
            annotation is a `SchemaWarning`.

    Raises:
        AlreadyInitialized: there is a graph.
        SchemaError: the schema breaks a rule, or an annotation is misspelt.

    Example:
        >>> og.init("new.omni", "node Place { name: String @key }").snapshot().count("Place")
        0
    """
    from omnigraph.schema.arrow import table_schema
    from omnigraph.schema.schema_warnings import SchemaWarning, unknown_annotations
    from omnigraph.schema.stable_ids import table_path
    from omnigraph.storage import create_graph

    text, file = text_of(schema, ".pg")
    compiled = compile_schema(text, file=file, allow_unknown_annotations=allow_unknown_annotations)
    catalog = compiled.catalog
    tables = [
        create_graph.NewTable(type_.table_key, table_path(kind, type_.name), table_schema(type_))
        for kind, types in (("node", catalog.nodes), ("edge", catalog.edges))
        for type_ in types.values()
    ]
    new = create_graph.NewGraph(
        compiled.source, compiled.ir_text, state_text(compiled.hash), tables, ids.actor_id(actor), compiled.hash
    )
    create_graph.create_graph(GraphStore(_directory(parse_location(uri))), new, force=force)
    for finding in unknown_annotations(compiled.warnings):
        warnings.warn(f"{finding.entity}: {finding.message}", SchemaWarning, stacklevel=2)
    return open_graph(uri, actor=actor)


def open_graph(
    uri: str | os.PathLike[str] | Location,
    *,
    mode: OpenMode = "rw",
    actor: str | None = None,
    policy: str | Path | Policy | None = None,
    audit: str | os.PathLike[str] | TextIO | AuditLog | None = None,
) -> Graph:
    """Open a graph.

    Args:
        uri: directory, ``file://`` or ``s3://bucket/prefix``; a location brings its own options of the object store.
        mode: ``"rw"`` finishes interrupted writes and migrates old layouts first; ``"ro"`` never writes anything.
        actor: who the writes of this handle belong to, and whom a policy decides about.
        policy: what the actor may do: the YAML text, the path of a file, which is read again when it changes, or a
            `Policy`. Without one everything is allowed.
        audit: where each decision and each commit is recorded as a line of JSON: a path, ``"-"`` for the standard
            output, or an open file.

    Raises:
        GraphNotFound: nothing is there.
        PolicyError: the policy breaks a rule of its language.
        NewerFormat: the graph was written by newer software.

    Example:
        >>> with og.open("people.omni", mode="ro") as people:
        ...     people.snapshot().count("Person")
        2
    """
    if mode not in ("rw", "ro"):
        raise InputError(f"mode {mode!r} is not 'rw' or 'ro'")
    rules, log = _policy(policy), _audit_log(audit)
    store = GraphStore(_directory(parse_location(uri)), writes=mode == "rw")
    _require_graph(store)
    if mode == "rw":
        copy_claim.require_writable(store.objects, store.location.uri)
        _finish_interrupted_work(store)
    return Graph(store, _read_schema(store, mode), mode=mode, actor=ids.actor_id(actor), policy=rules, audit=log)


def _policy(given: str | Path | Policy | None) -> Policy | None:
    if given is None:
        return None
    from omnigraph.policy.access_policy import Policy

    if isinstance(given, Policy):
        return given
    if isinstance(given, os.PathLike):
        return Policy.from_file(given)
    if not isinstance(given, str):
        raise InputError(f"a policy is a text, a path or a Policy, not a {type(given).__name__}")
    return Policy.from_text(given)


def _audit_log(given: str | os.PathLike[str] | TextIO | AuditLog | None) -> AuditLog | None:
    if given is None:
        return None
    from omnigraph.policy.audit_log import AuditLog

    return given if isinstance(given, AuditLog) else AuditLog(given)


def _directory(location: Location) -> Location:
    if location.is_local and os.path.isfile(location.uri):
        raise InvalidUri(f"{location.uri} is a file, and a graph is a directory", uri=location.uri)
    return location


def _require_graph(store: GraphStore) -> None:
    """Raise GraphNotFound where there is none; where a copy of one is unfinished, it says so."""
    try:
        store.snapshot(ids.MAIN)
    except GraphNotFound:
        claim = copy_claim.read(store.objects)
        if claim is None:
            raise
        raise copy_claim.unfinished(claim, store.location.uri) from None


def _finish_interrupted_work(store: GraphStore) -> None:
    """Migrate an old layout, finish interrupted writes and schema changes, fill the mirrors."""
    from omnigraph.history.staged_schema import resolve_staging
    from omnigraph.storage.metadata.commit_mirror import catch_up, follows
    from omnigraph.storage.recovery import sweep

    store.refresh(ids.MAIN, migrate_layout=True)
    sweep.sweep(store, strict=False)
    resolve_staging(store)
    snapshot = store.snapshot(ids.MAIN)
    if not follows(store.tables, snapshot):
        catch_up(store.tables, snapshot, store.sections)


def _read_schema(store: GraphStore, mode: str) -> CompiledSchema:
    files = {name: store.objects.read(name) for name in (SOURCE_FILE, IR_FILE, STATE_FILE)}
    if files[SOURCE_FILE] is None and (claim := copy_claim.read(store.objects)) is not None:
        raise copy_claim.unfinished(claim, store.location.uri)
    if None in files.values() and len(store.branch_refs()) == 1:
        completed = missing_files(files)
        if mode == "rw":
            for name, content in completed.items():
                store.objects.create(name, content)
        files |= completed
    main = store.snapshot(ids.MAIN)
    try:
        live = check_files(files).named(main.schema)
        if live is not None:
            return live
    except SchemaFilesDisagree:
        if main.schema is None or (mode == "rw" and not _are_accepted(store, files)):
            raise
    accepted = read_schema(store.objects, main)
    if mode == "rw" and _are_accepted(store, files):
        _repair_schema_files(store, accepted)
    return accepted


def _are_accepted(store: GraphStore, files: Mapping[str, bytes | None]) -> bool:
    """Whether each file is of a schema that the graph has or had: then it is only late. Nobody edited it."""
    return all(
        any(schema_files.kept(store.objects, known) is not None for known in hashes_of_file(name, content))
        for name, content in files.items()
    )


def _repair_schema_files(store: GraphStore, accepted: CompiledSchema) -> None:
    """The files are copies of what the head says. A change that was just made visible may still be writing them, or
    something that came late has written older ones; unless the schema changed again, they get what the head says."""
    from omnigraph.storage.objects.locks import CONTROL

    with contextlib.suppress(LockTimeout), store.sections.hold(CONTROL):  # whoever holds it may be about to do the same
        if store.refresh(ids.MAIN).schema == accepted.hash:
            texts = (accepted.source, accepted.ir_text, state_text(accepted.hash))
            schema_files.write(store.objects, dict(zip(schema_files.FILES, texts, strict=True)))
