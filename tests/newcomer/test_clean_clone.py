"""The README's two commands on a clean clone with a fresh virtual environment. Needs the network; `make newcomer`."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support.source_tree import ROOT

#: The most that a command may take: installing everything and a tour, and all the tests on a machine that is busy.
DEMO_SECONDS = 1200.0
TEST_SECONDS = 2400.0

pytestmark = [pytest.mark.torture, pytest.mark.timeout(DEMO_SECONDS + TEST_SECONDS)]

#: What this process, its tests and the `make` that started it leave in the environment.
_OURS = ("HYPOTHESIS_", "MAKE", "MFLAGS", "OMNIGRAPH_", "PYTEST", "PYTHONPATH", "SPARK_", "VIRTUAL_ENV")


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a commit of this moment would hold, as a repository of its own."""
    folder = tmp_path_factory.mktemp("newcomer") / "omnigraph"
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    who = ("-c", "user.name=newcomer", "-c", "user.email=newcomer@example.org")
    for words in (("init", "-q"), ("add", "-A"), (*who, "commit", "-q", "-m", "clone")):
        subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True)
    return folder


def commands() -> list[str]:
    """The two commands as the README gives them."""
    text = (ROOT / "README.md").read_text("utf-8")
    block = re.search(r"^## Try it\n+```\n(.*?)^```$", text, re.M | re.S)
    assert block is not None
    return [line.partition("#")[0].strip() for line in block.group(1).splitlines()]


def run(command: str, clone: Path, seconds: float) -> str:
    """Type a command, without anything of this process's own virtual environment; returns what it says.

    It says it to a file beside the clone, where one can follow it. When its time is over, all that it started ends.
    """
    said = clone.with_name(f"{command.replace(' ', '-')}.log")
    with (
        said.open("wb") as log,
        subprocess.Popen(
            command.split(), cwd=clone, env=newcomers_env(), stdout=log, stderr=log, start_new_session=True
        ) as process,
    ):
        try:
            ended = process.wait(seconds)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    text = said.read_text("utf-8", "replace")
    assert ended == 0, f"{command} ended with {ended}:\n{text[-8000:]}"
    return text


def newcomers_env() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_OURS)}
    kept["PATH"] = os.pathsep.join(part for part in kept["PATH"].split(os.pathsep) if not part.endswith(".venv/bin"))
    return kept


def test_the_first_command_sets_up_and_shows_everything(clone: Path) -> None:
    first, second = commands()
    assert (first, second) == ("make demo", "make test")
    shown = run(first, clone, DEMO_SECONDS)
    assert "Everything is in demo-out/" in shown
    assert (clone / ".venv/bin/omnigraph").exists()
    said = [line.strip() for line in shown.splitlines() if line.strip().startswith(".venv/bin/omnigraph")]
    assert len(said) >= 3
    for line in said:
        ended = subprocess.run(
            line, shell=True, cwd=clone, env=newcomers_env(), capture_output=True, text=True, timeout=300, check=False
        )
        assert ended.returncode == 0, f"{line}\n{ended.stderr}"


def test_the_second_command_is_green(clone: Path) -> None:
    shown = run(commands()[1], clone, TEST_SECONDS)
    assert re.search(r"\d+ passed", shown)
    assert not re.search(r"\d+ (failed|error)", shown)
