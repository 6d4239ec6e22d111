"""Writes the data of the transit example: a made-up city, the same one every time.

``python examples/transit/make_data.py data/`` makes data/transit.jsonl with some 5,300 records.
"""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

OPERATORS = {"Stadtwerke Nord": 1903, "Bluebird Transit": 1968, "Harbour Ferries & Trams": 1921, "Línea Verde": 1997}
PLACES = """Mill Harbour Garden Castle Orchard Quarry Abbey Meadow Foundry Lighthouse Chapel Bridge Museum University
Arsenal Tannery Observatory Granary Theatre Market""".split()  # noqa: SIM905
STREETS = "Road Square Street Gate Park Hill Lane Cross Fields Quay Straße Plaça".split()  # noqa: SIM905
MODES = {"metro": ("M", 6, 24), "tram": ("T", 9, 18), "bus": ("B", 12, 14)}
KINDS = ("signal", "weather", "vehicle", "medical")
NOTES = (
    None,
    None,
    None,
    "snow on the points ❄️",
    "replacement service",
    "resolved by the crew",
    "crowded after a match ⚽",
)
INCIDENTS = 1_200


def records() -> Iterator[dict[str, Any]]:
    """Every record in the form that `load` reads."""
    random = Random(20_260)
    stations = _stations(random)
    lines = [
        (f"{letter}{number}", mode, stops)
        for mode, (letter, count, stops) in MODES.items()
        for number in range(1, count + 1)
    ]
    yield from ({"type": "Operator", "data": {"name": name, "founded": year}} for name, year in OPERATORS.items())
    yield from ({"type": "Station", "data": station} for station in stations)
    served: dict[str, list[str]] = {}
    for code, mode, stops in lines:
        ends = random.sample(stations, 2)
        name = f"{ends[0]['name']} – {ends[1]['name']}"
        yield {"type": "Line", "data": {"code": code, "name": name, "mode": mode}}
        yield {"edge": "RunBy", "from": code, "to": random.choice(list(OPERATORS))}
        served[code] = [station["code"] for station in random.sample(stations, stops)]
        yield from _route(random, code, served[code])
    for number in range(1, INCIDENTS + 1):
        yield from _incident(random, number, served)


def _stations(random: Random) -> list[dict[str, Any]]:
    names = [f"{place} {street}" for place in PLACES for street in STREETS]
    random.shuffle(names)
    return [
        {
            "code": f"{name[0]}{name.split()[1][0]}{number:03d}",
            "name": name,
            "zone": min(6, 1 + number // 45),
            "step_free": random.random() < 0.6,
            "opened": (date(1890, 1, 1) + timedelta(days=random.randrange(48_000))).isoformat(),
        }
        for number, name in enumerate(names)
    ]


def _route(random: Random, line: str, stops: list[str]) -> Iterator[dict[str, Any]]:
    for position, station in enumerate(stops, start=1):
        yield {
            "edge": "Serves",
            "from": line,
            "to": station,
            "data": {"id": f"{line}-{position}", "position": position},
        }
    for here, there in itertools.pairwise(stops):
        minutes = random.randint(1, 5)
        yield {"edge": "Next", "from": here, "to": there, "data": {"id": f"{line}:{here}>{there}", "minutes": minutes}}
        yield {"edge": "Next", "from": there, "to": here, "data": {"id": f"{line}:{there}>{here}", "minutes": minutes}}


def _incident(random: Random, number: int, served: dict[str, list[str]]) -> Iterator[dict[str, Any]]:
    code = f"I{number:05d}"
    line = random.choice([line for line in served if line not in ("B12", "T9")])
    happened = datetime(2025, 1, 1, 5, tzinfo=UTC) + timedelta(minutes=random.randrange(525_600))
    data = {
        "code": code,
        "kind": random.choice(KINDS),
        "happened": happened.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "minutes": int(random.expovariate(1 / 12)),
        "note": random.choice(NOTES),
    }
    yield {"type": "Incident", "data": data}
    yield {"edge": "HappenedAt", "from": code, "to": random.choice(served[line]), "data": {"id": f"{code}@"}}
    yield {"edge": "Delayed", "from": code, "to": line, "data": {"id": f"{code}!{line}"}}


def write(folder: Path) -> Path:
    """Write the records as JSON lines and return the file."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "transit.jsonl"
    with file.open("w", encoding="utf-8", newline="\n") as out:
        for record in records():
            out.write(json.dumps(record, ensure_ascii=False, separators=(",", ":")) + "\n")
    return file


if __name__ == "__main__":
    print(write(Path(sys.argv[1] if len(sys.argv) > 1 else "data")))
