"""A section of a YAML file that hands out checked values, by key path."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from codesign._common.errors import DataError
from codesign._common.text import quoted
from codesign._common.units import parse_quantity

_BITS = re.compile(r"b(/s)?\s*$")
# What no part is below or above, by far: a slip of number or prefix, not a bold design.
_PLAUSIBLE = {
    "byte": (1e3, 1e18), "byte/s": (1e6, 1e18), "flop/s": (1e9, 1e21), "hertz": (1e6, 1e12),
    "second": (1e-12, 10.0), "watt": (0.1, 1e6),
}  # fmt: skip


class Section:
    """One mapping of the file; ``where`` names the file, ``path`` the keys down to here."""

    def __init__(self, where: str, values: Mapping[str, Any], path: str = "") -> None:
        self.where = where
        self.values = values
        self.path = path

    def place(self, key: str) -> str:
        """File and key path, the opening of every message."""
        return f"{self.where}: {self.path}{key}"

    def allow(self, keys: Sequence[str]) -> None:
        """Refuse any key that is not in ``keys``."""
        for key in self.values:
            if key not in keys:
                raise DataError(f"{self.place(str(key))}: unknown key; allowed: {', '.join(keys)}")

    def get(self, key: str, example: str) -> Any:
        """The raw value of a required key."""
        if self.values.get(key) is None:
            raise DataError(f"{self.place(key)}: missing; expected {example}")
        return self.values[key]

    def section(self, key: str, required: bool = True) -> Section:
        """The mapping under ``key``; empty if it is absent and not required."""
        value = self.values.get(key)
        if value is None and not required:
            value = {}
        if not isinstance(value, dict) or not all(isinstance(k, str) for k in value):
            raise DataError(f"{self.place(key)}: expected a mapping of keys to values")
        return Section(self.where, value, f"{self.path}{key}.")

    def text(self, key: str, default: str | None = None) -> str:
        """A non-empty string."""
        value = self.values.get(key, default)
        if not isinstance(value, str) or (not value and default is None):
            raise DataError(f"{self.place(key)}: expected text, got {quoted(value)}")
        return value

    def choice(self, key: str, allowed: Sequence[str], default: str) -> str:
        """One of ``allowed``."""
        value = self.values.get(key, default)
        if key not in self.values and default not in allowed:
            raise DataError(f"{self.place(key)}: missing; expected one of {', '.join(allowed)}")
        if value not in allowed:
            raise DataError(f"{self.place(key)}: {quoted(value)}; allowed: {', '.join(allowed)}")
        return str(value)

    def integer(self, key: str, minimum: int, maximum: int) -> int:
        """A whole number within bounds."""
        value = self.get(key, f"a whole number from {minimum} to {maximum}")
        if isinstance(value, bool) or not isinstance(value, int) or not minimum <= value <= maximum:
            raise DataError(
                f"{self.place(key)}: expected a whole number from {minimum} to {maximum}, "
                f"got {quoted(value)}"
            )
        return value

    def optional_integer(self, key: str, minimum: int, maximum: int) -> int | None:
        """A whole number within bounds, or None where the key is absent or null."""
        return None if self.values.get(key) is None else self.integer(key, minimum, maximum)

    def flag(self, key: str, default: bool) -> bool:
        """``true`` or ``false``."""
        value = self.values.get(key, default)
        if not isinstance(value, bool):
            raise DataError(f"{self.place(key)}: expected true or false, got {quoted(value)}")
        return value

    def quantity(self, key: str, unit: str, bits: bool = True) -> float:
        """A positive quantity in ``unit``; with ``bits=False`` one given in bits is refused."""
        value = self.get(key, f"a number with a unit of {unit}")
        number = parse_quantity(value, unit, self.place(key))
        if not bits and _BITS.search(str(value)):
            raise DataError(
                f"{self.place(key)}: {value!r} is in bits; memory is given in bytes "
                f"(B, GB, GiB), check the factor of 8"
            )
        low, high = _PLAUSIBLE[unit]
        if number <= 0:
            raise DataError(f"{self.place(key)}: {quoted(value)} must be positive")
        if not low <= number <= high:
            raise DataError(
                f"{self.place(key)}: {quoted(value)} is out of all proportion, expected {low:g} "
                f"to {high:g} {unit}; check number and prefix"
            )
        return number

    def texts(self, key: str) -> dict[str, str]:
        """An optional mapping of text to text."""
        section = self.section(key, required=False)
        return {name: section.text(name) for name in section.values}
