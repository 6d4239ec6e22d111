"""Looks for secrets in everything that a server has told: its log, its answers, its metrics."""

from __future__ import annotations

import re

from tests.server.security.places import PRIVATE, TOKENS, Place

_TRACE = re.compile(rb'Traceback \(most recent call last\)|File "[^"]*\.py", line \d+|\.rs:\d+:\d+')

#: Paths of this machine, as they occur in messages of libraries.
_CODE = (b"site-packages", b"/src/omnigraph/")


def leaks_of(place: Place) -> list[str]:
    """One sentence for each secret that was found."""
    found = []
    log = place.log
    found += [f"the token of {actor} is in the log" for actor, token in TOKENS.items() if token in log]
    if PRIVATE in log:
        found.append("a value of the graph is in the log")
    metrics = place.ask("GET", "/metrics")
    texts = [(what, reply.status, _told(reply.headers) + reply.body) for what, reply in place.seen]
    texts.append(("GET /metrics", 400, metrics.body))
    for what, status, text in texts:
        found += [f"{what}: the token of {actor}" for actor, token in TOKENS.items() if token.encode() in text]
        if _TRACE.search(text):
            found.append(f"{what}: a stack trace")
        if status >= 400 and (str(place.folder).encode() in text or any(path in text for path in _CODE)):
            found.append(f"{what}: a path of the server: {text[:400]!r}")
        if status >= 500:
            found.append(f"{what}: status {status}: {text[:400]!r}")
    return sorted(set(found))


def _told(headers: object) -> bytes:
    return repr(headers).encode()
