"""What `Graph.retention` is: the rule by which `upkeep` keeps a graph small."""

from __future__ import annotations

from datetime import timedelta

from omnigraph.errors import InputError
from omnigraph.storage.metadata.retention_rule import RetentionRule, default_rule, put_rule, read_rule
from omnigraph.storage.objects.locks import CONTROL
from omnigraph.storage.store_guard import StoreFor
from omnigraph.upkeep.cleanup.policy import duration_of, policy_of


class Retention:
    """The retention rule of one graph.

    Args:
        reader: gives the storage to read from, or raises when the graph may not be used.
        writer: the same for writing.
    """

    def __init__(self, reader: StoreFor, writer: StoreFor) -> None:
        self._reader = reader
        self._writer = writer

    def get(self) -> RetentionRule:
        """The rule that holds: the one that was set, or the default.

        Example:
            >>> graph.retention.get().keep, graph.retention.get().is_default
            (1000, True)
        """
        return read_rule(self._reader("read").objects)[0] or default_rule()

    def set(
        self,
        keep: int | None = None,
        older_than: str | int | timedelta | None = None,
        *,
        optimize_every: str | int | timedelta | None = None,
    ) -> RetentionRule:
        """Set the whole rule, in the place of the one that holds.

        Args:
            keep: the newest so many commits of each branch stay.
            older_than: so do commits that are younger: seconds, a `timedelta`, or a text like ``24h`` or ``7d``.
            optimize_every: how often `upkeep` puts the tables in order; None never.

        Raises:
            InputError: neither ``keep`` nor ``older_than`` is given.

        Example:
            >>> graph.retention.set(keep=100, older_than="30d", optimize_every="1d").keep
            100
        """
        policy = policy_of(keep, older_than)
        every = None if optimize_every is None else duration_of(optimize_every, "optimize_every")
        if every is not None and not every:
            raise InputError("optimize_every is 0, which is all the time", hint="write 1h, 24h or 7d")
        rule = RetentionRule(policy.keep, policy.older_than, every)
        self._put(rule)
        return rule

    def clear(self) -> None:
        """Forget the rule that was set; the default holds from then on.

        Example:
            >>> graph.retention.clear()
            >>> graph.retention.get().is_default
            True
        """
        self._put(None)

    def _put(self, rule: RetentionRule | None) -> None:
        store = self._writer("admin")
        with store.sections.hold(CONTROL):
            put_rule(store.objects, rule, read_rule(store.objects)[1])

    def __repr__(self) -> str:
        return "<retention: get(), set(…), clear()>"
