"""The three schema files of a graph, and whether they belong together.

``_schema.pg`` is the source as accepted, ``_schema.ir.json`` its compiled form, ``__schema_state.json`` the hash that
ties them. This module only compares texts; storage reads and writes them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from omnigraph.errors import LimitError, SchemaFilesDisagree, SourceError
from omnigraph.schema.compiled_schema import CompiledSchema, compile_schema
from omnigraph.schema.ir import ir_hash

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
    return json.dumps(state, indent=2) + "\n"


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


def hash_of_file(name: str, content: bytes | None) -> str | None:
    """Hash of the schema that one of the three files is about, whatever the others say; None when it does not tell."""
    try:
        text = (content or b"").decode("utf-8")
        if name == SOURCE_FILE:
            return compile_schema(text, file=SOURCE_FILE).hash
        return ir_hash(_json_object(IR_FILE, text)) if name == IR_FILE else _accepted_hash(text)
    except (SchemaFilesDisagree, SourceError, LimitError, UnicodeDecodeError):
        return None


def missing_files(files: Mapping[str, bytes | None]) -> dict[str, bytes]:
    """The compiled form and the state of a very old graph that has only its source, in the order to write them.

    A state that is missing beside the right compiled form is what a crash between the two writes leaves. Everything
    else is not ours to complete: the answer is empty.
    """
    source, ir = files[SOURCE_FILE], files[IR_FILE]
    if source is None or files[STATE_FILE] is not None:
        return {}
    try:
        compiled = compile_schema(source.decode("utf-8"), file=SOURCE_FILE)
    except (SourceError, LimitError, UnicodeDecodeError):
        return {}
    wanted = {IR_FILE: compiled.ir_text.encode(), STATE_FILE: state_text(compiled.hash).encode()}
    if ir is None:
        return wanted
    return {STATE_FILE: wanted[STATE_FILE]} if ir == wanted[IR_FILE] else {}


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
        compiled = compile_schema(source_text, file=SOURCE_FILE)
    except (SourceError, LimitError) as error:
        raise _disagree(SOURCE_FILE, f"it does not compile: {error.message}") from error
    if compiled.hash != accepted:
        raise _disagree(SOURCE_FILE, f"it compiles to {compiled.hash}, accepted is {accepted}")
    return compiled


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
