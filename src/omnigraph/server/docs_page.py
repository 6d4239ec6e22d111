"""The page `/docs`: the operations of the server, their schemas, and a form to try each of them.

One file without anything from elsewhere. The answer allows the browser nothing but this script, this style, and
requests to the server itself; a token that is typed in stays in the page.
"""

from __future__ import annotations

import base64
import hashlib
import re
from functools import cache
from importlib import resources

from omnigraph.server.operation import Content


@cache
def docs_page() -> Content:
    """The page as an answer."""
    text = resources.files(__package__).joinpath("docs_page.html").read_text("utf-8")
    rules = [
        "default-src 'none'",
        "connect-src 'self'",
        f"script-src '{_digest(text, 'script')}'",
        f"style-src '{_digest(text, 'style')}'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    ]
    headers = {
        "Content-Security-Policy": "; ".join(rules),
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
    }
    return Content(text.encode(), "text/html; charset=utf-8", headers=headers)


def _digest(text: str, element: str) -> str:
    """By what a browser knows the one script or style of the page."""
    found = re.findall(f"<{element}>(.*?)</{element}>", text, re.DOTALL)
    assert len(found) == 1, f"the page has {len(found)} elements <{element}>"
    return "sha256-" + base64.b64encode(hashlib.sha256(found[0].encode()).digest()).decode()
