"""Checks the regular expressions of `@check` with the engine that later runs them.

Writes use RE2 through pyarrow: linear time, no look-around, no back-references. A pattern that RE2 does not take is
refused here, so that no schema holds a rule that fails at the first row.
"""

from __future__ import annotations

import math
import re
from functools import lru_cache

from omnigraph.schema.source import Source

# Compiling costs time that grows with counted repetitions and Unicode classes, so one schema gets a budget. A thousand
# plain patterns or thirty names of up to eighty Unicode letters fit; the whole budget takes one to three seconds.
_BUDGET = 2_000_000
_UNICODE_CLASS_COST = 400
_MOST_REPEATS = 1000  # RE2 refuses more

_COUNT = re.compile(r"\{(\d{1,4})(?:,(\d{0,4}))?\}")
_UNICODE_CLASS = re.compile(r"\\[pP]")
_SHOWN = 80


class PatternChecker:
    """Checks the patterns of one schema; each distinct pattern is compiled once."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._good: set[str] = set()
        self._spent = 0

    def check(self, label: str, pattern: str, at: int) -> None:
        """Refuse a pattern that cannot be used; ``label`` is the property, as ``Person.email``."""
        if pattern in self._good:
            return
        self._spent += _cost(pattern)
        problem = "it is too large" if self._spent > _BUDGET else _compile_problem(pattern)
        if problem is not None:
            shown = pattern if len(pattern) <= _SHOWN else f"{pattern[:_SHOWN]}…"
            raise self._source.rule(
                f"@check on {label} has invalid regex '{shown}': {problem}",
                at,
                hint="look-around and back-references do not exist here",
            )
        self._good.add(pattern)


@lru_cache(maxsize=1024)
def _compile_problem(pattern: str) -> str | None:
    import pyarrow as pa  # only schemas with a @check pay for the import
    import pyarrow.compute as pc

    try:
        pc.match_substring_regex(pa.array([""]), pattern)
    except pa.ArrowInvalid as error:
        return str(error).removeprefix("Invalid regular expression: ")[: 2 * _SHOWN]
    return None


def _cost(pattern: str) -> int:
    counts = [max(1, int(high or low)) for low, high in _COUNT.findall(pattern)]
    classes = len(_UNICODE_CLASS.findall(pattern))
    nested = min(math.prod(counts[:4]), _MOST_REPEATS)  # repetitions may stand inside each other
    return len(pattern) // 2 * max(1, sum(counts)) + _UNICODE_CLASS_COST * classes * nested
