"""The `.pg` schema language: text in, catalog out, and everything that follows from a catalog alone.

`compiled_schema.py` is the way in. `catalog.py` holds the values that the other rooms read. Nothing here touches a
file, and pyarrow is imported only where Arrow values are given (`arrow.py`) or a regex is checked.
"""

from omnigraph.schema.catalog import Catalog
from omnigraph.schema.compiled_schema import CompiledSchema, compile_schema

__all__ = ["Catalog", "CompiledSchema", "compile_schema"]
