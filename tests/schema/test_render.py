"""Canonical text: compiling it gives the catalog back."""

from __future__ import annotations

from hypothesis import given

from omnigraph.schema import compile_schema
from tests.schema.rendering import render
from tests.schema.strategies import Draft, drafts


@given(drafts())
def test_rendered_text_means_the_same(draft: Draft) -> None:
    compiled = compile_schema(draft.text())
    again = compile_schema(render(compiled.catalog))
    assert again.catalog == compiled.catalog
    assert again.hashes[1] == compiled.hashes[1]  # the spelling that says no more than the meaning
    assert render(again.catalog) == again.source
