"""The client of a server by itself: addresses, retries, lost answers, bodies."""
