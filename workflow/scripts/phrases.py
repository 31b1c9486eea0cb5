"""How numbers are worded in the text: ranges, shares, counts, settings."""

from collections.abc import Callable, Iterable
from typing import Any

from cells import DECIMALS, NOT_THERE, inline_math, name, rounded


def share(count: int, total: int, what: str) -> str:
    """Phrase how often something holds: 'in all 12 pairs', 'in 9 of the 12 pairs'."""
    if not total:
        return f"in none of the {what}, because none can be compared"
    if count == total:
        return f"in all {total} {what}" if total > 1 else "in the one case there is"
    return f"in {count if count else 'none'} of the {total} {what}"


def span(values: Iterable[float | None], text: Callable[[float], str]) -> str:
    """Phrase a range; one number where the ends print the same."""
    known = [value for value in values if value is not None]
    if not known:
        return NOT_THERE
    low, high = text(min(known)), text(max(known))
    return low if low == high else f"{low} to {high}"


def metric_text(metric: str, value: float | None) -> str:
    """Print a metric in the text; counts of gradient evaluations in powers of ten."""
    if metric == "gradient_evaluations":
        return grouped(value)
    return inline_math(rounded(value, DECIMALS[metric]))


def grouped(value: float | None) -> str:
    """Print a whole number with thin spaces between thousands, or as a power of ten from a million on."""
    if value is None:
        return NOT_THERE
    if abs(value) >= 1e6:
        mantissa, exponent = f"{value:.2e}".split("e")
        return f"\\ensuremath{{{mantissa}\\times 10^{{{int(exponent)}}}}}"
    return f"{value:,.0f}".replace(",", "\\,")


def setting_text(value: Any) -> str:
    """Print a setting: numbers as numbers, names readable, lists with commas."""
    if value is None:
        return NOT_THERE
    if isinstance(value, (list, tuple)):
        return ", ".join(setting_text(item) for item in value) or NOT_THERE
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, int):
        return grouped(value)
    return f"{value:g}" if isinstance(value, float) else name(str(value))


def listed(items: list[str]) -> str:
    """Join as a sentence does."""
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"
