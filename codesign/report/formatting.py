"""Every number of a report is written here, so that all formats agree digit by digit."""

from __future__ import annotations

import math
from collections.abc import Mapping

from codesign._common.units import format_share, format_si
from codesign.recommend.schema import CostItem, Interval
from codesign.recommend.wording import name_of

DASH = "–"
BOUND_SIGNS = {"central": "", "lower": "≥ ", "upper": "≤ "}
EVIDENCE_ORDER = ("measured", "interpolated", "extrapolated", "modelled", "assumed")
_TIME_SCALES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))


def significant(value: float, digits: int = 3) -> str:
    """``value`` to ``digits`` significant digits, never in powers of ten: ``12,300``."""
    if not math.isfinite(value):
        return "n/a"
    if value == 0:
        return "0"
    # The exponent is taken after rounding: 9.996 is 10.0, not 10.00.
    exponent = int(f"{value:.{digits - 1}e}".partition("e")[2])
    return f"{round(value, digits - 1 - exponent):,.{max(0, digits - 1 - exponent)}f}"


def gain(interval: Interval) -> str:
    """A speedup with its 90 % interval: ``x1.234 [1.181, 1.295]``; ``x1 exactly`` for none."""
    if interval.value == interval.lo == interval.hi == 1.0:
        return "x1 exactly"
    return f"{speedup(interval.value)} [{_speed(interval.lo)}, {_speed(interval.hi)}]"


def speedup(value: float) -> str:
    """A speedup without its interval: ``x1.024``."""
    return f"x{_speed(value)}"


def _speed(value: float) -> str:
    # Three decimals: two would print a gain of 2 % and the ends of its interval alike.
    return f"{value:.3f}" if abs(value) < 9.9995 else significant(value)


def bracketed(interval: Interval, digits: int = 3) -> str:
    """``1.23 [1.18, 1.29]``."""
    lo, hi = significant(interval.lo, digits), significant(interval.hi, digits)
    return f"{significant(interval.value, digits)} [{lo}, {hi}]"


def factor(value: float) -> str:
    """A step or ratio: ``x1.50``."""
    return f"x{significant(value)}"


def share(value: float) -> str:
    """A share of a whole, in per cent with one decimal; what is not zero never reads as zero."""
    return format_share(value)


def signed_share(value: float) -> str:
    """A relative error: ``+3.2 %``."""
    if not math.isfinite(value):
        return "n/a"
    text = f"{100 * value:+.1f} %"
    return "0.0 %" if text in ("+0.0 %", "-0.0 %") else text


def shares(parts: Mapping[str, float], order: tuple[str, ...] = EVIDENCE_ORDER) -> str:
    """``measured 62.0 %, modelled 38.0 %`` in the given order, then by size."""
    return ", ".join(f"{name_of(key)} {share(value)}" for key, value in ordered_parts(parts, order))


def ordered_parts(
    parts: Mapping[str, float], order: tuple[str, ...] = EVIDENCE_ORDER
) -> list[tuple[str, float]]:
    """The parts above zero: those of ``order`` first, the others by falling size."""

    def place(item: tuple[str, float]) -> tuple[int, float, str]:
        key, value = item
        return (order.index(key) if key in order else len(order), -value, key)

    return sorted(((k, v) for k, v in parts.items() if v > 0), key=place)


def seconds(value: float) -> str:
    """A duration with its prefix: ``12.3 ms``."""
    return format_si(value, "s")


def signed_seconds(value: float) -> str:
    """What is added to or taken from a duration: ``+12.3 ms``, ``−1.20 ms``, ``0 s``."""
    if value == 0 or not math.isfinite(value):
        return seconds(value)
    return f"{'+' if value > 0 else '−'}{seconds(abs(value))}"


def seconds_interval(interval: Interval) -> str:
    """A duration with its interval, all three in one unit: ``12.3 ms [11.8, 12.9]``."""
    for scale, unit in _TIME_SCALES:
        if abs(interval.value) >= scale or unit == "ns":
            lo, hi = significant(interval.lo / scale), significant(interval.hi / scale)
            return f"{significant(interval.value / scale)} {unit} [{lo}, {hi}]"
    raise AssertionError("the last scale always matches")


def cost_item(item: CostItem | None) -> str:
    """``+31.2 mm²``, ``≤ 31.2 mm²`` of a bound, or a dash where no source gives the value."""
    if item is None or item.value is None:
        return DASH
    unit = item.unit.replace("mm2", "mm²")
    if item.value == 0:
        return f"0 {unit}"
    sign = "−" if item.value < 0 else "+" if item.bound == "central" else ""
    return f"{BOUND_SIGNS[item.bound]}{sign}{significant(abs(item.value))} {unit}"


def per_cost(value: float | None, ranking_cost: str) -> str:
    """Gain per unit of the ranking cost: ``0.0712 % per USD``."""
    if value is None:
        return DASH
    return f"{significant(value)} % per {cost_unit(ranking_cost)}"


def number(value: float | None) -> str:
    """A bare number under a heading that has its unit, or a dash."""
    return DASH if value is None else significant(value)


def cost_unit(ranking_cost: str) -> str:
    """``USD`` of ``USD per GPU``."""
    return ranking_cost.partition(" per ")[0].strip() or "unit of cost"


def optional_share(value: float | None) -> str:
    """A share, or a dash where it was not computed."""
    return DASH if value is None else share(value)


def count(value: float) -> str:
    """A whole number with thousands separated: ``141,000``."""
    return f"{round(value):,}"
