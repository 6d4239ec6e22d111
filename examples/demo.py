"""A tour of OmniGraph on a library of some thousand records: load, query, branch, merge, crash, time travel.

Run it with `make demo`. Everything lands in `demo-out/`, ready to play with; the last lines say how.
"""

from __future__ import annotations

import os
import runpy
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import omnigraph as og

LIBRARY = Path(__file__).parent / "library"
SCHEMA = LIBRARY / "library.pg"
QUERIES = LIBRARY / "queries.gq"
BRANCH = "review/spring"


def main(target: Path) -> None:
    began = time.perf_counter()
    shutil.rmtree(target, ignore_errors=True)
    uri = target / "library.omni"
    with make(uri) as graph:
        loaded = load(graph, target / "data")
        ask(graph)
        work_aside(graph)
        compare(graph)
        merge(graph)
        keep_the_rules(graph)
        survive(graph, uri)
        look_back(graph, loaded)
    say(f"Done in {time.perf_counter() - began:.0f} seconds")
    farewell(uri)


def make(uri: Path) -> og.Graph:
    say("1. Create a graph from a schema")
    tell(*(line for line in SCHEMA.read_text("utf-8").splitlines() if line.startswith(("node", "edge"))))
    return og.init(uri, SCHEMA, actor="act-anna")


def load(graph: og.Graph, data: Path) -> str:
    say("2. Load six files with Spark, as one commit")
    runpy.run_path(str(LIBRARY / "make_data.py"))["write"](data)
    try:
        done = graph.load(data, "append", engine="spark")
    except og.errors.MissingExtra as missing:
        tell(f"No Spark here: {missing}", "This process loads the files instead; the commit is the same.")
        done = graph.load(data, "append", engine="embedded")
    assert done.commit is not None
    counts = {**done.nodes, **done.edges}
    tell(", ".join(f"{name} {count}" for name, count in counts.items()))
    tell(f"{done.total:,} records, {len(counts)} tables, one commit: {done.commit.id}")
    return done.commit.id


def ask(graph: og.Graph) -> None:
    say("3. Query: a pattern in, rows out")
    tell("the most borrowed fiction")
    show(graph.query(QUERIES, "popular", {"shelf": "fiction"}))
    tell("where 'mentions' lead to from book 1000, within two steps")
    show(graph.query(QUERIES, "leads_to", {"isbn": "1000"}))
    tell("and how the first of them was answered")
    tell(*str(graph.explain(QUERIES, "popular", {"shelf": "fiction"}, run=True)).splitlines())


def work_aside(graph: og.Graph) -> None:
    say(f"4. Work on the branch '{BRANCH}'; main is unchanged")
    graph.branches.create(BRANCH)
    graph.mutate(QUERIES, "move_shelf", {"isbn": "1002", "shelf": "science"}, branch=BRANCH)
    graph.mutate(QUERIES, "lend", {"reader": reader(graph), "isbn": "1899", "day": "2025-04-01"}, branch=BRANCH)
    for branch in ("main", BRANCH):
        tell(f"shelf of 1002 on {branch}: {shelf(graph, branch)}")


def compare(graph: og.Graph) -> None:
    say(f"5. Diff between main and '{BRANCH}'")
    for change in graph.diff("main", BRANCH):
        before, after = ((image or {}).get("properties", {}) for image in (change.before, change.after))
        what = ", ".join(f"{name}: {before.get(name)} → {after.get(name)}" for name in change.changed) or str(after)
        tell(f"{change.op} {change.kind} {change.type} {change.id}: {what}")


def merge(graph: og.Graph) -> None:
    say("6. Main moves the same book too: a merge conflict, and its resolution")
    current = shelf(graph, "main")
    other = next(name for name in ("history", "fiction") if name != current)
    graph.mutate(QUERIES, "move_shelf", {"isbn": "1002", "shelf": other})
    try:
        graph.branches.merge(BRANCH, "main")
    except og.errors.MergeConflict as refused:
        for conflict in refused.conflicts:
            tell(f"{conflict.kind}: {conflict.message}")
        tell("nothing was written; so we decide: theirs")
    done = graph.branches.merge(BRANCH, "main", resolve={"node:Book/1002": "theirs"}, delete_branch=True)
    tell(f"{done.outcome}: shelf of 1002 on main is now {shelf(graph, 'main')}; branches: {graph.branches.list()}")


def keep_the_rules(graph: og.Graph) -> None:
    say("7. One wrong row refuses the whole write")
    try:
        graph.mutate(QUERIES, "lend", {"reader": "nobody", "isbn": "1001", "day": "2025-04-02"})
    except og.OmniGraphError as error:
        tell(f"{type(error).__name__}: {error}")


def survive(graph: og.Graph, uri: Path) -> None:
    say("8. A writer is killed in the middle of its commit; the next write finishes it")
    code = (
        f"import omnigraph as og\ng = og.open({str(uri)!r}, actor='act-unlucky')\n"
        'g.mutate(\'query q() { insert Reader { handle: "zz-late", name: "Zz Late" } }\')\n'
    )
    environment = {**os.environ, "OMNIGRAPH_FAILPOINTS": "write.after_all_table_commits=kill"}
    ended = subprocess.run([sys.executable, "-c", code], env=environment, check=False)
    assert ended.returncode == -signal.SIGKILL, "the writer was meant to die"
    graph.mutate(QUERIES, "retire", {"isbn": "1899"})
    for recovery in graph.recoveries:
        tell(f"{recovery.kind} {recovery.writer_kind} of {recovery.actor}")
    show(graph.query('query q() { match { $r: Reader { handle: "zz-late" } } return { $r.name as reader } }'))


def look_back(graph: og.Graph, loaded: str) -> None:
    say("9. Time travel: older states stay readable")
    for entry in reversed(graph.commits.list()):
        tell(f"v{entry.version:<3} {entry.id}  {entry.actor or '-'}{'  (merge)' if entry.merged_parent else ''}")
    tell(f"shelf of 1002 right after the load: {shelf(graph, at=loaded)}; now: {shelf(graph)}")
    report = graph.verify()
    tell(f"verify: {'sound' if report.ok else report}, {len(report.checks)} kinds of checks")


def farewell(uri: Path) -> None:
    where, queries = os.path.relpath(uri), os.path.relpath(QUERIES)
    print(f"\nEverything is in {os.path.relpath(uri.parent)}/. Try:\n")
    for words in (
        f'query popular --store {where} --query {queries} --params \'{{"shelf": "history"}}\'',
        f"commit list {where}",
        f"branch create review/mine --uri {where}",
        f"snapshot {where}",
        "--help",
    ):
        print(f"    .venv/bin/omnigraph {words}")


def shelf(graph: og.Graph, branch: str = "main", at: str | None = None) -> str:
    text = 'query q() { match { $b: Book { isbn: "1002" } } return { $b.shelf as shelf } }'
    return str(graph.query(text, branch=branch, at=at).rows()[0]["shelf"])


def reader(graph: og.Graph) -> str:
    text = """
query q() {
    match { $r: Reader  not { $r borrowed $_ } }
    return { $r.handle as handle }
    order { handle }
    limit 1
}"""
    return str(graph.query(text).rows()[0]["handle"])


def say(title: str) -> None:
    print(f"\n\033[1m{title}\033[0m" if sys.stdout.isatty() else f"\n== {title}", flush=True)


def tell(*lines: str) -> None:
    for line in lines:
        print(f"    {line}", flush=True)


def show(result: og.Result) -> None:
    for row in result:
        tell("  " + ", ".join(f"{name}: {value}" for name, value in row.items()))
    if len(result) == 0:
        tell("  (no rows)")


if __name__ == "__main__":
    main(Path("demo-out"))
