"""Every route below a graph, as one tuple."""

from __future__ import annotations

from omnigraph.server.operation import Operation

OPERATIONS: tuple[Operation, ...] = ()
