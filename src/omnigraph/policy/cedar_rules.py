"""Rules in Cedar: one `permit` for each action of each rule, checked against a schema, and decided by Cedar's engine.

Policies, entities and requests are handed over as JSON values. No name of a file ever becomes part of a text that
Cedar parses. Without the extra ``policy`` this module cannot be imported.
"""

from __future__ import annotations

import json
from typing import Any

from omnigraph.errors import InternalError, MissingExtra, PolicyError
from omnigraph.policy.actions import ACTIONS, BRANCH_SCOPE, Action
from omnigraph.policy.bundle import Bundle, Rule
from omnigraph.policy.decision import AccessRequest

try:
    import cedarpy
except ImportError as missing:
    raise MissingExtra(
        "policies need the package cedarpy", hint="pip install 'omnigraph[policy]'", extra="policy"
    ) from missing

_CONTEXT = {
    "has_branch": "Bool",
    "branch": "String",
    "has_target_branch": "Bool",
    "target_branch": "String",
    "branch_is_protected": "Bool",
    "target_branch_is_protected": "Bool",
    "has_type": "Bool",
    "type": "String",
}

_SERVER = "root"


def _cedar_schema() -> str:
    """What there is, in Cedar's schema language. It holds no name of any file."""
    context = ", ".join(f'"{name}": {kind}' for name, kind in _CONTEXT.items())
    actions = "\n".join(
        f'  action "{action.name}" appliesTo {{'
        f" principal: [Actor], resource: [{action.resource.capitalize()}], context: Request }};"
        for action in ACTIONS.values()
    )
    return (
        "namespace Omnigraph {\n  entity Group;\n  entity Actor in [Group];\n  entity Graph;\n  entity Server;\n"
        f"  type Request = {{ {context} }};\n{actions}\n}}\n"
    )


class CedarRules:
    """The rules of a bundle, ready to decide.

    Args:
        graph: id of the graph that they are for.
    """

    def __init__(self, bundle: Bundle, graph: str) -> None:
        self._bundle = bundle
        self._graph = graph
        self._rules: dict[str, str] = {}
        permits: dict[str, Any] = {}
        for rule in bundle.rules:
            for name in rule.actions:
                id_ = f"{rule.id}:{name}"
                self._rules[id_] = rule.id
                permits[id_] = self._permit(rule, ACTIONS[name])
        try:
            written = json.dumps({"staticPolicies": permits, "templates": {}, "templateLinks": []})
            self._schema = cedarpy.Schema.from_str(_cedar_schema())
            self._policies = cedarpy.PolicySet.from_json_str(written)
            self._entities = cedarpy.Entities.from_json_str(json.dumps(self._things()), self._schema)
            self.text: str = cedarpy.policies_from_json_str(written)
            checked = cedarpy.validate_policies(self.text, self._schema)
        except ValueError as error:
            raise PolicyError(f"Cedar refuses the rules: {error}") from None
        if not checked.validation_passed:
            raise PolicyError(f"Cedar refuses the rules: {'; '.join(map(str, checked.errors))}")

    def decide(self, request: AccessRequest) -> tuple[str, ...]:
        """The ids of the rules that allow a request, in order; none of them denies it.

        Raises:
            InternalError: Cedar cannot decide.
        """
        answer = cedarpy.is_authorized(self._request(request), self._policies, self._entities, self._schema)
        if answer.diagnostics.errors or answer.decision is cedarpy.Decision.NoDecision:
            raise InternalError(f"the policy cannot be evaluated: {'; '.join(answer.diagnostics.errors)}")
        return tuple(sorted({self._rules[reason] for reason in answer.diagnostics.reasons}))

    def _request(self, request: AccessRequest) -> dict[str, Any]:
        protected = self._bundle.protected_branches
        return {
            "principal": _thing("Actor", request.actor or ""),
            "action": _thing("Action", request.action),
            "resource": self._resource(ACTIONS[request.action]),
            "context": {
                "has_branch": request.branch is not None,
                "branch": request.branch or "",
                "has_target_branch": request.target_branch is not None,
                "target_branch": request.target_branch or "",
                "branch_is_protected": request.branch in protected,
                "target_branch_is_protected": request.target_branch in protected,
                "has_type": request.type is not None,
                "type": request.type or "",
            },
        }

    def _resource(self, action: Action) -> dict[str, str]:
        return _thing("Graph", self._graph) if action.resource == "graph" else _thing("Server", _SERVER)

    def _things(self) -> list[dict[str, Any]]:
        groups = self._bundle.groups
        members = [
            _entity(_thing("Actor", actor), [_thing("Group", name) for name in groups if actor in groups[name]])
            for actor in sorted(self._bundle.actors)
        ]
        places = [_thing("Graph", self._graph), _thing("Server", _SERVER)]
        return members + [_entity(each) for each in (*(_thing("Group", name) for name in groups), *places)]

    def _permit(self, rule: Rule, action: Action) -> dict[str, Any]:
        conditions = [*_on_branches(rule, action), *_on_types(rule)]
        return {
            "effect": "permit",
            "principal": {"op": "in", "entity": _thing("Group", rule.group)},
            "action": {"op": "==", "entity": _thing("Action", action.name)},
            "resource": {"op": "==", "entity": self._resource(action)},
            "conditions": [{"kind": "when", "body": body} for body in conditions],
        }


def _on_branches(rule: Rule, action: Action) -> list[dict[str, Any]]:
    """A request that names no branch meets no scope but ``any``."""
    if rule.scope == "any":
        return []
    branch = "branch" if action.scope_key == BRANCH_SCOPE else "target_branch"
    is_protected = _context(f"{branch}_is_protected")
    wanted = is_protected if rule.scope == "protected" else {"!": {"arg": is_protected}}
    return [{"&&": {"left": _context(f"has_{branch}"), "right": wanted}}]


def _on_types(rule: Rule) -> list[dict[str, Any]]:
    """A request that names no type asks whether there is any; each type is asked for afterwards."""
    if rule.types is None:
        return []
    listed = {"Set": [{"Value": name} for name in rule.types]}
    is_listed = {"contains": {"left": listed, "right": _context("type")}}
    return [{"||": {"left": {"!": {"arg": _context("has_type")}}, "right": is_listed}}]


def _context(name: str) -> dict[str, Any]:
    return {".": {"left": {"Var": "context"}, "attr": name}}


def _thing(kind: str, id_: str) -> dict[str, str]:
    return {"type": f"Omnigraph::{kind}", "id": id_}


def _entity(uid: dict[str, str], parents: list[dict[str, str]] | None = None) -> dict[str, Any]:
    return {"uid": uid, "attrs": {}, "parents": parents or []}
