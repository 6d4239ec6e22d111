"""From a computed merge to one publish: staged tables on the target's lineage, pointers, the other parent."""

from __future__ import annotations

from omnigraph.history.merge.carrier import Carrier
from omnigraph.history.merge.compute import Computed
from omnigraph.storage.commit.prepared import Merged, Prepared
from omnigraph.storage.commit.protocol import Workspace


def stage(workspace: Workspace, computed: Computed, carrier: Carrier) -> Prepared:
    """Write the files of a merge. Rows that it does not change are not touched, so they keep their versions."""
    moving = [change for key, change in computed.changes.items() if key not in computed.pointers]
    return Prepared(
        tables=carrier.stage(workspace, moving),
        pointers=computed.pointers,
        merged=Merged(computed.source.head, computed.missing),
    )
