"""Writes the data of the library example: readers, authors, books and loans, the same ones every time.

``python examples/library/make_data.py data/`` makes one file of JSON lines per type, some 4,600 records in all.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path
from random import Random
from typing import Any

FIRST = "Ana Bo Cy Di Eli Fay Gus Hana Ines Jon Kaja Lev Mira Noé Oda Per Quin Rosa Søren Tui".split()  # noqa: SIM905
LAST = "Ruiz Chen Diaz Evans Frost Gupta Haas Ito Jensen Lindt Moreau Novák Okafor Pires Rossi".split()  # noqa: SIM905
OPENERS = ("The", "A History of", "Notes on", "Letters to", "Counting", "Inside", "An Atlas of", "The Secret of")
THINGS = """Quiet Graphs/Maps/Salt and Stars/Paths/Winter Rivers/Glass/Small Islands/Clocks/Moss/Lost Harbours/Numbers/
Night Trains/Honey/Paper Cities/Tides/Ravens/Gardens/Mirrors/Dust/Lanterns""".replace("\n", "").split("/")
SHELVES = ("fiction", "science", "history")
READERS, AUTHORS, BOOKS = 600, 150, 900


def records() -> dict[str, list[dict[str, Any]]]:
    """Every record in the form that `load` reads, by type."""
    random = Random(1_984)
    readers = [_reader(random, number) for number in range(READERS)]
    authors = sorted(
        {f"{random.choice(FIRST)[0]}. {random.choice(LAST)}-{random.choice(LAST)}" for _ in range(AUTHORS)}
    )
    books = [_book(random, number) for number in range(BOOKS)]
    isbns = [book["isbn"] for book in books]
    return {
        "Reader": [{"type": "Reader", "data": reader} for reader in readers],
        "Author": [{"type": "Author", "data": {"name": name, "born": random.randint(1900, 1995)}} for name in authors],
        "Book": [{"type": "Book", "data": book} for book in books],
        "WrittenBy": [_edge("WrittenBy", isbn, random.choice(authors), isbn) for isbn in isbns],
        "Borrowed": list(_loans(random, [reader["handle"] for reader in readers], isbns[: BOOKS * 4 // 5])),
        "Mentions": list(_mentions(random, isbns)),
    }


def _reader(random: Random, number: int) -> dict[str, Any]:
    first, last = random.choice(FIRST), random.choice(LAST)
    joined = date(2015, 1, 1) + timedelta(days=random.randrange(3_650))
    return {"handle": f"{first.lower()}{number:03d}", "name": f"{first} {last}", "joined": joined.isoformat()}


def _book(random: Random, number: int) -> dict[str, Any]:
    title = f"{random.choice(OPENERS)} {random.choice(THINGS)}"
    year = random.choice([None, *range(1950, 2025)])
    return {"isbn": f"{1000 + number}", "title": title, "year": year, "shelf": random.choice(SHELVES)}


def _loans(random: Random, readers: list[str], isbns: list[str]) -> Iterator[dict[str, Any]]:
    for reader in readers:
        for number in range(random.choice((0, 1, 1, 2, 2, 3))):
            since = (date(2025, 1, 1) + timedelta(days=random.randrange(90))).isoformat()
            # Small numbers are popular books.
            book = isbns[int(len(isbns) * random.random() ** 3)]
            yield _edge("Borrowed", reader, book, f"{reader}/{number}", since=since)


def _mentions(random: Random, isbns: list[str]) -> Iterator[dict[str, Any]]:
    for isbn in isbns:
        for other in sorted(random.sample(isbns, random.choice((0, 1, 1, 2, 3)))):
            if other != isbn:
                yield _edge("Mentions", isbn, other, f"{isbn}>{other}")


def _edge(name: str, source: str, target: str, id_: str, **data: Any) -> dict[str, Any]:
    return {"edge": name, "from": source, "to": target, "data": {"id": id_, **data}}


def write(folder: Path) -> list[Path]:
    """Write one file of JSON lines per type and return the files."""
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for name, found in records().items():
        file = folder / f"{name}.jsonl"
        with file.open("w", encoding="utf-8", newline="\n") as out:
            out.writelines(json.dumps(record, ensure_ascii=False, separators=(",", ":")) + "\n" for record in found)
        files.append(file)
    return files


if __name__ == "__main__":
    for file in write(Path(sys.argv[1] if len(sys.argv) > 1 else "data")):
        print(file)
