"""Documents point at things that exist, and speak only of what a reader can see."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.source_tree import ROOT

DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")])
FENCE = re.compile(r"^```.*?^```$", re.M | re.S)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#{1,6} (.+)$", re.M)

#: What only those know who wrote the software.
INTERNAL = re.compile(r"\bissues? #?\d|(?<!\w)#\d+\b|§")


def prose_of(document: Path) -> str:
    return FENCE.sub("", document.read_text("utf-8"))


def anchors_of(document: Path) -> set[str]:
    """The anchors that a reader's page has for its headings."""
    words = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in HEADING.findall(prose_of(document)))
    return {text.strip().replace(" ", "-") for text in words}


def broken_links(document: Path) -> list[str]:
    broken = []
    for link in LINK.findall(prose_of(document)):
        if "://" in link or link.startswith("mailto:"):
            continue
        name, _, anchor = link.partition("#")
        target = (document.parent / name).resolve() if name else document
        if not target.exists() or (anchor and anchor not in anchors_of(target)):
            broken.append(link)
    return broken


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_and_anchors_lead_somewhere(document: Path) -> None:
    assert broken_links(document) == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_document_speaks_of_what_a_reader_can_see(document: Path) -> None:
    assert INTERNAL.findall(prose_of(document)) == []


def test_a_link_to_nowhere_is_found(tmp_path: Path) -> None:
    (tmp_path / "b.md").write_text("# The one\n", "utf-8")
    page = tmp_path / "a.md"
    page.write_text(
        "[x](b.md#the-one) [y](b.md#the-other) [z](c.md)\n```\n[q](d.md)\n```\n[o](https://x.y/z)\n", "utf-8"
    )
    assert broken_links(page) == ["b.md#the-other", "c.md"]


SOURCES = [
    f"/{path.relative_to(ROOT)}" for top in ("src", "tests", "benchmarks") for path in (ROOT / top).rglob("*.py")
]


def missing_modules(text: str) -> list[str]:
    """Files of code that a text names in back quotes and that are not there."""
    names = set(re.findall(r"`([\w/]+\.py)`", text))
    return sorted(name for name in names if not any(path.endswith(f"/{name}") for path in SOURCES))


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_files_of_code_that_a_document_names_exist(document: Path) -> None:
    assert missing_modules(prose_of(document)) == []


def test_a_file_of_code_that_is_not_there_is_found() -> None:
    assert missing_modules("`omnigraph/errors.py` `errors.py` `tests/docs/test_links.py` `storage/nothing.py`") == [
        "storage/nothing.py"
    ]


def test_every_document_is_reached_from_the_readme() -> None:
    reached, waiting = set(), [ROOT / "README.md"]
    while waiting:
        page = waiting.pop()
        if page in reached:
            continue
        reached.add(page)
        links = (link.partition("#")[0] for link in LINK.findall(prose_of(page)) if "://" not in link)
        found = [(page.parent / link).resolve() for link in links if link]
        waiting += [each for each in found if each.suffix == ".md" and each.exists()]
        waiting += [each for folder in found if folder.is_dir() for each in folder.glob("*.md")]
    assert set(DOCUMENTS) - reached == set()


def test_the_list_of_modules_names_every_module() -> None:
    text = (ROOT / "README.md").read_text("utf-8").partition("## Modules")[2].partition("## How a write")[0]
    named = set(re.findall(r"^  ([a-z_]+(?:/|\.py))", text, re.M))
    there = {
        f"{path.name}/" if path.is_dir() else path.name
        for path in (ROOT / "src/omnigraph").iterdir()
        if not path.name.startswith("__") and (path.suffix == ".py" or (path / "__init__.py").exists())
    }
    assert there - named - {"error_base.py"} == set()
    assert {name for name in named if name.endswith(".py")} <= there | {"__init__.py"}
