"""How a write becomes visible: intent, table commits, one publish."""
