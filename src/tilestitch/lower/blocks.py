"""What one launch starts, as a block of instructions, and by what blocks are alike."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tilestitch.cost.shape import kernel_key, local_names
from tilestitch.hardware.accelerator import Level
from tilestitch.ir.graph import Graph
from tilestitch.ir.region import Region
from tilestitch.ir.schedule import Home, Kernel
from tilestitch.lower.builder import Builder
from tilestitch.lower.cluster import Cluster
from tilestitch.lower.homes import HomeBuffers, Homes, free_windows
from tilestitch.lower.kernel import lower_kernel
from tilestitch.lower.link import Block, block_of
from tilestitch.lower.stream import lower_streamed


@dataclass(frozen=True)
class Launched:
    """The kernels that one launch starts, and what lies on chip around them."""

    first: int  # number of the first kernel
    kernels: tuple[Kernel, ...]
    live: tuple[int, ...]  # places among the schedule's homes of those filled before and read from here on
    made: tuple[tuple[int, ...], ...]  # per kernel, of those that it fills


def launches_of(kernels: Sequence[Kernel], homes: Sequence[Home]) -> Iterator[Launched]:
    """The kernels of a schedule from launch to launch."""
    made: list[list[int]] = [[] for _ in kernels]
    for place, home in enumerate(homes):
        made[home.first].append(place)
    begins = [number for number, kernel in enumerate(kernels) if kernel.launches]
    live: list[int] = []
    for begin, end in zip(begins, (*begins[1:], len(kernels)), strict=True):
        live = [place for place in live if homes[place].last >= begin]
        own = tuple(map(tuple, made[begin:end]))
        yield Launched(begin, tuple(kernels[begin:end]), tuple(live), own)
        live += [place for places in own for place in places]


def tensors_of(graph: Graph, kernels: Sequence[Kernel]) -> list[str]:
    """Tensors of some kernels in the order in which they name them."""
    return local_names(graph, [graph.by_name[name] for kernel in kernels for name in kernel.operators])


def block_key(graph: Graph, cluster: Cluster, launched: Launched, homes: Sequence[Home]) -> tuple:
    """Equal for launches of one kernel that differ only in names."""
    kernel, *others = launched.kernels
    if others:
        return (launched.first,)
    place = {name: number for number, name in enumerate(tensors_of(graph, launched.kernels))}

    def facts(home: Home) -> tuple:
        return place[home.tensor], home.region, home.level, home.parts, home.address, home.size_bytes

    live, made = [homes[at] for at in launched.live], [homes[at] for own in launched.made for at in own]
    return (
        kernel_key(graph, kernel),
        tuple(facts(home) for home in live if home.tensor in place),
        tuple((facts(home), home.instead_of is not None and place[home.instead_of]) for home in made),
        tuple(free_windows(cluster, [*live, *made]).items()),
    )


def lower_block(
    cluster: Cluster, graph: Graph, launched: Launched, homes: Sequence[Home], addresses: Mapping[str, int]
) -> tuple[Block, list[HomeBuffers]]:
    """The instructions of a launch, and the buffers of the homes that its kernels fill.

    `addresses` holds the places of tensors in DDR. The first buffers of the block are those of its tensors in DDR, then
    those of its tensors that lie on chip before it.
    """
    builder = Builder(cluster)
    names = tensors_of(graph, launched.kernels)
    rows = in_ddr(graph, cluster, {name: addresses[name] for name in names if name in addresses})
    ddr = {row[3]: builder.buffer(*row) for row in rows}
    around = Homes(builder, graph, [homes[place] for place in launched.live], frozenset(names))
    given = len(builder.buffer_rows)
    for at, (kernel, made) in enumerate(zip(launched.kernels, launched.made, strict=True)):
        builder.enter(at)
        surroundings = around.enter(launched.first + at, kernel, [homes[place] for place in made])
        if kernel.streamed:
            lower_streamed(builder, graph, kernel, ddr)
        else:
            lower_kernel(builder, graph, kernel, ddr, surroundings)
    return block_of(builder, given), around.made


def in_ddr(graph: Graph, cluster: Cluster, address: Mapping[str, int]) -> Iterator[tuple[int, int, int, str, Region]]:
    """The buffers of tensors in DDR: space, address, bytes, name, region."""
    for name, at in address.items():
        tensor = graph.tensors[name]
        yield cluster.space(Level.DDR), at, tensor.size_bytes, name, Region.whole(tensor.shape)
