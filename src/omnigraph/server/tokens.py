"""Who may knock: the tokens of a server, and the actor that each of them stands for.

Only hashes are kept. A token that is presented is hashed and compared with every entry, so the time tells nothing. A
file is looked at whenever a token is: what changed in it counts from then on; one that became wrong, or lost all its
tokens, changes nothing.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from omnigraph import ids, limits
from omnigraph.errors import InputError, MissingExtra, OmniGraphError, StoreUnavailable, Unauthenticated
from omnigraph.logs import SERVER

#: The actor of a token that stands alone.
DEFAULT_ACTOR = "default"

SECRET_VARIABLE = "OMNIGRAPH_SERVER_BEARER_TOKENS_AWS_SECRET"
TOKEN_VARIABLE = "OMNIGRAPH_SERVER_BEARER_TOKEN"
FILE_VARIABLE = "OMNIGRAPH_SERVER_BEARER_TOKENS_FILE"
JSON_VARIABLE = "OMNIGRAPH_SERVER_BEARER_TOKENS_JSON"

_PREFIX = "Bearer "


@dataclass(frozen=True, slots=True)
class TokenSources:
    """Where tokens come from. A secret goes alone; a single token goes with a file or a text.

    Attributes:
        secret: name of an AWS secret that holds a JSON object from actor to token.
        token: one token, of the actor ``default``.
        file: path of a JSON object from actor to token.
        text: such an object itself.
    """

    secret: str | None = None
    token: str | None = None
    file: Path | None = None
    text: str | None = None

    @classmethod
    def of(cls, environment: Mapping[str, str], file: Path | None = None) -> TokenSources:
        """What the environment names; a file that is given goes before the one named there."""
        given = {name: value for name, value in environment.items() if value.strip()}
        if file is None and given.get(SECRET_VARIABLE):
            return cls(secret=given[SECRET_VARIABLE].strip())
        if file is None and FILE_VARIABLE in given:
            file = Path(given[FILE_VARIABLE])
        text = None if file is not None else given.get(JSON_VARIABLE)
        return cls(token=given.get(TOKEN_VARIABLE), file=file, text=text)

    @property
    def any(self) -> bool:
        return any(each is not None for each in (self.secret, self.token, self.file, self.text))

    def read(self) -> dict[bytes, str]:
        """Actors by the hash of their tokens.

        Raises:
            InputError: a name or a token is blank or occurs twice, or the source is no JSON object of texts.
        """
        pairs: list[tuple[str, str]] = []
        if self.secret is not None:
            pairs += _pairs(_secret(self.secret), f"the secret '{self.secret}'")
        if self.token is not None:
            pairs.append((DEFAULT_ACTOR, self.token))
        if self.file is not None:
            pairs += _pairs(_content(self.file), str(self.file))
        if self.text is not None:
            pairs += _pairs(self.text.encode(), JSON_VARIABLE)
        return _hashed(pairs)


class TokenTable:
    """The tokens that hold now."""

    def __init__(self, sources: TokenSources) -> None:
        self._sources = sources
        self._lock = threading.Lock()
        self._stamp = self._look()
        self._actors = sources.read()

    def __len__(self) -> int:
        return len(self._actors)

    def actor(self, header: str | None) -> str:
        """The actor of the header ``Authorization``.

        Raises:
            Unauthenticated: there is no token in it, or nobody has it.
        """
        if header is None or not header.startswith(_PREFIX) or not header[len(_PREFIX) :].strip():
            raise Unauthenticated("missing bearer token")
        stamp = self._look()
        if stamp != self._stamp:
            self._reload(stamp)
        presented = hashlib.sha256(header[len(_PREFIX) :].strip().encode("latin-1")).digest()
        found = None
        for known, actor in self._actors.items():
            if hmac.compare_digest(known, presented):
                found = actor
        if found is None:
            raise Unauthenticated("invalid bearer token")
        return found

    def reload(self) -> None:
        """Read all sources again; whatever is wrong leaves the tokens as they are."""
        self._reload(self._look(), always=True)

    def _reload(self, stamp: object, *, always: bool = False) -> None:
        with self._lock:
            if stamp == self._stamp and not always:
                return
            try:
                found = self._sources.read()
                if not found:  # a file that is just being written must not lock everybody out
                    raise InputError("there is no token in it")
                self._actors = found
                SERVER.info("tokens were read again: %d actors", len(self._actors))
            except OmniGraphError as error:
                SERVER.error("the tokens changed and cannot be used; those from before hold: %s", error.message)
            self._stamp = stamp

    def _look(self) -> object:
        """Tells one content of the file from another."""
        if self._sources.file is None:
            return None
        try:
            found = os.stat(self._sources.file)
        except OSError:
            return None
        return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _hashed(pairs: Iterable[tuple[str, str]]) -> dict[bytes, str]:
    found: dict[bytes, str] = {}
    for given_actor, given_token in pairs:
        actor, token = given_actor.strip(), given_token.strip()
        if not actor:
            raise InputError("an actor without a name has a token", hint="name the actor")
        if not token:
            raise InputError(f"the token of actor '{actor}' is blank")
        if not token.isascii() or not token.isprintable() or " " in token:
            raise InputError(f"the token of actor '{actor}' holds signs that no header can carry")
        ids.actor_id(actor)
        digest = hashlib.sha256(token.encode()).digest()
        if actor in found.values():
            raise InputError(f"actor '{actor}' has two tokens", hint="give each actor one")
        if digest in found:
            raise InputError(f"actors '{found[digest]}' and '{actor}' have the same token", hint="give each its own")
        found[digest] = actor
    return found


def _pairs(content: bytes, what: str) -> list[tuple[str, str]]:
    """The pairs of a JSON object in their order; a name that occurs twice stays twice."""
    try:
        text = content.decode("utf-8-sig")
        found = json.loads(text, object_pairs_hook=_Members)
        if isinstance(found, _Members):
            return msgspec.convert(list(found), list[tuple[str, str]])
    except (ValueError, RecursionError):
        pass
    raise InputError(f"{what} is not a JSON object of actors and their tokens", hint='it looks like {"act-ana": "…"}')


class _Members(list[Any]):
    """The members of a JSON object in their order."""


def _content(file: Path) -> bytes:
    try:
        with file.open("rb") as opened:
            content = opened.read(limits.TOKEN_FILE_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"the file of tokens {file} cannot be read: {reason}") from None
    if len(content) > limits.TOKEN_FILE_BYTES:
        raise InputError(f"the file of tokens {file} has more than {limits.TOKEN_FILE_BYTES} bytes")
    return content


def _secret(name: str) -> bytes:
    """The text of an AWS secret."""
    try:
        import boto3
        from botocore.exceptions import BotoCoreError, ClientError
    except ImportError:
        raise MissingExtra("tokens in an AWS secret need boto3", hint="pip install boto3") from None
    try:
        answer = boto3.client("secretsmanager").get_secret_value(SecretId=name)
    except (BotoCoreError, ClientError) as error:
        raise StoreUnavailable(f"the secret '{name}' cannot be read: {type(error).__name__}") from None
    text = answer.get("SecretString")
    if not isinstance(text, str):
        raise InputError(f"the secret '{name}' holds bytes and not a JSON text")
    return text.encode()
