"""Plain values to typed records, with errors that name key and allowed values."""

from __future__ import annotations

import re
from collections.abc import Container
from typing import Any, TypeVar

import msgspec
from msgspec import inspect

from codesign._common.errors import DataError

T = TypeVar("T")

_PLACED = re.compile(r"(?P<reason>.*) - at `(?P<key>key` in `)?\$(?P<place>[^`]*)`", re.DOTALL)
_STEP = re.compile(r"\.([^.\[]+)|\[[^\]]*\]")


def convert(content: object, kind: type[T], where: str, own: Container[str] = ()) -> T:
    """``content`` as a ``kind``.

    Raises DataError: ``where``, the key path, what is wrong, and for a choice or a key
    that does not exist those that do, but for those of the program's ``own``.
    """
    try:
        return msgspec.convert(content, kind)
    except msgspec.ValidationError as error:
        message = str(error)
        found = _PLACED.fullmatch(message)
        place = found["place"] if found else ""
        reason = found["reason"] if found else message
        key = f"{place.lstrip('.')}: " if place else ""
        choices = _allowed(kind, place, reason, bool(found and found["key"]))
        allowed = [choice for choice in choices if choice not in own]
        hint = f"; allowed: {', '.join(allowed)}" if allowed else ""
        raise DataError(f"{where}: {key}{reason}{hint}") from error


def _allowed(kind: type, place: str, reason: str, of_key: bool) -> list[str]:
    """Choices at ``place`` (``.model.phase``, ``.overlap[...]``), if it has any."""
    info: Any = inspect.type_info(kind)
    for step in _STEP.finditer(place):
        info = _inner(_present(info), step[1])
    info = _present(info)
    if of_key:
        info = getattr(info, "key_type", info)
    if isinstance(info, inspect.LiteralType):
        return [str(value) for value in info.values]
    if isinstance(info, inspect.StructType) and "unknown field" in reason:
        return [field.encode_name for field in info.fields]
    return []


def _inner(info: Any, name: str | None) -> Any:
    if isinstance(info, inspect.StructType):
        return next((f.type for f in info.fields if f.encode_name == name), None)
    return getattr(info, "value_type", getattr(info, "item_type", None))


def _present(info: Any) -> Any:
    """The type beside None in an optional one."""
    if isinstance(info, inspect.UnionType):
        return next((t for t in info.types if not isinstance(t, inspect.NoneType)), info)
    return info
