"""The pages of the documentation that are written from the code: public names, errors, settings and limits.

``python -m tests.docs.reference_pages`` writes them again after a change.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import omnigraph
from omnigraph import errors
from omnigraph.errors import OmniGraphError
from tests.support.source_tree import ROOT

#: Public names that carry no docstring of their own.
_ALIASES = {
    "ProgressListener": "A function that is told about the progress of a load; takes a `Progress`.",
    "errors": "Every error, as one tree of classes.",
    "CommitKind": "What a commit did: `init`, `mutation`, `load`, `merge`, `schema_change` and so on.",
    "Engine": "What runs a load, a merge, upkeep or an embedding: `auto`, `embedded` or `spark`.",
    "AbsentColumns": "What a merging load does with properties that its input lacks: `replace` or `keep`.",
    "ExportFormat": "What an export writes: `jsonl`, `parquet` or `csv`.",
    "TooFineTimes": "What a load does with times finer than a millisecond: `exact` refuses, `round` rounds.",
    "LoadFormat": "What a load reads: `jsonl`, `json`, `parquet` or `csv`.",
    "LoadMode": "What a load does with ids that exist: `append`, `merge` or `overwrite`.",
    "OnBadRow": "What a load does with bad rows: `fail` or `reject`.",
    "OpenMode": "How a graph is opened: `rw` or `ro`.",
}

_API_HEAD = """# Public names

Everything that `omnigraph` exports: what its functions and methods take, and what they answer with.
`help(omnigraph.Graph)` has the parameters and examples. Names that are not here are internal and may change with any
version. The names of `omnigraph.spark` are in [spark.md](spark.md).

This page is written by `python -m tests.docs.reference_pages`.
"""


def summary_of(value: Any) -> str:
    """The first sentence of a docstring, on one line."""
    text = " ".join((inspect.getdoc(value) or "").split("\n\n")[0].split())
    return re.split(r"(?<=[.]) (?=[A-Z`])", text)[0].replace("``", "`")


def api_page() -> str:
    """All public names by topic, one line each."""
    source = Path(omnigraph.__file__).read_text("utf-8")
    lines = [_API_HEAD]
    for topic, names in _topics(source):
        lines.append(f"\n## {topic.capitalize()}\n\n| name | what it is |\n|---|---|\n")
        for name in sorted(names, key=lambda name: (name[0].isupper(), name)):
            lines.append(f"| `{name}` | {_ALIASES.get(name) or summary_of(getattr(omnigraph, name))} |\n")
    return "".join(lines)


def _topics(source: str) -> Iterator[tuple[str, list[str]]]:
    """The comments in the table of the public names are the topics."""
    table = source.partition("_HOMES = {\n")[2].partition("\n}\n")[0]
    for part in table.split("    # ")[1:]:
        topic, _, entries = part.partition("\n")
        names = [
            name for module, names in omnigraph._HOMES.items() if f'"{module}":' in entries for name in names.split()
        ]
        yield topic, [*names, "errors"] if "OmniGraphError" in names else names


_ERRORS_HEAD = """# Errors

Every error is a subclass of `omnigraph.OmniGraphError` and has a `code` that stays the same, a `message`, a `hint` and
`details`. Catch a class to catch everything below it: `ConflictError` catches `MergeConflict`. The command line prints
message and hint and leaves with exit code 1, with 2 for wrong arguments, with 4 for `conflict.precondition`.

This page is written from `src/omnigraph/errors.py` by `python -m tests.docs.reference_pages`.

| code | class | when it happens | what to do |
|---|---|---|---|
"""


def error_classes() -> list[type[OmniGraphError]]:
    """The classes of errors.py in the order of the file, without the root."""
    return [
        value
        for value in vars(errors).values()
        if inspect.isclass(value) and issubclass(value, OmniGraphError) and value is not OmniGraphError
    ]


def errors_page() -> str:
    """One line per error: the first paragraph of its docstring is when, the second what to do."""
    lines = [_ERRORS_HEAD]
    for kind in error_classes():
        when, do = (" ".join(part.split()) for part in (inspect.getdoc(kind) or "").split("\n\n"))
        lines.append(f"| `{kind.code}` | `{kind.__name__}` | {when} | {do} |\n")
    return "".join(lines)


_CONFIGURATION_HEAD = """# Settings and limits

Settings are environment variables; they are read when they are needed. Limits are fixed, unless a parameter is named
that sets them. The settings of the command line in `config.yaml` are in [cli.md](cli.md), those of a Spark session in
[spark.md](spark.md). This page is written by `python -m tests.docs.reference_pages`.

## Environment variables

| variable | default | what it does and why |
|---|---|---|
"""

#: Environment variable → default, and what it does.
SETTINGS = {
    "OMNIGRAPH_LOCK_TIMEOUT": (
        "60",
        "Seconds that a writer waits for the commit section, which lasts milliseconds.",
    ),
    "OMNIGRAPH_LEASE_SECONDS": (
        "20",
        "Seconds that a lease on an object store lasts without renewal: longer than a stall of a healthy process, "
        "short enough that a crashed host blocks its branch only briefly.",
    ),
    "OMNIGRAPH_HOLD_SECONDS": (
        "600",
        "Seconds that a lease on an old state, or a claim on staged files, lasts without renewal. A reader that is "
        "stopped for longer may find its state cleaned up.",
    ),
    "NO_COLOR": ("", "With any value, `omnigraph search` shows what matched without bold letters."),
    "OMNIGRAPH_FSYNC": (
        "1",
        "`0` does not sync local commits to the disk. For tests: a power cut can lose data.",
    ),
    "OMNIGRAPH_CACHE_BYTES": (
        "a quarter of the memory",
        "Bytes that queries of a process keep between each other: columns, keys and topology.",
    ),
    "OMNIGRAPH_QUERY_BYTES": (
        "a quarter of the memory",
        "Bytes that the bindings and values of one query may take, unless it says `max_bytes`. A step that would take "
        "more is refused.",
    ),
    "OMNIGRAPH_METADATA_BYTES": (
        "16777216",
        "Bytes that Lance keeps of versions and file footers, per open graph. A footer takes about 4 kB; a graph with "
        "many thousands of data files on an object store is faster with more.",
    ),
    "OMNIGRAPH_EXTERNAL_BLOBS": (
        "none",
        "Bases below which blobs may lie outside of a graph: absolute paths, `file://` and `s3://` addresses with "
        "blanks between them; see [blobs.md](blobs.md).",
    ),
    "OMNIGRAPH_BEARER_TOKEN": (
        "none",
        "Token for a graph behind a server, when `og.open` is given none. The command line looks for "
        "`OMNIGRAPH_TOKEN_<NAME>` and for what `omnigraph login` stored first; see [cli.md](cli.md#tokens).",
    ),
    "OMNIGRAPH_BIND": ("127.0.0.1:8080", "Where `omnigraph serve` listens, as `HOST:PORT`."),
    "OMNIGRAPH_UNAUTHENTICATED": ("0", "With any value but `0` and `false`, a server without tokens serves everybody."),
    "OMNIGRAPH_REQUIRE_ALL_GRAPHS": ("0", "The same way: a graph that cannot be opened stops the start of a server."),
    "OMNIGRAPH_SERVER_BEARER_TOKEN": ("none", "One token of the actor `default`; see [server.md](server.md)."),
    "OMNIGRAPH_SERVER_BEARER_TOKENS_FILE": ("none", "File of tokens: a JSON object from actor to token."),
    "OMNIGRAPH_SERVER_BEARER_TOKENS_JSON": ("none", "Such an object itself, if there is no file."),
    "OMNIGRAPH_SERVER_BEARER_TOKENS_AWS_SECRET": ("none", "AWS secret with such an object; then it alone counts."),
    "OMNIGRAPH_QUERY_TIMEOUT_MS": ("60000", "Milliseconds that a server lets a query take."),
    "OMNIGRAPH_PER_ACTOR_INFLIGHT_MAX": ("16", "Running writes of one actor of a server."),
    "OMNIGRAPH_PER_ACTOR_BYTES_MAX": ("4294967296", "Bytes of the bodies of these writes."),
    "OMNIGRAPH_HOME": ("~/.omnigraph", "Folder of `config.yaml` and `credentials`, which the command line reads."),
    "OMNIGRAPH_PROFILE": ("none", "Profile of `config.yaml` that the command line uses, unless an address is given."),
    "OMNIGRAPH_BASE_URL": ("none", "Server that `omnigraph mcp` is a bridge to, when nothing else names a graph."),
    "OMNIGRAPH_GRAPH_ID": ("none", "Which graph of that server."),
    "OMNIGRAPH_TOKEN": ("none", "Token of `omnigraph mcp` for a graph behind a server; before all other tokens."),
    "OMNIGRAPH_DEFAULT_BRANCH": (
        "main",
        "Branch that agents of `omnigraph mcp` read, begin from and merge into; see [mcp.md](mcp.md).",
    ),
    "OMNIGRAPH_MCP_BRANCH": (
        "agent/{actor}",
        "Branch that agents write to, for `omnigraph mcp` and a server: a name, with `{actor}` for the actor, or "
        "`direct`; see [mcp.md](mcp.md).",
    ),
    "OMNIGRAPH_MCP_ORIGINS": ("none", "Pages that may call the tools of a server in a browser; blanks between them."),
    "OMNIGRAPH_HOSTS": (
        "none",
        "Names under which a server without tokens may be called, besides those of this machine; blanks between them.",
    ),
    "OMNIGRAPH_FAILPOINTS": ("none", "Makes named places fail or stop. For tests of crashes only."),
    "OMNIGRAPH_EMBED_PROVIDER": (
        "openai-compatible",
        "Who embeds texts: `openai-compatible`, `openai`, `gemini`, `local` or `mock`; see "
        "[embeddings.md](embeddings.md).",
    ),
    "OMNIGRAPH_EMBED_MODEL": (
        "of the provider",
        "Model that embeds texts; `@embed(…, model=)` compares its name.",
    ),
    "OMNIGRAPH_EMBED_BASE_URL": ("of the provider", "Address of the provider, for one that you run yourself."),
    "OMNIGRAPH_EMBEDDINGS_MOCK": (
        "off",
        "`1`, `true`, `yes` or `on`: `mock` embeds texts, whatever else is set.",
    ),
    "OPENROUTER_API_KEY": ("none", "Key for `openai-compatible`."),
    "OPENAI_API_KEY": ("none", "Key for `openai`, and for `openai-compatible` if `OPENROUTER_API_KEY` is not set."),
    "GEMINI_API_KEY": ("none", "Key for `gemini`."),
    "OMNIGRAPH_EMBED_TIMEOUT_MS": ("30000", "Milliseconds for one request to a provider."),
    "OMNIGRAPH_EMBED_RETRY_ATTEMPTS": ("4", "Requests for one call, all together."),
    "OMNIGRAPH_EMBED_RETRY_BACKOFF_MS": (
        "200",
        "Milliseconds before the second request of a call; each further one waits twice as long, or what "
        "`Retry-After` says.",
    ),
    "OMNIGRAPH_EMBED_DEADLINE_MS": ("60000", "Milliseconds for one call with all its requests; `0` for no limit."),
    "OMNIGRAPH_EMBED_BATCH": ("64", "Texts in one request, when files or graphs are embedded."),
    "OMNIGRAPH_EMBED_REQUESTS_PER_MINUTE": ("0", "Requests that may begin in a minute; `0` for no limit."),
    "OTEL_EXPORTER_OTLP_ENDPOINT": ("none", "Where a server sends its traces; see [server.md](server.md#watching)."),
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": ("the one above", "The same, for traces alone."),
    "AWS_REGION": ("none", "Region of the bucket."),
    "AWS_DEFAULT_REGION": ("none", "The same, if `AWS_REGION` is not set."),
    "AWS_ACCESS_KEY_ID": ("none", "Access key of the object store."),
    "AWS_SECRET_ACCESS_KEY": ("none", "Secret of the access key."),
    "AWS_SESSION_TOKEN": ("none", "Token of temporary credentials."),
    "AWS_ENDPOINT_URL_S3": ("AWS", "Address of an object store that speaks the protocol of S3."),
    "AWS_ENDPOINT_URL": ("AWS", "The same, if `AWS_ENDPOINT_URL_S3` is not set."),
    "AWS_ALLOW_HTTP": ("false", "`true` allows an endpoint without TLS; an endpoint with `http://` is allowed anyway."),
    "AWS_S3_FORCE_PATH_STYLE": (
        "the library decides",
        "Whether the bucket is part of the path (`true`) or of the host name (`false`).",
    ),
    "SPARK_REMOTE": ("none", "Address of a Spark Connect server for a session without a master."),
    "MASTER": ("local[*]", "Master of a Spark session without one."),
    "PYSPARK_PYTHON": ("this Python", "Python of Spark's workers."),
    "JAVA_HOME": ("java of the PATH", "Where Java is installed, for Spark."),
    "MALLOC_ARENA_MAX": (
        "one per core",
        "Memory regions of the GNU C library. OmniGraph sets their number when neither this nor `GLIBC_TUNABLES` is "
        "set; more of them make a process that commits all day grow.",
    ),
    "GLIBC_TUNABLES": ("none", "See `MALLOC_ARENA_MAX`."),
}

#: Limit → the parameter that sets it.
_PARAMETERS = {
    "LOAD_MAX_REJECTS": "`max_rejects` of `load`",
    "EMBEDDING_COMMIT_ROWS": "`rows` of `embed`",
    "FEED_PAGE_CHANGES": "`limit` of `changes`",
    "FEED_PAGE_BYTES": "`max_bytes` of `changes`",
    "FEED_COMMITS": "`max_commits` of `changes`",
    "SPARK_LOAD_BYTES": "`engine` of `load`",
    "SPARK_MERGE_BYTES": "`engine` of `branches.merge`",
    "DRIVER_MEMORY_MIB": "`spark.driver.memory` of the session",
}


def public_limits() -> Iterator[tuple[str, str, list[tuple[str, object]]]]:
    """Topic, comment and values of the limits that a request can meet, as limits.py has them."""
    source = (ROOT / "src/omnigraph/limits.py").read_text("utf-8")
    part = source.partition("# --- Limits that a request can meet\n")[2].partition("# --- ")[0]
    topic, comment, values = "", [], list[tuple[str, object]]()
    for line in [*part.splitlines(), ""]:
        if line.startswith("#: "):
            comment.append(line.removeprefix("#: "))
        elif line.startswith("# "):
            topic = line.removeprefix("# ")
        elif line:
            name, _, value = line.partition(": Final = ")
            values.append((name, _evaluated(value)))
        elif values:
            yield topic, " ".join(comment), values
            comment, values = [], []


def _evaluated(text: str) -> object:
    """The value of a product of numbers, or of a tuple."""
    node = ast.parse(text, mode="eval").body
    if isinstance(node, ast.BinOp):
        left, right = (_evaluated(ast.unparse(side)) for side in (node.left, node.right))
        assert isinstance(left, int) and isinstance(right, int)
        operations = {ast.Mult: left * right, ast.Pow: left ** min(right, 64), ast.Sub: left - right}
        return operations[type(node.op)]
    return ast.literal_eval(node)


def configuration_page() -> str:
    """Every environment variable, and every limit that a request can meet."""
    lines = [_CONFIGURATION_HEAD]
    lines += [f"| `{name}` | {default} | {text} |\n" for name, (default, text) in SETTINGS.items()]
    lines.append("\n## Limits\n\n| limit | value | what it bounds and why | set by |\n|---|---|---|---|\n")
    for _, comment, values in public_limits():
        names = "<br>".join(f"`{name}`" for name, _ in values)
        shown = "<br>".join(f"{value:,}" if isinstance(value, int) else str(value) for _, value in values)
        setters = ", ".join(_PARAMETERS[name] for name, _ in values if name in _PARAMETERS)
        lines.append(f"| {names} | {shown} | {comment} | {setters} |\n")
    lines.append(_LOGGING)
    return "".join(lines)


_LOGGING = """
## Logging

The package uses Python's `logging` as libraries do: nothing is printed until the program that uses it says so, for
example with `logging.basicConfig(level="INFO")`. Records hold ids of commits and operations, names of branches and
tables, and counts; never a value of a row or a secret.

| logger | level | what it says |
|---|---|---|
| `omnigraph.commit` | info | a commit was made; a write is computed again because another writer was faster |
| `omnigraph.recovery` | warning | the interrupted write of a dead process is being finished or dropped |
| `omnigraph.wait` | debug | a writer waits for the commit section of a branch, or for its lease on an object store |
| `omnigraph.load` | info | what a load did: mode, branch, records, rejected rows, seconds of each stage |
| `omnigraph.embedding` | info, warning | a provider was asked: its name, model, dimension, number of texts, seconds |
| `omnigraph.policy` | info, error | a policy file was read again, or cannot be; the record of a commit was lost |
"""


PAGES: dict[str, Callable[[], str]] = {
    "docs/api.md": api_page,
    "docs/errors.md": errors_page,
    "docs/configuration.md": configuration_page,
}


def main() -> None:
    for name, page in PAGES.items():
        (ROOT / name).write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
