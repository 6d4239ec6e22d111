"""Documents, authors and their links in random words, changed commit by commit, and the naive answers about them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa

import omnigraph as og
from omnigraph.schema import compile_schema
from omnigraph.write.change import Change, Mode
from tests.engine.running import json_rows, oracle_answer
from tests.oracle.naive import GraphData, Row, narrow
from tests.oracle.texts import STEMS

SCHEMA = """
node Doc {
    slug: String @key  body: String? @index  year: I32  vec: Vector(3)? @index
    note: String? @index @fulltext(english, stem=false, stop_words=false, lower_case=false, ascii_folding=false)
}
node Author { name: String @key  bio: String? @fulltext(ngram, min=2, max=3) }
edge Wrote: Author -> Doc
edge Cites: Doc -> Doc
"""
CATALOG = compile_schema(SCHEMA).catalog

WORDS = [*STEMS, *STEMS.values(), "the", "of", "and", "a", "café", "blue", "green", "red", "owl", "x1", "日本", "Zoé"]


def random_text(random: Random, most: int = 12) -> str:
    """Words, some in capitals, with separators between them."""
    words = [random.choice(WORDS) for _ in range(random.randrange(most + 1))]
    spelt = (word.upper() if random.random() < 0.1 else word for word in words)
    return "".join(word + random.choice([" ", ", ", "-", "\n"]) for word in spelt)


class Library:
    """A graph and the rows that should be in it."""

    def __init__(self, place: Path) -> None:
        self.graph = og.init(place, SCHEMA)
        self.docs: dict[str, Row] = {}
        self.authors: dict[str, Row] = {}
        self.wrote: dict[str, Row] = {}
        self.cites: dict[str, Row] = {}

    def data(self) -> GraphData:
        return GraphData(
            CATALOG,
            {"Doc": list(self.docs.values()), "Author": list(self.authors.values())},
            {"Wrote": list(self.wrote.values()), "Cites": list(self.cites.values())},
        )

    def grow(self, random: Random, docs: int, authors: int, edges: int, branch: str | None = None) -> None:
        """New rows, and some that replace others."""
        for _ in range(docs):
            slug = f"d{random.randrange(docs * 2):02}"
            vector = None if random.random() < 0.1 else [narrow(random.choice([0, 0.5, 1, 2])) for _ in range(3)]
            body = None if random.random() < 0.1 else random_text(random)
            self.docs[slug] = {
                "id": slug,
                "slug": slug,
                "body": body,
                "year": random.randrange(2000, 2004),
                "vec": vector,
                "note": random.choice([body, None, random_text(random, 4)]),
            }
        for number in range(authors):
            name = f"a{number}"
            self.authors[name] = {"id": name, "name": name, "bio": random_text(random)}
        for number in range(edges):
            for kind, rows, sources in (("w", self.wrote, self.authors), ("c", self.cites, self.docs)):
                ends = {"src": random.choice(sorted(sources)), "dst": random.choice(sorted(self.docs))}
                rows[f"{kind}{number}"] = {"id": f"{kind}{number}", **ends}
        self._write(branch, {"Doc": self.docs, "Author": self.authors, "Wrote": self.wrote, "Cites": self.cites})

    def touch(self, random: Random, branch: str | None = None) -> None:
        """Change the text of one document, and remove one with its edges."""
        slug = random.choice(sorted(self.docs))
        self.docs[slug] = {**self.docs[slug], "body": random_text(random)}
        self._write(branch, {"Doc": {slug: self.docs[slug]}})
        gone = random.choice(sorted(self.docs))
        self.graph.mutate(f'query q() {{ delete Doc where slug = "{gone}" }}', branch=branch or "main")
        del self.docs[gone]
        for rows in (self.wrote, self.cites):
            for each in [row for row in rows.values() if gone in (row["src"], row["dst"])]:
                del rows[each["id"]]

    def fork(self, random: Random, name: str) -> None:
        """A branch that changes some documents while main changes others, and is merged."""
        even, odd = (sorted(slug for slug in self.docs if int(slug[1:]) % 2 == rest) for rest in (0, 1))
        self.graph.branches.create(name)
        for branch, slugs, new in ((name, even, 900), ("main", odd, 901)):
            new += 2 * random.randrange(40)
            changed = {
                slug: {**self.docs[slug], "body": random_text(random), "note": random_text(random, 3)}
                for slug in [*random.sample(slugs, min(2, len(slugs)))]
            }
            like = self.docs[random.choice(slugs or sorted(self.docs))]
            changed[f"d{new}"] = {**like, "id": f"d{new}", "slug": f"d{new}", "body": random_text(random)}
            self._write(branch, {"Doc": changed})
            self.docs |= changed
        self.graph.branches.merge(name, into="main")
        self.graph.branches.delete(name)

    def _write(self, branch: str | None, rows: Mapping[str, Mapping[str, Row]]) -> None:
        changes = []
        for name, found in rows.items():
            kind = CATALOG.nodes.get(name) or CATALOG.edges[name]
            columns = ["id", "src", "dst"] if name in CATALOG.edges else list(kind.properties)
            table = pa.Table.from_pylist([{column: row[column] for column in columns} for row in found.values()])
            if name == "Doc":
                table = table.set_column(
                    columns.index("vec"), "vec", table.column("vec").cast(pa.list_(pa.float32(), 3))
                ).set_column(columns.index("year"), "year", table.column("year").cast(pa.int32()))
            changes.append(Change(kind.table_key, table, Mode.MERGE))
        self.graph.write(changes, branch=branch or "main")


def assert_same(library: og.Graph, data: GraphData, text: str, params: Mapping[str, Any], **where: Any) -> int:
    """The engine answers as the naive evaluator does; the number of rows."""
    answer = oracle_answer(text, data, params)
    rows = json_rows(library.query(text, params=params, **where))
    assert answer.complaint(rows) is None, f"{text} {params}: {answer.complaint(rows)}"
    return len(rows)


#: Each with a text ``$t``, a year ``$y`` and a vector ``$v``.
QUESTIONS = (
    "match { $d: Doc  search($d.body, $t) } return { $d.slug as s } order { s }",
    "match { $d: Doc  search($d.body, $t) = false } return { $d.slug as s } order { s }",
    "match { $d: Doc  match_text($d.body, $t)  $d.year > $y } return { $d.slug as s } order { s }",
    "match { $d: Doc  fuzzy($d.body, $t, 1) } return { $d.slug as s } order { s }",
    "match { $d: Doc  search($d.body, $t) or $d.year = $y } return { $d.slug as s, bm25($d.body, $t) as b }"
    " order { s }",
    "match { $d: Doc } return { $d.slug as s, bm25($d.body, $t) as b } order { bm25($d.body, $t) } limit 5",
    "match { $d: Doc  $d.year = $y } return { $d.slug as s, bm25($d.body, $t) as b } order { b } limit 3 offset 1",
    "match { $d: Doc { year: $y }  search($d.body, $t) } return { $d.slug as s } order { nearest($d.vec, $v) } limit 4",
    "match { $d: Doc } return { $d.slug as s, rrf(bm25($d.body, $t), nearest($d.vec, $v)) as f }"
    " order { rrf(bm25($d.body, $t), nearest($d.vec, $v)) } limit 6",
    "match { $d: Doc  $d.year != $y } return { $d.slug as s } "
    "order { rrf(nearest($d.vec, $v), bm25($d.body, $t), 5) } limit 4",
    "match { $d: Doc } return { $d.slug as s } order { rrf(bm25($d.body, $t), bm25($d.body, \"blue owl\")) } limit 5",
    "match { $a: Author  $a wrote $d } return { $a.name as n, $d.slug as s } order { bm25($d.body, $t) }",
    "match { $a: Author  $a wrote $d  search($a.bio, $t)  search($d.body, $t) } return { $a.name as n, $d.slug as s }",
    "match { $d: Doc  $a wrote $d } return { $a.name as n, $d.slug as s, nearest($d.vec, $v) as far }"
    " order { nearest($d.vec, $v) } limit 5",
    "match { $d: Doc  $d cites $e  $d.year != $e.year } return { $d.slug as s, $e.slug as e }"
    " order { bm25($d.body, $t) } limit 4",
    "match { $a: Author  not { $a wrote $d  search($d.body, $t) } } return { $a.name as n } order { n }",
    "match { $d: Doc  not { search($d.body, $t) } } return { $d.slug as s } order { s }",
    "match { $d: Doc  optional { $d cites $e  match_text($e.body, $t) } } "
    "return { $d.slug as s, count($e) as c } order { s }",
    "match { $d: Doc  search($d.body, $t) } return { $d.year as y, count($d) as c, max(bm25($d.body, $t)) as b }"
    " order { y }",
    "match { $d: Doc } return distinct { $d.year as y } order { nearest($d.vec, $v) } limit 9",
    "match { $a: Author  $a wrote $d } return distinct { $a.name as n } order { bm25($d.body, $t) } limit 3",
    "match { $d: Doc } return distinct { $d.year as y, rrf(bm25($d.body, $t), nearest($d.vec, $v)) as f }"
    " order { f } limit 5",
    "match { $d: Doc  $a wrote $d } return { $a.name as n, count($d) as c, max(bm25($d.body, $t)) as b }"
    " order { bm25($d.body, $t) } limit 3",
)  # fmt: skip
HEAD = "query q($t: String, $y: I32, $v: Vector(3)) "


def random_question(random: Random) -> tuple[str, dict[str, Any]]:
    params = {
        "t": random_text(random, 4),
        "y": random.randrange(2000, 2004),
        "v": [random.choice([0.0, 1.0, 0.25])] * 3,
    }
    return f"{HEAD}{{ {random.choice(QUESTIONS)} }}", params


_CONDITIONS = (
    "search($d.body, $t)",
    "search($d.body, $t) = false",
    "search($d.note, $t)",
    "match_text($d.note, $t)",
    "match_text($d.body, $t)",
    "fuzzy($d.body, $t, 1)",
    "fuzzy($d.note, $t, 2)",
    "search($d.body, $t) or $d.year = $y",
    "not { search($d.note, $t) }",
    "not { $d cites $c  search($c.body, $t) }",
    "not { $b wrote $d  match_text($b.bio, $p) }",
    "$d.year > $y",
    "$d.year = $y",
    "$d.year != $y",
    "$d.note is null",
)
_AUTHOR_CONDITIONS = (
    "match_text($a.bio, $p)",
    "search($a.bio, $p)",
    "search($a.bio, $p) = false",
    "fuzzy($a.bio, $p, 0)",
)
_WAYS = (  # what is matched, the other columns, and whether an author is there
    ("$d: Doc", "", False),
    ("$d: Doc  $d cites $e", ", $e.slug as e", False),
    ("$e: Doc  $e cites $d", ", $e.slug as e", False),
    ("$e: Doc  $e cites{1,2} $d", ", $e.slug as e", False),
    ("$d: Doc  $a wrote $d", ", $a.name as n", True),
    ("$a: Author  $a wrote $d", ", $a.name as n", True),
    ("$a: Author  $a wrote $e  $e cites $d", ", $a.name as n, $e.slug as e", True),
)
_SCORES = (
    "bm25($d.body, $t)",
    "bm25($d.note, $t)",
    "nearest($d.vec, $v)",
    "rrf(bm25($d.body, $t), nearest($d.vec, $v))",
    "rrf(nearest($d.vec, $v), bm25($d.note, $t), 7)",
    "rrf(bm25($d.body, $t), bm25($d.note, $t))",
)


def composed_question(random: Random) -> tuple[str, dict[str, Any]]:
    """A pattern, conditions, a return and an order, each by chance."""
    way, columns, has_author = random.choice(_WAYS)
    conditions = random.sample(_CONDITIONS, random.randrange(3))
    if has_author and random.random() < 0.4:
        conditions.append(random.choice(_AUTHOR_CONDITIONS))
    limit = f"limit {random.randrange(1, 9)}{random.choice(['', ' offset 1', ' offset 3'])}"
    score = random.choice((*_SCORES, None, None))
    if score is None:
        names = ", ".join(part.split(" as ")[1] for part in columns.split(", ")[1:])
        order = f"order {{ s{', ' + names if names else ''} }} {random.choice(['', limit])}"
        columns += random.choice(["", ", bm25($d.body, $t) as b"])
    elif score.startswith("bm25") and random.random() < 0.5:
        columns += f", {score} as b"
        order = f"order {{ {random.choice(['b', 'b desc', score])} }} {random.choice(['', limit])}"
    else:
        order = f"order {{ {score} }} {limit}"
        columns += random.choice(["", f", {score} as f"])
    body = f"match {{ {way}  {'  '.join(conditions)} }} return {{ $d.slug as s{columns} }} {order}"
    params = random_question(random)[1] | {"p": random_text(random, 1)[: random.randrange(1, 6)]}
    return f"query q($t: String, $p: String, $y: I32, $v: Vector(3)) {{ {body} }}", params
