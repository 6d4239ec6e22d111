"""A made-up social graph: people who follow each other, live in cities and have interests.

The same seed and scale give the same graph, on any machine. Every column is made as a whole with NumPy. There are no
parallel edges and no self-loops, so that walks and rows count the same in every engine.

    social = make(scale=0.01)
    social.nodes["Person"], social.edges["Follows"]      # Arrow tables; edges have src, dst and their properties
    write_parquet(social, folder); write_jsonl(social, folder / "social.jsonl")
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

SCHEMA = """
node Person {
    handle: String @key
    name: String
    gender: enum(female, male)
    age: I32
    birthday: Date
}
node City { slug: String @key  name: String }
node State { slug: String @key  name: String }
node Country { name: String @key }
node Interest { name: String @key }

edge Follows: Person -> Person { since: Date }
edge LivesIn: Person -> City @card(0..1)
edge InState: City -> State @card(0..1)
edge InCountry: State -> Country @card(0..1)
edge HasInterest: Person -> Interest
"""

PERSONS = 100_000
FOLLOWS_PER_PERSON = 24
HUBS = 500
HUB_FOLLOWERS = (500, 5_000)
CITIES = 7_000
STATES = 270
COUNTRIES = ("Canada", "United Kingdom", "United States")
INTERESTS_PER_PERSON = 2.5
TODAY = np.datetime64("2025-01-01", "D")
FIRST_FOLLOW = np.datetime64("2012-01-01", "D")


def _words(text: str) -> list[str]:
    return text.split()


INTERESTS = _words(
    "Archery Astronomy Badminton Baking Basketball Billiards Birding Boxing Camping Chess Climbing Cooking Cricket "
    "Cycling Dancing Drawing Fencing Fishing Football Gardening Golf Hiking Hockey Juggling Karate Knitting Novels "
    "Painting Photography Poetry Pottery Puzzles Rowing Running Sailing Singing Skating Skiing Swimming Tennis Yoga"
)
_FEMALE = _words("Ada Bea Cleo Dora Edda Fay Gwen Hanna Ines June Kira Lena Mia Nora Olga Pia Rosa Sara Tess Zoe")
_MALE = _words("Abel Ben Carl Dan Emil Finn Gus Hugo Ivan Jan Kurt Leo Max Nils Otto Paul Rolf Sven Tom Yann")
_LAST = _words("Adler Baker Cohen Diaz Evans Fuchs Gray Hahn Ito Jones Klein Lopez Meyer Novak Ortiz Perez Quinn Ruiz")

Numbers = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True, slots=True)
class Social:
    """One generated graph: Arrow tables by type name."""

    nodes: Mapping[str, pa.Table]
    edges: Mapping[str, pa.Table]

    @property
    def tables(self) -> Mapping[str, pa.Table]:
        return {**self.nodes, **self.edges}


def make(scale: float = 1.0, seed: int = 7) -> Social:
    """The graph at a scale; 1.0 has 100,000 people and about 2.4 million follows."""
    random = np.random.default_rng(seed)
    persons, cities, states = _size(PERSONS, scale, 200), _size(CITIES, scale, 12), _size(STATES, scale, 6)
    handle = _labels("person-", persons, 6)
    city, state = _labels("city-", cities, 4), _labels("state-", states, 3)
    country, interest = pa.array(COUNTRIES), pa.array(INTERESTS)
    follower, followed = _follows(random, persons, scale)
    fan, liked = _interests(random, persons)
    home = _skewed(random, persons, cities)
    nodes = {
        "Person": _persons(random, handle),
        "City": pa.table({"slug": city, "name": _labels("City ", cities, 4)}),
        "State": pa.table({"slug": state, "name": _labels("State ", states, 3)}),
        "Country": pa.table({"name": country}),
        "Interest": pa.table({"name": interest}),
    }
    edges = {
        "Follows": _edges(handle, follower, handle, followed, since=_dates(random, len(follower))),
        "LivesIn": _edges(handle, np.arange(persons), city, home),
        "InState": _edges(city, np.arange(cities), state, np.arange(cities) % states),
        "InCountry": _edges(state, np.arange(states), country, np.arange(states) % len(COUNTRIES)),
        "HasInterest": _edges(handle, fan, interest, liked),
    }
    return Social(nodes, edges)


def _size(whole: int, scale: float, least: int) -> int:
    return max(least, round(whole * scale))


def _labels(prefix: str, count: int, digits: int) -> pa.Array:
    return pa.array(np.char.add(prefix, np.char.mod(f"%0{digits}d", np.arange(count)))).cast(pa.string())


def _persons(random: np.random.Generator, handle: pa.Array) -> pa.Table:
    count = len(handle)
    female = random.random(count) < 0.5
    first = np.where(female, random.choice(_FEMALE, count), random.choice(_MALE, count))
    age = np.clip(random.normal(40, 14, count), 18, 90).astype(np.int32)
    birthday = TODAY - np.ceil(age * 365.25).astype(np.int64) - random.integers(1, 365, count)
    return pa.table(
        {
            "handle": handle,
            "name": pa.array(np.char.add(np.char.add(first, " "), random.choice(_LAST, count))).cast(pa.string()),
            "gender": pa.array(np.where(female, "female", "male")).cast(pa.string()),
            "age": pa.array(age),
            "birthday": pa.array(birthday, pa.date32()),
        }
    )


def _follows(random: np.random.Generator, persons: int, scale: float) -> tuple[Numbers, Numbers]:
    """Who follows whom, in random order: the hubs' followers, then anybody until there are enough."""
    wanted = FOLLOWS_PER_PERSON * persons
    hubs = random.choice(persons, _size(HUBS, scale, 2), replace=False)
    few, many = (min(bound, persons // share) for bound, share in zip(HUB_FOLLOWERS, (4, 2), strict=True))
    sizes = np.exp(random.uniform(np.log(few), np.log(many), len(hubs))).astype(np.int64)
    at_hubs = _pairs(random.integers(0, persons, sizes.sum()), np.repeat(hubs, sizes), persons)
    others = int(max(0, wanted - len(at_hubs)) * 1.02)
    anywhere = _pairs(random.integers(0, persons, others), random.integers(0, persons, others), persons)
    pairs = random.permutation(_distinct(np.concatenate([at_hubs, anywhere])))
    return pairs // persons, pairs % persons


def _pairs(source: Numbers, target: Numbers, persons: int) -> Numbers:
    """Both ends as one number each, without self-loops and repetitions."""
    different = source != target
    return _distinct(source[different] * persons + target[different])


def _distinct(values: Numbers) -> Numbers:
    """Sorted, each once. NumPy's own `unique` hashes, which takes ten times as long on numbers like these."""
    ordered = np.sort(values)
    once: Numbers = ordered[np.concatenate([[True], ordered[1:] != ordered[:-1]])]
    return once


def _interests(random: np.random.Generator, persons: int) -> tuple[Numbers, Numbers]:
    count = len(INTERESTS)
    drawn = round(INTERESTS_PER_PERSON * persons * 1.035)
    pairs = _distinct(random.integers(0, persons, drawn) * count + _skewed(random, drawn, count))
    pairs = random.permutation(pairs)
    return pairs // count, pairs % count


def _skewed(random: np.random.Generator, draws: int, choices: int) -> Numbers:
    """Choices of which the first are taken a few times as often as the last."""
    return (random.random(draws) ** 1.5 * choices).astype(np.int64)


def _dates(random: np.random.Generator, count: int) -> pa.Array:
    span = int((TODAY - FIRST_FOLLOW).astype(np.int64))
    return pa.array(FIRST_FOLLOW + random.integers(0, span, count), pa.date32())


def _edges(source: pa.Array, sources: Numbers, target: pa.Array, targets: Numbers, **properties: pa.Array) -> pa.Table:
    return pa.table({"src": source.take(pa.array(sources)), "dst": target.take(pa.array(targets)), **properties})


def write_parquet(social: Social, folder: Path) -> dict[str, Path]:
    """One file per type, named after it."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = {name: folder / f"{name}.parquet" for name in social.tables}
    for name, table in social.tables.items():
        pq.write_table(table, paths[name])
    return paths


def write_jsonl(social: Social, path: Path) -> None:
    """The whole graph in the dialect that `load` reads, nodes first."""
    with path.open("w", encoding="utf-8") as file:
        for lines in _json_lines(social):
            file.write("\n".join(lines.to_pylist()) + "\n")


def _json_lines(social: Social, rows: int = 65_536) -> Iterator[pa.Array]:
    for name, table in social.nodes.items():
        for batch in table.to_batches(rows):
            yield _joined(f'{{"type":"{name}","data":{{', _json_fields(batch, batch.schema.names), "}}")
    for name, table in social.edges.items():
        for batch in table.to_batches(rows):
            ends = _joined(f'{{"edge":"{name}","from":', _json_value(batch["src"]), ',"to":', _json_value(batch["dst"]))
            fields = _json_fields(batch, batch.schema.names[2:])
            yield _joined(ends, ',"data":{', fields, "}}") if fields is not None else _joined(ends, "}")


def _json_fields(batch: pa.RecordBatch, names: list[str]) -> pa.Array | None:
    fields = [_joined(f'"{name}":', _json_value(batch[name])) for name in names]
    return pc.binary_join_element_wise(*fields, ",") if fields else None


def _json_value(column: pa.Array) -> pa.Array:
    """Numbers as they are, text and dates in quotes; nothing made here needs an escape."""
    text = column.cast(pa.string())
    return text if pa.types.is_integer(column.type) else _joined('"', text, '"')


def _joined(*parts: pa.Array | str) -> pa.Array:
    return pc.binary_join_element_wise(*(pa.scalar(part) if isinstance(part, str) else part for part in parts), "")
