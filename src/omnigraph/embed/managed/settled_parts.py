"""Parts of a table in which no row needs a vector, so that a run reads only what is new.

A part is a fragment as a state shows it: its data files and its list of deleted rows. The names of these files are made
once and mean the same rows on every branch and at every version, so that a part is settled forever for one property and
one model. A fragment that loses a row has another list, and is read again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from omnigraph.embed.managed.ledger import part_hashes
from omnigraph.embed.managed.row_states import ManagedProperty
from omnigraph.storage.commit.preparation import content_of
from omnigraph.storage.tables.lance_types import LanceTable
from omnigraph.text_hash import TextHashes


@dataclass(frozen=True, slots=True)
class TableParts:
    """The parts of a table at one state: the number by which each is known, by fragment."""

    numbers: Mapping[int, int]

    @classmethod
    def of(cls, handle: LanceTable, target: ManagedProperty, model: str) -> TableParts:
        asked = [target.name, target.embed.source, target.dimension, model]
        found = content_of(handle)
        texts = [json.dumps([*asked, files, deletions]) for _, files, deletions in found]
        hashed = part_hashes(pa.array(texts, pa.string())).tolist()
        return cls({number: key for (number, _, _), key in zip(found, hashed, strict=True)})

    def outside(self, settled: set[int]) -> list[int]:
        """Fragments that are not among the settled ones."""
        return [fragment for fragment, number in self.numbers.items() if number not in settled]

    def numbers_of(self, fragments: Iterable[int]) -> TextHashes:
        return np.array([self.numbers[fragment] for fragment in fragments], np.int64)
