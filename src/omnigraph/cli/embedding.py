"""The command `embed`: makes the vectors that a graph or a file lacks."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from omnigraph import ids
from omnigraph.cli.addressing import Accepts
from omnigraph.cli.arguments import Engine, existing_data, existing_text, writable_file
from omnigraph.cli.command import Invocation, Json, command
from omnigraph.cli.error_text import Interrupted, UsageError
from omnigraph.cli.printing import counted, print_json

if TYPE_CHECKING:
    from omnigraph import EmbedResult

Seed = Annotated[str | None, typer.Option("--seed", metavar="FILE", help="YAML manifest that names the files.")]
Input = Annotated[str | None, typer.Option("--input", metavar="FILE", help="JSON lines to read.")]
Output = Annotated[str | None, typer.Option("--output", metavar="FILE", help="JSON lines to write.")]
Spec = Annotated[str | None, typer.Option("--spec", metavar="FILE", help="JSON with the dimension and the types.")]
ReembedAll = Annotated[bool, typer.Option("--reembed-all", help="Also what has a vector.")]
Clean = Annotated[bool, typer.Option("--clean", help="Remove the vectors; asks no provider.")]
Types = Annotated[list[str] | None, typer.Option("--type", metavar="TYPE", help="Only this type; may be repeated.")]
Select = Annotated[
    list[str] | None,
    typer.Option("--select", metavar="[TYPE:]FIELD=VALUE", help="Only such records, anew; may be repeated."),
]


Limit = Annotated[int | None, typer.Option("--limit", metavar="N", min=0, help="Embed at most so many rows.")]
Budget = Annotated[int | None, typer.Option("--budget", metavar="N", min=0, help="Send at most so many characters.")]
Rows = Annotated[int | None, typer.Option("--rows", metavar="N", min=1, help="Rows of one commit.")]
RetryFailed = Annotated[bool, typer.Option("--retry-failed", help="Also texts that the provider refused before.")]


def register_embed(app: typer.Typer) -> None:
    @command(app, "embed", Accepts.STORE_WRITE, data_frames=True)
    def embed(
        cli: Invocation,
        seed: Seed = None,
        input: Input = None,
        output: Output = None,
        spec: Spec = None,
        reembed_all: ReembedAll = False,
        clean: Clean = False,
        types: Types = None,
        select: Select = None,
        branch: Annotated[str | None, typer.Option("--branch", metavar="BRANCH", help="Branch of the graph.")] = None,
        limit: Limit = None,
        budget: Budget = None,
        rows: Rows = None,
        retry_failed: RetryFailed = False,
        engine: Annotated[Engine | None, typer.Option("--engine", help="This process, or Spark for many rows.")] = None,
        json: Json = False,
    ) -> None:
        """Make the vectors that a graph lacks (--store), or a file of JSON lines (--input, --output, --spec)."""
        files = _Files(seed, input, output, spec)
        if files.are_given or clean or select:
            of_a_graph = {"--branch": branch, "--limit": limit, "--budget": budget, "--rows": rows}
            of_a_graph |= {"--store": cli.flags.store, "--retry-failed": retry_failed or None, "--engine": engine}
            wrong = next((name for name, value in of_a_graph.items() if value is not None), None)
            if wrong is not None:
                raise UsageError(f"{wrong} is for the vectors of a graph, and files are given", hint="choose one")
            files.check()
            _embed_file(files, _FileMode(reembed_all, clean, types, select), json=json)
            return
        address = cli.address(how="--input, --output and --spec for files")
        cli.echo(address)
        with cli.graph(address, "rw") as graph:
            try:
                done = graph.embed(
                    types or None,
                    branch=branch or ids.MAIN,
                    limit=limit,
                    budget=budget,
                    rows=rows,
                    reembed=reembed_all,
                    retry_failed=retry_failed,
                    engine=(engine or Engine.AUTO).value,
                    progress=not cli.flags.quiet,
                )
            except KeyboardInterrupt:
                raise Interrupted("what was embedded is committed or kept; run it again to go on") from None
        if json:
            print_json(done.to_dict())
        else:
            sys.stdout.write(_graph_text(done))


@dataclass(frozen=True, slots=True)
class _Files:
    """The files that the options name."""

    seed: str | None
    input: str | None
    output: str | None
    spec: str | None

    @property
    def are_given(self) -> bool:
        return any(each is not None for each in (self.seed, self.input, self.output, self.spec))

    def check(self) -> None:
        """Refuse what does not belong together or is not there."""
        if self.seed is not None:
            if self.input is not None or self.output is not None or self.spec is not None:
                raise UsageError("--seed names the files itself", hint="leave out --input, --output and --spec")
            existing_text(self.seed)
            return
        if self.input is None or self.output is None or self.spec is None:
            raise UsageError("which files?", hint="give --input, --output and --spec, or --seed")
        existing_data(self.input)
        existing_text(self.spec)
        writable_file(self.output)


@dataclass(frozen=True, slots=True)
class _FileMode:
    """What happens to which records."""

    reembed_all: bool
    clean: bool
    types: list[str] | None
    select: list[str] | None


def _embed_file(files: _Files, mode: _FileMode, *, json: bool) -> None:
    import omnigraph

    if mode.reembed_all and mode.clean:
        raise UsageError("--reembed-all and --clean exclude each other", hint="give one of them")
    done = omnigraph.embed_file(
        files.input,
        files.output,
        files.spec,
        seed=files.seed,
        reembed_all=mode.reembed_all,
        clean=mode.clean,
        types=mode.types,
        select=mode.select,
    )
    if json:
        print_json(done.to_dict())
        return
    sys.stdout.write(
        f"{done.input} → {done.output}: {done.records} records, {done.selected_records} selected, "
        f"{done.embedded_records} embedded, {done.cleaned_records} cleaned ({done.mode}, "
        f"dimension {done.dimension})\n"
    )


def _graph_text(done: EmbedResult) -> str:
    lines = [f"embedded {counted(done.embedded, 'row')} on {done.branch} in {counted(len(done.commits), 'commit')}"]
    if done.reused:
        lines.append(f"{counted(done.reused, 'row')} got the vector that an interrupted run had made")
    if done.cleared:
        lines.append(f"{counted(done.cleared, 'row')} without a text lost the vector")
    if done.failed:
        lines.append(f"{counted(done.failed, 'text')} refused; 'omnigraph stats --embeddings' says why")
    if done.skipped:
        lines.append(f"{counted(done.skipped, 'row')} changed meanwhile; run it again for them")
    if done.stopped:
        lines.append(f"stopped by --{done.stopped}; run it again to go on")
    return "".join(f"{line}\n" for line in lines)
