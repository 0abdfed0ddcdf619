"""The least traffic of every different layer of a network, and what that comes to."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tilestitch.api import Model, shown
from tilestitch.base.errors import InputError
from tilestitch.base.html import Record
from tilestitch.base.progress import Progress, quiet
from tilestitch.base.shown import Shown
from tilestitch.base.units import ceil_div, format_bytes
from tilestitch.commands.map.chains import OpenedChains, expect_together, open_chains
from tilestitch.commands.map.map_page import named_by
from tilestitch.commands.map.named_chain import NamedChain
from tilestitch.commands.map.run import nests_of
from tilestitch.commands.map.sources import Nests
from tilestitch.commands.traffic.traffic_text import traffic_curves, traffic_json, traffic_result, traffic_text
from tilestitch.commands.traffic.value import LayerTraffic, TrafficOfLayers
from tilestitch.mapping.fused.traffic import BufferedChain
from tilestitch.mapping.network import RepeatedNest
from tilestitch.mapping.tree.countable import countable
from tilestitch.mapping.tree.traffic import BufferedNest
from tilestitch.pipeline.origin import made_by, named_again, of_network, python_call
from tilestitch.report.html.page import result_page
from tilestitch.report.svg import curve_svg

LEAST_BYTES = 1024  # where capacities begin unless they are named
MOST_BYTES = 2**50
MOST_CAPACITIES = 64
ENOUGH_STEP = 1024  # of what is enough for a chain, in bytes


@dataclass(frozen=True, slots=True, repr=False)
class Traffic(TrafficOfLayers, Shown):
    """The least traffic by capacity with its page, its pictures and its JSON; every figure is estimated."""

    call: str = field(default="", repr=False)  # in Python, that makes its page again

    def __str__(self) -> str:
        return traffic_text(self)

    def to_json(self) -> str:
        """What `tilestitch traffic --json` writes."""
        return traffic_json(self)

    def to_html(self, command: str = "") -> str:
        """What `tilestitch traffic --html` writes: a page to look at; `command` is said to make it again."""
        return result_page(traffic_result(self), made_by(command or self.call, ()))

    def heading(self) -> str:
        """The network, and how many layers."""
        return f"{self.name}: the least traffic of {len(self.layers)} different layers by capacity (estimated)"

    def records(self) -> tuple[Record, ...]:
        """A row for each layer."""
        return tuple(
            {
                "layer": one.name,
                "times": one.times,
                "macs": one.macs,
                "compulsory_bytes": one.compulsory_bytes,
                "enough_bytes": one.enough_bytes,
                **{
                    f"bytes at {format_bytes(capacity)}": least
                    for capacity, least in zip(self.capacities, one.least_bytes, strict=True)
                },
            }
            for one in self.layers
        )

    def pictures(self) -> tuple[str, ...]:
        """Least traffic over capacity, a line for each layer."""
        return tuple(curve_svg(one, self.name, origin="estimated, exact in its model") for one in traffic_curves(self))


def traffic(
    model: Model,
    capacities: Sequence[int] = (),
    *,
    fuse: int = 1,
    layers: Sequence[str] = (),
    batch: int | None = None,
    dims: Mapping[str, int] = {},
    fold_bn: bool = True,
    progress: Progress | None = None,
) -> Traffic:
    """What every different layer of a network moves at least between a buffer and the memory outside it.

    A model may also be a line of einsum or a file of layers, as for `map`. `capacities` of the buffer are in bytes;
    where none is named they are the powers of two from 1 KiB to the least that is enough for all layers. With `fuse`
    rows are chains of products, of which up to so many (2 to 4) run together, as for `map_fused`. Raises `InputError`
    for a capacity that is none, and `TooLarge` for a layer that has too many mappings.
    """
    asked, told = _checked(capacities), progress or quiet
    if fuse == 1:
        if isinstance(model, str) and model.count("+=") > 1:
            raise InputError(
                "a line of several products is a chain; say --fuse 2 (fuse=2 in Python), or give one product"
            )
        nests = nests_of(model, layers, batch=batch, dims=dims, fold_bn=fold_bn)
        call = python_call("traffic", named_by(nests), *([list(asked)] if asked else []), **nests.asked)
        return _of(nests, asked, call, told)
    expect_together(fuse)
    opened = open_chains(model, layers, batch=batch, dims=dims, fold_bn=fold_bn)
    given = [named_again(model, opened.name), *([list(asked)] if asked else [])]
    call = python_call("traffic", *given, fuse=fuse, **of_network(layers, batch, dims, fold_bn=fold_bn))
    return _of_chains(opened, asked, fuse, call, told)


def _of(nests: Nests, asked: tuple[int, ...], call: str, progress: Progress) -> Traffic:
    for layer in nests.layers:  # refused before the first of them is searched
        countable(layer.nest)
    prepared: list[tuple[RepeatedNest, BufferedNest, int]] = []
    for number, layer in enumerate(nests.layers):
        progress("least capacities", number, len(nests.layers))
        buffered = BufferedNest.of(layer.nest)
        prepared.append((layer, buffered, buffered.enough_bytes()))
    chosen = asked or powers_of_two(max(enough for _, _, enough in prepared))
    found: list[LayerTraffic] = []
    for number, (layer, buffered, enough) in enumerate(prepared):
        progress("least traffic", number, len(prepared))
        nest, compulsory = layer.nest, ceil_div(buffered.compulsory_bits(), 8)
        least = tuple(_bytes(buffered.least_bits(8 * capacity)) for capacity in chosen)
        found.append(LayerTraffic(nest.name, layer.times, nest.macs, compulsory, enough, least))
    return Traffic(nests.name, chosen, tuple(found), notes=nests.notes, call=call)


def _of_chains(opened: OpenedChains, asked: tuple[int, ...], together: int, call: str, progress: Progress) -> Traffic:
    chains = opened.chains
    for nest in (nest for chain in chains for nest in chain.nests):
        countable(nest)
    prepared: list[tuple[NamedChain, BufferedChain, int]] = []
    for number, chain in enumerate(chains):
        progress("least capacities", number, len(chains))
        buffered = BufferedChain(chain.label, chain.nests, chain.links, together, chain.readers, chain.more)
        prepared.append((chain, buffered, buffered.enough_bytes(ENOUGH_STEP)))
    chosen = asked or powers_of_two(max(enough for _, _, enough in prepared))
    found: list[LayerTraffic] = []
    for number, (chain, buffered, enough) in enumerate(prepared):
        progress("least traffic", number, len(prepared))
        least = [buffered.least_bits(8 * capacity) for capacity in chosen]
        macs = sum(nest.macs for nest in chain.nests)
        crosses = (tuple(None if one is None else ceil_div(one.together, 8) for one in least),)
        crosses += (tuple(None if one is None else ceil_div(one.apart, 8) for one in least),)
        compulsory = ceil_div(buffered.compulsory_bits(), 8)
        found.append(LayerTraffic(buffered.name, chain.times, macs, compulsory, enough, *crosses))
    return Traffic(opened.name, chosen, tuple(found), together, opened.notes, call)


def powers_of_two(most: int) -> tuple[int, ...]:
    """From the least capacity to the first that is at least `most`."""
    found = [LEAST_BYTES]
    while found[-1] < most:
        found.append(2 * found[-1])
    return tuple(found)


def _bytes(bits: int | None) -> int | None:
    return None if bits is None else ceil_div(bits, 8)


def _checked(capacities: Sequence[int]) -> tuple[int, ...]:
    """Capacities in ascending order, each once."""
    for one in capacities:
        if not isinstance(one, int) or isinstance(one, bool) or not 1 <= one <= MOST_BYTES:
            raise InputError(f"capacities: expected whole bytes from 1 to {MOST_BYTES:,}, found {shown(one)}")
    if len(capacities) > MOST_CAPACITIES:
        raise InputError(f"capacities: expected at most {MOST_CAPACITIES}, found {len(capacities)}")
    return tuple(sorted(set(capacities)))
