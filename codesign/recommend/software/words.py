"""Quantities inside the sentences of a finding."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from codesign._common.units import format_si

if TYPE_CHECKING:
    from codesign.recommend.software.look import Look


def seconds(value: float) -> str:
    """``13.2 ms``."""
    return format_si(value, "s")


def ops_in_words(look: Look, rows: Iterable[int], limit: int = 3) -> str:
    """``aten::bmm (12 calls, 22.8 ms)`` of the rows that take most, by exposed time."""
    from codesign.recommend.wording import shape_of

    exposed, count = look.step.exposed_s, look.number("count")
    ordered = sorted(rows, key=lambda i: (-exposed[i], i))
    parts = []
    for i in ordered[:limit]:
        row = {str(k): v for k, v in look.ops.iloc[i].to_dict().items()}
        shape = shape_of(row)
        calls = "1 call" if count[i] == 1 else f"{count[i]:.4g} calls"
        inner = f"{calls}, {seconds(float(exposed[i]))}"
        parts.append(f"{row['name']} ({f'{shape}, ' if shape else ''}{inner})")
    more = len(ordered) - limit
    return "; ".join(parts) + (f"; {more} more" if more > 0 else "")
