"""A graph behind a server, with the verbs of an embedded one. `open_anywhere.py` is the way in."""
