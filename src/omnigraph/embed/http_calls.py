"""One call to a provider over HTTP: a request, again when that may help, until it is answered or the time is up.

Again after a timeout, a broken connection, status 429 and 5xx; never after another status or a bad answer. A redirect
is not followed: it would take the key elsewhere. What the provider says in words is not repeated, because it may quote
the text or the key.
"""

from __future__ import annotations

import contextlib
import http.client
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from urllib.parse import urlsplit

from omnigraph import limits
from omnigraph.embed.embedding_settings import EmbeddingSettings
from omnigraph.embed.wire_formats import WireRequest, fault_of
from omnigraph.errors import EmbeddingSettingsError, InvalidEmbedding, ProviderRefused, ProviderUnavailable
from omnigraph.logs import EMBEDDING

_LARGEST_EXPONENT = 10
_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class _Answer:
    status: int
    retry_after: str | None
    body: bytes


class _Broken(Exception):
    """No answer came; says why, in words of ours."""


class HttpCalls:
    """Calls to one address, each on a connection of its own."""

    def __init__(self, settings: EmbeddingSettings) -> None:
        address = urlsplit(settings.base_url)
        try:
            self._host, self._port = address.hostname, address.port
        except ValueError:
            self._host = None
        if address.scheme not in ("http", "https") or not self._host:
            raise EmbeddingSettingsError(
                "OMNIGRAPH_EMBED_BASE_URL is not an address of the form https://host/path", hint="correct it"
            )
        self._is_secure = address.scheme == "https"
        self._path = address.path
        self._settings = settings
        self._gate = _RateGate(settings.patience.rate)

    @property
    def _named(self) -> str:
        return f"the embedding provider '{self._settings.provider}' (model '{self._settings.model}')"

    def post(self, request: WireRequest) -> bytes:
        """The body of a good answer.

        Raises:
            ProviderUnavailable: every attempt failed in a way that may pass, or the deadline came.
            ProviderRefused: the provider does not want this request.
        """
        patience = self._settings.patience
        self._gate.wait()
        ends = time.monotonic() + patience.deadline if patience.deadline is not None else None
        for attempt in range(1, patience.attempts + 1):
            if attempt > 1:
                self._gate.wait()
            left = _left(ends)
            if left is not None and left <= 0:
                raise self._too_late()
            asked: str | None = None
            try:
                answer = self._once(request, min(patience.timeout, left) if left is not None else patience.timeout)
            except _Broken as broken:
                why = str(broken)
                if (left := _left(ends)) is not None and left <= 0:
                    raise self._too_late() from None
            else:
                if answer.status == 200:
                    return answer.body
                if answer.status != 429 and answer.status < 500:
                    raise self._refused(request, answer)
                why, asked = f"status {answer.status}", answer.retry_after
            if attempt == patience.attempts:
                raise ProviderUnavailable(
                    f"{self._named} failed {attempt} times, the last time with {why}",
                    hint="try again later",
                    provider=self._settings.provider,
                    model=self._settings.model,
                    attempts=attempt,
                )
            delay = max(patience.backoff * 2 ** min(attempt - 1, _LARGEST_EXPONENT), _seconds(asked))
            left = _left(ends)
            if left is not None and delay >= left:
                raise self._too_late(delay)
            EMBEDDING.info(
                "%s: attempt %d failed with %s, again in %.1f s", self._settings.provider, attempt, why, delay
            )
            time.sleep(delay)
        raise AssertionError("the loop ends by an answer or an error")

    def _refused(self, request: WireRequest, answer: _Answer) -> ProviderRefused:
        fault = fault_of(answer.body)
        if fault is not None and (fault in self._settings.api_key or fault.encode() in request.body):
            fault = None
        return ProviderRefused(
            f"{self._named} refused the request with status {answer.status}{f' ({fault})' if fault else ''}",
            hint="check the key, the model and the address",
            provider=self._settings.provider,
            model=self._settings.model,
            status=answer.status,
        )

    def _too_late(self, delay: float | None = None) -> ProviderUnavailable:
        deadline = self._settings.patience.deadline or 0
        asked = f", and the next attempt may begin in {delay:.0f} s" if delay is not None and delay >= 1 else ""
        return ProviderUnavailable(
            f"{self._named} exceeded the deadline of {deadline:g} s{asked}",
            hint="try again later, or set OMNIGRAPH_EMBED_DEADLINE_MS",
            provider=self._settings.provider,
            model=self._settings.model,
        )

    def _once(self, request: WireRequest, seconds: float) -> _Answer:
        connection = self._connection(seconds)
        headers = {**request.headers, "Content-Type": "application/json", "Accept": "application/json"}
        is_cut = threading.Event()
        try:
            connection.connect()
            with _cut_after(connection.sock, seconds, is_cut):
                connection.request("POST", f"{self._path}{request.path}", request.body, headers)
                response = connection.getresponse()
                answer = _Answer(response.status, response.getheader("Retry-After"), _bounded(response))
            if is_cut.is_set():
                raise TimeoutError  # what came may be a part
            return answer
        except (OSError, http.client.HTTPException) as error:
            # What http.client complains about may quote the request, so only its name is told.
            is_slow = is_cut.is_set() or isinstance(error, TimeoutError)
            raise _Broken(
                f"no answer in {seconds:.3g} s" if is_slow else f"a broken connection ({type(error).__name__})"
            ) from None
        finally:
            connection.close()

    def _connection(self, seconds: float) -> http.client.HTTPConnection:
        assert self._host is not None
        if self._is_secure:
            return http.client.HTTPSConnection(self._host, self._port, timeout=seconds)
        return http.client.HTTPConnection(self._host, self._port, timeout=seconds)


@contextmanager
def _cut_after(connected: socket.socket, seconds: float, is_cut: threading.Event) -> Iterator[None]:
    """Break a connection when its time is up, also one whose bytes come one by one."""

    def cut() -> None:
        is_cut.set()
        with contextlib.suppress(OSError):
            connected.shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(seconds, cut)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _bounded(response: http.client.HTTPResponse) -> bytes:
    parts, size = [], 0
    while part := response.read(_CHUNK):
        parts.append(part)
        size += len(part)
        if size > limits.EMBEDDING_ANSWER_BYTES:
            raise InvalidEmbedding(
                f"the answer of the embedding provider is longer than {limits.EMBEDDING_ANSWER_BYTES} bytes"
            )
    if response.length:
        raise http.client.IncompleteRead(b"")
    return b"".join(parts)


def _left(ends: float | None) -> float | None:
    return None if ends is None else ends - time.monotonic()


def _seconds(retry_after: str | None) -> float:
    """How long a provider asks to wait: a number of seconds, or a date."""
    if retry_after is None:
        return 0.0
    text = retry_after.strip()
    if text.isascii() and text.isdigit():
        return float(text[:9])
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, TypeError):
        return 0.0
    moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return max(0.0, (moment - datetime.now(UTC)).total_seconds())


class _RateGate:
    """Lets so many requests begin in a minute, evenly."""

    def __init__(self, rate: int | None) -> None:
        self._gap = 60.0 / rate if rate else 0.0
        self._next = 0.0
        self._lock = threading.Lock()

    def wait(self) -> None:
        if not self._gap:
            return
        with self._lock:
            begins = max(self._next, time.monotonic())
            self._next = begins + self._gap
        time.sleep(max(0.0, begins - time.monotonic()))
