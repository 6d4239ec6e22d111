"""A policy file → its rules, or the first thing that is wrong with it, with line and column.

A key or a word that nobody knows is an error at every level, so that a misspelt scope never widens access.
"""

from __future__ import annotations

from collections.abc import Mapping

from omnigraph.logs import POLICY
from omnigraph.policy.actions import ACTIONS, BRANCH_SCOPE, SCOPES, TARGET_BRANCH_SCOPE, Kind, Scope
from omnigraph.policy.bundle import Bundle, Rule
from omnigraph.policy.strict_yaml import Value, read_yaml

_KINDS: tuple[Kind, ...] = ("graph", "server")


def read_bundle(text: str, file: str | None = None, kind: Kind = "graph") -> Bundle:
    """The rules of a file.

    Args:
        file: name to show in errors.
        kind: what the rules are for: one graph, or a server of several.

    Raises:
        PolicyError: the file breaks a rule of its language, or is for the other kind.
    """
    whole = read_yaml(text, file)
    known = ("version", "kind", "groups", "protected_branches", "rules")
    parts = whole.mapping(known, required=("version",))
    parts["version"].require_number(1)
    if "kind" in parts:
        said = parts["kind"].one_of(_KINDS)
        if said != kind:
            raise parts["kind"].wrong(f"the file is for a {said}, and is used for a {kind}")
        POLICY.warning("%s: the key 'kind' is not needed; where a policy is used says what it is for", file or "policy")
    groups = _groups(parts.get("groups"))
    protected = parts["protected_branches"].strings() if "protected_branches" in parts else ()
    rules: list[Rule] = []
    for item in parts["rules"].items() if "rules" in parts else ():
        rule = _rule(item, groups, kind)
        if any(other.id == rule.id for other in rules):
            raise item.wrong(f"there are two rules with the id '{rule.id}'")
        rules.append(rule)
    return Bundle(groups, frozenset(protected), tuple(rules), kind)


def _groups(given: Value | None) -> dict[str, tuple[str, ...]]:
    groups: dict[str, tuple[str, ...]] = {}
    for name, members in (given.mapping() if given is not None else {}).items():
        groups[name] = members.strings()
        if not groups[name]:
            raise members.wrong(f"group '{name}' has no member")
    return groups


def _rule(item: Value, groups: Mapping[str, tuple[str, ...]], kind: Kind) -> Rule:
    parts = item.mapping(("id", "allow"), required=("id", "allow"))
    id_ = parts["id"].string()
    known = ("actors", "actions", BRANCH_SCOPE, TARGET_BRANCH_SCOPE, "types")
    allow = parts["allow"].mapping(known, required=("actors", "actions"))
    selector = allow["actors"].mapping(("group",), required=("group",))["group"]
    actions = _actions(allow["actions"], kind)
    return Rule(
        id_,
        selector.one_of(tuple(groups)) if groups else _no_group(selector),
        actions,
        _scope(allow, actions),
        _types(allow["types"], actions) if "types" in allow else None,
    )


def _no_group(selector: Value) -> str:
    raise selector.wrong(f"there is no group '{selector.string()}'", hint="define it under groups")


def _actions(given: Value, kind: Kind) -> tuple[str, ...]:
    items = list(given.items())
    found = tuple(item.one_of(tuple(ACTIONS)) for item in items)
    if len(found) != len(given.strings()) or not found:
        raise given.wrong(f"{given.name} names no action")
    for item, name in zip(items, found, strict=True):
        if ACTIONS[name].resource != kind:
            of = ACTIONS[name].resource
            raise item.wrong(f"'{name}' is an action of a {of}, and these are the rules of a {kind}")
    return found


def _scope(allow: Mapping[str, Value], actions: tuple[str, ...]) -> Scope:
    given = [key for key in (BRANCH_SCOPE, TARGET_BRANCH_SCOPE) if key in allow]
    if len(given) > 1:
        raise allow[given[1]].wrong("a rule has one scope", hint="make two rules of it")
    if not given:
        return "any"
    key = given[0]
    for action in actions:
        if ACTIONS[action].scope_key != key:
            takes = ACTIONS[action].scope_key
            hint = f"it takes {takes}" if takes else "it takes no scope; give it a rule of its own"
            raise allow[key].wrong(f"'{action}' takes no {key}", hint=hint)
    return allow[key].one_of(SCOPES)


def _types(given: Value, actions: tuple[str, ...]) -> tuple[str, ...]:
    for action in actions:
        if not ACTIONS[action].has_types:
            limited = ", ".join(name for name, each in ACTIONS.items() if each.has_types)
            raise given.wrong(f"'{action}' cannot be limited to types", hint=f"only {limited} can")
    found = given.strings()
    if not found:
        raise given.wrong("a rule for no type grants nothing", hint="leave the key out to mean all types")
    return found
