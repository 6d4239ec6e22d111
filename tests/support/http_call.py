"""Requests as bytes, for tests that say exactly what goes over the wire. Nothing is quoted, followed or tried again."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

SECONDS = 60


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer. Names of headers are lower-case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()

    def json(self) -> Any:
        return json.loads(self.body)


def call(
    port: int,
    method: str,
    target: str,
    body: object = None,
    headers: Mapping[str, str] | Iterable[tuple[str, str]] = (),
    *,
    token: str | None = None,
    timeout: float = SECONDS,
) -> Reply:
    """One request over a connection of its own.

    Args:
        body: bytes as they are, or a value that is sent as JSON.
        headers: a name may occur several times.
    """
    content = body if isinstance(body, bytes | None) else json.dumps(body).encode()
    given = list(headers.items() if isinstance(headers, Mapping) else headers)
    names = {name.lower() for name, _ in given}
    if content is not None and "content-type" not in names:
        given.append(("Content-Type", "application/json"))
    if content is not None and not names & {"content-length", "transfer-encoding"}:
        given.append(("Content-Length", str(len(content))))
    if token is not None:
        given.append(("Authorization", f"Bearer {token}"))
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    try:
        connection.putrequest(method, target, skip_host="host" in names, skip_accept_encoding=True)
        for name, value in given:
            connection.putheader(name, value)
        connection.endheaders(content)
        answer = connection.getresponse()
        told = {name.lower(): value for name, value in answer.getheaders()}
        return Reply(answer.status, told, answer.read())
    finally:
        connection.close()


def raw(port: int, sent: bytes, *, ends: bool = False, timeout: float = SECONDS) -> bytes:
    """Everything that a server answers to these bytes until it closes the connection.

    Args:
        ends: nothing more will be sent; otherwise the bytes have to ask for the connection to be closed.
    """
    with socket.create_connection(("127.0.0.1", port), timeout) as place:
        place.sendall(sent)
        if ends:
            place.shutdown(socket.SHUT_WR)
        found = bytearray()
        while more := place.recv(1 << 16):
            found += more
        return bytes(found)


def statuses(answers: bytes) -> list[int]:
    """The statuses of the answers that stand one after the other."""
    return [int(part[:3]) for part in answers.decode("latin-1").split("HTTP/1.1 ")[1:]]
