"""Every Python and shell block of the documents runs, top to bottom, in one empty directory per document."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.run_blocks import BLOCK

ROOT = Path(__file__).parents[2]
DOCUMENTS = [
    path
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
    if BLOCK.search(path.read_text("utf-8"))
]

#: What a reader is told to see.
SHOWN = {
    "README.md": (
        "[{'team': 'c1', 'people': 1}]",
        "rows.endpoint dst 'nobody' not found in Person",
        "[{'name': 'Ana Ruiz'}, {'name': 'Bo Chen'}] [{'name': 'Ana Ruiz'}, {'name': 'Bo C.'}]",
        "update node Person bo ('name',)",
        "fast_forward 1 ['main']",
        "2 rows from branch main via team\nhandle | name\n-------+--------\nbo     | Bo C.\ncy     | Cy Diaz\n",
        "insert node Person di\n",
        "merged review/more into main: fast_forward\n",
    ),
    "quickstart.md": ("5 rows from branch main via trouble_spots\n", "merged fix/zones into main: fast_forward\n"),
    "concepts.md": ("DivergentUpdate", "add property 'Person.nick' (String?) on node 'Person'"),
    "schema-language.md": ("add property 'Paper.pages' (I32?) on node 'Paper'",),
    "cli.md": ("main\nreview/x\n",),
}


@pytest.mark.timeout(600)
@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_the_blocks_of_a_document_run(document: Path, tmp_path: Path) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples")  # documents are read at the root of the repository
    ended = subprocess.run(
        [sys.executable, ROOT / "tests/docs/run_blocks.py", document],
        cwd=tmp_path,
        env={**os.environ, "OMNIGRAPH_HOME": str(tmp_path / "home")},
        capture_output=True,
        text=True,
        timeout=540,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    for text in SHOWN.get(document.name, ()):
        assert text in ended.stdout, ended.stdout


def test_the_first_documents_are_among_them() -> None:
    assert {"README.md", "quickstart.md", "concepts.md", "cli.md"} <= {path.name for path in DOCUMENTS}


def test_what_the_readme_shows_is_what_is_printed() -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    table = "2 rows from branch main via team\nhandle | name\n-------+--------\nbo     | Bo C.\ncy     | Cy Diaz\n"
    assert table in text


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_demo_tells_the_whole_story(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, ROOT / "examples/demo.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=540,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    for text in (
        "one commit: ",
        "No Spark here" if not _has_java() else "WrittenBy 900",
        "update node Book 1002: shelf: ",
        "DivergentUpdate: node:Book/1002: both sides changed it differently",
        "shelf of 1002 on main is now science; branches: ['main']",
        "EndpointMissing",
        "RolledForward Mutation of act-unlucky",
        "verify: sound",
        ".venv/bin/omnigraph commit list demo-out/library.omni",
    ):
        assert text in ended.stdout, ended.stdout
    assert (tmp_path / "demo-out/library.omni/_schema.pg").exists()


def _has_java() -> bool:
    from shutil import which

    return bool(os.environ.get("JAVA_HOME")) or which("java") is not None
