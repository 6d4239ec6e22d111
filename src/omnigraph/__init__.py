"""OmniGraph: a typed property graph on Lance, with git-like branches and atomic commits over the whole graph.

    import omnigraph as og

    graph = og.init("people.omni", "node Person { handle: String @key  name: String }")
    graph.mutate('query add() { insert Person { handle: "ana", name: "Ana" } }')
    graph.query("query all() { match { $p: Person } return { $p.name as name } }").rows()

`Graph` holds every verb, `errors` every error. Bulk data: `from omnigraph import spark`, which needs pyspark and Java.

The names below are loaded when they are first used: `import omnigraph` alone costs nothing, and a command that only
prints the version never sees Arrow or Lance.
"""

import importlib as _importlib

__all__ = ["Graph", "OmniGraphError", "Result", "Snapshot", "errors", "init", "open"]

__version__ = "0.1.0"

TYPE_CHECKING = False  # type checkers take it for true; importing `typing` would double the start of the interpreter
if TYPE_CHECKING:
    from omnigraph import errors
    from omnigraph.engine.result import Result
    from omnigraph.errors import OmniGraphError
    from omnigraph.graph import Graph, Snapshot, init
    from omnigraph.graph import open_graph as open
else:
    #: Where each public name lives: module, and the name there (none for the module itself).
    _HOMES = {
        "Graph": ("omnigraph.graph", "Graph"),
        "OmniGraphError": ("omnigraph.errors", "OmniGraphError"),
        "Result": ("omnigraph.engine.result", "Result"),
        "Snapshot": ("omnigraph.graph", "Snapshot"),
        "errors": ("omnigraph.errors", None),
        "init": ("omnigraph.graph", "init"),
        "open": ("omnigraph.graph", "open_graph"),
    }

    def __getattr__(name: str) -> object:
        if name not in _HOMES:
            raise AttributeError(f"module 'omnigraph' has no attribute {name!r}")
        module, there = _HOMES[name]
        found = _importlib.import_module(module)
        value = found if there is None else getattr(found, there)
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        return sorted({*__all__, "__version__", "__doc__", "__file__", "__name__", "__path__"})


del TYPE_CHECKING
