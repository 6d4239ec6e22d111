"""Opens graphs behind servers for commands: with the token that belongs there, and with answers in the words of the
command line. Imported only by a command whose address is that of a server.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal, cast

from omnigraph.cli.config import Config
from omnigraph.cli.credentials import other_token, token_for
from omnigraph.cli.error_text import Interrupted
from omnigraph.errors import (
    GraphNotFound,
    InvalidUri,
    NotFoundError,
    NotOffered,
    OmniGraphError,
    ServerUnavailable,
    Unauthenticated,
)
from omnigraph.ids import new_commit_id

if TYPE_CHECKING:
    from omnigraph import Graph

#: How often a server is looked for. Whoever typed a wrong address waits for the answer.
_ATTEMPTS = 2

_PASS_GRAPH = "pass --graph ID; the server does not tell its graphs"

#: What to do about a failure of TLS, by what OpenSSL calls it.
_TLS = {
    "WRONG_VERSION_NUMBER": "the server speaks no TLS there: write http://, or the port of its TLS proxy",
    "CERTIFICATE_VERIFY_FAILED": "its certificate is not trusted here; SSL_CERT_FILE names a file of trusted ones",
}


@contextlib.contextmanager
def served_graph(url: str, config: Config, mode: Literal["rw", "ro"]) -> Iterator[Graph]:
    """An open graph behind a server. It has the verbs of `Graph` that need no storage."""
    from omnigraph.client.open_anywhere import require_client

    require_client()
    from omnigraph.client.opened import open_remote

    with _helpful(url, config):
        opened = cast("Graph", open_remote(url, mode=mode, token=token_for(url, config), attempts=_ATTEMPTS))
        with opened as graph:
            yield graph


def graphs_at(base: str, config: Config) -> list[tuple[str, str]]:
    """Id and address of each graph of a server."""
    from omnigraph.client.open_anywhere import require_client

    require_client()
    from omnigraph.client.served_graphs import served_graphs

    with _helpful(base, config):
        return served_graphs(base, token=token_for(base, config), attempts=_ATTEMPTS)


def ids_of_graphs(base: str, config: Config) -> list[str] | None:
    """The ids of the graphs of a server, or None when it does not tell: a server may keep them to itself.

    One that cannot be reached is not tried a second time under another address.
    """
    try:
        return [id_ for id_, _ in graphs_at(base, config)]
    except (Unauthenticated, ServerUnavailable):
        raise
    except OmniGraphError:
        return None


@contextlib.contextmanager
def _helpful(url: str, config: Config) -> Iterator[None]:
    """Errors inside say what to do on the command line."""
    try:
        yield
    except Unauthenticated as error:
        error.hint = other_token(url, config)
        raise
    except GraphNotFound as error:
        error.hint = "'omnigraph graphs list' shows those that the server tells"
        raise
    except InvalidUri as error:
        error.hint = _PASS_GRAPH if "/graphs/" not in url else error.hint
        raise
    except ServerUnavailable as error:
        error.hint = next((hint for sign, hint in _TLS.items() if sign in error.message), error.hint)
        raise
    except NotOffered as error:
        error.hint = "leave that out, or pass --store URI where the storage can be reached"
        raise


@contextlib.contextmanager
def interruptible_request(graph: Graph, branch: str, *, identified: bool) -> Iterator[str | None]:
    """Ctrl-C inside gives up waiting for the answer, and the message says what is known of the write.

    Args:
        identified: the verb takes the id of its commit; it is yielded, and the write is looked for by it. Any other
            write is judged by the head of the branch, which others may have moved.
    """
    commit_id = new_commit_id() if identified else None
    before = None if identified else _head_id(graph, branch)
    try:
        yield commit_id
    except KeyboardInterrupt:
        raise Interrupted(_known_of(graph, branch, commit_id, before)) from None


def _head_id(graph: Graph, branch: str) -> str | None:
    """Newest commit of a branch that need not exist."""
    with contextlib.suppress(NotFoundError):
        return graph.commits.head(branch).id
    return None


def _known_of(graph: Graph, branch: str, commit_id: str | None, before: str | None) -> str:
    """What became of a write whose answer nobody waited for. The server may still be at it."""
    look = f"commit list --branch {branch}" if commit_id is None else f"commit show {commit_id}"
    try:
        if commit_id is not None:
            graph.commits.get(commit_id)
            return f"the change was complete by then; it is commit {commit_id}"
        after = _head_id(graph, branch)
    except NotFoundError:
        after = before
    except (OmniGraphError, KeyboardInterrupt):
        return f"the server may have made the change or not; 'omnigraph {look}' tells"
    if after == before:
        return f"nothing was written by then, but the server may still be at it; 'omnigraph {look}' tells"
    return f"the server may have made the change: branch '{branch}' is at commit {after} now; 'omnigraph {look}' tells"
