"""The page `/docs` in a real browser: it lists what there is, takes nothing from elsewhere, and calls the server."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.server.docs_page import docs_page
from omnigraph.server.operations import OPERATIONS
from tests.support.browser import CHROMIUM, WHY_NOT, Page, browser
from tests.support.http_call import call
from tests.support.served import Served, served
from tests.support.waiting import wait_until

needs_browser = pytest.mark.skipif(CHROMIUM is None, reason=WHY_NOT)
TOKEN = "docs-token"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    place = tmp_path_factory.mktemp("docs") / "people"
    with og.init(place, "node Person { name: String @key }") as graph:
        graph.load({"Person": [{"name": "Ana"}]}, "append")
    with served({"people": place}, tokens={"act-ana": TOKEN}) as found:
        yield found


def test_the_page_takes_nothing_from_elsewhere(server: Served) -> None:
    reply = call(server.port, "GET", "/docs")
    assert reply.status == 200 and reply.headers["content-type"] == "text/html; charset=utf-8"
    rules = reply.headers["content-security-policy"]
    assert "default-src 'none'" in rules and "connect-src 'self'" in rules and "unsafe" not in rules
    assert not re.findall(r"""(?:src|href|url)\s*[=(]\s*["']?(?:https?:)?//""", reply.text)
    assert "innerHTML" not in reply.text and "Storage" not in reply.text
    assert reply.body == docs_page().body


def test_the_description_is_served_to_everybody(server: Served) -> None:
    reply = call(server.port, "GET", "/openapi.json")
    assert reply.headers["content-type"] == "application/json"
    assert reply.json()["components"]["securitySchemes"]["bearer_token"]


@pytest.fixture
def page(server: Served, tmp_path: Path) -> Iterator[Page]:
    with browser(tmp_path) as found:
        found.go(f"{server.url}/docs")
        wait_until(
            lambda: (
                found.evaluate("document.readyState") == "complete"
                and found.evaluate("document.body?.dataset.state") is not None
            ),
            timeout=30,
            what="the page",
        )
        yield found


@needs_browser
def test_the_page_lists_every_operation(page: Page) -> None:
    assert page.evaluate("document.body.dataset.state") == "ready"
    shown = page.evaluate("[...document.querySelectorAll('details.operation')].map((one) => one.id)")
    assert set(shown) == {f"cluster_{one.id}" for one in OPERATIONS} | {"health", "ready", "metrics", "listGraphs"}
    page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
    wait_until(
        lambda: page.evaluate("document.querySelectorAll('details.operation form').length") == len(shown),
        timeout=30,
        what="all forms",
    )
    # Every field has a name that is read out.
    assert page.evaluate("[...document.querySelectorAll('input, textarea, select')].every((one) => one.labels.length)")
    assert "ReadOutput" in page.evaluate("document.getElementById('cluster_query').textContent")


@needs_browser
def test_a_call_can_be_tried_with_a_token(page: Page) -> None:
    answer = page.evaluate(
        """(async () => {
          const one = document.getElementById("cluster_query");
          one.open = true;
          document.getElementById("token").value = "<token>";
          document.getElementById("graph").value = "people";
          while (!one.querySelector("form")) await new Promise(requestAnimationFrame);
          const form = one.querySelector("form");
          form.elements.body.value = JSON.stringify({query: "query q() { match { $p: Person } return { $p.name } }"});
          form.requestSubmit();
          while (!form.querySelector("pre[aria-label=Answer]")) await new Promise(requestAnimationFrame);
          return form.textContent;
        })()""".replace("<token>", TOKEN)
    )
    assert "200" in answer and '"p.name": "Ana"' in answer


@needs_browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_can_be_read_in_both_schemes(page: Page, scheme: str) -> None:
    page.prefer(scheme)
    text, ground = page.evaluate(
        """["color", "backgroundColor"].map((one) => getComputedStyle(document.body)[one].match(/\\d+/g).map(Number))"""
    )
    assert (sum(ground) < sum(text)) is (scheme == "dark")
    assert _contrast(text, ground) >= 7
    for kind in ("dim", "method"):
        color = page.evaluate(f"getComputedStyle(document.querySelector('.{kind}')).color.match(/\\d+/g).map(Number)")
        assert _contrast(color, ground) >= 4.5


def _contrast(first: list[int], second: list[int]) -> float:
    """How much lighter one colour is than the other, by the formula of the accessibility guidelines."""

    def light(color: list[int]) -> float:
        parts = [part / 255 for part in color[:3]]
        red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    darker, lighter = sorted((light(first), light(second)))
    return (lighter + 0.05) / (darker + 0.05)
