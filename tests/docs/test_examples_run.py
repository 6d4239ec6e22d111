"""Every Python block of the documents runs, top to bottom, in one empty directory per document."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.M | re.S)
DOCUMENTS = [
    path for path in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))) if BLOCK.search(path.read_text())
]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_the_python_blocks_of_a_document_run(document: Path, tmp_path: Path) -> None:
    script = tmp_path / "blocks.py"
    script.write_text("\n".join(BLOCK.findall(document.read_text("utf-8"))), "utf-8")
    ended = subprocess.run(
        [sys.executable, script], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )
    assert ended.returncode == 0, ended.stderr
    if document.name == "README.md":
        assert "[{'team': 'c1', 'people': 1}]" in ended.stdout
        assert "rows.endpoint dst 'nobody' not found in Person" in ended.stdout
        assert "[{'name': 'Ana Ruiz'}, {'name': 'Bo Chen'}] [{'name': 'Ana Ruiz'}, {'name': 'Bo C.'}]" in ended.stdout


def test_the_readme_is_among_the_documents() -> None:
    assert ROOT / "README.md" in DOCUMENTS


def test_the_demo_tells_the_whole_story(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, ROOT / "examples/demo.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert "RolledForward Mutation of act-unlucky" in ended.stdout
    assert "EndpointMissing" in ended.stdout
    assert (tmp_path / "demo-out/library.omni/_schema.pg").exists()
