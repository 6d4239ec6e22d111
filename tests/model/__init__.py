"""Random sequences of operations, held against a small model in memory."""
