"""Routes for tags: list, make, delete."""

from __future__ import annotations

from omnigraph import ids
from omnigraph.server.operation import Answer, Call, HttpOperation
from omnigraph.server.operations.asked_branch import branch_of, needs
from omnigraph.wire import answers, requests


def _list(call: Call) -> Answer:
    return {"tags": [tag.to_dict() for tag in call.graph.tags.list()]}


def _create(call: Call) -> Answer:
    asked: requests.TagCreateRequest = call.body
    branch = None if asked.branch is None else branch_of(asked.branch)
    return call.graph.tags.create(asked.name, asked.at, branch=branch, message=asked.message).to_dict()


def _delete(call: Call) -> Answer:
    name = ids.tag_name(call.path["tag"])
    call.graph.tags.delete(name)
    return {"uri": call.served.uri, "name": name, "actor_id": call.actor}


TAG_ROUTES = (
    HttpOperation(
        "GET", "/tags", "list_tags", "branches", "List the tags", _list, needs("read"), answer=answers.TagsOutput
    ),
    HttpOperation(
        "POST",
        "/tags",
        "create_tag",
        "branches",
        "Give a state a name",
        _create,
        needs("change"),
        body=requests.TagCreateRequest,
        answer=answers.TagOutput,
        pool="write",
        admitted=True,
        statuses=(409,),
    ),
    HttpOperation(
        "DELETE",
        "/tags/{tag}",
        "delete_tag",
        "branches",
        "Delete a tag",
        _delete,
        needs("change"),
        answer=answers.TagDeleteOutput,
        pool="write",
        admitted=True,
    ),
)
