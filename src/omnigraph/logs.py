"""The loggers of this package, for the `logging` of the program that uses it. Silent until somebody listens.

A record says what happened, where and how long it took; ids of commits and operations, names of branches and tables,
counts. Never a value of a row, and nothing that opens a store.
"""

from __future__ import annotations

import logging

logging.getLogger("omnigraph").addHandler(logging.NullHandler())

#: Commits that were made, and writes that are tried again because another writer was faster.
COMMITS = logging.getLogger("omnigraph.commit")

#: Interrupted writes of dead processes that were finished or dropped.
RECOVERY = logging.getLogger("omnigraph.recovery")

#: Waits for the commit section of a branch.
WAITS = logging.getLogger("omnigraph.wait")

#: What loads did.
LOADS = logging.getLogger("omnigraph.load")

#: Calls to embedding providers: provider, model, dimension, number of texts, seconds. Never a text or a key.
EMBEDDING = logging.getLogger("omnigraph.embedding")

#: Policy files that were read again, or could not be; records of the audit log that were lost.
POLICY = logging.getLogger("omnigraph.policy")

#: Calls of agents that failed for reasons that are not theirs, under the ids of their requests.
MCP = logging.getLogger("omnigraph.mcp")

#: A server: graphs that were opened or could not be, tokens that were read again, failures of requests.
SERVER = logging.getLogger("omnigraph.server")
