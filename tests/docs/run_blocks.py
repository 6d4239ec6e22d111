"""Runs the blocks of one document from top to bottom: Python in one namespace, shell with the real executable.

Called by the tests with the document and the file to note the outcome in; the working directory is where files land.
A block that imports a package of an optional extra is left out where that is not installed.
"""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

BLOCK = re.compile(r"^```(python|sh)\n(.*?)^```$", re.M | re.S)

#: Packages that only an extra for measurements brings.
OPTIONAL = re.compile(r"^import (duckdb)$", re.M)


def main(document: Path) -> None:
    text = document.read_text("utf-8")
    names: dict[str, object] = {"__name__": "__main__"}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    for found in BLOCK.finditer(text):
        language, block = found.groups()
        line = text.count("\n", 0, found.start()) + 1
        if any(importlib.util.find_spec(package) is None for package in OPTIONAL.findall(block)):
            continue
        if language == "python":
            # Padded, so that a trace names the line of the document.
            exec(compile("\n" * line + block, str(document), "exec"), names)
        else:
            sys.stdout.flush()
            ended = subprocess.run(
                ["bash", "-euo", "pipefail", "-c", block], env={**os.environ, "PATH": path}, check=False
            )
            if ended.returncode != 0:
                sys.exit(f"{document}:{line}: this shell block ended with {ended.returncode}")
        sys.stdout.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
