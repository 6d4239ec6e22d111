"""An embedding provider on loopback that speaks both protocols, and misbehaves as a test asks.

Vectors of the model ``m1`` are those of the mock provider, times three: whoever uses them must make them of length one.
Those of other models are others.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from omnigraph.embed.mock_vectors import mock_vectors

KEY = "sk-very-secret-0123456789"


@dataclass
class Misbehaviour:
    """What one request gets instead of vectors.

    Attributes:
        change: takes the right answer and gives another one.
        hangs: answer only when the server is stopped.
        drips: answer with the headers and then a byte now and then.
        cuts: promise more bytes than come.
    """

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes | None = None
    change: Callable[[Any], Any] | None = None
    hangs: bool = False
    drips: bool = False
    cuts: bool = False


@dataclass
class EmbeddingServer:
    """A running server: what it was asked, and what it will do wrong next."""

    url: str
    requests: list[dict[str, Any]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    script: list[Misbehaviour] = field(default_factory=list)
    refused: set[str] = field(default_factory=set)
    before_answer: Callable[[], None] | None = None
    ended: threading.Event = field(default_factory=threading.Event)

    @property
    def texts(self) -> list[str]:
        """Every text that was sent, in order."""
        return [text for request in self.requests for text in texts_of(request)]

    def environment(self, provider: str = "openai-compatible", model: str = "m1", **more: str) -> dict[str, str]:
        keys = dict.fromkeys(("OPENROUTER_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY"), KEY)
        return {
            **keys,
            "OMNIGRAPH_EMBED_PROVIDER": provider,
            "OMNIGRAPH_EMBED_BASE_URL": f"{self.url}/v1/",
            "OMNIGRAPH_EMBED_MODEL": model,
            "OMNIGRAPH_EMBED_RETRY_BACKOFF_MS": "1",
            "OMNIGRAPH_EMBED_TIMEOUT_MS": "5000",
            **more,
        }


def texts_of(request: dict[str, Any]) -> list[str]:
    if "input" in request:
        return list(request["input"])
    parts = request.get("requests", [request])
    return [part["content"]["parts"][0]["text"] for part in parts]


def right_answer(request: dict[str, Any]) -> dict[str, Any]:
    texts = texts_of(request)
    first = request.get("requests", [request])[0]
    dimension = request.get("dimensions") or first["outputDimensionality"]
    model = first.get("model", "").removeprefix("models/")
    seeds = texts if model == "m1" else [f"{model}: {text}" for text in texts]
    vectors = [[3.0 * each for each in row] for row in mock_vectors(seeds, dimension).tolist()]
    if "input" in request:
        data = [{"index": at, "embedding": vector} for at, vector in enumerate(vectors)]
        return {"data": data[::-1]}  # the order does not count, the index does
    if "requests" in request:
        return {"embeddings": [{"values": vector} for vector in vectors]}
    return {"embedding": {"values": vectors[0]}}


@contextmanager
def embedding_server() -> Iterator[EmbeddingServer]:
    """Run a server on a free port until the block ends."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    state = EmbeddingServer(f"http://127.0.0.1:{server.server_address[1]}")
    server.state = state  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield state
    finally:
        state.ended.set()
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        state: EmbeddingServer = self.server.state  # type: ignore[attr-defined]
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        state.requests.append(request)
        state.paths.append(self.path)
        state.headers.append(dict(self.headers))
        act = state.script.pop(0) if state.script else Misbehaviour()
        if state.before_answer is not None:
            state.before_answer()
        if state.refused.intersection(texts_of(request)):
            act = Misbehaviour(400, body=error_body(f"cannot embed: {texts_of(request)}", "invalid_input"))
        if act.hangs:
            state.ended.wait()
            return
        answer = right_answer(request)
        body = act.body if act.body is not None else json.dumps(act.change(answer) if act.change else answer).encode()
        self.send_response(act.status)
        for name, value in act.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body) + (100 if act.cuts else 0)))
        self.end_headers()
        if act.drips:
            for byte in body:
                if state.ended.wait(0.05):
                    return
                self.wfile.write(bytes([byte]))
                self.wfile.flush()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Silent."""


def error_body(message: str, code: str = "bad") -> bytes:
    return json.dumps({"error": {"message": message, "code": code}}).encode()
