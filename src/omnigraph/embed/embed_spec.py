"""What `omnigraph embed` does to a file: which types get a vector, of which fields. From JSON, or a seed manifest."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omnigraph.errors import InputError

_DEFAULT_OUTPUT = "./build/seed.embedded.jsonl"


@dataclass(frozen=True, slots=True)
class EmbeddedType:
    """Where the vector of a type's records goes, and the fields that its text is made of."""

    target: str
    fields: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class EmbedSpec:
    """The types whose records get a vector, and its dimension."""

    dimension: int
    types: Mapping[str, EmbeddedType]


@dataclass(frozen=True, slots=True)
class EmbedPlan:
    """A file to read, a file to write, and what happens between them."""

    input: Path
    output: Path
    spec: EmbedSpec


def plan_of_files(input: str | Path, output: str | Path, spec: str | Path | Mapping[str, Any]) -> EmbedPlan:
    """Files and a spec, which may be the path of a JSON file.

    Raises:
        InputError: the spec is not one.
    """
    if isinstance(spec, Mapping):
        return EmbedPlan(Path(input), Path(output), _spec(spec, "the spec"))
    text = _read(Path(spec))
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{spec} is not JSON: {error}", file=str(spec)) from None
    return EmbedPlan(Path(input), Path(output), _spec(found, str(spec)))


def plan_of_seed(seed: str | Path) -> EmbedPlan:
    """The files and the spec of a seed manifest in YAML; its paths are relative to it.

    Raises:
        InputError: the manifest is not one.
    """
    import yaml

    path = Path(seed)
    try:
        found = yaml.safe_load(_read(path))
    except (yaml.YAMLError, RecursionError) as error:
        place = getattr(error, "problem_mark", None)
        where = f" at line {place.line + 1}" if place is not None else ""
        raise InputError(f"{seed} is not YAML{where}", file=str(seed)) from None
    sources, artifacts = (_part(found, name, str(seed)) for name in ("sources", "artifacts"))
    raw = sources.get("raw_seed") or _part(found, "seed", str(seed)).get("data")
    if not isinstance(raw, str):
        raise InputError(f"{seed} does not name its data", hint="set sources.raw_seed to a file", file=str(seed))
    output = artifacts.get("embedded_seed") or _DEFAULT_OUTPUT
    if not isinstance(output, str):
        raise InputError(f"{seed}: artifacts.embedded_seed is not the name of a file", file=str(seed))
    spec = _spec(found.get("embeddings"), f"embeddings in {seed}")
    return EmbedPlan(path.parent / raw, path.parent / output, spec)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise InputError(f"{path} is not UTF-8 text", file=str(path)) from None
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}", file=str(path)) from None


def _part(whole: Any, name: str, file: str) -> Mapping[str, Any]:
    if not isinstance(whole, Mapping):
        raise InputError(f"{file} is not a mapping", file=file)
    part = whole.get(name)
    if part is None:
        return {}
    if not isinstance(part, Mapping):
        raise InputError(f"{file}: '{name}' is not a mapping", file=file)
    return part


def _spec(given: Any, where: str) -> EmbedSpec:
    example = '{"dimension": 3, "types": {"Note": {"target": "vec", "fields": ["body"]}}}'
    if not isinstance(given, Mapping):
        raise InputError(f"{where} is not a mapping", hint=f"write it like {example}")
    dimension, types = given.get("dimension"), given.get("types")
    if type(dimension) is not int or dimension < 1:
        raise InputError(f"{where}: 'dimension' is a whole number above 0", hint=f"write it like {example}")
    if not isinstance(types, Mapping) or not types:
        raise InputError(f"{where}: 'types' names no type", hint=f"write it like {example}")
    return EmbedSpec(dimension, {str(name): _type(each, f"{where}: type '{name}'") for name, each in types.items()})


def _type(given: Any, where: str) -> EmbeddedType:
    target = given.get("target") if isinstance(given, Mapping) else None
    fields = given.get("fields") if isinstance(given, Mapping) else None
    if not isinstance(target, str) or not target:
        raise InputError(f"{where} has no 'target', the field that gets the vector")
    if not isinstance(fields, list) or not fields or not all(isinstance(each, str) for each in fields):
        raise InputError(f"{where} has no 'fields', the list of fields that the text is made of")
    return EmbeddedType(target, tuple(fields))
