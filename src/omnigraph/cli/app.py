"""The table of commands, and the way from words to one of them.

Only the module of the command that is asked for is imported. Global flags may stand before the command; they are moved
behind it, where every command knows them.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Sequence

import typer

from omnigraph.cli.command import GLOBAL_FLAGS
from omnigraph.cli.error_text import INTERRUPTED, UsageError, misused, reported, warn
from omnigraph.cli.startup import HELP, leave_out_pydantic

#: First word → module with the function ``register_<word>``, in the order of the help.
COMMANDS = {
    "init": "write",
    "load": "write",
    "query": "read",
    "search": "searching",
    "explain": "read",
    "mutate": "write",
    "export": "read",
    "blob": "blobs",
    "branch": "branching",
    "tag": "tagging",
    "commit": "commits",
    "revert": "reverting",
    "restore": "reverting",
    "diff": "commits",
    "changes": "commits",
    "schema": "schema",
    "lint": "read",
    "snapshot": "read",
    "embed": "embedding",
    "stats": "maintenance",
    "optimize": "maintenance",
    "verify": "maintenance",
    "recover": "maintenance",
    "repair": "maintenance",
    "cleanup": "cleaning",
    "retention": "cleaning",
    "upkeep": "cleaning",
    "clone": "copying",
    "backup": "copying",
    "relocate": "copying",
    "policy": "policies",
    "mcp": "agent_tools",
    "graphs": "server_listing",
    "queries": "server_listing",
    "alias": "aliases",
    "login": "logins",
    "logout": "logins",
    "profile": "profiles",
    "serve": "serving",
    "version": "maintenance",
}
GROUPS = frozenset(
    {"blob", "branch", "tag", "commit", "changes", "schema", "retention", "policy", "graphs", "queries", "profile"}
)

#: Spellings of older software that still work.
DEPRECATED = {"read": "query", "change": "mutate"}

_LEGEND = """\b
Before or after any command: --store URI, --server NAME|URL, --graph ID, --profile NAME, --as ACTOR, --yes, --quiet,
--debug. A graph is addressed by URI, --store, --server with --graph, --profile or defaults in config.yaml.
Exit codes: 0 done, 1 failed, 2 wrong arguments, 4 --if-commit lost, 130 interrupted.

\b
Commands by what they need:
  any      load query search explain lint mutate export blob branch tag commit revert restore diff changes schema
           snapshot stats (a store or a server)
  served   graphs queries alias
  direct   init embed optimize verify recover repair cleanup retention upkeep clone backup relocate (the storage itself)
  local    serve policy login logout profile version, embed on files"""


def run(words: Sequence[str]) -> None:
    """Run one command line and leave with its exit code."""
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(encoding="utf-8", errors="backslashreplace", newline="\n")  # type: ignore[union-attr]
    arranged = arrange(words)
    if arranged and arranged[0].partition("=")[0] in GLOBAL_FLAGS:
        with reported(debug=False):
            raise UsageError("a command is missing", hint="'omnigraph -h' lists them")
    try:
        command = typer.main.get_command(build(arranged[:1]))
        leave_out_pydantic(command)
        sys.exit(command(args=arranged, prog_name="omnigraph", standalone_mode=False))
    except (typer.Abort, KeyboardInterrupt):
        sys.stderr.write("\ninterrupted\n")
        sys.exit(INTERRUPTED)
    except Exception as error:
        if hasattr(error, "format_message"):  # what typer raises has no public base class in all its versions
            sys.exit(misused(error, json="--json" in arranged))
        with reported(debug="--debug" in arranged):
            raise
    finally:
        with contextlib.suppress(BrokenPipeError):
            sys.stderr.flush()


def arrange(words: Sequence[str]) -> list[str]:
    """The same command line with global flags behind the command and today's spelling of it."""
    rest = list(words)
    flags: list[str] = []
    path: list[str] = []
    while rest and len(path) < (2 if path and path[0] in GROUPS else 1):
        word = rest.pop(0)
        name, joined, _ = word.partition("=")
        if name in GLOBAL_FLAGS:
            flags.append(word)
            if GLOBAL_FLAGS[name] and not joined and rest:
                flags.append(rest.pop(0))
        elif word.startswith("-"):
            rest.insert(0, word)
            break
        else:
            path.append(_today(word) if not path else word)
    return [*path, *flags, *rest]


def _today(word: str) -> str:
    if word not in DEPRECATED:
        return word
    warn(f"'{word}' is now called '{DEPRECATED[word]}'")
    return DEPRECATED[word]


def build(wanted: Sequence[str] = ()) -> typer.Typer:
    """The application with the commands that are wanted; with all of them when none of these is known."""
    app = typer.Typer(
        add_completion=False,
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": HELP, "max_content_width": 110},
        help="A typed property graph with branches, merges and time travel, stored as Lance tables.",
        epilog=_LEGEND,
    )
    app.callback()(_top)
    for word in [word for word in wanted if word in COMMANDS] or COMMANDS:
        module = importlib.import_module(f"omnigraph.cli.{COMMANDS[word]}")
        getattr(module, f"register_{word}")(app)
    return app


def _top(
    version: bool = typer.Option(False, "-v", "--version", help="Print the version and exit."),
) -> None:
    """The version itself is printed before anything is imported."""
