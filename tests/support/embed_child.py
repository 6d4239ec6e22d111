"""The process that dies while it embeds the texts of a graph; started with its address and the rows of a commit."""

from __future__ import annotations

import sys

import omnigraph as og


def main(uri: str, rows: str) -> None:
    with og.open(uri) as graph:
        print(graph.embed(rows=int(rows)).embedded)


if __name__ == "__main__":
    main(*sys.argv[1:])
