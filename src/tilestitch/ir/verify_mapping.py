"""The invariants of mappings of loop nests, each stated once."""

from collections.abc import Iterator

from tilestitch.base.errors import InvalidIR
from tilestitch.ir.loop_nest import LoopMapping, LoopNest


def verify_mapping(mapping: LoopMapping, nest: LoopNest, *, ragged: bool = False) -> None:
    """Raise `InvalidIR`, with every broken invariant on a line, unless the mapping runs every iteration of the nest.

    Whether it fits a machine is for its price to say.
    """
    faults = list(mapping_faults(mapping, nest, ragged=ragged))
    if faults:
        raise InvalidIR("\n".join(f"mapping of {nest.name!r}: {fault}" for fault in faults))


def mapping_faults(mapping: LoopMapping, nest: LoopNest, *, ragged: bool) -> Iterator[str]:
    """What is wrong: factors that do not make up the extents, exactly unless `ragged`; orders without every loop."""
    loops = list(range(len(nest.loops)))
    for level, row in mapping.factors.items():
        if len(row) != len(loops) or min(row, default=1) < 1:
            yield f"has the factors {row} at {level}; expected one from 1 on for each of {len(loops)} loops"
            return  # the rest may rely on them
    if not mapping.is_exact(nest) and not (ragged and mapping.covers(nest)):
        for number, loop in enumerate(nest.loops):
            total = mapping.dram[number] * mapping.scratchpad_tile[number]
            if total < loop.extent or (total > loop.extent and not ragged):
                yield f"the factors of loop {loop.name} multiply to {total:,}, not to its extent, {loop.extent:,}"
        tiles = zip(mapping.dram, mapping.scratchpad_tile, nest.extents, strict=True)
        if ragged and all(dram * tile >= extent for dram, tile, extent in tiles):
            yield "the factors of a loop make tiles without iterations"
    for level, order in (("dram", mapping.dram_order), ("spm", mapping.spm_order)):
        if sorted(order) != loops:
            yield f"the order {order} at {level} does not have each of {len(loops)} loops once"
