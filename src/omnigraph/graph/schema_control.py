"""What `Graph.schema` is: the schema of an open graph, and its change."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from omnigraph import ids
from omnigraph.errors import ConflictError, LimitError, StorageError
from omnigraph.ids import commit_message
from omnigraph.schema.compiled_schema import CompiledSchema, compile_schema
from omnigraph.schema_registry import SchemaRegistry
from omnigraph.storage.objects.user_text import text_of
from omnigraph.storage.store_guard import StoreFor

# A process that only reads never pays for planning and applying.
if TYPE_CHECKING:
    from omnigraph.history.schema_apply import SchemaApplied
    from omnigraph.schema.evolve import SchemaPlan


class SchemaControl:
    """The schema of one graph.

    Args:
        schemas: knows the schema of every state.
        reader: gives the storage to read from, or raises when the graph may not be used.
        writer: gives the storage to write to, or raises when the graph may not be changed.
        actor: whom the commit of a change names as its author.
    """

    def __init__(self, schemas: SchemaRegistry, reader: StoreFor, writer: StoreFor, actor: str | None) -> None:
        self._schemas = schemas
        self._reader = reader
        self._writer = writer
        self._actor = actor

    def __repr__(self) -> str:
        return "<schema: text, hash, plan(…), apply(…)>"

    @property
    def text(self) -> str:
        """The schema of main as it was accepted."""
        return self._schemas.text(self._reader("read").snapshot(ids.MAIN))

    @property
    def hash(self) -> str:
        """Names the schema: that of its compiled form, in the spelling that the graph has it in."""
        return self._schemas.of(self._reader("read").snapshot(ids.MAIN)).hash

    def plan(
        self, schema: str | Path, allow_data_loss: bool = False, *, allow_unknown_annotations: bool = False
    ) -> SchemaPlan:
        """What a change to another schema would do; changes nothing.

        Args:
            schema: the wanted `.pg` text, or the path of a file that holds it.
            allow_data_loss: plan hard drops, which also give up older versions of what is dropped.
            allow_unknown_annotations: take also an unknown annotation that looks like a known one.

        Raises:
            SchemaError: the schema breaks a rule, or an annotation is misspelt.
            SchemaIdentityError: a ``@rename_from`` hint cannot be followed.

        Example:
            >>> print(graph.schema.plan(graph.schema.text.replace("name: String", "name: String  nick: String?")))
            add property 'Person.nick' (String?) on node 'Person'
        """
        from omnigraph.history.schema_apply import plan_for

        desired = _compiled(schema, allow_unknown_annotations)
        snapshot = self._reader("schema_apply", target=ids.MAIN).snapshot(ids.MAIN)
        return plan_for(snapshot, self._schemas.of(snapshot), desired, allow_data_loss=allow_data_loss)

    def apply(
        self,
        schema: str | Path,
        allow_data_loss: bool = False,
        *,
        if_hash: str | None = None,
        message: str | None = None,
        allow_unknown_annotations: bool = False,
    ) -> SchemaApplied:
        """Change the schema as one commit. The graph may have no branch but main.

        Handles that are open, here and in other processes, see the new schema with their next operation; a write that
        was made for the old one is made again or refused, never committed. A changed ``@fulltext`` is followed by a
        commit of the system that builds the indexes again.

        Args:
            schema: the wanted `.pg` text, or the path of a file that holds it.
            allow_data_loss: drops also give up older versions of what is dropped.
            if_hash: refuse unless the graph still has the schema of this `hash`, the one that was planned from.
            message: what to say about it in the history.
            allow_unknown_annotations: take also an unknown annotation that looks like a known one.

        Raises:
            SchemaError: the schema breaks a rule, or an annotation is misspelt.
            UnsupportedSchemaChange: a step is refused; nothing changed.
            SchemaApplyBlocked: there are other branches.
            PreconditionFailed: the graph has another schema than ``if_hash``.
            SchemaIdentityError: a ``@rename_from`` hint cannot be followed.

        Example:
            >>> graph.schema.apply(graph.schema.text.replace("name: String", "name: String  nick: String?"))
            SchemaApplied(1 steps; commit 0...)
        """
        from omnigraph.history.schema_apply import SchemaRequest, apply_schema
        from omnigraph.schema.evolve import UpdateFulltext

        desired = _compiled(schema, allow_unknown_annotations)
        request = SchemaRequest(desired, allow_data_loss, self._actor, if_hash, commit_message(message))
        store = self._writer("schema_apply", target=ids.MAIN)
        applied = apply_schema(store, self._schemas, request)
        if any(isinstance(step, UpdateFulltext) for step in applied.plan.steps):
            from omnigraph.upkeep.indexes import ensure_indices

            with suppress(ConflictError, LimitError, StorageError):  # the change stands; indexes change no answer
                ensure_indices(store, self._schemas, ids.MAIN)
        return applied


def _compiled(schema: str | Path, allow_unknown_annotations: bool) -> CompiledSchema:
    text, file = text_of(schema, ".pg")
    return compile_schema(text, file=file, allow_unknown_annotations=allow_unknown_annotations)
