"""Small line plots as SVG, both axes logarithmic; no library needed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from math import ceil, floor, log10

Points = Sequence[tuple[float, float]]
_WIDE, _HIGH, _EDGE, _GAP = 300, 200, 60, 30
_COLOURS = ("#555555", "#0b7285", "#c92a2a", "#e67700", "#5f3dc4")


def draw(panels: Mapping[str, Mapping[str, Points]], *, across: str, up: str) -> str:
    """One panel beside the other, with one scale for all, and the names of the lines below."""
    points = [point for lines in panels.values() for line in lines.values() for point in line]
    if not points:
        return '<svg xmlns="http://www.w3.org/2000/svg" width="1" height="1"/>\n'
    left, right = _decades([x for x, _ in points])
    low, high = _decades([y for _, y in points])
    names = list(dict.fromkeys(name for lines in panels.values() for name in lines))
    width = _EDGE + len(panels) * (_WIDE + _GAP)
    height = _EDGE + _HIGH + 50 + 18 * len(names)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif"'
        ' font-size="11"><rect width="100%" height="100%" fill="white"/>'
    ]
    for index, (title, lines) in enumerate(panels.items()):
        x0 = _EDGE + index * (_WIDE + _GAP)

        def place(x: float, y: float, x0: float = x0) -> tuple[float, float]:
            return (
                x0 + (log10(x) - left) / (right - left) * _WIDE,
                _EDGE + _HIGH - (log10(y) - low) / (high - low) * _HIGH,
            )

        parts.append(f'<text x="{x0}" y="{_EDGE - 12}" font-weight="bold">{escape(title)}</text>')
        for power in range(low, high + 1):
            _, y = place(10**left, 10**power)
            parts.append(f'<line x1="{x0}" x2="{x0 + _WIDE}" y1="{y:.1f}" y2="{y:.1f}" stroke="#dddddd"/>')
            if index == 0:
                parts.append(f'<text x="{x0 - 6}" y="{y + 4:.1f}" text-anchor="end">{10.0**power:g}</text>')
        for power in range(left, right + 1):
            x, _ = place(10**power, 10**low)
            parts.append(f'<text x="{x:.1f}" y="{_EDGE + _HIGH + 16}" text-anchor="middle">{10.0**power:.4%}</text>')
        for name, line in lines.items():
            colour = _COLOURS[names.index(name) % len(_COLOURS)]
            placed = [place(x, y) for x, y in sorted(line)]
            told = " ".join(f"{x:.1f},{y:.1f}" for x, y in placed)
            parts.append(f'<polyline points="{told}" fill="none" stroke="{colour}" stroke-width="2"/>')
            parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in placed]
    parts.append(f'<text x="{_EDGE}" y="{_EDGE + _HIGH + 34}">{escape(across)}</text>')
    parts.append(f'<text x="{_EDGE - 45}" y="20">{escape(up)}</text>')
    for index, name in enumerate(names):
        y = _EDGE + _HIGH + 54 + 18 * index
        colour = _COLOURS[index % len(_COLOURS)]
        parts.append(f'<rect x="{_EDGE}" y="{y - 9}" width="10" height="10" fill="{colour}"/>')
        parts.append(f'<text x="{_EDGE + 16}" y="{y}">{escape(name)}</text>')
    return "\n".join([*parts, "</svg>\n"])


def _decades(values: Sequence[float]) -> tuple[int, int]:
    """The powers of ten that hold all values, at least one apart."""
    low, high = floor(log10(min(values))), ceil(log10(max(values)))
    return low, max(high, low + 1)
