"""The cheapest granularity and order of one sub-graph, in closed form: equal tiles are counted, not walked."""

import numpy as np

from tilestitch.base.jit import compiled, inner, tiered

TILE, STEP = 0, 1  # structure.Axis; everything else is the whole axis
ROW_SNAKE, COLUMN_SNAKE = 0, 1

# columns of `slices`: tensor, axis of its rows, axis of its columns, its height, its width
# columns of `runs`: axis of its rows, axis of its columns, split or not, ticks of a native tile (for a product that is
# not split, over its whole depth), height and width of its result


@compiled
def cheapest(
    width: int,
    height: int,
    depth: int,
    widths: np.ndarray,
    heights: np.ndarray,
    depths: np.ndarray,
    slices: np.ndarray,
    runs: np.ndarray,
    units: np.ndarray,
    space: int,
    written: int,
    accumulators: int,
    least_width: int,
    least_height: int,
) -> tuple[float, int, int, int, int]:
    """Ticks, width, height, depth and order of the cheapest granularity among the candidates; ticks < 0 if none fits.

    `units`: ticks of one element, native extents, and those that a run cut by the step, or split, pays for.
    `space` is what is left of fast memory beside retained tensors. Ties go to the earlier candidate.
    """
    best, best_w, best_h, best_k, best_order = -1.0, 0, 0, 0, 0
    for w in widths:
        columns = -(-width // w)
        last_w = width - (columns - 1) * w
        for h in heights:
            rows = -(-height // h)
            last_h = height - (rows - 1) * h
            if best >= 0 and _compute_floor(last_h, last_w, depth, runs, units) * rows * columns >= best:
                continue
            for k in depths:
                if (k < least_width and w < least_width) or (k < least_height and h < least_height):
                    continue
                steps = -(-depth // k) if depth > 0 else 1
                reach = min(k, depth) if depth > 0 else 1
                last_k = depth - (steps - 1) * reach if depth > 0 else 1
                if _needed(w, h, reach, last_k, steps, rows, columns, slices, written, accumulators) > space:
                    continue
                for order in range(2):
                    ticks = _grid_ticks(
                        order, w, last_w, columns, h, last_h, rows, reach, last_k, steps, slices, runs, units, written
                    )
                    if best < 0 or ticks < best:
                        best, best_w, best_h, best_k, best_order = ticks, w, h, k, order
    return best, best_w, best_h, best_k, best_order


@inner
def _tile_share(axis: int, extent: int, whole: int, native: int) -> int:
    return -(-(extent if axis == TILE else whole) // native)


@inner
def _run_ticks(run: np.ndarray, h: int, w: int, units: np.ndarray) -> tuple[float, bool]:
    """Ticks of a run: of each element of the step's depth if the second is true, else of one execution."""
    ticks = run[3]
    stepped = False
    if run[0] == STEP:
        ticks /= units[3]
        stepped = True
    else:
        ticks *= _tile_share(int(run[0]), h, int(run[4]), int(units[2]))
    if run[1] == STEP:
        ticks /= units[4]
        stepped = True
    else:
        ticks *= _tile_share(int(run[1]), w, int(run[5]), int(units[1]))
    if run[2] != 0:
        ticks /= units[5]
        stepped = True
    return ticks, stepped


@tiered
def _compute_floor(h: int, w: int, depth: int, runs: np.ndarray, units: np.ndarray) -> float:
    """Ticks of all runs of one tile."""
    total = 0.0
    for index in range(runs.shape[0]):
        ticks, stepped = _run_ticks(runs[index], h, w, units)
        total += ticks * depth if stepped else ticks
    return total


@tiered
def _repeated(index: int, slices: np.ndarray, steps: int, rows: int, columns: int) -> bool:
    """Whether another slice is the same part of the same tensor, and is the one that counts."""
    mine = slices[index]
    last_only = mine[1] == TILE and mine[2] == TILE
    for other in range(slices.shape[0]):
        if other == index or slices[other, 0] != mine[0]:
            continue
        one = slices[other]
        same_rows = one[1] == mine[1] or (_full(one[1], steps, rows) and _full(mine[1], steps, rows))
        same_columns = one[2] == mine[2] or (_full(one[2], steps, columns) and _full(mine[2], steps, columns))
        if same_rows and same_columns and (last_only or (other < index and (one[1] != TILE or one[2] != TILE))):
            return True
    return False


@inner
def _full(axis: int, steps: int, tiles: int) -> bool:
    if axis == TILE:
        return tiles == 1
    return steps == 1 or axis != STEP


@tiered
def _extent(axis: int, tile: int, step: int, whole: int) -> int:
    if axis == TILE:
        return tile
    return step if axis == STEP else whole


@tiered
def _needed(
    w: int,
    h: int,
    k: int,
    last_k: int,
    steps: int,
    rows: int,
    columns: int,
    slices: np.ndarray,
    written: int,
    accumulators: int,
) -> int:
    """Elements of the largest working set, without retained tensors."""
    middle, last = 0, 0
    for index in range(slices.shape[0]):
        if _repeated(index, slices, steps, rows, columns):
            continue
        one = slices[index]
        at_last = _extent(one[1], h, last_k, one[3]) * _extent(one[2], w, last_k, one[4])
        last += at_last
        if one[1] != TILE or one[2] != TILE:
            middle += _extent(one[1], h, k, one[3]) * _extent(one[2], w, k, one[4])
    most = last if steps == 1 else max(middle, last)
    return most + max(written, accumulators if steps > 1 else 0) * w * h


@inner
def _tile_ticks(
    h: int,
    w: int,
    kept_row: bool,
    kept_column: bool,
    first: bool,
    k: int,
    last_k: int,
    steps: int,
    rows: int,
    columns: int,
    slices: np.ndarray,
    runs: np.ndarray,
    units: np.ndarray,
    written: int,
) -> float:
    """Ticks of all steps of one tile, whose row or column may be that of the tile before."""
    at_start, at_end, along = 0.0, 0.0, 0.0
    for index in range(runs.shape[0]):
        ticks, stepped = _run_ticks(runs[index], h, w, units)
        if stepped:
            along += ticks
        elif runs[index, 0] == TILE and runs[index, 1] == TILE:
            at_end += ticks
        else:
            at_start += ticks
    loads_start, loads_end, loads_along = 0, written * h * w, 0
    for index in range(slices.shape[0]):
        if _repeated(index, slices, steps, rows, columns):
            continue
        row_axis, column_axis = slices[index, 1], slices[index, 2]
        area = _extent(row_axis, h, 1, slices[index, 3]) * _extent(column_axis, w, 1, slices[index, 4])
        if row_axis == STEP or column_axis == STEP:
            if steps > 1:
                loads_along += area
                continue
            area *= k
        if row_axis == TILE and column_axis == TILE:
            loads_end += area
        elif row_axis == TILE:
            loads_start += 0 if kept_row else area
        elif column_axis == TILE:
            loads_start += 0 if kept_column else area
        else:
            loads_start += area if first else 0
    element = units[0]
    if steps == 1:
        return max(at_start + along * k + at_end, (loads_start + loads_end) * element)
    start = max(at_start + along * k, (loads_start + loads_along * k) * element)
    middle = max(along * k, loads_along * k * element)
    end = max(along * last_k + at_end, (loads_along * last_k + loads_end) * element)
    return start + (steps - 2) * middle + end


@inner
def _grid_ticks(
    order: int,
    w: int,
    last_w: int,
    columns: int,
    h: int,
    last_h: int,
    rows: int,
    k: int,
    last_k: int,
    steps: int,
    slices: np.ndarray,
    runs: np.ndarray,
    units: np.ndarray,
    written: int,
) -> float:
    """Ticks of all tiles, back and forth along rows, or along columns."""
    lines, across = (rows, columns) if order == ROW_SNAKE else (columns, rows)
    total = 0.0
    for kind in range(3):  # lines: the first, those between, the last
        if (kind == 1 and lines < 3) or (kind == 2 and lines < 2):
            continue
        line_last = kind == 2 or lines == 1
        for end in range(2):  # at which end of the line it begins: lines take turns
            begins = _turns(kind, end, lines)
            if begins == 0:
                continue
            along_last = across == 1 or end == 1
            fixed = 0.0
            for part in range(2):  # tiles that follow one of the same line: those of full extent, the last one
                number = across - 1 if part == 0 else 1
                number -= 1 if (part == 1) == along_last else 0
                if number > 0:
                    hh, ww = _shape(order, line_last, part == 1, h, last_h, w, last_w)
                    fixed += number * _tile_ticks(
                        hh, ww, order == ROW_SNAKE, order != ROW_SNAKE, False, k, last_k, steps, rows, columns,
                        slices, runs, units, written,
                    )  # fmt: skip
            hh, ww = _shape(order, line_last, along_last, h, last_h, w, last_w)
            fixed += _tile_ticks(
                hh, ww, kind != 0 and order != ROW_SNAKE, kind != 0 and order == ROW_SNAKE, kind == 0, k, last_k, steps,
                rows, columns, slices, runs, units, written,
            )  # fmt: skip
            total += begins * fixed
    return total


@inner
def _turns(kind: int, end: int, lines: int) -> int:
    """How many of the lines of a kind begin at that end: even ones at the start, odd ones at the other."""
    if kind == 0:
        return 1 if end == 0 else 0
    if kind == 2:
        return 1 if (lines - 1) % 2 == end else 0
    between = lines - 2  # lines 1 to lines - 2
    odd = (between + 1) // 2
    return odd if end == 1 else between - odd


@tiered
def _shape(order: int, line_last: bool, along_last: bool, h: int, last_h: int, w: int, last_w: int) -> tuple[int, int]:
    """Height and width of a tile in a line (the last one?), at a place in it (the last one?)."""
    if order == ROW_SNAKE:
        return (last_h if line_last else h), (last_w if along_last else w)
    return (last_h if along_last else h), (last_w if line_last else w)
