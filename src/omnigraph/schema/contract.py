"""The three schema files of a graph, and whether they belong together.

``_schema.pg`` is the source as accepted, ``_schema.ir.json`` its compiled form, ``__schema_state.json`` the hash that
ties them. The compiled form may be in any spelling, as long as it has that hash and means what the source means. This
module only compares texts; storage reads and writes them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from omnigraph.errors import CorruptGraph, LimitError, SchemaFilesDisagree, SourceError
from omnigraph.schema.catalog import Catalog, NodeType
from omnigraph.schema.compiled_schema import CompiledSchema, compile_accepted
from omnigraph.schema.ir import catalog_from_ir, ir_hash

SOURCE_FILE = "_schema.pg"
IR_FILE = "_schema.ir.json"
STATE_FILE = "__schema_state.json"

_STATE_FORMAT = 1
_IDENTITY_VERSION = 1


def state_text(schema_hash: str) -> str:
    """The text of ``__schema_state.json`` for a schema with this hash."""
    state = {
        "format_version": _STATE_FORMAT,
        "schema_ir_hash": schema_hash,
        "schema_identity_version": _IDENTITY_VERSION,
    }
    return json.dumps(state, indent=2)


def check_files(files: Mapping[str, bytes | None]) -> CompiledSchema:
    """The same as `check_contract` for the three files as they were found, None for one that is missing."""
    texts = []
    for name in (SOURCE_FILE, IR_FILE, STATE_FILE):
        content = files[name]
        if content is None:
            raise _disagree(name, "it is missing")
        try:
            texts.append(content.decode("utf-8"))
        except UnicodeDecodeError:
            raise _disagree(name, "it is not UTF-8 text") from None
    return check_contract(*texts)


def hashes_of_file(name: str, content: bytes | None) -> tuple[str, ...]:
    """Hashes of the schema that one of the three files is about, whatever the others say; none when it does not tell.

    A source has one for each spelling that its compiled form may have.
    """
    try:
        text = (content or b"").decode("utf-8")
        if name == SOURCE_FILE:
            return compile_accepted(text, file=SOURCE_FILE).hashes
        return (ir_hash(_json_object(IR_FILE, text)) if name == IR_FILE else _accepted_hash(text),)
    except (SchemaFilesDisagree, SourceError, LimitError, UnicodeDecodeError):
        return ()


def missing_files(files: Mapping[str, bytes | None]) -> dict[str, bytes]:
    """The compiled form and the state of a very old graph that has only its source, in the order to write them.

    A state that is missing beside the right compiled form is what a crash between the two writes leaves. Everything
    else is not ours to complete: the answer is empty.
    """
    source, ir = files[SOURCE_FILE], files[IR_FILE]
    if source is None or files[STATE_FILE] is not None:
        return {}
    try:
        compiled = compile_accepted(source.decode("utf-8"), file=SOURCE_FILE)
        if ir is None:
            return {IR_FILE: compiled.ir_text.encode(), STATE_FILE: state_text(compiled.hash).encode()}
        found = _json_object(IR_FILE, ir.decode("utf-8"))
        return {STATE_FILE: state_text(_in_spelling_of(compiled, found).hash).encode()}
    except (SchemaFilesDisagree, SourceError, LimitError, UnicodeDecodeError):
        return {}


def check_contract(source_text: str, ir_text: str, state_text: str) -> CompiledSchema:
    """Compile the accepted source after proving that the three files belong together.

    Raises:
        SchemaFilesDisagree: names the file that is wrong in ``details["file"]``.
    """
    accepted = _accepted_hash(state_text)
    ir = _json_object(IR_FILE, ir_text)
    if ir_hash(ir) != accepted:
        raise _disagree(IR_FILE, f"its hash is not the accepted {accepted}")
    try:
        compiled = compile_accepted(source_text, file=SOURCE_FILE)
    except (SourceError, LimitError) as error:
        raise _disagree(SOURCE_FILE, f"it does not compile: {error.message}") from error
    return _in_spelling_of(compiled, ir)


def _in_spelling_of(compiled: CompiledSchema, ir: Mapping[str, Any]) -> CompiledSchema:
    """A compiled source in the spelling of the compiled form beside it, which must mean the same."""
    known = compiled.named(ir_hash(ir))
    if known is not None:
        return known
    from omnigraph.schema.schema_difference import first_difference  # graphs of this software need none

    try:
        beside = catalog_from_ir(ir)
    except CorruptGraph as error:
        raise _disagree(IR_FILE, error.message) from error
    difference = first_difference(compiled.catalog, beside)
    if difference is not None and first_difference(_with_upper_bounds_below(compiled.catalog), beside) is not None:
        raise _disagree(SOURCE_FILE, f"it does not mean what {IR_FILE} does: {difference}")
    return compiled.spelled(ir)


def _with_upper_bounds_below(catalog: Catalog) -> Catalog:
    """The catalog as other software compiles it, where the one bound of ``..3`` lands in the minimum."""
    return replace(catalog, nodes={name: _with_upper_bound_below(node) for name, node in catalog.nodes.items()})


def _with_upper_bound_below(node: NodeType) -> NodeType:
    ranges = (replace(each, low=each.high, high=None) if each.low is None else each for each in node.ranges)
    return replace(node, ranges=tuple(ranges))


def _accepted_hash(text: str) -> str:
    state = _json_object(STATE_FILE, text)
    for field, known in (("format_version", _STATE_FORMAT), ("schema_identity_version", _IDENTITY_VERSION)):
        found = state.get(field)
        if found != known or isinstance(found, bool):
            raise _disagree(STATE_FILE, f"{field} is {found!r}, this software knows {known}")
    accepted = state.get("schema_ir_hash")
    if not isinstance(accepted, str):
        raise _disagree(STATE_FILE, "it holds no schema_ir_hash")
    return accepted


def _json_object(file: str, text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _disagree(file, f"it is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise _disagree(file, "it is not a JSON object")
    return value


def _disagree(file: str, problem: str) -> SchemaFilesDisagree:
    return SchemaFilesDisagree(
        f"the schema files of this graph do not belong together: {file} is wrong, {problem}",
        hint="restore the file from a backup; do not edit schema files by hand, apply a schema change instead",
        file=file,
    )
