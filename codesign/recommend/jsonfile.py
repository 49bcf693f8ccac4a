"""The recommendations file as JSON, and its published schema."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from codesign._common.errors import DataError
from codesign._common.files import read_bytes, write_bytes
from codesign.recommend.schema import SCHEMA_VERSION, Backtest, Recommendations

_Record = TypeVar("_Record", Recommendations, Backtest)


def to_json(recs: Recommendations) -> bytes:
    """The file's content: indented, keys in a stable order, one final newline.

    Raises DataError for a number that JSON cannot hold (NaN, infinity).
    """
    _finite(msgspec.to_builtins(recs), "$")
    raw = msgspec.json.encode(recs, order="deterministic")
    return msgspec.json.format(raw, indent=2) + b"\n"


def save_recommendations(recs: Recommendations, path: str | Path) -> None:
    """Write the file, wholly or not at all."""
    write_bytes(Path(path), to_json(recs))


def load_recommendations(path: str | Path) -> Recommendations:
    """Read and check a recommendations file.

    Raises DataError (file, key path) for anything out of contract.
    """
    return _load(Path(path), Recommendations, "recommendations", "codesign recommend")


def load_backtest(path: str | Path) -> Backtest:
    """Read and check a backtest file. Raises DataError as `load_recommendations`."""
    return _load(Path(path), Backtest, "backtest", "codesign backtest")


def json_schema() -> dict[str, Any]:
    """JSON Schema (2020-12) of the recommendations file."""
    (root,), components = msgspec.json.schema_components(
        [Recommendations], ref_template="#/$defs/{name}"
    )
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "codesign recommendations",
        **root,
        "$defs": dict(sorted(components.items())),
    }


def schema_text() -> str:
    """The schema as it is published: indented JSON with a final newline."""
    return json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n"


def _load(path: Path, kind: type[_Record], what: str, command: str) -> _Record:
    raw = read_bytes(path)
    try:
        head = msgspec.json.decode(raw)
    except msgspec.DecodeError as error:
        raise DataError(f"{path}: not JSON: {error}") from error
    version = head.get("schema_version") if isinstance(head, dict) else None
    if version != SCHEMA_VERSION:
        raise DataError(
            f"{path}: not a {what} file of schema version {SCHEMA_VERSION} "
            f"(found {version!r}); make one with `{command}`"
        )
    try:
        return msgspec.convert(head, kind)
    except msgspec.ValidationError as error:
        raise DataError(f"{path}: {error}") from error


def _finite(value: Any, place: str) -> None:
    if isinstance(value, float) and not math.isfinite(value):
        raise DataError(f"{place}: {value} cannot stand in a JSON file; please report this")
    if isinstance(value, dict):
        for key, inner in value.items():
            _finite(inner, f"{place}.{key}")
    elif isinstance(value, list | tuple):
        for index, inner in enumerate(value):
            _finite(inner, f"{place}[{index}]")
