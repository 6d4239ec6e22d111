"""The schema files of a graph, and the catalog that each branch has."""

from __future__ import annotations

import json

from omnigraph.errors import ConflictError, InputError, LimitError, StorageError
from omnigraph.schema.catalog import Catalog
from omnigraph.schema.compile import CompiledSchema, compile_schema
from omnigraph.schema.contract import IR_FILE, SOURCE_FILE, STATE_FILE, check_files
from omnigraph.schema.ir import ir_hash
from omnigraph.schema.ir_reader import catalog_from_ir
from omnigraph.storage import schema_files
from omnigraph.storage.snapshot import Snapshot
from omnigraph.storage.store import GraphStore
from omnigraph.upkeep.verify.report import Problem

CHECK = "schema"


class Schemas:
    """Reads the schema files once; what a branch is checked against follows from the hash that its head records."""

    def __init__(self, store: GraphStore) -> None:
        self._objects = store.objects
        self._live: Catalog | None = None
        self._live_hash: str | None = None

    def problems(self) -> list[Problem]:
        """Whether the three files belong together and no change was left half done."""
        files = {name: self._objects.read(name) for name in (SOURCE_FILE, IR_FILE, STATE_FILE)}
        found = []
        try:
            compiled = check_files(files)
            self._live, self._live_hash = compiled.catalog, compiled.hash
        except ConflictError as error:
            found.append(Problem(CHECK, None, None, error.message))
            self._live, self._live_hash = _from_ir(files[IR_FILE], files[STATE_FILE])
        for name in schema_files.staged(self._objects):
            message = f"{schema_files.staging(name)} is left of a schema change that did not end"
            found.append(Problem(CHECK, None, None, message))
        return found

    def catalog_of(self, snapshot: Snapshot) -> tuple[Catalog | None, Problem | None]:
        """The schema of one state, and what is wrong when it cannot be had."""
        recorded = snapshot.schema
        if recorded is not None and recorded == self._live_hash:
            return self._live, None
        compiled = _compiled(schema_files.kept(self._objects, recorded))
        if compiled is not None and recorded in (None, compiled.hash):
            return compiled.catalog, None
        if recorded is None or self._live_hash is None:
            return self._live, None  # if the files themselves are the problem, that is said already
        message = f"its state has the schema {recorded}, and that is not among the accepted ones"
        return None, Problem(CHECK, snapshot.branch, None, message)


def _compiled(text: str | None) -> CompiledSchema | None:
    try:
        return None if text is None else compile_schema(text)
    except (InputError, LimitError):
        return None


def _from_ir(ir: bytes | None, state: bytes | None) -> tuple[Catalog | None, str | None]:
    """The accepted schema from its compiled form, when the source is what is wrong."""
    try:
        compiled, accepted = json.loads(ir or b""), json.loads(state or b"")["schema_ir_hash"]
        if ir_hash(compiled) == accepted:
            return catalog_from_ir(compiled), accepted
    except (ValueError, TypeError, KeyError, StorageError):
        pass
    return None, None
