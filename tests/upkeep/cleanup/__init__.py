"""Cleanup, leases, retention and the runs of upkeep."""
