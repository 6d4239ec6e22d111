"""The page about the routes names every route, and nothing else."""

from __future__ import annotations

import re

from omnigraph.server.operations import OPERATIONS
from tests.support.source_tree import ROOT

PAGE = (ROOT / "docs" / "http-api.md").read_text("utf-8")
OLDER = {("POST", "/read"), ("POST", "/change"), ("POST", "/ingest")}


def test_the_table_has_every_route() -> None:
    table = PAGE.partition("## Routes")[2].partition("\n### ")[0]
    named = set(re.findall(r"`(GET|HEAD|POST|DELETE) (/[^`]+)`", table))
    assert named | OLDER == {(operation.method, operation.path) for operation in OPERATIONS}


def test_every_parameter_is_told() -> None:
    for operation in OPERATIONS:
        row = next((line for line in PAGE.splitlines() if f"`{operation.method} {operation.path}`" in line), "")
        told = row + PAGE.partition("## Routes")[2]
        for kind in (operation.body, operation.query):
            for name in kind.__struct_encode_fields__ if kind is not None else ():
                assert f"`{name}`" in told or name in ("format", "shape"), f"{operation.id}: {name}"
