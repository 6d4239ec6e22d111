"""Runs many command lines in one process, as the executable would each in its own: many small cases, one start-up.

Called with a file that holds the command lines as JSON; prints what each of them said.
"""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path


def run_one(words: list[str]) -> dict[str, object]:
    from omnigraph.cli.app import run

    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
    kept = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = out, err
    code: object = 0
    try:
        run(words)
    except SystemExit as left:
        code = left.code or 0
    finally:
        sys.stdout, sys.stderr = kept
    said = []
    for stream in (out, err):
        stream.flush()
        said.append(stream.buffer.getvalue().decode("utf-8"))
    return {"code": code, "out": said[0], "err": said[1]}


if __name__ == "__main__":
    lines = json.loads(Path(sys.argv[1]).read_text("utf-8"))
    print(json.dumps([run_one(words) for words in lines]))
