"""What the least traffic of layers is, as a value."""

from dataclasses import dataclass

from tilestitch.base.shown import Brief


@dataclass(frozen=True, slots=True, repr=False)
class LayerTraffic(Brief):
    """One layer, or a chain of layers: what crosses to and from the buffer at least, by the buffer's capacity."""

    name: str
    times: int  # how often the network runs it
    macs: int
    compulsory_bytes: int  # with room for everything
    enough_bytes: int  # the least capacity from which on no more than that crosses
    least_bytes: tuple[int | None, ...]  # by capacity; none where not even single elements fit
    apart_bytes: tuple[int | None, ...] = ()  # of a chain, with its operators one after another


@dataclass(frozen=True, slots=True, repr=False)
class TrafficOfLayers(Brief):
    """The layers of a network, or its chains, one after another, with nothing kept between them."""

    name: str
    capacities: tuple[int, ...]  # of the buffer, in bytes, ascending
    layers: tuple[LayerTraffic, ...]
    together: int = 1  # up to so many layers of a chain
    notes: tuple[str, ...] = ()  # on how the network was read

    @property
    def compulsory_bytes(self) -> int:
        """Of all layers, each as often as it runs."""
        return sum(one.times * one.compulsory_bytes for one in self.layers)

    def total_bytes(self, at: int) -> int | None:
        """Of all layers at one of the capacities; none where one of them does not fit."""
        return _total([(one.times, one.least_bytes[at]) for one in self.layers])

    def apart_bytes(self, at: int) -> int | None:
        """The same with all operators of chains one after another."""
        return _total([(one.times, one.apart_bytes[at]) for one in self.layers])


def _total(found: list[tuple[int, int | None]]) -> int | None:
    return None if any(least is None for _, least in found) else sum(times * (least or 0) for times, least in found)
