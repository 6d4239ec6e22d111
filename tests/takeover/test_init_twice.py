"""Two processes make a graph at one address: one of them has made it, the other is told so."""

from __future__ import annotations

import pytest

import omnigraph as og
from tests.support.actors import ANSWER_SECONDS
from tests.support.holding_proxy import Hold
from tests.support.waiting import wait_until
from tests.takeover import writers
from tests.takeover.requests import LEASE, PUBLISH, TABLE
from tests.takeover.requests import SCHEMA as SCHEMA_FILE
from tests.takeover.rig import TakeoverRig
from tests.takeover.writers import ACTOR, SCHEMA

pytestmark = [pytest.mark.s3, pytest.mark.slow]

#: Requests with an effect of one init at most.
MOST = 60

FIRST, SECOND = (f"{SCHEMA}node {name} {{ name: String @key  mark: String }}\n" for name in ("MadeByA", "MadeByB"))
_FAIR_LATE = ("AlreadyInitialized", "LockTimeout", "StoreUnavailable", "OutcomeUnknown", "RecoveryRequired")


def test_an_init_that_is_overtaken_at_its_deciding_requests(place: TakeoverRig, s3_root: str) -> None:
    holds = [Hold(part=LEASE), Hold(part=r"claim"), Hold(part=SCHEMA_FILE), Hold(2, part=TABLE)]
    holds += [Hold(part=PUBLISH), Hold(2, part=PUBLISH)]
    wrong = []
    for number, hold in enumerate(holds):
        request, found = _play(place, f"{s3_root}/{number}", hold)
        wrong += [f"{hold} ({request}): {sentence}" for sentence in found]
    assert not wrong, "\n".join(wrong)


@pytest.mark.torture
def test_an_init_that_is_overtaken_at_any_of_its_requests(
    place: TakeoverRig, s3_root: str, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = []
    for number in range(1, MOST):
        request, found = _play(place, f"{s3_root}/{number}", Hold(number))
        wrong += [f"request {number} ({request}): {sentence}" for sentence in found]
        if not request:
            break
    with capsys.disabled():
        print(f"\ninit held at {number - 1} requests: {len(wrong)} wrong")
    assert request == "", f"init makes more than {MOST} requests"
    assert not wrong, "\n".join(wrong)


def _play(place: TakeoverRig, uri: str, hold: Hold) -> tuple[str, list[str]]:
    """What was held, and what is wrong afterwards."""
    place.ready()
    assert place.held is not None
    held, written = place.held, False
    with place.proxy.holding(hold):
        held.tell("init", uri, FIRST)
        wait_until(lambda: place.proxy.holds or held.has_answered, timeout=ANSWER_SECONDS, what="the init")
        second = place.other.ask("init", uri, SECOND)
        if second["name"] == "done":
            written = place.other.ask("run", "insert", 1, "b1", True)[0]["name"] == "done"
        place.proxy.release()
        first = held.answer()
        for actor in (held, place.other):
            actor.ask("close")
            actor.has_open = ""
    return place.proxy.asked_for, _wrong(uri, first["name"], second["name"], written, first["text"])


def _wrong(uri: str, first: str, second: str, written: bool, said: str) -> list[str]:
    found = []
    if (first, second) == ("done", "done"):
        found.append("both are told that they made the graph")
    if first != "done" and first not in _FAIR_LATE:
        found.append(f"the held one is told {first}: {said}")
    if second not in ("done", "AlreadyInitialized"):
        found.append(f"the second one is told {second}")
    if second == "done" and not written:
        found.append("the second one cannot write")
    try:
        if "done" not in (first, second):
            og.init(uri, SECOND, actor=ACTOR).close()
        with og.open(uri, actor=ACTOR) as graph:
            maker = "MadeByB" if second == "done" else "MadeByA" if first == "done" else None
            if maker and maker not in graph.catalog.nodes:
                found.append(f"the graph is not {maker}")
            people = graph.snapshot().arrow("Person", ["mark"]).column("mark").to_pylist()
            if people != (["b1"] if written else []):
                found.append(f"there are {people}")
            writers.write_all(graph, "c1", "main")
            found += [f"verify: {problem}" for problem in graph.verify().problems if not problem.harmless]
    except og.OmniGraphError as error:
        found.append(f"{first}, {second}, then {type(error).__name__}: {error}")
    return found
