"""The change feed. `poll.py` walks the commits, `page.py` bounds the answer, `tokens.py` seals positions."""
