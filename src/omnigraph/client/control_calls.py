"""The verbs about branches, commits and tags. Their arguments are those of `Branches`, `Commits` and `Tags`.

None of these writes names its commit, so none is sent again after a lost answer. Where the graph tells afterwards what
became of it, that is the answer; otherwise `OutcomeUnknown`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from omnigraph import given, ids
from omnigraph.client import rebuilt
from omnigraph.client.address import quoted
from omnigraph.client.plain_values import parameters, plain_moment
from omnigraph.client.wire_call import Flow, Repeats, T, WireCall, ask, json_of
from omnigraph.client.write_calls import plain_resolve
from omnigraph.errors import InputError, NotOffered, OmniGraphError, OutcomeUnknown, TagNotFound
from omnigraph.history.branches import Branch
from omnigraph.history.commit_filter import commit_filter
from omnigraph.history.commit_graph import CommitNode
from omnigraph.history.merge.merge_result import MergeResult, RowConflict
from omnigraph.history.merge.resolution import Choice, Resolve, check_resolve
from omnigraph.history.state_at import At
from omnigraph.history.tags import Tag
from omnigraph.ids import commit_message, known_branch
from omnigraph.storage.metadata.manifest import Commit

if TYPE_CHECKING:
    from omnigraph.choices import CommitKind, Engine

#: Kinds of conflicts that are about one row, which a function may decide.
_ROW_KINDS = ("DivergentInsert", "DivergentUpdate", "DeleteVsUpdate")

#: Commits of the target that are looked through for a merge whose answer was lost.
_LOOKED_THROUGH = 100


# --- branches


def branch_parents() -> Flow[dict[str, str | None]]:
    """The names of all branches, main first, with what each was made from."""
    return (yield from ask(WireCall("GET", "/branches", json_of(_parents))))


def _parents(found: Mapping[str, Any]) -> dict[str, str | None]:
    parents = found.get("parents") or {}
    names = sorted(found["branches"], key=lambda name: (name != ids.MAIN, name))
    return {name: parents.get(name) for name in names}


def list_branches() -> Flow[list[str]]:
    """Names, main first."""
    return list((yield from branch_parents()))


def create_branch(name: str, from_: str = ids.MAIN, at: At | None = None) -> Flow[Branch]:
    """Make a branch; nothing is copied. See `Branches.create`."""
    is_tagged = ids.tag_in(str(from_)) is not None
    if is_tagged and at is not None:
        raise InputError("from_ and at both say which state the branch starts from", hint="give one of them")
    base = str(from_).strip() if is_tagged else known_branch(from_)
    content = {"name": _text(name), "from": base, "at": plain_moment(at)}
    try:
        return (yield from ask(_control("POST", "/branches", rebuilt.branch, content, "the new branch")))
    except OutcomeUnknown as lost:
        parents = yield from _looked(branch_parents(), lost)
        made = str(name).strip()
        if made not in parents or not (is_tagged or at is not None or parents[made] == base):
            raise
        return Branch(made, parents[made])


def delete_branch(name: str, *, force: bool = False) -> Flow[None]:
    """Delete a branch and what only it holds. See `Branches.delete`."""
    path = f"/branches/{quoted(_text(name))}"
    call = _control("DELETE", path, _nothing, None, "the deletion of the branch", parameters(force=force or None))
    try:
        yield from ask(call)
    except OutcomeUnknown as lost:
        if str(name).strip() in (yield from _looked(branch_parents(), lost)):
            raise


def rename_branch(name: str, new_name: str, *, message: str | None = None) -> Flow[Branch]:
    """Give a branch another name. See `Branches.rename`."""
    content = {"name": _text(name), "new_name": _text(new_name), "message": commit_message(message)}
    try:
        return (yield from ask(_control("POST", "/branches/rename", rebuilt.branch, content, "the new name")))
    except OutcomeUnknown as lost:
        parents = yield from _looked(branch_parents(), lost)
        wanted = str(new_name).strip()
        if wanted not in parents or str(name).strip() in parents:
            raise
        return Branch(wanted, parents[wanted])


def merge(
    source: str,
    into: str = ids.MAIN,
    *,
    dry_run: bool = False,
    resolve: Resolve | None = None,
    delete_branch: bool = False,
    engine: Engine = "auto",
    message: str | None = None,
) -> Flow[MergeResult]:
    """Merge what a branch changed into another one, as one commit with two parents. See `Branches.merge`.

    Args:
        resolve: a function is asked here, about the conflicts that a dry run finds.
    """
    if engine == "spark":
        raise NotOffered(
            "a server merges by itself, not on Spark", hint="leave engine out, or open the graph by its storage address"
        )
    check_resolve(resolve)
    names = {"source": known_branch(source), "target": known_branch(into)}
    if callable(resolve):
        preview = yield from ask(_merge({**names, "dry_run": True}))
        resolve = _chosen(preview, resolve)
    content = {
        **names,
        "dry_run": dry_run or None,
        "resolve": plain_resolve(resolve),
        "delete_branch": delete_branch or None,
        "message": commit_message(message),
    }
    try:
        return (yield from ask(_merge(content)))
    except OutcomeUnknown as lost:
        return (yield from _found_merge(names, lost))


def _merge(content: Mapping[str, Any]) -> WireCall[MergeResult]:
    repeats = Repeats.ALWAYS if content.get("dry_run") else Repeats.UNSENT
    return WireCall(
        "POST",
        "/branches/merge",
        json_of(rebuilt.merge_result),
        content=content,
        repeats=repeats,
        branch=content["target"],
        what="the merge",
    )


def _chosen(preview: MergeResult, resolve: Callable[[RowConflict], Choice | None]) -> dict[str, Choice]:
    """What a function decides about the conflicts of rows."""
    found: dict[str, Choice] = {}
    for conflict in preview.conflicts:
        if conflict.kind in _ROW_KINDS:
            row = RowConflict(**{name: getattr(conflict, name) for name in RowConflict.__match_args__})
            choice = resolve(row)
            if choice is not None:
                found[conflict.entity] = choice
    check_resolve(found)
    return found


def _found_merge(names: Mapping[str, str], lost: OutcomeUnknown) -> Flow[MergeResult]:
    """A merge whose answer was lost: the target's history tells, as long as the source is there to compare with."""
    try:
        heads = yield from list_commits(names["source"], limit=1)
        made = yield from list_commits(names["target"], limit=_LOOKED_THROUGH, kind="merge")
        done = next((commit for commit in made if commit.merged_parent == heads[0].id), None)
        if done is None:
            raise lost
        preview = yield from ask(_merge({**names, "dry_run": True}))
    except OmniGraphError:
        raise lost from None
    return rebuilt.found_merge(preview, done)


# --- commits


def list_commits(
    branch: str = ids.MAIN,
    limit: int | None = None,
    before: str | None = None,
    *,
    actor: str | Sequence[str] | None = None,
    kind: CommitKind | Sequence[CommitKind] | None = None,
    message: str | Sequence[str] | None = None,
    made_on: str | Sequence[str] | None = None,
    since: At | None = None,
    until: At | None = None,
) -> Flow[list[Commit]]:
    """First-parent history, newest first. See `Commits.list`."""
    wanted = _filter(actor, kind, message, made_on, since, until)
    query = parameters(
        branch=known_branch(branch), limit=None if limit is None else given.count(limit, "limit"), before=before
    )
    return (yield from ask(WireCall("GET", "/commits", json_of(_commits), (*query, *wanted))))


def graph_of_commits(
    branches: Sequence[str] | None = None,
    limit: int | None = None,
    *,
    actor: str | Sequence[str] | None = None,
    kind: CommitKind | Sequence[CommitKind] | None = None,
    message: str | Sequence[str] | None = None,
    made_on: str | Sequence[str] | None = None,
    since: At | None = None,
    until: At | None = None,
) -> Flow[Sequence[CommitNode]]:
    """Commits of several branches and of all that was merged into them, each once, children before their parents. See
    `Commits.graph`."""
    wanted = _filter(actor, kind, message, made_on, since, until)
    names = None if branches is None else [known_branch(name) for name in branches]
    query = parameters(branch=names, limit=limit)
    return (yield from ask(WireCall("GET", "/commit-graph", json_of(_commit_nodes), (*query, *wanted))))


def _filter(actor: Any, kind: Any, message: Any, made_on: Any, since: Any, until: Any) -> tuple[tuple[str, str], ...]:
    wanted = commit_filter(actor=actor, kind=kind, message=message, made_on=made_on, since=since, until=until)
    return parameters(
        actor=wanted.actors,
        kind=wanted.kinds,
        message=wanted.messages,
        made_on=wanted.branches,
        since=plain_moment(wanted.since),
        until=plain_moment(wanted.until),
    )


def get_commit(commit_id: str) -> Flow[Commit]:
    """A commit by its id or by ``tag:NAME``, on whatever branch it was made. See `Commits.get`.

    After an `OutcomeUnknown` it tells whether the write was done: ``commits.get(error.details["commit_id"])``.
    """
    path = f"/commits/{quoted(given.text(commit_id, 'the id of a commit'))}"
    return (yield from ask(WireCall("GET", path, json_of(rebuilt.commit))))


def head_commit(branch: str = ids.MAIN) -> Flow[Commit]:
    """The newest commit of a branch."""
    return (yield from list_commits(branch, limit=1))[0]


def _commits(found: Mapping[str, Any]) -> list[Commit]:
    return [rebuilt.commit(each) for each in found["commits"]]


def _commit_nodes(found: Mapping[str, Any]) -> list[CommitNode]:
    return [rebuilt.commit_node(each) for each in found["commits"]]


# --- tags


def create_tag(name: str, at: At | None = None, *, branch: str | None = None, message: str | None = None) -> Flow[Tag]:
    """Give a state a name that keeps it. See `Tags.create`."""
    content = {
        "name": ids.tag_name(name),
        "at": plain_moment(at),
        "branch": None if branch is None else known_branch(branch),
        "message": commit_message(message),
    }
    try:
        return (yield from ask(_control("POST", "/tags", rebuilt.tag, content, "the tag")))
    except OutcomeUnknown as lost:
        made = next((tag for tag in (yield from _looked(list_tags(), lost)) if tag.name == content["name"]), None)
        if made is None or made.message != content["message"]:
            raise
        return made


def list_tags() -> Flow[list[Tag]]:
    """All tags, by name."""
    return (yield from ask(WireCall("GET", "/tags", json_of(_tags))))


def get_tag(name: str) -> Flow[Tag]:
    """A tag by its name."""
    wanted, tags = ids.tag_name(name), (yield from list_tags())
    found = next((tag for tag in tags if tag.name == wanted), None)
    if found is None:
        hint = ids.did_you_mean(wanted, [tag.name for tag in tags]) or "list them with tags.list()"
        raise TagNotFound(f"there is no tag '{wanted}'", hint=hint, tag=wanted)
    return found


def delete_tag(name: str) -> Flow[None]:
    """Delete a tag. Its state stays as long as any other one of its age."""
    wanted = ids.tag_name(name)
    try:
        yield from ask(_control("DELETE", f"/tags/{quoted(wanted)}", _nothing, None, "the deletion of the tag"))
    except OutcomeUnknown as lost:
        if any(tag.name == wanted for tag in (yield from _looked(list_tags(), lost))):
            raise


def _tags(found: Mapping[str, Any]) -> list[Tag]:
    return [rebuilt.tag(each) for each in found["tags"]]


# --- what they share


def _control(
    method: str,
    path: str,
    make: Callable[[Any], T],
    content: Mapping[str, Any] | None,
    what: str,
    query: tuple[tuple[str, str], ...] = (),
) -> WireCall[T]:
    return WireCall(method, path, json_of(make), query, content=content, repeats=Repeats.UNSENT, what=what)


def _looked(flow: Flow[T], lost: OutcomeUnknown) -> Flow[T]:
    """What the graph tells after a lost answer; nothing, when it does not answer either."""
    try:
        return (yield from flow)
    except OmniGraphError:
        raise lost from None


def _text(name: str) -> str:
    return given.text(name, "the name of a branch")


def _nothing(found: Mapping[str, Any]) -> None:
    return None
