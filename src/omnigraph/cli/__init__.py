"""The command line. `main.py` is the way in, `app.py` the table of commands, `verb.py` what all of them share.

Nothing heavy is imported at the top of any file here: a command pays for what it does, and for nothing else.
"""
