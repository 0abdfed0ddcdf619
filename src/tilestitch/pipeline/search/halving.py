"""Vector work between products in halves: a move of the search that lets units of both classes work at once.

A norm between two products stops the matrix units: it needs all columns of a row, and the product behind it needs all
that it makes. In two halves of the rows, one is normalised while the product before it ends with the other, or the
product behind it begins.
"""

from collections.abc import Iterator
from dataclasses import replace

from tilestitch.base.units import ceil_div
from tilestitch.ir.graph import Operator
from tilestitch.ir.tile_rule import KernelRule
from tilestitch.kernels.shape import kernel_shape
from tilestitch.ops.work import can_run, on_matrix_unit, operand_dtype
from tilestitch.pipeline.search.candidate import Candidate
from tilestitch.pipeline.search.scene import Scene, Signature, signature

Ends = dict[str, tuple[int, int]]  # by the last operator of a kernel: cycles in halves at its beginning and its end


def halves(scene: Scene) -> Iterator[Candidate]:
    """Kernels between products, their makers and their first readers in halves: all, those that are alike, or none.

    The makers end, and the readers begin, with halves for as long as one half of the kernel between them takes.
    """
    candidate = scene.candidate
    alike: dict[Signature, list[Ends]] = {}
    for sinks, ends in _between(scene):
        alike.setdefault(signature(scene.graph, [scene.graph.by_name[name] for name in sinks]), []).append(ends)
    ranked = sorted(alike.values(), key=lambda found: -sum(max(max(pair) for pair in one.values()) for one in found))
    every = [one for found in ranked for one in found]
    for some in [every, *ranked] if len(ranked) > 1 else ranked:
        found = _with_ends(candidate, _joined(some))
        if found != candidate:
            yield found
    none = _with_ends(candidate, dict.fromkeys(candidate.sinks, (0, 0)), instead=True)
    if none != candidate:
        yield none


def _between(scene: Scene) -> Iterator[tuple[tuple[str, ...], Ends]]:
    """Kernels without products that read what products make, and that products read, with all ends that concern them.

    In the order of the kernels.
    """
    graph, kernels = scene.graph, scene.candidate.kernels
    of_kernel = {name: kernel for kernel in kernels for name in kernel}
    products = {kernel for kernel in kernels if any(_multiplies(scene, graph.by_name[name]) for name in kernel)}
    place = {kernel: at for at, kernel in enumerate(kernels)}
    for kernel in kernels:
        if kernel in products:
            continue
        makers = {of_kernel[op.name] for name in kernel for op in graph.makers[name]} & products
        outputs = [tensor for name in kernel for tensor in graph.by_name[name].outputs]
        readers = {of_kernel[op.name] for tensor in outputs for op in graph.consumers.get(tensor, ())} & products
        if makers and readers:
            cycles = _half_cycles(scene, kernel)
            ends: Ends = {maker[-1]: (0, cycles) for maker in sorted(makers, key=place.__getitem__)}
            ends[min(readers, key=place.__getitem__)[-1]] = cycles, 0
            yield kernel, {**ends, kernel[-1]: (cycles, cycles)}


def _multiplies(scene: Scene, op: Operator) -> bool:
    return on_matrix_unit(op, operand_dtype(op, scene.graph), scene.machine)


def _half_cycles(scene: Scene, kernel: tuple[str, ...]) -> int:
    """Of a half of what a core does of a kernel, where all cores that can run it share it."""
    machine, graph = scene.machine, scene.graph
    pieces = max(cut.count for cut in scene.candidate.cuts if kernel[-1] in cut.operators)
    operators = [graph.by_name[name] for name in kernel]
    group = next(one for one in machine.groups if can_run(one.core, operators, graph, machine))
    shape = kernel_shape(graph, operators, machine, group.core)
    work = (op for op in operators if op.kind != "gather")
    cycles = sum(shape.cycles(op, tuple(dim.extent for dim in op.dims)) for op in work)
    return ceil_div(cycles, 2 * pieces * len(group.numbers))


def _joined(found: list[Ends]) -> Ends:
    """All of them, with the longer of two ends of one kernel."""
    joined: Ends = {}
    for ends in found:
        for sink, (first, last) in ends.items():
            before = joined.get(sink, (0, 0))
            joined[sink] = max(first, before[0]), max(last, before[1])
    return joined


def _with_ends(candidate: Candidate, ends: Ends, *, instead: bool = False) -> Candidate:
    """The candidate with ends in halves besides, or instead of, those that it has."""
    rules = {one.sink: one for one in candidate.rules}
    for sink, (first, last) in ends.items():
        rule = rules.get(sink, KernelRule(sink))
        now = (0, 0) if instead else (rule.tiles.first_cycles, rule.tiles.last_cycles)
        asked = replace(rule.tiles, first_cycles=max(first, now[0]), last_cycles=max(last, now[1]))
        rules[sink] = replace(rule, tiles=asked)
    kept = [rules[sink] for sink in candidate.sinks if sink in rules]
    return replace(candidate, rules=tuple(one for one in kept if one != KernelRule(one.sink)))
