"""Printed numbers as numbers again: a value, its ends, and a format that shows the same digits.

A spreadsheet calculates with the value behind a cell and shows it by a format. Both are
taken so that what is shown stays what every other format of the report prints.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_HALF_UP, Decimal

from codesign.report.table import Cell

_NUMBER = r"(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?"
_SHOWN = re.compile(
    rf"(?P<before>(?:[≤≥] )?)(?P<sign>[+−-]?)(?P<times>x?)(?P<number>{_NUMBER})"
    rf"(?P<unit>(?: ?[A-Za-zµ%²/ ]{{1,24}})?)"
    rf"(?: \[(?P<lo>[−-]?{_NUMBER}), (?P<hi>[−-]?{_NUMBER})\])?"
)
_LIMITS = ("<0.1 %", ">99.9 %")
"""Shares that are printed as a limit: the value behind them is the share itself."""
_PREFIXES = {"n": -9, "µ": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_MINUS = ("-", "−")
_MOST_DECIMALS = 15


@dataclass(frozen=True)
class Number:
    """A cell as a number."""

    value: float
    format: str
    """A spreadsheet number format."""
    unit: str
    """Base unit of the value, such as ``s``; empty for a bare number, ``%`` for a share."""
    lo: float | None = None
    hi: float | None = None
    end_format: str = ""
    prefixed: bool = False
    """It was printed with an SI prefix, and is shown here in the base unit."""


def number_of(cell: Cell) -> Number | None:
    """The number that a cell prints, or None if it prints none or more than one.

    The value is the cell's sort key wherever the format shows it with the printed digits, else
    the printed number: ``12,300`` stands for 12,345 in every format of the report alike.
    """
    key = cell.sort
    if cell.sub or isinstance(key, str) or key is None or not math.isfinite(key):
        return None
    if cell.text in _LIMITS:
        return Number(float(key), _quoted(cell.text), "%")
    match = _SHOWN.fullmatch(cell.text)
    if match is None:
        return None
    unit = match["unit"].strip()
    power = _power(match["number"], float(key), unit)
    if power is None or (bool(match["sign"] in _MINUS) != (key < 0) and _plain(match["number"])):
        return None
    if power and unit not in ("", "%"):
        unit = unit[1:]
    return _ends(_number(match, float(key), unit, power), match, power)


def in_header(numbers: Sequence[Number | None]) -> str:
    """The unit that every number of a column has, which its heading can say; else empty."""
    units = {n.unit for n in numbers if n is not None}
    return units.pop() if len(units) == 1 and units.isdisjoint({"", "%", "exactly"}) else ""


def without_unit(number: Number) -> Number:
    """The number shown without the unit that its column's heading says."""
    return replace(number, format=number.format.replace(_quoted(f" {number.unit}"), ""))


def _number(match: re.Match[str], key: float, unit: str, power: int) -> Number:
    text = match["number"]
    digits = len(text.partition(".")[2])
    shift = -power if unit != "%" else 0
    # A time printed as 12.3 ms is 0.0123 s: as many significant digits, in the base unit.
    decimals = min(max(0, digits + shift), _MOST_DECIMALS)
    scaled = Decimal(text.replace(",", "")).scaleb(power)
    printed = -scaled if key < 0 else scaled
    body = "#,##0" if scaled.copy_abs() >= 1000 and unit != "%" else "0"
    body += f".{'0' * decimals}" if decimals else ""
    shown_step = Decimal(1).scaleb(-decimals - (2 if unit == "%" else 0))
    agrees = printed != 0 and _rounded(key, shown_step) == printed
    tail = {"": "", "%": r"\ %"}.get(unit, _quoted(f" {unit}"))
    front = _quoted(match["before"]) if match["before"] else ""
    times = _quoted("x") if match["times"] else ""
    plus = _quoted("+") if match["sign"] == "+" else ""
    positive = f"{front}{plus}{times}{body}{tail}"
    negative = f"{front}{_quoted('−')}{times}{body}{tail}"
    return Number(
        key if agrees else float(printed), positive if printed >= 0 else f"{positive};{negative}",
        unit, prefixed=bool(power) and unit != "%",
    )  # fmt: skip


def _ends(number: Number, match: re.Match[str], power: int) -> Number:
    if number.unit == "exactly":
        return replace(number, lo=number.value, hi=number.value, end_format="0")
    if match["lo"] is None:
        return number
    lo, hi = (
        Decimal(match[end].replace("−", "-").replace(",", "")).scaleb(power) for end in ("lo", "hi")
    )
    digits = len(match["lo"].partition(".")[2])
    decimals = min(max(0, digits - (power if number.unit != "%" else 0)), _MOST_DECIMALS)
    shown = f"#,##0.{'0' * decimals}" if decimals else "#,##0"
    return replace(number, lo=float(lo), hi=float(hi), end_format=shown)


def _power(text: str, key: float, unit: str) -> int | None:
    """Power of ten by which the printed number is smaller than the key; None if it is another."""
    powers = [-2] if unit == "%" else [0]
    if unit not in ("", "%") and unit[0] in _PREFIXES and len(unit) > 1:
        powers.append(_PREFIXES[unit[0]])
    last_digit = 10.0 ** -len(text.partition(".")[2])
    for power in powers:
        value, half = float(_plain(text).scaleb(power)), 0.51 * last_digit * 10.0**power
        # Of three significant digits, as 12,300 for 12,345, the last is worth half a per cent.
        if math.isclose(value, abs(key), rel_tol=5.1e-3, abs_tol=half):
            return power
    return None


def _plain(text: str) -> Decimal:
    return Decimal(text.replace(",", ""))


def _rounded(value: float, step: Decimal) -> Decimal:
    """As a spreadsheet rounds what it shows: halves away from zero, of 15 digits."""
    return Decimal(f"{value:.15g}").quantize(step, rounding=ROUND_HALF_UP)


def _quoted(text: str) -> str:
    return '"' + text.replace('"', "") + '"'
