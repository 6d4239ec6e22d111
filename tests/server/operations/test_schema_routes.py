"""The schema over HTTP: show, plan, apply."""

from __future__ import annotations

from tests.server.operations.api import SCHEMA, Api, refused

WIDER = SCHEMA.replace("node Company { name: String @key }", "node Company { name: String @key  city: String? }")


def test_the_schema_is_shown_as_it_was_accepted(shared: Api) -> None:
    found = shared.told("/schema")
    assert found["schema_source"] == SCHEMA and found["hash"].startswith("sha256:")


def test_a_change_is_planned_applied_and_counted(own: Api) -> None:
    before = own.told("/schema")["hash"]
    plan = own.done("/schema/plan", schema_source=WIDER)
    assert (plan["supported"], plan["step_count"], plan["steps"][0]["kind"]) == (True, 1, "add_property")
    assert own.told("/schema")["hash"] == before
    done = own.done("/schema/apply", schema_source=WIDER, if_hash=before, message="cities")
    assert (done["supported"], done["applied"], done["step_count"]) == (True, True, 1)
    assert done["commit"]["message"] == "cities" and done["graph_manifest_version"] == own.told("/snapshot")["version"]
    again = own.done("/schema/apply", schema_source=WIDER)
    assert (again["applied"], again["commit"], again["step_count"]) == (False, None, 0)
    envelope = refused(own.post("/schema/apply", schema_source=SCHEMA, if_hash=before), 412)
    assert envelope["precondition_failure"]["expected"] == before


def test_warnings_say_where(shared: Api) -> None:
    odd = SCHEMA.replace("String @key }", "String @key @indx }", 1)
    refused(shared.post("/schema/plan", schema_source=odd), 400, "bad_request")
    (warning,) = shared.done("/schema/plan", schema_source=odd, allow_unknown_annotations=True)["warnings"]
    assert warning["severity"] == "warning" and warning["line"] == 5 and "indx" in warning["message"]


def test_what_cannot_be_applied_is_said(shared: Api, branch: str) -> None:
    refused(shared.post("/schema/apply", schema_source="node {"), 400, "bad_request")
    assert branch in refused(shared.post("/schema/apply", schema_source=WIDER), 409, "conflict")["error"]
    shrunk = SCHEMA.replace("big: U64?", "big: String?")
    assert shared.done("/schema/plan", schema_source=shrunk)["supported"] is False
    refused(shared.post("/schema/plan"), 400, "bad_request")
