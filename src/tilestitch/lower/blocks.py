"""The instructions of kernels as blocks: kernels that differ in names, cores, and where they begin, share one."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tilestitch.hardware.accelerator import Level
from tilestitch.ir.graph import Graph
from tilestitch.ir.region import Region
from tilestitch.ir.schedule import Kernel
from tilestitch.kernels.shape import Signatures, kernel_key
from tilestitch.kernels.surroundings import Source
from tilestitch.lower.addresses import Demand
from tilestitch.lower.builder import Builder, Owner
from tilestitch.lower.cluster import Cluster, OtherCores
from tilestitch.lower.homes import Around, home_parts
from tilestitch.lower.kernel import lower_kernel
from tilestitch.lower.link import Here, Section, section_of
from tilestitch.lower.motion import Motion, motion_of, moved
from tilestitch.lower.stream import lower_streamed
from tilestitch.lower.sums import sums_of


@dataclass(frozen=True, slots=True)
class Known:
    """A block with the first kernel that has it."""

    block: Section
    demand: Demand
    kernel: Kernel
    tensors: Sequence[str]
    begin: tuple[int, ...]


class Blocks:
    """The blocks of the kernels of one schedule, each lowered once."""

    def __init__(
        self,
        cluster: Cluster,
        graph: Graph,
        signatures: Signatures,
        in_ddr: Mapping[str, int],
        known: dict[tuple, Known],
        motions: dict[tuple, Motion],
    ) -> None:
        """`in_ddr` has the buffers of tensors in DDR; `known` blocks, of the same machine and signatures, are added to.

        So are the `motions` of kernels of the same graph; `signatures` are of the graph, whether it has sums or not.
        """
        self.cluster, self.graph, self.in_ddr, self._known = cluster, graph, in_ddr, known
        self.signatures, self._motions = signatures, motions
        self._others: dict[tuple[int, ...], OtherCores | None] = {}

    def find(self, number: int, kernel: Kernel, around: Around) -> tuple[Section, Demand, Here]:
        """The block of kernel `number`, what it needs of each memory, and what is particular to this kernel."""
        operators = [self.graph.by_name[name] for name in kernel.operators]
        box = operators[-1].whole if kernel.box is None else kernel.box
        sums = sums_of(self.graph, kernel)
        tensors = [*self.signatures.of(kernel.operators)[1], *sums]
        moves = kernel.operators, box, kernel.tiling.resident, tuple(sums)
        if moves not in self._motions:
            self._motions[moves] = motion_of(self.graph, operators, box, kernel.tiling.resident, sums)
        motion = self._motions[moves]
        cores = self._in_order(kernel.cores)
        like, like_around = _on_others(kernel, around, cores)
        key = self._key(like, box, like_around, tensors, motion)
        if key not in self._known:
            self._known[key] = self._lowered(like, box, like_around, tensors, motion)
        known = self._known[key]
        here = Here(
            number,
            [buffer for _, _, _, buffer in self._given(around, tensors)],
            dict(zip(known.tensors, tensors, strict=True)),
            dict(zip(known.kernel.operators, kernel.operators, strict=True)),
            tuple(now - then for now, then in zip(box.start, known.begin, strict=True)),
            self._others[cores],
        )
        return known.block, known.demand, here

    def _in_order(self, own: tuple[int, ...]) -> tuple[int, ...]:
        """All cores, those of a kernel first, in the order in which it takes them; as they are where not all alike."""
        every = range(self.cluster.cores)
        cores = (*own, *(core for core in every if core not in own)) if self.cluster.alike else tuple(every)
        if cores not in self._others:
            self._others[cores] = None if cores == tuple(every) else self.cluster.with_cores(cores)
        return cores

    def _given(self, around: Around, tensors: list[str]) -> Iterator[tuple[int, str, Region, int]]:
        """What is there before a kernel: space, tensor, region and buffer."""
        for name in tensors:
            if name in self.in_ddr:
                whole = Region.whole(self.graph.tensors[name].shape)
                yield self.cluster.space(Level.DDR), name, whole, self.in_ddr[name]
        for name in tensors:
            for source, buffer in around.sources.get(name, {}).items():
                yield self.cluster.space(source.level, source.core), name, source.region, buffer
        for name, buffers in around.results.items():
            home = around.made[name]
            for core, region in home_parts(home):
                yield self.cluster.space(home.level, core), name, region, buffers[core]

    def _key(self, kernel: Kernel, box: Region, around: Around, tensors: list[str], motion: Motion) -> tuple:
        """Equal for kernels with the same block, whatever their names and where they begin."""
        base = motion.base(box)
        back = tuple(to - at for to, at in zip(base, box.start, strict=True))

        def moved_back(name: str) -> Callable[[Region], Region]:
            shift = motion.shift(Owner(name), back)
            return lambda region: moved(region, shift)

        place = {name: at for at, name in enumerate(tensors)}
        return (
            kernel_key(self.signatures, replace(kernel, box=None)),
            base,
            box.extents,
            tuple(name in self.in_ddr for name in tensors),
            tuple(place[name] for name in around.fetched),
            tuple(
                tuple((where(one.region), one.level, one.core) for one in around.sources.get(name, {}))
                for name, where in ((name, moved_back(name)) for name in tensors)
            ),
            tuple(
                (
                    *(place[name], home.level, home.stored),
                    tuple((core, where(part)) for core, part in home_parts(home)),
                )
                for name, home, where in ((name, home, moved_back(name)) for name, home in around.made.items())
            ),
        )

    def _lowered(self, kernel: Kernel, box: Region, around: Around, tensors: list[str], motion: Motion) -> Known:
        builder = Builder(self.cluster)
        numbers = iter([builder.given_buffer(*one[:3]) for one in self._given(around, tensors)])
        in_ddr = {name: next(numbers) for name in tensors if name in self.in_ddr}
        sources = {
            name: {source: next(numbers) for source in around.sources[name]}
            for name in tensors
            if name in around.sources
        }
        results = {name: {core: next(numbers) for core, _ in home_parts(around.made[name])} for name in around.results}
        if kernel.streamed:
            lower_streamed(builder, self.graph, kernel, in_ddr)
            demand = Demand((0,) * len(self.cluster.spaces), (), None)
        else:
            demand = lower_kernel(
                builder, self.graph, kernel, in_ddr, Around(sources, results, around.made, around.fetched)
            )
        return Known(section_of(builder, motion), demand, kernel, tensors, box.start)


def _on_others(kernel: Kernel, around: Around, cores: tuple[int, ...]) -> tuple[Kernel, Around]:
    """A kernel and what lies around it with core `i` in the place of core `cores[i]`, and with no ring of sums.

    Where sums lie is part of no block, and alike cores do alike work: so kernels that differ in these share one.
    """
    if not any(core != at for at, core in enumerate(cores)):
        return replace(kernel, ring=False), around
    place = {core: at for at, core in enumerate(cores)}
    sources = {
        tensor: {
            source if source.core is None else Source(source.region, source.level, place[source.core]): buffer
            for source, buffer in found.items()
        }
        for tensor, found in around.sources.items()
    }
    made = {
        name: replace(home, parts=tuple((place[core], part) for core, part in home.parts))
        for name, home in around.made.items()
    }
    results = {
        name: {None if core is None else place[core]: buffer for core, buffer in found.items()}
        for name, found in around.results.items()
    }
    strips = tuple((place[core], strip) for core, strip in kernel.strips)
    like = replace(kernel, cores=tuple(place[core] for core in kernel.cores), strips=strips, ring=False)
    return like, Around(sources, results, made, around.fetched)


def in_ddr(graph: Graph, cluster: Cluster, address: Mapping[str, int]) -> Iterator[tuple[int, int, int, str, Region]]:
    """The buffers of tensors in DDR: space, address, bytes, name, region."""
    for name, at in address.items():
        tensor = graph.tensors[name]
        yield cluster.space(Level.DDR), at, tensor.size_bytes, name, Region.whole(tensor.shape)
