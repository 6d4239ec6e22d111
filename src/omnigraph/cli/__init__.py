"""The command line. `main.py` is the entry point, `app.py` the table of commands, `command.py` what all commands share.

Nothing heavy is imported at the top of any file here: a command pays for what it does, and for nothing else.
"""
