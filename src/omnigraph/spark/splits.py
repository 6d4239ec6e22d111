"""Parts of an input → pieces that tasks read side by side, in the order of the input.

Lines are split at bytes, Parquet at row groups; compressed files, CSV and JSON arrays of unknown shape are read whole.
A DataFrame brings its own partitions.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from omnigraph import limits
from omnigraph.errors import InputError
from omnigraph.storage import inputs
from omnigraph.write.load.blocks import is_gzip, read_errors
from omnigraph.write.load.source import Format, Part


@dataclass(frozen=True, slots=True)
class Split:
    """What one task reads.

    Attributes:
        part: position of its part in the input.
        start, end: bytes of a file with lines; a line belongs to the split it begins in. None for the whole part.
        groups, first_row: row groups of a Parquet file, and the number of their first row in it.
        weight: about how many bytes of lines that is.
    """

    part: int
    weight: int = 0
    start: int | None = None
    end: int | None = None
    groups: tuple[int, ...] | None = None
    first_row: int = 1


def splits_of(parts: Sequence[Part], cores: int) -> list[Split]:
    """The pieces of every file, of a size that keeps all cores busy without making tiny tables."""
    sizes = [_size(part) for part in parts]
    wanted = math.ceil(sum(sizes) / max(1, cores * limits.SPLITS_PER_CORE))
    size = min(limits.SPLIT_BYTES, max(limits.LOAD_BLOCK_BYTES, wanted))
    found: list[Split] = []
    for number, (part, bytes_) in enumerate(zip(parts, sizes, strict=True)):
        if part.format is Format.PARQUET:
            found += _row_groups(number, part, size)
        elif part.format in (Format.JSONL, Format.JSON) and bytes_ > size and not _is_packed(part):
            found += [Split(number, size, start, min(start + size, bytes_)) for start in range(0, bytes_, size)]
        else:
            found.append(Split(number, bytes_))
    return found


def tasks_of(splits: Sequence[Split]) -> list[range]:
    """Neighbours that one task reads together, because each alone would be small."""
    found: list[range] = []
    start, gathered = 0, 0
    most = max([limits.LOAD_BLOCK_BYTES, *(split.weight for split in splits)])
    for number, split in enumerate(splits):
        if number > start and gathered + split.weight > most:
            found.append(range(start, number))
            start, gathered = number, 0
        gathered += split.weight
    return [*found, range(start, len(splits))] if splits else []


def _size(part: Part) -> int:
    if part.table is not None:
        return 0
    with read_errors(part.name):
        return inputs.size_of(part.name)


def _is_packed(part: Part) -> bool:
    with read_errors(part.name), inputs.open_file(part.name) as raw:
        return is_gzip(raw)


def _row_groups(number: int, part: Part, size: int) -> Iterator[Split]:
    """Consecutive row groups of about that many compressed bytes."""
    with read_errors(part.name), inputs.open_file(part.name) as stream:
        try:
            metadata = pq.read_metadata(stream)
        except pa.ArrowInvalid as error:
            reason = str(error).split("\n", 1)[0][:200]
            raise InputError(f"cannot read {part.name} as parquet: {reason}", file=part.name) from None
    # Parquet is several times as dense as the rows in it.
    most = max(1, size // limits.PARQUET_DENSITY)
    chosen: list[int] = []
    first_row, rows, gathered = 1, 0, 0
    for group in range(metadata.num_row_groups):
        about = metadata.row_group(group)
        bytes_ = sum(about.column(column).total_compressed_size for column in range(about.num_columns))
        if chosen and gathered + bytes_ > most:
            yield Split(number, gathered * limits.PARQUET_DENSITY, groups=tuple(chosen), first_row=first_row)
            chosen, first_row, rows, gathered = [], first_row + rows, 0, 0
        chosen.append(group)
        rows += about.num_rows
        gathered += bytes_
    yield Split(number, gathered * limits.PARQUET_DENSITY, groups=tuple(chosen), first_row=first_row)
