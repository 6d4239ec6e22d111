"""A store that misbehaves on the wire: errors, lost answers, late effects, at every request in turn."""
