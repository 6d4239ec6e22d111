"""Every limit and default of OmniGraph, with its unit and the reason for its value.

Nothing here is read from a file. The few that an operator may change name their environment variable and are read
when they are needed, so that a test or a service can set them late.
"""

from __future__ import annotations

import os
from typing import Final

#: Stamp of the on-disk layout that this software writes and reads.
INTERNAL_SCHEMA_VERSION: Final = 3

#: Version of the recovery record; any other value is refused.
SIDECAR_SCHEMA_VERSION: Final = 1

#: A publish that loses its race is tried again this many times after the first attempt.
PUBLISHER_RETRY_BUDGET: Final = 5

#: Pause between two publish attempts, in seconds; the real one is random between these.
PUBLISH_BACKOFF_SECONDS: Final = (0.005, 0.05)

#: A write whose base moved is prepared again this often outside the commit section. The next one is prepared inside,
#: where nothing can move, so that a busy branch starves nobody.
REPREPARE_BUDGET: Final = 3

#: A publish merges old fragments of the manifest when it holds more than this many. Each publish adds one.
MANIFEST_FRAGMENTS: Final = 48

#: A write folds the small fragments at the end of a table when there are more than this many. Each costs a look-up
#: about 0.3 ms and a commit about 5 µs.
SMALL_FRAGMENTS: Final = 12

#: A fragment with at most this many rows is small. Larger ones are left to `optimize`.
SMALL_FRAGMENT_ROWS: Final = 4_096

#: Folding takes the next older fragment only while it has at most this many times the rows gathered so far, which
#: keeps the rewritten rows per written row logarithmic.
FOLD_RATIO: Final = 4

#: An id look-up goes through the index while it asks for less than this share of the table; above, one scan is faster.
INDEX_LOOKUP_SHARE: Final = 1 / 16

#: So few values always go through the filter; Lance chooses between index and scan.
FEW_VALUES: Final = 64

#: How many open table versions a graph keeps at hand.
OPEN_TABLES: Final = 256

#: Tables of one write are staged and committed by this many threads.
TABLE_THREADS: Final = 8

#: Longest branch name, in bytes.
BRANCH_NAME_BYTES: Final = 128

#: Longest actor id, in bytes.
ACTOR_BYTES: Final = 256

#: A mirror dataset is compacted when it has more than this many fragments.
MIRROR_FRAGMENTS: Final = 64

#: How often a branch listing is repeated when a branch vanishes while it is read.
BRANCH_LISTING_RETRIES: Final = 3


def lock_timeout_seconds() -> float:
    """How long a writer waits for the commit section (``OMNIGRAPH_LOCK_TIMEOUT``). A section lasts milliseconds."""
    return float(os.environ.get("OMNIGRAPH_LOCK_TIMEOUT", "60"))


def lease_seconds() -> float:
    """How long a lease on an object store lasts without renewal (``OMNIGRAPH_LEASE_SECONDS``).

    Longer than any stall of a healthy process, short enough that a crashed host blocks its branch only briefly.
    """
    return float(os.environ.get("OMNIGRAPH_LEASE_SECONDS", "20"))


def fsync_enabled() -> bool:
    """Local commits are synced to the disk unless ``OMNIGRAPH_FSYNC=0``."""
    return os.environ.get("OMNIGRAPH_FSYNC", "1") != "0"
