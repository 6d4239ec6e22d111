"""Graphs as tools for agents, in the Model Context Protocol.

`tools/` are the tools, written once over a `Desk`: an open graph in the hands of an actor, here or behind a server.
`agent_branch.py` says on which branch an agent works. `protocol_server.py` speaks the protocol, `over_stdio.py` and
`over_http.py` carry it. The only room that knows the package `mcp`.
"""
