"""Routes for branches: list, make, rename, delete, merge."""

from __future__ import annotations

from typing import Any, cast

from omnigraph import ids
from omnigraph.history.branches import list_branches
from omnigraph.server.operation import Answer, Call, HttpOperation, Need
from omnigraph.server.operations.asked_branch import branch_of, needs
from omnigraph.server.operations.shown_commit import commit_or_null
from omnigraph.wire import answers, requests

#: What admission counts for work that moves no rows of the request.
_WEIGHT = 256


def _list(call: Call) -> Answer:
    found = sorted(list_branches(call.graph.internals.reader("read")), key=lambda branch: branch.name)
    return {
        "branches": [branch.name for branch in found],
        "parents": {branch.name: branch.parent for branch in found},
        "actor_id": call.actor,
    }


def _create(call: Call) -> Answer:
    asked: requests.BranchCreateRequest = call.body
    from_ = _origin(asked.from_)
    made = call.graph.branches.create(asked.name, from_, asked.at)
    return {**_about(call, made.name), "from": from_, "parent": made.parent}


def _creates(call: Call) -> tuple[Need, ...]:
    from_ = _origin(call.body.from_)
    base = None if ids.tag_in(from_) is not None else from_
    return (Need("branch_create", base, ids.branch_name(call.body.name)),)


def _origin(text: str | None) -> str:
    """The branch that a new one begins with, or the tag."""
    tag = None if text is None else ids.tag_in(text)
    return branch_of(text) if tag is None else f"{ids.TAG_PREFIX}{tag}"


def _rename(call: Call) -> Answer:
    asked: requests.BranchRenameRequest = call.body
    made = call.graph.branches.rename(asked.name, asked.new_name, message=asked.message)
    return {**_about(call, made.name), "from": asked.name.strip(), "parent": made.parent}


def _renames(call: Call) -> tuple[Need, ...]:
    name, new_name = branch_of(call.body.name), ids.branch_name(call.body.new_name)
    return (Need("branch_delete", target=name), Need("branch_create", name, new_name))


def _delete(call: Call) -> Answer:
    name = branch_of(call.path["branch"])
    call.graph.branches.delete(name, force=bool(call.query.force))
    return _about(call, name)


def _deletes(call: Call) -> tuple[Need, ...]:
    return (Need("branch_delete", target=branch_of(call.path["branch"])),)


def _merge(call: Call) -> Answer:
    asked: requests.BranchMergeRequest = call.body
    done = call.graph.branches.merge(
        branch_of(asked.source),
        branch_of(asked.target),
        dry_run=bool(asked.dry_run),
        resolve=cast(Any, asked.resolve),  # the merge checks it
        delete_branch=bool(asked.delete_branch),
        engine="embedded",
        message=asked.message,
    )
    shown: dict[str, Any] = {**done.to_dict(), "commit": commit_or_null(done.commit), "actor_id": call.actor}
    for name in ("branch_deleted", "branch_delete_error"):
        if shown[name] is None:
            del shown[name]
    return shown


def _merges(call: Call) -> tuple[Need, ...]:
    return (Need("branch_merge", branch_of(call.body.source), branch_of(call.body.target)),)


def _about(call: Call, name: str) -> dict[str, Any]:
    return {"uri": call.served.uri, "name": name, "actor_id": call.actor}


BRANCH_ROUTES = (
    HttpOperation(
        "GET",
        "/branches",
        "listBranches",
        "branches",
        "List the branches",
        _list,
        needs("read"),
        answer=answers.BranchesOutput,
    ),
    HttpOperation(
        "POST",
        "/branches",
        "createBranch",
        "branches",
        "Make a branch",
        _create,
        _creates,
        body=requests.BranchCreateRequest,
        answer=answers.BranchCreateOutput,
        pool="write",
        admitted=True,
        weight=lambda call: _WEIGHT,
        statuses=(409,),
    ),
    HttpOperation(
        "POST",
        "/branches/rename",
        "rename_branch",
        "branches",
        "Give a branch another name",
        _rename,
        _renames,
        body=requests.BranchRenameRequest,
        answer=answers.BranchRenameOutput,
        pool="write",
        admitted=True,
        weight=lambda call: _WEIGHT,
        statuses=(409,),
    ),
    HttpOperation(
        "POST",
        "/branches/merge",
        "mergeBranches",
        "branches",
        "Merge a branch into another",
        _merge,
        _merges,
        body=requests.BranchMergeRequest,
        answer=answers.BranchMergeOutput,
        pool="write",
        admitted=True,
        weight=lambda call: _WEIGHT,
        statuses=(409,),
    ),
    HttpOperation(
        "DELETE",
        "/branches/{branch}",
        "deleteBranch",
        "branches",
        "Delete a branch",
        _delete,
        _deletes,
        query=requests.BranchDeleteQuery,
        answer=answers.BranchDeleteOutput,
        pool="write",
        admitted=True,
        weight=lambda call: _WEIGHT,
        statuses=(409,),
    ),
)
