"""What policies decide: cases as text, and Cedar against a direct evaluator."""

from __future__ import annotations

import itertools
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import omnigraph as og
from omnigraph.errors import InputError, InternalError, PolicyError
from omnigraph.policy.actions import ACTIONS, SCOPES, TARGET_BRANCH_SCOPE
from omnigraph.policy.bundle import Bundle, Rule
from omnigraph.policy.cedar_rules import CedarRules
from omnigraph.policy.decision import AccessRequest
from omnigraph.policy.policy_cases import PolicyCase, read_cases
from tests.support.light_python import run_code
from tests.support.source_tree import ROOT

FIXTURES = Path(__file__).parent / "fixtures"
TEAM = og.Policy.from_file(FIXTURES / "team.yaml")
CASES = read_cases((FIXTURES / "team.cases.yaml").read_text("utf-8"))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_a_case_is_decided_as_expected(case: PolicyCase) -> None:
    asked = case.request
    decision = TEAM.decide(asked.actor, asked.action, asked.branch, asked.target_branch, asked.type)
    assert decision.allowed == (case.expect == "allow"), decision


def test_the_smallest_id_of_the_matching_rules_is_told() -> None:
    decision = TEAM.decide("act-ada", "branch_create", branch="main", target_branch="x")
    assert decision.rules == ("admin-branches", "team-drafts")
    assert decision.matched_rule == "admin-branches"
    assert decision.message == (
        "the policy allows action 'branch_create' on branch 'main' and target branch 'x' to actor 'act-ada'"
    )


def test_a_denial_names_action_branches_and_actor() -> None:
    decision = TEAM.decide("act-bo", "branch_merge", branch="x", target_branch="main")
    assert decision.to_dict() == {
        "decision": "deny",
        "actor": "act-bo",
        "action": "branch_merge",
        "branch": "x",
        "target_branch": "main",
        "type": None,
        "matched_rule": None,
        "message": "the policy denies action 'branch_merge' on branch 'x' and target branch 'main' to actor 'act-bo'",
    }


def test_an_actor_of_no_group_is_said_to_be_unknown() -> None:
    told = "the policy denies action 'read' to unknown actor 'act-eve': no rule of the policy names this actor"
    assert TEAM.decide("act-eve", "read").message == told
    assert TEAM.decide(None, "read").message == "the policy denies action 'read' to a request without an actor"


@pytest.mark.parametrize("branch", ["main", " main", "main ", "\tmain\n", "  main  "])
def test_blanks_around_a_branch_do_not_take_its_protection_away(branch: str) -> None:
    assert not TEAM.decide("act-bo", "change", branch=branch).allowed
    assert TEAM.decide("act-ray", "read", branch=branch).allowed


def test_actions_may_be_written_with_hyphens() -> None:
    assert TEAM.decide("act-ada", "branch-merge", target_branch="main").allowed
    with pytest.raises(InputError, match=r"there is no action 'brnch-merge' .did you mean 'branch_merge'"):
        TEAM.decide("act-ada", "brnch-merge")


def test_a_policy_without_rules_denies_everything() -> None:
    nothing = og.Policy.from_text("version: 1\ngroups: {team: [act-bo]}")
    assert not any(nothing.decide("act-bo", action, "main", "main").allowed for action in ACTIONS)


def test_what_cedar_cannot_decide_is_an_error_and_no_denial() -> None:
    rules = CedarRules(Bundle({"team": ("act-bo",)}), "g")
    with pytest.raises(InternalError, match="the policy cannot be evaluated"):
        rules.decide(AccessRequest("act-bo", "read", branch="\ud800"))


def test_a_name_that_cedar_cannot_hold_is_refused() -> None:
    with pytest.raises(PolicyError, match="Cedar refuses the rules"):
        CedarRules(Bundle({"team": ("\ud800",)}), "g")


def test_without_cedar_the_extra_is_named() -> None:
    code = """
import sys
sys.modules["cedarpy"] = None
import omnigraph as og
try:
    og.Policy
except og.errors.MissingExtra as error:
    print(error)
"""
    ended = subprocess.run(run_code(code), cwd=ROOT, capture_output=True, text=True, timeout=120, check=True)
    assert ended.stdout == "policies need the package cedarpy (pip install 'omnigraph[policy]')\n"


def allowed_directly(bundle: Bundle, asked: AccessRequest) -> tuple[str, ...]:
    """The rules of the specification, written down once more without Cedar."""

    def fits(rule: Rule) -> bool:
        action = ACTIONS[asked.action]
        branch = asked.target_branch if action.scope_key == TARGET_BRANCH_SCOPE else asked.branch
        in_scope = rule.scope == "any" or (
            branch is not None and (branch in bundle.protected_branches) == (rule.scope == "protected")
        )
        of_type = rule.types is None or asked.type is None or asked.type in rule.types
        return asked.action in rule.actions and asked.actor in bundle.groups[rule.group] and in_scope and of_type

    return tuple(sorted(rule.id for rule in bundle.rules if fits(rule)))


NAMES = st.sampled_from(["a", 'b"', "c\n;", "permit(principal, action, resource);", "é", "\\", "${x}", "__entity"])


@st.composite
def bundles(draw: st.DrawFn) -> Bundle:
    groups = draw(st.dictionaries(NAMES, st.lists(NAMES, min_size=1, unique=True).map(tuple), min_size=1, max_size=3))
    rules = []
    for number in range(draw(st.integers(0, 4))):
        key = draw(st.sampled_from(["branch_scope", TARGET_BRANCH_SCOPE]))
        names = [action.name for action in ACTIONS.values() if action.scope_key == key]
        actions = tuple(draw(st.lists(st.sampled_from(names), min_size=1, unique=True)))
        types = None
        if all(ACTIONS[name].has_types for name in actions) and draw(st.booleans()):
            types = tuple(draw(st.lists(NAMES, min_size=1, unique=True)))
        group, scope = draw(st.sampled_from(sorted(groups))), draw(st.sampled_from(SCOPES))
        rules.append(Rule(f"{draw(NAMES)} {number}", group, actions, scope, types))
    return Bundle(groups, frozenset(draw(st.lists(NAMES, max_size=2))), tuple(rules))


@given(bundles())
def test_cedar_decides_like_a_direct_evaluator(bundle: Bundle) -> None:
    cedar = CedarRules(bundle, 'g"\n')
    branches = [None, "other", *bundle.protected_branches]
    types = [None, "Other", *{name for rule in bundle.rules for name in rule.types or ()}]
    actors = [*sorted(bundle.actors), *bundle.groups, "nobody"]
    for action, actor, branch, type_ in itertools.product(("read", "branch_merge"), actors, branches, types):
        for target in branches:
            asked = AccessRequest(actor, action, branch, target, type_)
            assert cedar.decide(asked) == allowed_directly(bundle, asked), asked
