"""Numbers with their units, for people."""

from collections.abc import Sequence
from fractions import Fraction
from math import floor


def format_bytes(count: int) -> str:
    """`1536` -> `1.50 KiB`; binary prefixes, and a power of ten where those end."""
    if abs(count) >= 1024**7:
        return f"1e{len(str(abs(count))) - 1} B"
    value = float(count)
    for prefix in ("B", "KiB", "MiB", "GiB", "TiB", "PiB"):
        if abs(value) < 1024:
            return f"{value:,.0f} {prefix}" if prefix == "B" else f"{value:,.2f} {prefix}"
        value /= 1024
    return f"{value:,.2f} EiB"


def format_seconds(seconds: float) -> str:
    """`0.00123` -> `1.230 ms`."""
    for limit, factor, unit in ((1e-6, 1e9, "ns"), (1e-3, 1e6, "us"), (1.0, 1e3, "ms")):
        if seconds < limit:
            return f"{seconds * factor:,.3f} {unit}"
    return f"{seconds:,.3f} s"


def format_energy(picojoules: float) -> str:
    """`2.5e9` -> `2.500 mJ`."""
    for limit, factor, unit in ((1e3, 1.0, "pJ"), (1e6, 1e-3, "nJ"), (1e9, 1e-6, "uJ"), (1e12, 1e-9, "mJ")):
        if picojoules < limit:
            return f"{picojoules * factor:,.3f} {unit}"
    return f"{picojoules * 1e-12:,.3f} J"


def format_number(number: Fraction) -> str:
    """At most three digits after the point, and no zeros that say nothing; small numbers keep three digits."""
    if 0 < number < 1:
        return f"{float(number):.3g}"
    return f"{float(number):,.3f}".rstrip("0").rstrip(".")


def format_rate(per_second: Fraction | int, unit: str) -> str:
    """`34000000000` -> `34 GB/s`; decimal prefixes."""
    for power, prefix in ((12, "T"), (9, "G"), (6, "M"), (3, "k")):
        if per_second >= 10**power:
            return f"{format_number(Fraction(per_second) / 10**power)} {prefix}{unit}"
    return f"{format_number(Fraction(per_second))} {unit}"


def counted(count: int, noun: str) -> str:
    """`1 kernel`, `1,200 kernels`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def ceil_div(dividend: int, divisor: int) -> int:
    """The smallest integer at or above `dividend / divisor`."""
    return -(-dividend // divisor)


ALIGNMENT_BYTES = 64  # every buffer begins at a multiple: the longest burst of any preset


def aligned(size_bytes: int) -> int:
    """The bytes that a buffer occupies: its size rounded up to the alignment."""
    return ceil_div(size_bytes, ALIGNMENT_BYTES) * ALIGNMENT_BYTES


def rounded(values: Sequence[Fraction], total: int) -> list[int]:
    """Whole numbers near some values whose sum rounds to `total`, with that sum: the largest rests are rounded up."""
    found = [floor(value) for value in values]
    order = sorted(range(len(values)), key=lambda n: (found[n] - values[n], n))
    for n in order[: total - sum(found)]:
        found[n] += 1
    return found


def tenths(values: Sequence[Fraction]) -> list[Fraction]:
    """Values as whole tenths that add up to what their sum is in tenths: each is less than a tenth away."""
    scaled = [10 * one for one in values]
    return [Fraction(one, 10) for one in rounded(scaled, floor(sum(scaled) + Fraction(1, 2)))]
