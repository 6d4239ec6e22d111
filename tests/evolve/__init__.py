"""Schema changes that are applied: every step with data, then time travel across it."""
