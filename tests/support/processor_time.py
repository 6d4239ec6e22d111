"""What a piece of work costs, whatever else the process and the machine do."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable


def processor_seconds(work: Callable[[], object]) -> float:
    """Processor time of this thread. The garbage collector does not walk what other tests left meanwhile."""
    gc.collect()
    gc.freeze()
    try:
        start = time.thread_time()
        work()
        return time.thread_time() - start
    finally:
        gc.unfreeze()
