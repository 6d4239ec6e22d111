"""Files that a server reads at its start: a bomb, a tag or a misspelt key is a sentence, and no server."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from omnigraph.errors import OmniGraphError
from omnigraph.policy.access_policy import Policy
from omnigraph.server.server_file import read_server_file
from omnigraph.server.tokens import TokenSources, TokenTable
from tests.support.light_python import run_module

_LEVELS = "".join(f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 9)}]\n" for n in range(1, 12))
BOMBS = {
    "aliases": f"l0: &l0 [x, x, x]\n{_LEVELS}version: 1\n",
    "an alias of itself": "version: &a [*a]\n",
    "a merged mapping": "base: &b {version: 1}\n<<: *b\n",
    "a tag that runs": "version: !!python/object/apply:os.system ['true']\n",
    "deep lists": "version: " + "[" * 20_000 + "]" * 20_000 + "\n",
    "deep mappings": "version: " + "{a: " * 20_000 + "\n",
    "many keys": "version: 1\n" + "".join(f"k{n}: 1\n" for n in range(4_000)),
    "the same key": "version: 1\nversion: 1\n",
    "two documents": "version: 1\n---\nversion: 1\n",
    "a list": "- 1\n",
    "nothing": "",
    "no text": "version: \x00\n",
    "a long number": "version: " + "9" * 10_000 + "\n",
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_is_no_policy_and_no_settings(tmp_path: Path, name: str) -> None:
    file = tmp_path / "given.yaml"
    file.write_text(BOMBS[name], "utf-8")
    with pytest.raises(OmniGraphError) as policy:
        Policy.from_file(file)
    with pytest.raises(OmniGraphError) as settings:
        read_server_file(file, {})
    for error in (policy.value, settings.value):
        assert len(error.message) < 2_000 and "\n" not in error.message


@pytest.mark.parametrize(
    "text",
    [
        "", "{", "[]", '{"a": 1}', '{"a": ""}', '{"": "t"}', '{"a": "t", "a": "u"}', '{"a": "t", "b": "t"}',
        '{"a": "t\\nu"}', '{"a": "\\u00e9"}', "[" * 100_000, '{"a": ' * 50_000, '{"a": "t", "b": "  "}',
    ],
)  # fmt: skip
def test_wrong_tokens_are_no_tokens_and_are_not_told(text: str) -> None:
    with pytest.raises(OmniGraphError) as failed:
        TokenTable(TokenSources(text=text))
    assert '"t"' not in str(failed.value) and "'t'" not in str(failed.value)


def test_a_server_that_cannot_start_tells_no_token(tmp_path: Path) -> None:
    (tmp_path / "tokens.json").write_text(json.dumps({"act-a": "token-one", "act-b": "token-one"}), "utf-8")
    done = subprocess.run(
        run_module("omnigraph", "serve", str(tmp_path / "none.omni"), "--tokens", str(tmp_path / "tokens.json")),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode != 0
    assert "token-one" not in done.stdout + done.stderr and "Traceback" not in done.stderr
    assert "act-a" in done.stderr and "act-b" in done.stderr
