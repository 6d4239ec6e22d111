"""The requests that decide something, as patterns of their paths. The layout of the store is named here alone."""

from __future__ import annotations

#: What a write announces before it moves a table.
RECORD = r"__recovery/0[^/]*\.json"

#: A table becomes its next version.
TABLE = r"/(nodes|edges)/[^?]*_versions/"

#: The commit becomes visible.
PUBLISH = r"__manifest/([^?]*/)?_versions/"

#: Who has the turn.
LEASE = r"\.lease"

#: The names of all branches are read.
BRANCH_NAMES = r"__manifest(/|%2F)_refs(/|%2F)branches(/|%2F)?$"

#: A branch comes to be or ends.
BRANCH = r"__manifest/_refs/branches/"

#: The files that hold the schema.
SCHEMA = r"/_schema[^/]*$"

#: Objects are removed. Which ones is in the body.
PURGED = r"\?delete"

#: All but the copies of the commits, which are made when the writer has been answered.
NO_COPY = r"^(?!.*_graph_commit)"
