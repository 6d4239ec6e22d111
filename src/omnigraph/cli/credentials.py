"""Tokens of the operator: the file `$OMNIGRAPH_HOME/credentials`, and which token goes to which address.

The file is for its owner alone, or it is not read. Lines are ``token = value`` below ``[server]``, with ``#`` for
comments; one section is replaced and every other line stays as it is. No message ever holds a token.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from omnigraph.cli.config import Config, home
from omnigraph.errors import DeniedError, InputError

#: What anybody but the owner may do with a file.
_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_MODE = 0o600
_FOR_ALL = "OMNIGRAPH_BEARER_TOKEN"
_QUOTES = ("'", '"')
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")

_LOWER, _UPPER = "abcdefghijklmnopqrstuvwxyz-", "ABCDEFGHIJKLMNOPQRSTUVWXYZ_"
_AS_VARIABLE = str.maketrans(_LOWER, _UPPER)


def credentials_path() -> Path:
    return home() / "credentials"


@dataclass(frozen=True, slots=True)
class FoundToken:
    """A token, and where it is from; it is in no text."""

    value: str = field(repr=False)
    source: str


def find_token(url: str, config: Config) -> FoundToken | None:
    """The token for an address: that of the operator's server it belongs to, else the one for all addresses."""
    name = owner_of(url, config)
    if name is not None:
        own = token_variable(name)
        if value := os.environ.get(own, "").strip():
            return FoundToken(value, own)
        if stored := stored_token(name):
            return FoundToken(stored, str(credentials_path()))
    if value := os.environ.get(_FOR_ALL, "").strip():
        return FoundToken(value, _FOR_ALL)
    return None


def token_for(url: str, config: Config) -> str | None:
    found = find_token(url, config)
    return None if found is None else found.value


def other_token(url: str, config: Config) -> str:
    """What to do when a server does not take the token for an address, or wants one."""
    found, name = find_token(url, config), owner_of(url, config)
    login = "declare the server in config.yaml and use 'omnigraph login NAME'"
    if name is not None:
        login = f"'omnigraph login {name}' stores {'one' if found is None else 'another'}"
    if found is None:
        return login if name is not None else f"set {_FOR_ALL}, or {login}"
    is_stored = found.source == str(credentials_path())
    return f"the token is from {found.source}{f'; {login}' if is_stored else ''}"


def owner_of(url: str, config: Config) -> str | None:
    """The name of the operator's server that an address belongs to: the one with the longest URL that begins it."""
    asked = _plain(url)
    owners = [
        (len(base), name)
        for name, given in config.servers.items()
        if given and (asked == (base := _plain(given)) or asked.startswith(f"{base}/"))
    ]
    return max(owners)[1] if owners else None


def _plain(url: str) -> str:
    """An address for comparison: scheme and host have no upper case."""
    scheme, found, rest = url.strip().rstrip("/").partition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme.lower()}{found}{host.lower()}{slash}{path}"


def token_variable(server: str) -> str:
    """The environment variable with the token of a server.

    >>> token_variable("my-prod")
    'OMNIGRAPH_TOKEN_MY_PROD'
    """
    return f"OMNIGRAPH_TOKEN_{server.translate(_AS_VARIABLE)}"


def server_name(given: str) -> str:
    """A name that can be a section of the file."""
    name = given.strip()
    if "://" in name:
        raise InputError("a token is stored for a name, not for an address", hint="declare the server in config.yaml")
    if not _NAME.fullmatch(name):
        raise InputError(f"{given!r} is not the name of a server", hint="letters, digits, '.', '_' and '-'")
    return name


def stored_token(server: str) -> str | None:
    """The token in a section of the file."""
    token = None
    for section, line in _sections(_text()):
        key, found, value = line.partition("=")
        if section == server and found and key.strip() == "token" and not _is_comment(line):
            token = _unquoted(value.strip())
    return token or None


def store_token(server: str, token: str) -> None:
    """Put a token into its own section."""
    written = token if token == _unquoted(token) else f"'{token}'" if token[0] == '"' else f'"{token}"'
    _write([*_others(server), f"[{server}]", f"token = {written}"])


def remove_token(server: str) -> None:
    """Forget a server; it need not be there."""
    text = _text()
    if any(section == server for section, _ in _sections(text)):
        _write(_others(server))


def _others(server: str) -> list[str]:
    """All lines of other sections, without blank ones at the end."""
    lines = [line for section, line in _sections(_text()) if section != server]
    while lines and not lines[-1].strip():
        lines.pop()
    return lines


def _sections(text: str) -> Iterator[tuple[str | None, str]]:
    """Every line with the section that it is in; a head is in its own section."""
    section = None
    for line in text.splitlines():
        bare = line.strip()
        if bare.startswith("[") and bare.endswith("]"):
            section = bare[1:-1].strip()
        yield section, line


def _is_comment(line: str) -> bool:
    return line.lstrip().startswith("#")


def _unquoted(value: str) -> str:
    is_quoted = len(value) > 1 and value[0] in _QUOTES and value[-1] == value[0]
    return value[1:-1] if is_quoted else value


def _text() -> str:
    """What is in the file, if it is the owner's alone."""
    path = credentials_path()
    try:
        with path.open(encoding="utf-8-sig") as file:
            mode = os.fstat(file.fileno()).st_mode
            if mode & _OTHERS:
                raise DeniedError(
                    f"{path} has mode {stat.S_IMODE(mode):04o}, so others can read the tokens in it",
                    hint=f"chmod 600 {path}",
                )
            return file.read()
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except UnicodeDecodeError:
        raise InputError(f"{path} is not UTF-8 text", file=str(path)) from None
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}", file=str(path)) from None


def _write(lines: list[str]) -> None:
    """Put a new file in the place of the old one; at no time can others read it."""
    path = credentials_path()
    draft = path.with_name(f"{path.name}.{os.getpid()}.new")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, _MODE)
        try:
            with open(descriptor, "w", encoding="utf-8") as file:
                os.fchmod(descriptor, _MODE)
                file.write("".join(f"{line}\n" for line in lines))
                file.flush()
                os.fsync(descriptor)
            os.replace(draft, path)
        except BaseException:
            with contextlib.suppress(OSError):
                draft.unlink()
            raise
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}", file=str(path)) from None
