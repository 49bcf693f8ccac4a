"""Quantities with units at the edge (YAML, command line); plain SI floats inside.

The registry is our own: in pint's default one ``b`` is the barn, and a network
rate of 400 Gb/s has to be bits.
"""

from __future__ import annotations

import math
import re
from functools import cache
from typing import TYPE_CHECKING

from codesign._common.errors import DataError
from codesign._common.text import quoted

if TYPE_CHECKING:
    import pint

_NUMBER_AND_UNIT = re.compile(
    r"\s*(?P<number>[+-]?\d{1,30}(\.\d{0,30})?([eE][+-]?\d{1,3})?)\s*(?P<unit>[A-Za-zµ]{1,12}(/s)?)\s*",
    re.ASCII,
)
_DEFINITIONS = [
    "kilo- = 1e3 = k-",
    "mega- = 1e6 = M-",
    "giga- = 1e9 = G-",
    "tera- = 1e12 = T-",
    "peta- = 1e15 = P-",
    "exa- = 1e18 = E-",
    "milli- = 1e-3 = m-",
    "micro- = 1e-6 = u- = µ-",
    "nano- = 1e-9 = n-",
    "kibi- = 2**10 = Ki-",
    "mebi- = 2**20 = Mi-",
    "gibi- = 2**30 = Gi-",
    "tebi- = 2**40 = Ti-",
    "bit = [information] = b",
    "byte = 8 * bit = B",
    "flop = [work] = FLOP",
    "second = [time] = s",
    "hertz = 1 / second = Hz",
    "watt = [power] = W",
    "metre = [length] = m",
    "dollar = [currency] = USD",
]


_PREFIXES = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18,
             "Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40}  # fmt: skip
# The symbols that files are full of; the registry, slow to load, knows the same and more.
_SYMBOLS: dict[str, tuple[str, float]] = {
    "s": ("second", 1.0), "ms": ("second", 1e-3), "us": ("second", 1e-6), "ns": ("second", 1e-9),
} | {
    prefix + symbol + per: (kind + per, factor * share)
    for prefix, factor in _PREFIXES.items()
    for symbol, kind, share, rates in (
        ("B", "byte", 1.0, ("", "/s")), ("b", "byte", 0.125, ("", "/s")),
        ("FLOP", "flop", 1.0, ("/s",)), ("Hz", "hertz", 1.0, ("",)), ("W", "watt", 1.0, ("",)),
    )
    for per in rates
}  # fmt: skip


@cache
def _registry() -> pint.UnitRegistry[float]:
    import pint

    registry: pint.UnitRegistry[float] = pint.UnitRegistry(None)
    for definition in _DEFINITIONS:
        registry.define(definition)
    return registry


def parse_quantity(text: object, unit: str, where: str) -> float:
    """Value of ``text`` (such as ``"400 Gb/s"``) in ``unit`` (such as ``"byte/s"``).

    ``where`` (file and key path) opens the message of the DataError that a
    missing unit, an unknown one or one of another kind raises.
    """
    example = f"expected a number with a unit that converts to {unit}, such as {_EXAMPLES[unit]!r}"
    # Pint evaluates arithmetic; text from a file only ever holds one number and one unit.
    match = _NUMBER_AND_UNIT.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise DataError(f"{where}: {quoted(text)} is not a number with a unit; {example}")
    kind, factor = _SYMBOLS.get(match["unit"], ("", 0.0))
    if kind == unit:
        value = float(match["number"]) * factor
    else:
        value = _converted(float(match["number"]), match["unit"], unit)
        if math.isnan(value):
            raise DataError(f"{where}: {quoted(text)} {_mistake(match, kind, unit)}; {example}")
    if not math.isfinite(value):
        raise DataError(f"{where}: {quoted(text)} is not finite; {example}")
    return value


def _converted(number: float, given: str, unit: str) -> float:
    """Any other spelling, by the registry; NaN for an unknown unit or one of another kind."""
    import pint

    try:
        return float(_registry().Quantity(number, given).to(unit).magnitude)
    except pint.errors.PintError:
        return math.nan


_SPELLINGS = {"GBps": "GB/s", "TBps": "TB/s", "MBps": "MB/s", "Gbps": "Gb/s", "Tbps": "Tb/s",
              "Mbps": "Mb/s", "Gbit": "Gb", "gb/s": "Gb/s", "GHZ": "GHz", "MHZ": "MHz"}  # fmt: skip


def _mistake(match: re.Match[str], kind: str, unit: str) -> str:
    """Why a number with a unit is none of ``unit``, and what was probably meant."""
    given = match["unit"]
    spelt = _SPELLINGS.get(given, given)
    flops = re.fullmatch(r"([kMGTPE]?)(FLOPS?|FLOPs|FLOP/s|flops?)(/s)?", given)
    tries = [spelt, spelt.removesuffix("/s"), f"{spelt.removesuffix('/s')}/s"]
    tries += [f"{flops[1]}FLOP/s"] if flops else []
    meant = next((t for t in tries if t != given and _SYMBOLS.get(t, ("",))[0] == unit), None)
    said = f"is in {kind}, not {unit}" if kind else f"is not in a unit of {unit}"
    return said if meant is None else f"{said}: did you mean {match['number']} {meant}?"


_EXAMPLES = {
    "byte": "80 GB",
    "byte/s": "3.35 TB/s",
    "flop/s": "989.4 TFLOP/s",
    "hertz": "1830 MHz",
    "second": "2 us",
    "watt": "700 W",
}

_SCALES = [(1e18, "E"), (1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, "")]
_SMALL_SCALES = [(1.0, ""), (1e-3, "m"), (1e-6, "µ"), (1e-9, "n")]


def format_si(value: float, unit: str, digits: int = 3) -> str:
    """``value`` with an SI prefix and ``digits`` significant digits: ``3.35 TB/s``."""
    if not math.isfinite(value):
        return "n/a"
    if value == 0:
        return f"0 {unit}"
    scales = _SCALES if unit != "s" else _SMALL_SCALES
    for scale, prefix in scales:
        if abs(value) >= scale * (1 - 0.5 * 10.0**-digits):
            return f"{_significant(value / scale, digits)} {prefix}{unit}"
    scale, prefix = scales[-1]
    return f"{_significant(value / scale, digits)} {prefix}{unit}"


def format_share(value: float) -> str:
    """A share of a whole, in per cent with one decimal; what is not zero never reads as zero."""
    if not math.isfinite(value):
        return "n/a"
    if 0 < value < 0.0005:
        return "<0.1 %"
    if 0.9995 <= value < 1:
        return ">99.9 %"
    text = f"{100 * value:.1f}"
    return f"{_WHOLE.get(text, text)} %"


_WHOLE = {"0.0": "0", "100.0": "100"}


def _significant(value: float, digits: int) -> str:
    rounded = float(f"{value:.{digits - 1}e}")
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(rounded))))
    return f"{value:.{decimals}f}"
