"""Programs that tests hold as text, for their child processes: the names they import are there.

No type checker looks into a text, so a name that moved is otherwise noticed by the one test that starts the program.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from importlib import import_module

import pytest

from tests.support.source_tree import Source, python_sources

_OURS = ("omnigraph", "pyspark_omnigraph", "tests", "benchmarks", "examples")


def programs(source: Source) -> Iterator[ast.Module]:
    """Every text in a file that is a Python program and imports something of ours."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and "import " in node.value:
            try:
                program = ast.parse(node.value)
            except SyntaxError:
                continue
            if any(True for _ in imports(program)):
                yield program


def imports(program: ast.Module) -> Iterator[tuple[str, str | None]]:
    """Modules of ours that a program imports, and the name it takes from each."""
    for node in ast.walk(program):
        if isinstance(node, ast.Import):
            yield from ((alias.name, None) for alias in node.names if _is_ours(alias.name))
        elif isinstance(node, ast.ImportFrom) and node.module is not None and _is_ours(node.module):
            yield from ((node.module, alias.name) for alias in node.names)


def _is_ours(module: str) -> bool:
    return module.partition(".")[0] in _OURS


def missing(source: Source) -> list[str]:
    return [
        f"{source.path}: {module}{f'.{name}' if name else ''}"
        for program in programs(source)
        for module, name in imports(program)
        if not _exists(module, name)
    ]


def _exists(module: str, name: str | None) -> bool:
    try:
        found = import_module(module)
        return name is None or hasattr(found, name) or bool(import_module(f"{module}.{name}"))
    except ModuleNotFoundError:
        return False


# The files of the guards hold texts with wrong imports on purpose.
@pytest.mark.parametrize("folder", ["tests", "benchmarks", "examples"])
def test_every_name_that_a_program_in_a_text_imports_is_there(folder: str) -> None:
    sources = [source for source in python_sources(folder) if not source.path.startswith("tests/guards/")]
    assert [line for source in sources for line in missing(source)] == []


def test_programs_are_found_in_texts() -> None:
    assert sum(1 for source in python_sources("tests") for _ in programs(source)) > 10


@pytest.mark.parametrize("program", ["import omnigraph.nowhere", "from omnigraph.errors import InputErr"])
def test_a_planted_wrong_import_is_found(program: str) -> None:
    assert len(missing(Source("tests/planted.py", f"CODE = {program!r}"))) == 1


@pytest.mark.parametrize(
    "program", ["import omnigraph as og", "from omnigraph import failpoints", "import this is no program", "import os"]
)
def test_an_innocent_neighbour_is_left_alone(program: str) -> None:
    assert missing(Source("tests/planted.py", f"CODE = {program!r}")) == []
