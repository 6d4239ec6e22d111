"""What a vector must be before it is stored or compared: of the right length, finite, and of length one."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from omnigraph.errors import EmbeddingSettingsError, InvalidEmbedding

Vectors = npt.NDArray[np.float32]

_LEAST_NORM = np.finfo(np.float32).eps


def require_dimension(dimension: int) -> None:
    """Refuse a dimension that no vector has, before anybody is asked."""
    if dimension < 1:
        raise EmbeddingSettingsError(f"a vector of {dimension} components cannot be embedded")


def vector_of(values: Any, dimension: int) -> Vectors:
    """One vector from the numbers of an answer, as it is.

    Raises:
        InvalidEmbedding: they are no numbers, or not as many as wanted.
    """
    if not isinstance(values, list):
        raise InvalidEmbedding("the embedding provider answered without a vector")
    if len(values) != dimension:
        raise InvalidEmbedding(
            f"the embedding provider answered with a vector of {len(values)} components, {dimension} are wanted",
            hint="the dimension of the property must be one that the model can make",
            expected=dimension,
            actual=len(values),
        )
    if not all(type(each) in (int, float) for each in values):
        raise InvalidEmbedding("the embedding provider answered with a vector that holds something else than numbers")
    try:
        with np.errstate(over="ignore"):
            return np.asarray(values, np.float64).astype(np.float32)
    except OverflowError:
        raise InvalidEmbedding("the embedding provider answered with a number that is not finite") from None


def normalised(vectors: Vectors) -> Vectors:
    """Each vector divided by its norm, which is computed in 64 bits; the division in 32.

    Raises:
        InvalidEmbedding: a component is not finite, or a vector is zero.
    """
    finite = np.isfinite(vectors)
    if not finite.all():
        row, component = np.argwhere(~finite)[0].tolist()
        raise InvalidEmbedding(
            f"component {component} of a vector of the embedding provider is not a finite number", row=row
        )
    # One after the other, as the mock provider of every system adds them; NumPy's own sum takes them in pairs.
    squares = np.cumsum(vectors.astype(np.float64) ** 2, axis=1)
    norms = np.sqrt(squares[:, -1]).astype(np.float32)
    if (norms <= _LEAST_NORM).any():
        row = int(np.argmax(norms <= _LEAST_NORM))
        raise InvalidEmbedding("the embedding provider answered with a zero vector", row=row)
    return vectors / norms[:, None]
