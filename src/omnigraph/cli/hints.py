"""Hints for callers in Python, in the words of the command line. The one place where they are translated.

An argument becomes the option that stands for it, a call becomes the command: ``engine='spark'`` → ``--engine spark``,
``recover(discard=True)`` → ``'omnigraph recover --discard'``. What has no counterpart has a sentence of its own here.
"""

from __future__ import annotations

import re

#: Options by the argument that they stand for, where the names differ. All others are spelled alike.
_OPTIONS = {
    "at": "snapshot",
    "from_": "from",
    "actor": "as",
    "params_file": "params-file",
    "file": "query",
    "reembed": "reembed-all",
}

#: Arguments that have an option. Others stay as they are.
_ARGUMENTS = (
    "type|types|format|engine|branch|on_error|max_rejects|resolve|at|from_|into|if_commit|dry_run|delete_branch"
    "|allow_data_loss|allow_unknown_annotations|confirm|force|params|actor|limit|columns|times|discard|deep|page_token"
    "|kinds|ops|keep|older_than|reembed"
)

_ARGUMENT = re.compile(
    rf"(?<![\w-])(?P<name>{_ARGUMENTS})=(?P<value>\"[^\"]*\"|'[^']*'|[\w./:-]*\w)?(?P<more> or a mapping\b)?"
)

_CALL = re.compile(
    r"`?(?:\b(?:g|graph|Graph)\.)?\b(?:(?P<group>branches|commits|tags|schema)\.(?P<member>[a-z]+)"
    r"|(?P<verb>init|load|query|explain|mutate|export|diff|changes|baseline|lint|verify|recover|repair))"
    r"\((?P<given>[^()]*)\)`?"
)

#: What a call names first.
_NAME = re.compile(r"(?P<quote>[\"'])(?P<text>[^\"']+)(?P=quote)")

_GROUPS = {"branches": "branch", "commits": "commit", "tags": "tag", "schema": "schema"}
_COMMANDS = {"changes": "changes poll", "baseline": "changes baseline"}

#: Whole hints that mean something else to whoever types commands.
_SENTENCES = {
    "create one with init": "create one with 'omnigraph init'",
    "decide them with resolve=": "decide them with --resolve ours or --resolve theirs, or one by one: "
    "--resolve node:Type/id=theirs",
    "open the graph again; it finishes or drops the write": "'omnigraph recover' finishes or drops the write",
    "take a baseline and go on from its cursor": "run 'omnigraph changes baseline' and go on from its cursor",
    "start from a baseline": "start with 'omnigraph changes baseline'",
    "start again from a baseline": "start again with 'omnigraph changes baseline'",
    "pass token=…, and leave them out": "leave them out; 'omnigraph login NAME' stores a token",
    "list the branches": "'omnigraph branch list' shows them",
}


def in_cli_words(hint: str) -> str:
    """A hint as the command line says it.

    >>> in_cli_words("pass type= or a mapping")
    'pass --type TYPE'
    >>> in_cli_words("list them with branches.list()")
    "list them with 'omnigraph branch list'"
    >>> in_cli_words("delete it with tags.delete('q3')")
    "delete it with 'omnigraph tag delete q3'"
    """
    if hint in _SENTENCES:
        return _SENTENCES[hint]
    return _ARGUMENT.sub(_as_option, _CALL.sub(_as_command, hint))


def _as_option(argument: re.Match[str]) -> str:
    name, value = _option(argument["name"]), (argument["value"] or "").strip("\"'")
    if value == "True":
        return f"--{name}"
    return f"--{name} {value or name.upper()}"


def _option(name: str) -> str:
    singular = {"types": "type", "kinds": "kind", "ops": "op"}.get(name, name)
    return _OPTIONS.get(singular, singular).replace("_", "-")


def _as_command(call: re.Match[str]) -> str:
    words = f"{_GROUPS[call['group']]} {call['member']}" if call["group"] else call["verb"]
    name = _NAME.match(call["given"])
    given = [name["text"]] if name is not None else []
    given += [_as_option(each) for each in _ARGUMENT.finditer(call["given"])]
    return f"'omnigraph {' '.join([_COMMANDS.get(words, words), *given])}'"
