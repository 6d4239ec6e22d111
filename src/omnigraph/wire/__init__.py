"""What goes over the wire between a server of graphs and its clients. It knows no web framework."""

#: The line of the HTTP contract that is spoken; clients compare its first two numbers with their own.
CONTRACT_VERSION = "0.10.0"
