"""dMazeRunner's cost model in plain Python, from its description: what the compiled model is compared with.

Source: sections 4 and 5 of dMazeRunner (TECS 2019) and its released code. Three operands of 16 bits, the constants of
the released code. Slow, and written without a look at the compiled one.
"""

from math import ceil, prod

from tilestitch.ir.loop_nest import LoopMapping, LoopNest, LoopOperand

RF_PJ, NOC_PJ, SPM_PJ, DRAM_PJ, MAC_PJ = 0.96, 2.0, 13.5, 200.0, 0.075


def published_cost(nest: LoopNest, mapping: LoopMapping) -> tuple[int, int]:
    """Cycles and picojoules."""
    loops = range(len(nest.loops))
    operands = {operand.name: operand for operand in nest.operands}
    result = nest.write.name
    p = mapping.pass_tile
    spm = mapping.scratchpad_tile
    rf_passes, spm_passes = prod(mapping.spm), prod(mapping.dram)
    compute, elements, macs = prod(mapping.rf), prod(mapping.spatial), prod(nest.extents)

    def words(operand: LoopOperand, tile: tuple[int, ...]) -> int:
        return prod(1 + sum(step * (tile[loop] - 1) for loop, step in axis) for axis in operand.axes)

    def indexes(operand: LoopOperand, loop: int) -> bool:
        return nest.loops[loop].extent > 1 and any(loop == at for axis in operand.axes for at, _ in axis)

    def reuse(operand: LoopOperand, factors: tuple[int, ...], order: tuple[int, ...]) -> int:
        found = 1
        for loop in reversed(order):
            if factors[loop] == 1:
                continue
            if indexes(operand, loop):
                break
            found *= factors[loop]
        return found

    in_spm = {name: reuse(one, mapping.spm, mapping.spm_order) for name, one in operands.items()}
    in_dram = {name: reuse(one, mapping.dram, mapping.dram_order) for name, one in operands.items()}
    own = {name: words(one, mapping.rf) for name, one in operands.items()}
    noc = {name: words(one, p) for name, one in operands.items()}
    together = prod(mapping.spatial[i] for i in loops if not indexes(nest.write, i))
    apart = prod(mapping.spatial[i] for i in loops if indexes(nest.write, i))
    red = own[result] * (together - 1) * apart
    skip = {name: in_dram[name] if in_spm[name] == rf_passes and in_dram[name] > 1 else 1 for name in operands}

    comm: dict[int, int] = {}
    stall: dict[int, int] = {}
    for name in operands:
        if skip[name] == 1:
            each = in_spm[name]
            comm[each] = max(comm.get(each, 0), noc[name])
            stall[each] = stall.get(each, 0) + (compute + red if name == result else 0)
    c, t = compute, compute * rf_passes
    if stall.get(1, 0) > 0:
        c = t = 0
    for each in sorted(comm):
        if comm[each] > c:
            t += (comm[each] - c) * rf_passes // each
            c = comm[each]
        t += stall[each] * rf_passes // each

    dma, dma_pj = {}, {}
    for name, one in operands.items():
        extents = _extents(nest, one, spm)
        burst, runs, contiguous = 1, 1, True
        for extent, full in zip(reversed(extents), reversed(one.shape), strict=True):
            if contiguous:
                burst *= extent
                contiguous = extent == full
            else:
                runs *= extent
        dma[name] = runs * ceil((291 + 0.24 * 2 * burst) * 500 / 3200)
        dma_pj[name] = runs * burst * DRAM_PJ
    by: dict[int, int] = {1: 0}
    for name in operands:
        each = in_dram[name]
        by[each] = by.get(each, 0) + dma[name] * (2 if name == result and each == 1 else 1)
    one_pass = max(by[1], t)
    cycles = one_pass * spm_passes
    for name in operands:
        each = in_dram[name]
        if each > 1:
            d1 = by[1] + by[each]
            d2 = by[1] + (by[each] if name == result else 0)
            p1 = p2 = t
            if skip[name] > 1:
                p2 += max(0, noc[name] - comm.get(1, 0))
                if name == result:
                    p1 += red + compute
            h1, h2 = max(d1, p1, one_pass) - one_pass, max(d2, p2, one_pass) - one_pass
            cycles += (h1 + h2) * spm_passes // each

    energy = macs * MAC_PJ + macs * 4 * RF_PJ
    per_pass = stage = 0.0
    for name in operands:
        written = name == result
        moved = own[name] * (apart if written else elements) * NOC_PJ + noc[name] * SPM_PJ
        summed = red * (3 * RF_PJ + NOC_PJ + MAC_PJ) if written else 0.0
        if skip[name] == 1:
            per_pass += ((2 if written else 1) * moved + summed) * rf_passes / in_spm[name]
        else:
            stage += (moved + summed) * spm_passes / skip[name]
        stage += dma_pj[name] * spm_passes / in_dram[name]
        if written and in_dram[name] != spm_passes:
            extra = spm_passes / in_dram[name] - prod(mapping.dram[i] for i in loops if indexes(nest.write, i))
            stage += dma_pj[name] * extra
    return cycles, round(energy + spm_passes * per_pass + stage)


def _extents(nest: LoopNest, operand: LoopOperand, tile: tuple[int, ...]) -> list[int]:
    """Of a tile along every axis; of an input with more in memory than what is read, as the released code has it."""
    plain = [1 + sum(step * (tile[loop] - 1) for loop, step in axis) for axis in operand.axes]
    read = [1 + sum(step * (nest.extents[loop] - 1) for loop, step in axis) for axis in operand.axes]
    if operand is nest.write or read == list(operand.shape):
        return plain
    address = 0
    for extent, size in zip(plain, read, strict=True):
        address = address * size + extent - 1
    found = []
    for declared in reversed(operand.shape):
        found.append(address % declared + 1)
        address //= declared
    return found[::-1]
