"""Tokens are compared by their hashes, with all that there are, and in constant time. The source is looked at: a clock
cannot tell."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import omnigraph.server.tokens as tokens


def comparison_problems(source: str) -> list[str]:
    """What is wrong in a class `TokenTable` with a method `actor`."""
    found = [
        method
        for each in ast.walk(ast.parse(source))
        if isinstance(each, ast.ClassDef) and each.name == "TokenTable"
        for method in each.body
        if isinstance(method, ast.FunctionDef) and method.name == "actor"
    ]
    if len(found) != 1:
        return ["there is no method TokenTable.actor"]
    loops = [each for each in ast.walk(found[0]) if isinstance(each, ast.For)]
    inside = [node for loop in loops for node in ast.walk(loop)]
    problems = []
    if sum(ast.unparse(node.func) == "hmac.compare_digest" for node in inside if isinstance(node, ast.Call)) != 1:
        problems.append("the loop over the tokens does not compare with hmac.compare_digest")
    if any(isinstance(node, ast.Break | ast.Return | ast.Raise | ast.Continue) for node in inside):
        problems.append("the loop over the tokens may end early")
    for node in ast.walk(found[0]):
        is_equality = isinstance(node, ast.Compare) and any(isinstance(op, ast.Eq | ast.In) for op in node.ops)
        names = {name.id for name in ast.walk(node) if isinstance(name, ast.Name)}
        if is_equality and names & {"presented", "digest", "token", "known"}:
            problems.append(f"tokens are compared with ==: {ast.unparse(node)}")
    if "sha256" not in ast.unparse(found[0]):
        problems.append("the token that is shown is not hashed")
    return problems


def test_every_token_is_compared_in_constant_time() -> None:
    assert comparison_problems(Path(tokens.__file__).read_text("utf-8")) == []


RIGHT = """
class TokenTable:
    def actor(self, header):
        presented = hashlib.sha256(header).digest()
        found = None
        for known, actor in self._actors.items():
            if hmac.compare_digest(known, presented):
                found = actor
        return found
"""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("                found = actor", "                return actor"),
        ("                found = actor", "                found = actor\n                break"),
        ("hmac.compare_digest(known, presented)", "known == presented"),
        ("hashlib.sha256(header).digest()", "header"),
        ("found = None\n", "found = None\n        if presented in self._actors: return found\n"),
        ("class TokenTable", "class Others"),
    ],
)
def test_a_planted_shortcut_is_found(old: str, new: str) -> None:
    assert comparison_problems(RIGHT) == []
    assert comparison_problems(RIGHT.replace(old, new))
