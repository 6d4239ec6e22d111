"""What a version of a Lance table was made by."""

from __future__ import annotations

from lance import LanceDataset, Transaction


def transaction_of(table: LanceDataset, version: int | None = None) -> Transaction:
    """The transaction of a version, by default of the one that is open."""
    found = table.read_transaction(table.version if version is None else version)
    assert found is not None, f"version {version} of {table.uri} names no transaction"
    return found
