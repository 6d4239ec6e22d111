"""OmniGraph: a typed property graph on Lance, with git-like branches and atomic commits over the whole graph."""

from omnigraph import errors
from omnigraph.engine.result import Result
from omnigraph.errors import OmniGraphError
from omnigraph.graph import Graph, Snapshot, init
from omnigraph.graph import open_graph as open

__all__ = ["Graph", "OmniGraphError", "Result", "Snapshot", "errors", "init", "open"]
