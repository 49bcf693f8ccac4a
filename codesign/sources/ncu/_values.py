"""Numbers and units as Nsight Compute prints them."""

from __future__ import annotations

import math
import re
from functools import lru_cache

_PLAIN = re.compile(r"[+-]?(\d{1,30}(\.\d{0,30})?|\.\d{1,30})([eE][+-]?\d{1,3})?")
_GROUPED = re.compile(r"[+-]?\d{1,3}([,'\u2019 ])\d{3}(\1\d{3}){0,9}(\.\d{0,30})?")
_GROUPS = re.compile(r"[,'\u2019 ]")
# What only a locale with a decimal comma writes.
_DECIMAL_COMMA = re.compile(
    r"[+-]?((\d{1,3}(\.\d{3}){1,10}|\d{1,3}(['\u2019 ]\d{3}){1,10}|\d{1,30}),\d{1,30}"
    r"|\d{1,3}(\.\d{3}){2,10})"
)

_PREFIXES = {"": 1.0, "n": 1e-9, "u": 1e-6, "m": 1e-3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
"""Decimal, for bytes too."""
_BASES = {
    "byte": "byte", "second": "s", "s": "s", "sec": "s", "hz": "hz", "Hz": "hz",
}  # fmt: skip
_SCALED = re.compile(
    f"(?P<prefix>[{''.join(_PREFIXES)}k]?)(?P<base>{'|'.join(sorted(_BASES, key=len)[::-1])})"
)


class DecimalComma(ValueError):
    """A number of a locale in which the comma is the decimal sign."""


def number(text: str) -> float:
    """The number that a cell holds, NaN if it holds none (text, ``n/a``, instances only).

    Raises DecimalComma where commas cannot be thousands separators: then those that
    could be are ambiguous as well.
    """
    text = text.strip().replace("\u00a0", "").replace("\u202f", "")
    head = text.split(" (", 1)[0]  # instances may follow the aggregate
    if _PLAIN.fullmatch(head):
        value = float(head)
        return value if math.isfinite(value) else math.nan
    if _GROUPED.fullmatch(head):
        return float(_GROUPS.sub("", head))
    if _DECIMAL_COMMA.fullmatch(head):
        raise DecimalComma(head)
    return math.nan


@lru_cache(1024)
def unit(text: str) -> tuple[float, str]:
    """Factor to SI, and the SI unit: ``Gbyte/s`` is (1e9, "byte/s"), ``us`` (1e-6, "s").

    What carries no prefix that is known stays as it is, with the factor 1.
    """
    parts = [_scaled(p) for p in text.strip().split("/")]
    factor = parts[0][0]
    for divisor, _ in parts[1:]:
        factor /= divisor
    name = "/".join(p[1] for p in parts)
    return factor, {"cycle/s": "hz"}.get(name, name)


def _scaled(text: str) -> tuple[float, str]:
    match = _SCALED.fullmatch(text)
    if match is None:
        return 1.0, text
    prefix = "K" if match["prefix"] == "k" else match["prefix"]
    return _PREFIXES[prefix], _BASES[match["base"]]
