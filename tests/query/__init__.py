"""The query room: syntax, checking, parameters, dates, lint."""
