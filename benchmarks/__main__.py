"""The command: `python -m benchmarks [PART] [--scale 1.0] [--json out.json] [--check] [--write-docs]`."""

from __future__ import annotations

import argparse
import importlib
import json
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from benchmarks import docs
from benchmarks.options import Options, limit_arrow, limit_threads
from benchmarks.report import Report, show

PARTS = ("storage", "query", "search", "history", "spark", "cli", "server")


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, and with ``--check`` return 1 when a goal is missed."""
    wanted = _parse(arguments)
    limit_threads()
    limit_arrow()
    console = Console(width=None if sys.stdout.isatty() else 150)
    reports = [_run(part, wanted) for part in (PARTS if wanted.part == "all" else (wanted.part,))]
    for report in reports:
        show(report, console)
    if wanted.json:
        text = json.dumps({"scale": wanted.scale[0], "parts": [report.as_json() for report in reports]}, indent=2)
        Path(wanted.json).write_text(text + "\n", encoding="utf-8")
    if wanted.write_docs:
        docs.write(reports, wanted.scale[0])
    missed = sum(len(report.missed) for report in reports)
    console.print("every goal is met" if not missed else f"{missed} goals are missed", style="bold")
    return 1 if wanted.check and missed else 0


def _run(part: str, wanted: argparse.Namespace) -> Report:
    place = Path(wanted.place) / part
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    scale, full = wanted.scale
    try:
        made: Report = importlib.import_module(f"benchmarks.{part}").run(Options(place.resolve(), scale, full))
        return made
    finally:
        if not wanted.keep:
            shutil.rmtree(place, ignore_errors=True)


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure OmniGraph against others.")
    parser.add_argument("part", nargs="?", default="all", choices=[*PARTS, "all"])
    parser.add_argument("--scale", type=_scale, default=(1.0, False), help="1.0 (default), less, or 'full'")
    parser.add_argument("--json", metavar="FILE", help="write the results to a file")
    parser.add_argument("--check", action="store_true", help="return 1 when a goal is missed")
    parser.add_argument("--write-docs", action="store_true", help="put the results into docs/benchmarks.md")
    parser.add_argument("--place", default="bench-out", help="folder for files; use a real disk (default: bench-out)")
    parser.add_argument("--keep", action="store_true", help="leave the files there")
    return parser.parse_args(arguments)


def _scale(text: str) -> tuple[float, bool]:
    if text == "full":
        return 1.0, True
    value = float(text)
    if not value > 0:
        raise argparse.ArgumentTypeError("the scale must be above 0")
    return value, False


if __name__ == "__main__":
    sys.exit(main())
