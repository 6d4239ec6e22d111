"""What version this is. Imports next to nothing, so that asking costs little more than starting Python."""

from omnigraph import __version__, limits


def version_text(*, long: bool) -> str:
    """One line with the software; with ``long`` a second one with the stamp of the storage layout."""
    software = f"omnigraph {__version__}\n"
    return f"{software}internal-schema {limits.INTERNAL_SCHEMA_VERSION}\n" if long else software
