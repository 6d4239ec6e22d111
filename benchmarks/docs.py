"""Puts measured tables into `docs/benchmarks.md`, between the marks that each part has there."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from benchmarks.report import HEADINGS, Report, markdown

PAGE = Path(__file__).resolve().parents[1] / "docs" / "benchmarks.md"
PACKAGES = ("pylance", "pyarrow", "numpy", "duckdb", "ladybug", "deltalake")


def write(reports: Iterable[Report], scale: float, page: Path = PAGE) -> None:
    """Replace what stands between the marks of the parts that were measured; the rest stays."""
    text = page.read_text(encoding="utf-8")
    for report in reports:
        text = _between(text, report.part, _section(report, scale))
    page.write_text(text, encoding="utf-8")


def _between(text: str, part: str, content: str) -> str:
    begin, end = f"<!-- {part}: begin -->", f"<!-- {part}: end -->"
    before, found, rest = text.partition(begin)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        raise ValueError(f"the page has no marks for {part}: {begin} … {end}")
    return f"{before}{begin}\n{content}\n{end}{after}"


def _section(report: Report, scale: float) -> str:
    parts = [f"Scale {scale:g}, {_machine()}.", markdown(HEADINGS, [row.cells() for row in report.rows])]
    notes = [f"- {row.measure}: {row.note}" for row in report.rows if row.note]
    if notes:
        parts.append("\n".join(notes))
    for grid in report.grids:
        parts += [f"**{grid.title}**", markdown(grid.headings, grid.lines)]
    if report.facts:
        parts.append("\n".join(f"- {name}: {value}" for name, value in report.facts))
    return "\n\n".join(["", *parts, ""])


def _machine() -> str:
    versions = ", ".join(f"{name} {found}" for name in PACKAGES if (found := _version(name)))
    return f"{os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()}, {versions}"


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
