"""Fixed dataflows and dMazeRunner's rules, as limits of a search."""

from itertools import combinations

from tilestitch.base.errors import InputError
from tilestitch.ir.loop_nest import LoopNest
from tilestitch.mapping.factors import Limits

# Which pair of loops is spread over elements. Output, weight, row and coarse weight stationary: Fig. 9a of dMazeRunner
# (TECS 2019), in the names of its code, where x counts rows: the paper's Oy|Fy is Ox|Fx here. Input stationary is
# INFERRED: a pair that moves every input, which stays while the scratchpad's loops run.
_PAIRS = {
    "output": ("Ox", "Oy"),
    "weight": ("Fx", "Fy"),
    "row": ("Ox", "Fx"),
    "coarse-weight": ("M", "C"),
    "input": ("C", "Ox"),
}
DATAFLOWS = tuple(_PAIRS)
# The same of matrix products, INFERRED: rows are pixels and samples, columns filters, K all that is summed over.
_PRODUCT_PAIRS = {"output": ("M", "N"), "weight": ("N", "K"), "coarse-weight": ("N", "K"), "input": ("M", "K")}


def dataflow_limits(nest: LoopNest, dataflow: str) -> Limits:
    """A named dataflow, or a pair of loops such as `M|C` both of which are spread over elements.

    Raises InputError for names that the nest does not have, and for loops of one iteration, which cannot be spread.
    """
    known = _PRODUCT_PAIRS if nest.kind == "gemm" else _PAIRS
    names = known.get(dataflow) or tuple(part.strip() for part in dataflow.split("|"))
    loops = {loop.name: at for at, loop in enumerate(nest.loops)}
    pairs = [f"{one}|{other}" for one, other in combinations(loops, 2)]
    if len(names) != 2 or names[0] == names[1] or any(name not in loops for name in names):
        raise InputError(
            f"dataflow {dataflow!r} of nest {nest.name!r}: expected {', '.join(known)} or two of its loops, such as "
            f"{pairs[0] if pairs else 'none'}; loops: {', '.join(loops)}; use --layer to choose layers with other loops"
        )
    spread = frozenset(loops[name] for name in names)
    for at in sorted(spread):
        if nest.loops[at].extent == 1:
            raise InputError(
                f"dataflow {dataflow!r} of nest {nest.name!r}: loop {nest.loops[at].name} has one iteration, which "
                "cannot be spread over elements; choose loops with more, or by --layer other layers"
            )
    return Limits(spread=spread, stays=0 if dataflow == "input" else None)


def reduction_loops(nest: LoopNest) -> frozenset[int]:
    """The loops over which results are sums."""
    return frozenset(range(len(nest.loops))) - nest.write.indexed_by


def pruned_limits(
    nest: LoopNest,
    least: tuple[float, float, float] = (0.0, 0.0, 0.0),
    *,
    windows_in_scratchpad: bool = False,
    no_spatial_reduction: bool = False,
) -> Limits:
    """dMazeRunner's rules: OPT1, least parts of elements, registers and scratchpad in use; OPT2, no tile of DRAM cuts
    Fx or Fy; OPT3, no reduction over elements. Source: section 5 of TECS 2019, and its released code.
    """
    windows = frozenset(at for at, loop in enumerate(nest.loops) if loop.name in ("Fx", "Fy"))
    return Limits(
        spatial=frozenset(range(len(nest.loops))) - reduction_loops(nest) if no_spatial_reduction else None,
        whole_in_scratchpad=windows if windows_in_scratchpad else frozenset(),
        least_elements=least[0],
        least_registers=least[1],
        least_scratchpad=least[2],
    )
