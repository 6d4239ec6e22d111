"""`ServedOperation`: an operation with what is worked out once: how to read its parameters and its body."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl

import msgspec

from omnigraph import limits
from omnigraph.errors import InvalidRequest
from omnigraph.server.operation import HttpOperation
from omnigraph.server.request_body import BodyLimit, decoded_json
from omnigraph.server.server_limits import ServerLimits
from omnigraph.wire.query_string import parameters

_MOST_PARAMETERS = 1_000


class ServedOperation:
    """One operation of a running server.

    Attributes:
        body_limit: how long its body may be.
    """

    def __init__(self, operation: HttpOperation, allowed: ServerLimits) -> None:
        self.operation = operation
        self.takes_body = operation.body is not None or operation.raw_body is not None
        resource = "request_body_bytes" if operation.raw_body is None else "graph_batch_request_bytes"
        configured = {None: allowed.json_body_bytes, limits.LOAD_BODY_BYTES: allowed.load_body_bytes}
        most = configured.get(operation.body_limit) or operation.body_limit or allowed.json_body_bytes
        self.body_limit = BodyLimit(most, resource, allowed.spool_bytes)

    def parameters(self, query_string: bytes) -> Any:
        """The query parameters as the operation's class.

        Raises:
            InvalidRequest: one is unknown, occurs too often, or has another shape.
        """
        kind = self.operation.query
        if kind is None:
            if query_string:
                parameters(msgspec.Struct, _pairs(query_string))
            return None
        return parameters(kind, _pairs(query_string))

    def body(self, content: bytes) -> Any:
        """A JSON body as the operation's class.

        Raises:
            InvalidRequest: it is no JSON, or has another shape.
        """
        kind = self.operation.body
        assert kind is not None
        if self.operation.body_optional and content.strip(b" \t\r\n") in (b"", b"null"):
            return kind()
        return decoded_json(content, kind)


def _pairs(query_string: bytes) -> list[tuple[str, str]]:
    try:
        text = query_string.decode("ascii")
        return parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=_MOST_PARAMETERS)
    except UnicodeDecodeError:
        raise InvalidRequest("the query parameters are not UTF-8") from None
    except ValueError:
        raise InvalidRequest(f"there are more than {_MOST_PARAMETERS} query parameters") from None
