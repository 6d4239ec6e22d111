"""The process that dies while it copies or relocates a graph; started with a verb and the addresses it takes."""

from __future__ import annotations

import sys

import omnigraph as og


def main(verb: str, *places: str) -> None:
    if verb == "clone":
        og.clone(*places)
    elif verb == "relocate":
        og.relocate(*places)
    else:
        og.backup(*places, prune=verb == "prune")


if __name__ == "__main__":
    main(*sys.argv[1:])
