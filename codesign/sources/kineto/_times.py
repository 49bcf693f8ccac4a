"""Microseconds as exporters write them, as exact integer nanoseconds."""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal, InvalidOperation

import msgspec
import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]

INVALID_NS = int(np.iinfo(np.int64).min)
"""Marks a time that is missing, not a number or out of range."""
MISSING_ID = -1
# Year 2041 from the epoch; sums and differences of a few such times fit in int64.
_MAX_US = 2**51
MAX_DURATION_NS = 10 * 86_400 * 10**9
# Below this a float of microseconds is within half a nanosecond of what was written
# (spacing 2**-10 us), so rounding gives the nanosecond back: 101 days.
_EXACT_US = 2.0**43
_MAX_TEXT = 64
# As JSON and exporters write numbers; Python's own reading takes underscores, too.
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?")
MAX_COUNT = 2**50
"""No message or copy has more elements or bytes."""
_THREE_DECIMALS = re.compile(rb"-?\d{1,15}\.\d{3}(?:,-?\d{1,15}\.\d{3})*+")


def one_ns(value: object) -> int:
    """One time in microseconds (number or text) in ns, or INVALID_NS."""
    if isinstance(value, bool):
        return INVALID_NS
    if isinstance(value, int):
        return value * 1000 if -_MAX_US < value < _MAX_US else INVALID_NS
    text = value if isinstance(value, str) else str(value)
    text = text.strip().strip('"')
    if len(text) > _MAX_TEXT or not _NUMBER.fullmatch(text):
        return INVALID_NS
    try:
        number = Decimal(text)
        if not -_MAX_US < number < _MAX_US:
            return INVALID_NS
    except (InvalidOperation, ValueError):
        return INVALID_NS
    return int((number * 1000).to_integral_value())


def to_ns(values: Sequence[object]) -> Ints | None:
    """Times in ns, INVALID_NS where there is none.

    ``values`` are numbers or text, or raw JSON values (``msgspec.Raw``). None if a float is too
    large to be exact: decode the same events with times as raw values.
    """
    kinds = set(map(type, values))
    if kinds == {msgspec.Raw}:
        return _raw_to_ns(values)  # type: ignore[arg-type]
    if not kinds - {int, float}:
        try:
            if float not in kinds:
                whole = np.array(values, dtype=np.int64)
                if not whole.size or np.abs(whole).max() < _MAX_US:
                    return whole * 1000
            else:
                us = np.array(values, dtype=np.float64)
                if np.abs(us).max() < _EXACT_US:
                    floor = np.floor(us)
                    rest = np.rint((us - floor) * 1000.0)
                    return floor.astype(np.int64) * 1000 + rest.astype(np.int64)
                return None
        except OverflowError:
            pass
    if any(isinstance(v, float) and not abs(v) < _EXACT_US for v in values):
        return None
    return np.array([one_ns(v) for v in values], dtype=np.int64)


def _raw_to_ns(values: Sequence[msgspec.Raw]) -> Ints:
    text = b",".join(values)
    if _THREE_DECIMALS.fullmatch(text):
        # As exporters write them: without the point they are nanoseconds.
        whole = np.fromstring(text.replace(b".", b"").decode(), dtype=np.int64, sep=",")
        if len(whole) == len(values) and np.abs(whole).max() < _MAX_US * 1000:
            return whole
    return np.array([one_ns(bytes(v).decode("ascii", "replace")) for v in values], dtype=np.int64)


def to_ids(values: Sequence[int | float | str | None]) -> Ints:
    """Ids as int64, MISSING_ID where there is none; ids beyond 63 bits keep their low bits."""
    kinds = set(map(type, values))
    if kinds == {type(None)}:
        return np.full(len(values), MISSING_ID, dtype=np.int64)
    if kinds <= {int}:
        try:
            return np.array(values, dtype=np.int64)
        except OverflowError:
            pass
    return np.array([_one_id(v) for v in values], dtype=np.int64)


def one_count(value: int | float | str | None) -> int:
    """A number of elements or ranks, MISSING_ID where there is none or it cannot be."""
    try:
        number = int(value[:_MAX_TEXT] if isinstance(value, str) else value or 0)
    except (ValueError, OverflowError):
        return MISSING_ID
    return number if value is not None and 0 <= number <= MAX_COUNT else MISSING_ID


def _one_id(value: int | float | str | None) -> int:
    if isinstance(value, str):
        try:
            value = int(value[:_MAX_TEXT], 16 if value[:2].lower() == "0x" else 10)
        except ValueError:
            return MISSING_ID
    if isinstance(value, float):
        value = int(value) if abs(value) < 2**53 else None
    return MISSING_ID if value is None else value & (2**63 - 1) if value >= 0 else MISSING_ID
