"""`omnigraph policy validate|test|explain`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from omnigraph.cli.addressing import Accepts
from omnigraph.cli.command import Invocation, Json, command
from omnigraph.cli.error_text import FAILED
from omnigraph.cli.printing import print_json

_File = Annotated[Path, typer.Argument(metavar="FILE", help="The policy file.")]
_Kind = Annotated[
    Literal["graph", "server"], typer.Option("--kind", metavar="KIND", help="What the rules are for: graph or server.")
]


def register_policy(app: typer.Typer) -> None:
    group = typer.Typer(help="Check a policy file and ask what it decides.", no_args_is_help=True)
    app.add_typer(group, name="policy")

    @command(group, "policy validate", Accepts.NOTHING)
    def validate(cli: Invocation, file: _File, kind: _Kind = "graph", json: Json = False) -> None:
        """Read a policy file and compile its rules."""
        from omnigraph import Policy

        policy = Policy.from_file(file, kind=kind)
        actors, rules = len(policy.bundle.actors), len(policy.bundle.rules)
        if json:
            print_json({"ok": True, "bundle": policy.name, "kind": kind, "actors": actors, "rules": rules})
        else:
            sys.stdout.write(f"policy valid: bundle '{policy.name}' [{actors} actors]\n")

    @command(group, "policy test", Accepts.NOTHING)
    def test(
        cli: Invocation,
        file: _File,
        tests: Annotated[Path, typer.Option("--tests", metavar="FILE", help="The cases.", show_default=False)],
        kind: _Kind = "graph",
        json: Json = False,
    ) -> None:
        """Compare what a policy decides with what a file of cases expects; exit code 1 when they differ."""
        from omnigraph import Policy

        report = Policy.from_file(file, kind=kind).test(tests)
        if json:
            print_json(report.to_dict())
        elif report.ok:
            sys.stdout.write(f"policy tests passed: {report.cases} cases\n")
        else:
            sys.stdout.write("".join(f"{each}\n" for each in report.mismatches))
            sys.stderr.write(f"policy tests failed: {len(report.mismatches)} of {report.cases} cases\n")
        if not report.ok:
            sys.exit(FAILED)

    @command(group, "policy explain", Accepts.NOTHING)
    def explain(
        cli: Invocation,
        file: _File,
        who: Annotated[str, typer.Option("--actor", metavar="ACTOR", help="Who asks.")],
        action: Annotated[str, typer.Option("--action", metavar="ACTION", help="For what: read, branch-merge …")],
        branch: Annotated[str | None, typer.Option("--branch", metavar="BRANCH", help="On which branch.")] = None,
        target_branch: Annotated[
            str | None,
            typer.Option("--target-branch", metavar="BRANCH", help="Branch that is made, deleted or merged into."),
        ] = None,
        type: Annotated[str | None, typer.Option("--type", metavar="TYPE", help="For which node or edge type.")] = None,
        kind: _Kind = "graph",
        json: Json = False,
    ) -> None:
        """Show one decision. A denial is an answer too: the exit code is 0."""
        from omnigraph import Policy

        decision = Policy.from_file(file, kind=kind).decide(who, action, branch, target_branch, type)
        shown = decision.to_dict()
        if json:
            print_json(shown)
        else:
            optional = ("branch", "target_branch", "type", "matched_rule")
            lines = (f"{key}: {value}\n" for key, value in shown.items() if value is not None or key not in optional)
            sys.stdout.write("".join(lines))
