"""Several clusters on one DDR: the program of one cluster, once for each, so that they contend for its port."""

from dataclasses import replace

import numpy as np

from tilestitch.base.errors import SMALLER_BATCH, DoesNotFit
from tilestitch.base.units import format_bytes
from tilestitch.hardware.accelerator import Level
from tilestitch.ir.program import Buffers, Program


def share_ddr(program: Program, clusters: int) -> Program:
    """`clusters` copies of a cluster's program, with memories and engines of their own, on one DDR.

    Constants are shared; every other DDR buffer lies behind those of the cluster before. Cluster c's instructions are
    the c-th block of equal length. Raises `DoesNotFit` when DDR is too small for all.
    """
    buffers = program.buffers
    in_ddr = np.array([program.spaces[s].level is Level.DDR for s in range(len(program.spaces))])[buffers.space]
    constant = np.zeros(len(buffers), bool)
    constant[[buffer for _, buffer in program.constants]] = True
    own = in_ddr & ~constant
    begin = int(buffers.address[own].min(initial=0))
    stride = int((buffers.address + buffers.size_bytes)[own].max(initial=begin)) - begin
    need, size = begin + stride * clusters, program.spaces[0].size_bytes
    if need > size:
        raise DoesNotFit(
            f"{program.graph.name}: {clusters} clusters need {format_bytes(need)} of the DDR that they share, "
            f"which has {format_bytes(size)}.",
            SMALLER_BATCH,
        )
    spaces, engines, resources = len(program.spaces) - 1, len(program.engines), len(program.resources) - 1
    count, length, waits = len(buffers), len(program), len(program.waits)

    def blocks(column: np.ndarray, shift: int | np.ndarray = 0) -> np.ndarray:
        """A column once for each cluster, `shift` added per cluster."""
        return np.concatenate([column + shift * c for c in range(clusters)]).astype(column.dtype)

    def offsets(column: np.ndarray, total: int) -> np.ndarray:
        return np.concatenate([column[:1], *(column[1:] + total * c for c in range(clusters))])

    paths = [tuple(r if r == 0 else r + resources * c for r in path) for c in range(clusters) for path in program.paths]
    moved_path = np.where(program.path >= 0, len(program.paths), 0)
    return replace(
        program,
        spaces=(
            program.spaces[0],
            *(replace(s, name=f"{s.name}.{c}") for c in range(clusters) for s in program.spaces[1:]),
        ),
        engines=tuple(replace(e, name=f"{e.name}.{c}") for c in range(clusters) for e in program.engines),
        resources=(
            program.resources[0],
            *(replace(r, name=f"{r.name}.{c}") for c in range(clusters) for r in program.resources[1:]),
        ),
        paths=tuple(paths),
        buffers=Buffers(
            space=blocks(buffers.space, np.where(in_ddr, 0, spaces)),
            address=blocks(buffers.address, np.where(own, stride, 0)),
            size_bytes=blocks(buffers.size_bytes),
            tensor=blocks(buffers.tensor),
            region=blocks(buffers.region),
        ),
        engine=blocks(program.engine, engines),
        kind=blocks(program.kind),
        flags=blocks(program.flags),
        kernel=blocks(program.kernel),
        iteration=blocks(program.iteration),
        operator=blocks(program.operator),
        box=blocks(program.box),
        cycles=blocks(program.cycles),
        size_bytes=blocks(program.size_bytes),
        run_bytes=blocks(program.run_bytes),
        path=blocks(program.path, moved_path),
        operand_offsets=offsets(program.operand_offsets, len(program.operand_buffer)),
        operand_buffer=blocks(program.operand_buffer, count),
        operand_region=blocks(program.operand_region),
        operand_mode=blocks(program.operand_mode),
        wait_offsets=offsets(program.wait_offsets, waits),
        waits=blocks(program.waits, length),
        inputs=tuple(tuple(b + count * c for c in range(clusters) for b in row) for row in program.inputs),
        outputs=tuple(tuple(b + count * c for c in range(clusters) for b in row) for row in program.outputs),
    )
