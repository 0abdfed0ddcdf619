"""Why there is no choice of what to spread: what a user fixes of it cannot be, or not at so high a use of the units."""

from collections.abc import Mapping
from math import prod

from tilestitch.base.errors import DoesNotFit
from tilestitch.mapping.tree.choices import SpatialSpace
from tilestitch.mapping.tree.placed import PlacedNest


def no_choice(bare: PlacedNest, space: SpatialSpace) -> DoesNotFit:
    """The error of a search that has no choice; it names the axis or the loop whose factors are too large."""
    name, given = bare.nest.name, _given(bare, space)
    for axis in bare.tree.axes:
        loops = {loop: factor for (along, loop), factor in given.items() if along == axis.name}
        if prod(loops.values()) > axis.size:
            return DoesNotFit(
                f"{name}: {_said(loops)} along {axis.name} needs {prod(loops.values()):,} units, of which {axis.name} "
                f"has {axis.size:,}; fix smaller factors"
            )
    for loop, extent in zip(bare.nest.loops, bare.nest.extents, strict=True):
        axes = {axis: factor for (axis, along), factor in given.items() if along == loop.name}
        if prod(axes.values()) > extent:
            return DoesNotFit(
                f"{name}: {loop.name} has {extent:,} iterations, of which {prod(axes.values()):,} are fixed along "
                f"{' and '.join(axes)}; fix smaller factors"
            )
    problem = f"{name}: no choice of what to spread uses {space.least_use:.0%} of {bare.tree.units:,} units"
    if not given:
        return DoesNotFit(problem)
    fixed = ", ".join(f"{loop} {factor} along {axis}" for (axis, loop), factor in given.items())
    return DoesNotFit(f"{problem} and has {fixed}; fix other factors, or fewer")


def _given(bare: PlacedNest, space: SpatialSpace) -> Mapping[tuple[str, str], int]:
    """The factors above 1 that are fixed of loops of this nest, by axis and loop."""
    names = [loop.name for loop in bare.nest.loops]
    return {key: factor for key, factor in space.given.items() if key[1] in names and factor > 1}


def _said(loops: Mapping[str, int]) -> str:
    return " x ".join(f"{loop} {factor:,}" for loop, factor in loops.items())
