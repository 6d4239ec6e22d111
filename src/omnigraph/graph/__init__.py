"""The facade: opens a graph and wires the rooms together. Holds no logic of its own."""

from omnigraph.graph.graph import Graph
from omnigraph.graph.opening import init, open_graph
from omnigraph.graph.snapshot import Snapshot

__all__ = ["Graph", "Snapshot", "init", "open_graph"]
