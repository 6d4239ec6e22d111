"""The model that the wheel of ``wordllama`` carries: works without a network, a key, torch or onnxruntime.

A vector is the mean of the vectors of the text's tokens. The model was trained so that its first components are a
smaller model, so any dimension up to its own works. The package itself is never imported: it sets up logging for the
whole program. Its two files are read here.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import struct
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from omnigraph.embed.vector_rules import Vectors, normalised
from omnigraph.errors import EmbeddingSettingsError, InvalidEmbedding, MissingExtra

PACKAGE = "wordllama"
_WEIGHTS = "weights/l2_supercat_256.safetensors"
_TOKENS = "tokenizers/l2_supercat_tokenizer_config.json"
_TENSOR = "embedding.weight"


class LocalModel:
    """The vectors of all tokens, and what cuts a text into tokens."""

    def __init__(self) -> None:
        folder = _folder()
        try:
            tokenizers: Any = importlib.import_module("tokenizers")
        except ImportError:
            raise _missing() from None
        self._tokenizer = tokenizers.Tokenizer.from_file(str(folder / _TOKENS))
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        self._weights = _tensor(folder / _WEIGHTS)

    def embed(self, texts: Sequence[str], dimension: int) -> Vectors:
        """One vector for each text.

        Raises:
            InvalidEmbedding: a text has no token, such as a blank one.
        """
        largest = self._weights.shape[1]
        if dimension > largest:
            raise EmbeddingSettingsError(
                f"the local model has {largest} components, {dimension} are wanted",
                hint=f"declare the property as Vector({largest}) or smaller, or use another provider",
            )
        encoded = self._tokenizer.encode_batch(list(texts), add_special_tokens=False)
        vectors = np.empty((len(texts), dimension), np.float32)
        for row, each in enumerate(encoded):
            if not each.ids:
                raise InvalidEmbedding("a text without a word has no vector", row=row)
            vectors[row] = self._weights[each.ids, :dimension].mean(axis=0, dtype=np.float32)
        return normalised(vectors)


@cache
def local_model() -> LocalModel:
    """The model, loaded once in a process."""
    return LocalModel()


def _folder() -> Path:
    found = importlib.util.find_spec(PACKAGE)
    places = list(found.submodule_search_locations or ()) if found is not None else []
    if not places or not (Path(places[0]) / _WEIGHTS).is_file():
        raise _missing()
    return Path(places[0])


def _missing() -> MissingExtra:
    return MissingExtra(
        "the local embedding provider needs the package 'wordllama'",
        hint="pip install 'omnigraph[embed-local]', or set OMNIGRAPH_EMBED_PROVIDER to another provider",
    )


def _tensor(path: Path) -> npt.NDArray[np.float16]:
    """The one matrix of a safetensors file, mapped into memory."""
    with path.open("rb") as file:
        (size,) = struct.unpack("<Q", file.read(8))
        entry = json.loads(file.read(size))[_TENSOR]
    if entry["dtype"] != "F16":
        raise EmbeddingSettingsError(f"the weights of the local model are {entry['dtype']}, not F16")
    start, _ = entry["data_offsets"]
    return np.memmap(path, np.float16, "r", 8 + size + start, tuple(entry["shape"]))
