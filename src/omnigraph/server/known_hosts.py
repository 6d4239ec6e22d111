"""By which names a server without tokens may be called.

A page of strangers can make a name of theirs point to this machine, and then a browser here takes the two for one.
Where no token keeps strangers out, the name that was called is all that tells.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from ipaddress import ip_address
from urllib.parse import urlsplit

from omnigraph.errors import DeniedError

#: A host and perhaps a port, and nothing else that an address may have.
_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^][:,@/?#\s]+)(:[0-9]*)?")


def require_known_host(given: Sequence[str]) -> None:
    """Refuse a request that called the server by the name of somebody else.

    Args:
        given: the values of the header ``Host``.

    Raises:
        DeniedError: the name can mean another machine, and nobody allowed it.
    """
    host = given[0] if len(given) == 1 and _HOST.fullmatch(given[0]) else ""
    name = host_of(f"//{host}")
    if not (is_here(name) or {host, name} & set(os.environ.get("OMNIGRAPH_HOSTS", "").split())):
        called = ", ".join(given)[:200]
        raise DeniedError(
            f"a server without tokens is not called as {called!r}",
            hint="its operator can allow that in OMNIGRAPH_HOSTS, or configure tokens",
        )


def host_of(address: str) -> str | None:
    """The host of an address, without its port."""
    try:
        return urlsplit(address).hostname
    except ValueError:
        return None


def is_here(host: str | None) -> bool:
    """Whether a name can mean this machine only."""
    if host is None or host == "localhost":
        return host is not None
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
