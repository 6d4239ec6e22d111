"""Answers for names that the contract counts as mistakes of the request, where the graph says that there is nothing of
that name: an unknown type of an export, of a filter, of a blob."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps

import msgspec

from omnigraph.errors import TypeNotFound
from omnigraph.policy.audit_log import REQUEST_ID
from omnigraph.server.operation import Answer, Call, Content
from omnigraph.wire.problems import problem_of


def unknown_type_is_400(run: Callable[[Call], Answer]) -> Callable[[Call], Answer]:
    """The operation with status 400 for a type that does not exist; the error stays what it is."""

    @wraps(run)
    def answered(call: Call) -> Answer:
        try:
            return run(call)
        except TypeNotFound as error:
            envelope = {**problem_of(error, REQUEST_ID.get()).envelope, "code": "bad_request"}
            return Content(msgspec.json.encode(envelope), status=400)

    return answered
