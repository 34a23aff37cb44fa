"""Numbers for people, rounded to the safe side."""

from __future__ import annotations

from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal


def upward(value: float, digits: int = 4) -> str:
    """So many digits, never less than the value: what is promised must not look better than it is."""
    return _text(value, digits, ROUND_CEILING)


def downward(value: float, digits: int = 4) -> str:
    """So many digits, never more than the value: what was measured must not look worse than it is."""
    return _text(value, digits, ROUND_FLOOR)


def _text(value: float, digits: int, rounding: str) -> str:
    if value in (0.0, float("inf")):
        return "0" if value == 0 else "∞"
    return f"{float(Context(prec=digits, rounding=rounding).create_decimal(Decimal(value))):.{digits}g}"
