"""OmniGraph as an engine: loaded by `Graph.write` in one commit, asked by `Graph.query`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import omnigraph as og
from benchmarks.options import limit_arrow
from benchmarks.query.engines import Answer
from benchmarks.query.questions import Params
from benchmarks.social import SCHEMA, Social
from omnigraph.write.change import Change


class OmniGraphEngine:
    language = "gq"

    def __init__(self, place: Path) -> None:
        limit_arrow()
        self.graph: Any = og.open(place)

    @staticmethod
    def build(social: Social, place: Path) -> None:
        with og.init(place, SCHEMA) as graph:
            nodes = [Change(f"node:{name}", table) for name, table in social.nodes.items()]
            edges = [Change(f"edge:{name}", table) for name, table in social.edges.items()]
            graph.write([*nodes, *edges])
            graph.ensure_indices()

    def run(self, statement: str, params: Params, *, arrow: bool) -> Answer:
        result = self.graph.query(statement, params=dict(params))
        if arrow:
            return result.to_arrow()
        return [tuple(row.values()) if isinstance(row, Mapping) else tuple(row) for row in result.rows()]

    def columns(self, statement: str, params: Params) -> Mapping[str, Any]:
        row: Mapping[str, Any] = self.graph.query(statement, params=dict(params)).to_arrow().to_pylist()[0]
        return row

    def close(self) -> None:
        self.graph.close()
