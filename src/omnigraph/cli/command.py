"""What every command shares: the global flags, the graph it works on, its messages and its exit code.

A command is a function whose first parameter is an `Invocation`; `command` turns it into one that typer understands.
"""

from __future__ import annotations

import contextlib
import inspect
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from omnigraph.cli.addressing import Accepts, Address, FlagCheck, Flags, Resolver
from omnigraph.cli.arguments import nearest
from omnigraph.cli.config import Config, read_config
from omnigraph.cli.error_text import Interrupted, UsageError, reported
from omnigraph.cli.startup import leave_out_pandas
from omnigraph.errors import BranchNotFound, CommitNotFound, DeniedError, GraphNotFound, NotFoundError, OmniGraphError
from omnigraph.ids import did_you_mean

if TYPE_CHECKING:
    from omnigraph import Graph

#: Parameters that many commands have.
Uri = Annotated[
    str | None, typer.Argument(metavar="URI", help="Directory, file://, s3:// or http:// address of the graph.")
]
UriOption = Annotated[str | None, typer.Option("--uri", metavar="URI", help="Address of the graph.")]
Branch = Annotated[str, typer.Option("--branch", metavar="BRANCH", help="Branch to work on.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]

_GLOBAL: dict[str, tuple[tuple[str, ...], str | None, str]] = {
    "server": (("--server",), "NAME|URL", "A served endpoint."),
    "cluster": (("--cluster",), "DIR|URI|NAME", "A cluster root."),
    "graph": (("--graph",), "ID", "One graph of a server or cluster."),
    "store": (("--store",), "URI", "Storage of one graph: a directory, file:// or s3://."),
    "actor": (("--as",), "ACTOR", "Who the change belongs to."),
    "profile": (("--profile",), "NAME", "A scope from the operator's config.yaml."),
    "yes": (("--yes",), None, "Consent to a destructive change of a remote graph."),
    "quiet": (("--quiet",), None, "Do not say which graph is written to, show no progress."),
    "debug": (("--debug",), None, "Show the stack trace of an error."),
}

GLOBAL_FLAGS = {spelling: metavar is not None for names, metavar, _ in _GLOBAL.values() for spelling in names}


class Invocation:
    """One run of a command: its flags, the operator's configuration and the graph that is meant."""

    def __init__(self, command: str, flags: Flags, accepts: Accepts) -> None:
        self.command = command
        self.flags = flags
        self._is_direct = accepts in (Accepts.DIRECT, Accepts.STORE_WRITE, Accepts.NOTHING)

    @cached_property
    def config(self) -> Config:
        return read_config()

    @property
    def actor(self) -> str | None:
        return self.flags.actor or self.config.actor

    def address(self, positional: str | None = None, option: str | None = None, *, how: str = "its address") -> Address:
        """The graph that is meant, from an argument or ``--uri``, or from what holds for all commands."""
        if positional is not None and option is not None:
            raise UsageError("the graph is addressed twice: by argument and by --uri", hint="give one of them")
        return self.resolver.address(positional if option is None else option, how)

    @cached_property
    def resolver(self) -> Resolver:
        def ids_at(base: str) -> list[str] | None:
            from omnigraph.cli.served_access import ids_of_graphs

            return ids_of_graphs(base, self.config)

        return Resolver(self.command, self.flags, self.config, self._is_direct, ids_at)

    @contextlib.contextmanager
    def graph(self, address: Address, mode: Literal["rw", "ro"] = "ro") -> Iterator[Graph]:
        """The open graph; read-only unless the command writes."""
        if mode == "rw":
            self._refuse_actor(address)
        with self._served(address, mode) if address.is_served else self._stored(address, mode) as opened:
            try:
                yield opened
            except NotFoundError as missing:
                missing.hint = _better_hint(opened, missing)
                raise

    def _stored(self, address: Address, mode: Literal["rw", "ro"]) -> Graph:
        import omnigraph

        try:
            return omnigraph.open(address.uri, mode=mode, actor=self.actor)
        except GraphNotFound as missing:
            missing.hint = (nearest(Path(address.uri)) if address.is_local else None) or missing.hint
            raise

    def _served(self, address: Address, mode: Literal["rw", "ro"]) -> contextlib.AbstractContextManager[Graph]:
        from omnigraph.cli.served_access import served_graph

        return served_graph(address.uri, self.config, mode)

    def author(self, address: Address, graph: Graph) -> str | None:
        """Who a write belongs to that was just done: the holder of the token, or whom the command line names."""
        return graph.actor if address.is_served else self.actor  # type: ignore[attr-defined]

    def _refuse_actor(self, address: Address) -> None:
        if address.is_served and self.flags.actor is not None:
            raise UsageError("--as names nobody to a server: it knows you by your token", hint="leave it out")

    def echo(self, address: Address) -> None:
        """Say which graph is about to change."""
        self._refuse_actor(address)
        if not self.flags.quiet:
            sys.stderr.write(f"omnigraph {self.command} → {address.uri} ({address.access})\n")

    def confirm(self, address: Address, *, json: bool) -> None:
        """A destructive change of a graph that is not on this machine needs consent."""
        self._refuse_actor(address)
        if address.is_local or self.flags.yes:
            return
        what = f"'{self.command}' on {address.uri} destroys data"
        if json or not sys.stdin.isatty():
            raise DeniedError(f"{what} and nobody consented", hint="pass --yes")
        sys.stderr.write(f"{what}. Type 'yes' to go on: ")
        sys.stderr.flush()
        if sys.stdin.readline().strip().lower() not in ("yes", "y"):
            raise DeniedError("not confirmed; nothing was changed")

    @contextlib.contextmanager
    def interruptible(
        self, address: Address, graph: Graph, branch: str, *, identified: bool = False
    ) -> Iterator[str | None]:
        """Ctrl-C inside leaves the branch as it was or with the whole change, and the message says which.

        Args:
            identified: the verb takes the id of its commit. Then the id that a served write is to have is yielded, by
                which it can be looked for; a write to a store needs none.
        """
        if address.is_served:
            from omnigraph.cli.served_access import interruptible_request

            with interruptible_request(graph, branch, identified=identified) as commit_id:
                yield commit_id
            return
        before = _head(graph, branch)
        try:
            with _patient(graph):
                yield None
        except KeyboardInterrupt:
            raise Interrupted(_outcome(graph, branch, before)) from None


def _better_hint(graph: Graph, missing: NotFoundError) -> str | None:
    """What to do about a name that does not exist, in the words of the command line."""
    if isinstance(missing, BranchNotFound):
        wrong = str(missing.details.get("branch", ""))
        with contextlib.suppress(OmniGraphError):
            return did_you_mean(wrong, graph.branches.list()) or "'omnigraph branch list' shows them"
    return missing.hint or ("'omnigraph commit list' shows them" if isinstance(missing, CommitNotFound) else None)


@contextlib.contextmanager
def _patient(graph: Graph) -> Iterator[None]:
    """Let a commit that is under way finish before Ctrl-C takes effect; a second one does not wait."""
    waiting: list[int] = []

    def stop(number: int, frame: object) -> None:
        if graph.is_committing and not waiting:
            waiting.append(number)
        else:
            raise KeyboardInterrupt

    earlier = signal.signal(signal.SIGINT, stop)
    try:
        yield
        if waiting:
            raise KeyboardInterrupt
    finally:
        signal.signal(signal.SIGINT, earlier)


def _head(graph: Graph, branch: str) -> str | None:
    """Newest commit of a branch that need not exist."""
    with contextlib.suppress(NotFoundError):
        return graph.commits.head(branch).id
    return None


def _outcome(graph: Graph, branch: str, before: str | None) -> str:
    """What became of an interrupted write. Whatever it had made durable is finished first."""
    try:
        graph.recover()
        after = _head(graph, branch)
    except (OmniGraphError, KeyboardInterrupt):
        return "the branch has the whole change or nothing of it; 'omnigraph commit list' tells"
    if after == before:
        return "nothing was written"
    return f"the change was complete by then; branch '{branch}' is at commit {after}"


@dataclass(frozen=True, slots=True)
class _Command:
    """What typer calls: checks the global flags, then runs a function."""

    check: FlagCheck
    function: Callable[..., None]
    data_frames: bool

    def __call__(self, **given: Any) -> None:
        flags = Flags(**{name: given.pop(name) for name in _GLOBAL})
        with reported(debug=flags.debug, json=given.get("json", False)):
            self.check.refuse_unusable(flags)
            if flags.actor is not None and not flags.actor.strip():
                raise UsageError("--as names nobody", hint="give an actor, or leave it out")
            if not self.data_frames:
                leave_out_pandas()
            self.function(Invocation(self.check.command, flags, self.check.accepts), **given)


def command(
    app: typer.Typer,
    name: str,
    accepts: Accepts,
    *,
    data_frames: bool = False,
    destroys: bool = False,
    hidden: bool = False,
) -> Callable[[Callable[..., None]], None]:
    """Register a function as a command. Its name may have two words; the last one is what the group calls it.

    Args:
        data_frames: the command may meet pandas, because it may start Spark.
        destroys: it may ask for consent; only then its help shows ``--yes``.
    """

    def register(function: Callable[..., None]) -> None:
        run = _Command(FlagCheck(name, accepts), function, data_frames)

        def typed(**given: Any) -> None:
            run(**given)

        own = list(inspect.signature(function, eval_str=True).parameters.values())[1:]
        parameters = [
            *(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in own),
            *_global(accepts, destroys),
        ]
        typed.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        typed.__doc__ = function.__doc__
        app.command(name.split()[-1], hidden=hidden)(typed)

    return register


def _global(accepts: Accepts, destroys: bool) -> Iterator[inspect.Parameter]:
    for name, (spellings, metavar, text) in _GLOBAL.items():
        shown = destroys if name == "yes" else accepts.shown(name)
        option = typer.Option(*spellings, metavar=metavar, help=text, hidden=not shown)
        kind = str | None if metavar else bool
        yield inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=None if metavar else False,
            annotation=Annotated[kind, option],
        )
