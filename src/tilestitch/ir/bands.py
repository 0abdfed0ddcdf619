"""Which depthwise convolutions run as products of several channels and neighbouring results at once."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Band:
    """One of them: a row of the product's result has so many channels, and so many neighbours along each axis."""

    operator: str
    channels: int
    neighbours: tuple[int, ...]
