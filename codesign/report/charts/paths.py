"""SVG path strings from pixel coordinates."""

from __future__ import annotations

from collections.abc import Sequence

Point = tuple[float, float]


def line(points: Sequence[Point]) -> str:
    """An open polyline: ``M0,0L10,5``."""
    return "M" + "L".join(f"{x:g},{y:g}" for x, y in points) if points else ""


def band(upper: Sequence[Point], lower: Sequence[Point]) -> str:
    """The closed area between two polylines over the same abscissae."""
    return line([*upper, *reversed(lower)]) + "Z" if upper else ""


def marker(shape: str, x: float, y: float, radius: float) -> str:
    """A closed marker of about equal area whatever its shape."""
    r = radius
    if shape == "square":
        h = 0.886 * r
        return f"M{x - h:.1f},{y - h:.1f}h{2 * h:.1f}v{2 * h:.1f}h{-2 * h:.1f}Z"
    if shape == "diamond":
        d = 1.253 * r
        return f"M{x:.1f},{y - d:.1f}l{d:.1f},{d:.1f}l{-d:.1f},{d:.1f}l{-d:.1f},{-d:.1f}Z"
    if shape == "triangle":
        t = 1.35 * r
        return f"M{x:.1f},{y - t:.1f}l{1.17 * t:.1f},{1.8 * t:.1f}h{-2.34 * t:.1f}Z"
    arc = f"a{r:.1f},{r:.1f} 0 1 0"
    return f"M{x - r:.1f},{y:.1f}{arc} {2 * r:.1f},0{arc} {-2 * r:.1f},0Z"
