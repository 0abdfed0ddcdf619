"""What the least traffic of layers is, as a value."""

from dataclasses import dataclass

from tilestitch.base.shown import Brief


@dataclass(frozen=True, slots=True, repr=False)
class LayerTraffic(Brief):
    """One layer: what crosses to and from the buffer at least, by the buffer's capacity."""

    name: str
    times: int  # how often the network runs it
    macs: int
    compulsory_bytes: int  # with room for everything
    enough_bytes: int  # the least capacity from which on no more than that crosses
    least_bytes: tuple[int | None, ...]  # by capacity; none where not even single elements fit


@dataclass(frozen=True, slots=True, repr=False)
class TrafficOfLayers(Brief):
    """The layers of a network one after another, with nothing kept between them."""

    name: str
    capacities: tuple[int, ...]  # of the buffer, in bytes, ascending
    layers: tuple[LayerTraffic, ...]

    @property
    def compulsory_bytes(self) -> int:
        """Of all layers, each as often as it runs."""
        return sum(one.times * one.compulsory_bytes for one in self.layers)

    def total_bytes(self, at: int) -> int | None:
        """Of all layers at one of the capacities; none where one of them does not fit."""
        found = [(one.times, one.least_bytes[at]) for one in self.layers]
        return None if any(least is None for _, least in found) else sum(times * (least or 0) for times, least in found)
