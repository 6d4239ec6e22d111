"""A file of cases: what a policy is expected to decide, and where it decides otherwise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from omnigraph.policy.actions import ACTIONS
from omnigraph.policy.decision import AccessDecision, AccessRequest
from omnigraph.policy.strict_yaml import Value, read_yaml

Expectation: TypeAlias = Literal["allow", "deny"]

_KEYS = ("id", "actor", "action", "branch", "target_branch", "type", "expect")
_EXPECTATIONS: tuple[Expectation, ...] = ("allow", "deny")


@dataclass(frozen=True, slots=True)
class PolicyCase:
    """One question and the answer that is expected."""

    id: str
    request: AccessRequest
    expect: Expectation


@dataclass(frozen=True, slots=True)
class Mismatch:
    """A case that a policy decides otherwise."""

    id: str
    expected: Expectation
    actual: Expectation
    message: str

    def to_dict(self) -> dict[str, str]:
        return {"id": self.id, "expected": self.expected, "actual": self.actual, "message": self.message}

    def __str__(self) -> str:
        return f"{self.id}: expected {self.expected}, actual {self.actual}"


@dataclass(frozen=True, slots=True)
class CaseReport:
    """How a policy did.

    Attributes:
        cases: how many there were.
        mismatches: those that it decides otherwise, in the order of the file.
    """

    cases: int
    mismatches: tuple[Mismatch, ...]

    @property
    def ok(self) -> bool:
        return not self.mismatches

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {"ok": self.ok, "cases": self.cases, "mismatches": [each.to_dict() for each in self.mismatches]}


def read_cases(text: str, file: str | None = None) -> tuple[PolicyCase, ...]:
    """The cases of a file.

    Raises:
        PolicyError: the file breaks a rule of its language.
    """
    parts = read_yaml(text, file).mapping(("version", "cases"), required=("version", "cases"))
    parts["version"].require_number(1)
    found: list[PolicyCase] = []
    for item in parts["cases"].items():
        case = _case(item)
        if any(other.id == case.id for other in found):
            raise item.wrong(f"there are two cases with the id '{case.id}'")
        found.append(case)
    return tuple(found)


def _case(item: Value) -> PolicyCase:
    given = item.mapping(_KEYS, required=("id", "actor", "action", "expect"))
    branch, target, type_ = (
        given[key].string() if key in given else None for key in ("branch", "target_branch", "type")
    )
    action = given["action"].one_of(tuple(ACTIONS))
    request = AccessRequest(given["actor"].string(), action, branch, target, type_)
    return PolicyCase(given["id"].string(), request, given["expect"].one_of(_EXPECTATIONS))


def run_cases(cases: tuple[PolicyCase, ...], decide: Callable[[AccessRequest], AccessDecision]) -> CaseReport:
    """Ask every case, and list those with another answer."""
    mismatches = []
    for case in cases:
        decision = decide(case.request)
        actual: Expectation = "allow" if decision.allowed else "deny"
        if actual != case.expect:
            mismatches.append(Mismatch(case.id, case.expect, actual, decision.message))
    return CaseReport(len(cases), tuple(mismatches))
