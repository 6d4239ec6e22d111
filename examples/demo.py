"""A tour of OmniGraph on a small library: make a graph, ask it, branch it, break it, look back.

Run it with `make demo`. Everything lands in `demo-out/`, ready to play with.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa

import omnigraph as og
from omnigraph.write.change import Change

HERE = Path(__file__).parent
LIBRARY = HERE / "library"
QUERIES = LIBRARY / "queries.gq"


def books() -> list[Change]:
    """The stock of the library, as Arrow tables per type."""
    day = pa.array([20_000, 20_020, 20_031, 20_040], pa.int32()).cast(pa.date32())
    return [
        Change("node:Reader", pa.table({"handle": ["ana", "bo", "cy"], "name": ["Ana Ruiz", "Bo Chen", "Cy Diaz"]})),
        Change("node:Author", pa.table({"name": ["I. Bell", "K. Okafor"], "born": [1951, 1978]})),
        Change(
            "node:Book",
            pa.table(
                {
                    "isbn": ["1001", "1002", "1003", "1004"],
                    "title": ["The Quiet Graph", "A History of Maps", "Salt and Stars", "Counting Paths"],
                    "year": [1999, 2004, 2011, 2020],
                    "shelf": ["fiction", "history", "fiction", "science"],
                }
            ),
        ),
        Change(
            "edge:WrittenBy", pa.table({"src": ["1001", "1002", "1004"], "dst": ["I. Bell", "K. Okafor", "I. Bell"]})
        ),
        Change(
            "edge:Borrowed",
            pa.table({"src": ["ana", "ana", "bo", "cy"], "dst": ["1001", "1003", "1003", "1002"], "since": day}),
        ),
        Change("edge:Mentions", pa.table({"src": ["1001", "1002", "1003"], "dst": ["1002", "1004", "1004"]})),
    ]


def say(title: str) -> None:
    print(f"\n\033[1m{title}\033[0m" if sys.stdout.isatty() else f"\n== {title}")


def show(result: og.Result) -> None:
    for row in result:
        print("   ", ", ".join(f"{name}: {value}" for name, value in row.items()))
    if len(result) == 0:
        print("    (no rows)")


def crash(uri: Path) -> None:
    """Start a writer in another process and kill it between its table commits and its publish."""
    code = (
        "import omnigraph as og\n"
        f"g = og.open({str(uri)!r}, actor='act-unlucky')\n"
        f'g.mutate(\'query q() {{ insert Reader {{ handle: "di", name: "Di Evans" }} }}\')\n'
    )
    environment = {**os.environ, "OMNIGRAPH_FAILPOINTS": "write.after_all_table_commits=kill"}
    ended = subprocess.run([sys.executable, "-c", code], env=environment, check=False)
    assert ended.returncode == -signal.SIGKILL, "the writer was meant to die"


def main(target: Path) -> None:
    shutil.rmtree(target, ignore_errors=True)
    uri = target / "library.omni"

    say("1. A graph from a schema, and its first commit over six tables")
    with og.init(uri, LIBRARY / "library.pg", actor="act-anna") as graph:
        commit = graph.write(books()).commit
        assert commit is not None
        print(f"    commit {commit.id} by {commit.actor}")
        graph.ensure_indices()

        say("2. Questions")
        show(graph.query(QUERIES, "on_loan"))
        show(graph.query(QUERIES, "popular", {"shelf": "fiction"}))
        print("   two mentions from The Quiet Graph:")
        show(graph.query(QUERIES, "leads_to", {"isbn": "1001"}))

        say("3. How a question is answered")
        print(graph.explain(QUERIES, "popular", {"shelf": "fiction"}, run=True))

        say("4. A branch: work aside, main does not notice")
        graph.branches.create("review/spring")
        graph.mutate(QUERIES, "move_shelf", {"isbn": "1002", "shelf": "science"}, branch="review/spring")
        graph.mutate(QUERIES, "lend", {"reader": "bo", "isbn": "1004", "day": "2025-04-01"}, branch="review/spring")
        print("   never borrowed on main:")
        show(graph.query(QUERIES, "never_borrowed"))
        print("   never borrowed on review/spring:")
        show(graph.query(QUERIES, "never_borrowed", branch="review/spring"))

        say("5. Rules are kept: nothing lands when one row is wrong")
        for params in ({"reader": "nobody", "isbn": "1001", "day": "2025-04-02"},):
            try:
                graph.mutate(QUERIES, "lend", params)
            except og.OmniGraphError as error:
                print(f"    {type(error).__name__}: {error}")

        say("6. A writer is killed in the middle of its commit; the next one finishes its work")
        crash(uri)
        graph.mutate(QUERIES, "retire", {"isbn": "1003"})
        for recovery in graph.recoveries:
            print(f"    {recovery.kind} {recovery.writer_kind} of {recovery.actor}")
        show(graph.query("query q() { match { $r: Reader } return { $r.name as reader } order { reader } }"))

        say("7. The past stays readable")
        for entry in reversed(graph.commits.list()):
            print(f"    v{entry.version:<3} {entry.id}  {entry.actor or '-'}")
        print("   popular fiction before the book was retired:")
        show(graph.query(QUERIES, "popular", {"shelf": "fiction"}, at=commit.id))

    print(f"\nThe graph is in {os.path.relpath(uri)}. Try:")
    print(
        f"    .venv/bin/python -c \"import omnigraph as og; print(og.open('{os.path.relpath(uri)}').branches.list())\""
    )


if __name__ == "__main__":
    main(Path("demo-out"))
