"""dMazeRunner's files: layers of a model as JSON, and mappings as its optimizer prints them.

Source: the released code of Dave et al., dMazeRunner, TECS 2019 (models/*.json, scripts/execution_methods.txt). An
input is written with its padding. Its code reads both strides and prices only the first; here each axis has its own.
"""

import re
from collections.abc import Callable

from tilestitch.base.errors import InputError, printable
from tilestitch.formats.foreign_file import Part, json_file
from tilestitch.formats.given import exact, loop_order
from tilestitch.formats.limits import MAX_EXTENT, checked
from tilestitch.ir.loop_nest import LoopMapping, LoopNest, SlidingWindow, convolution, depthwise, product

MAX_STRIDE = 4096
MAX_INSTANCES = 10**6
MAX_CHARACTERS = 4000  # of a mapping
_LABELS = re.compile(r"Tiling factors \(DRAM, SPM, RF, SPATIAL\):|Ordering \(DRAM, SPM\):")
_GROUP = re.compile(r"\(([^()[\]]*)\)|\[([^()[\]]*)\]")
_LOOP = re.compile(r"'(\w+)'|\"(\w+)\"|(\w+)", re.ASCII)
_LOOPS_OF_PRODUCTS = {"X": "M", "Y": "N"}
_LAYER_FIELDS = ("name", "size_tensor_A", "size_tensor_B")
_TEXTS = ("comment", "names_repeated_layers")  # for people


def dmazerunner_layers(text: str, where: str) -> list[tuple[LoopNest, int]]:
    """The layers of a models file with how often each is there, in its order: convolutions, products, depthwise."""
    readers: dict[str, Callable[[Part], LoopNest]] = {"CONV": _convolution, "GEMM": _product, "DW_CONV": _depthwise}
    kinds = json_file(text, where).fields((), tuple(readers))
    layers: list[tuple[LoopNest, int]] = []
    for kind, reader in readers.items():
        for layer in kinds[kind].items("layers", least=0) if kind in kinds else ():
            entries = layer.entries()
            count = entries["instances"].whole("instances", 1, MAX_INSTANCES) if "instances" in entries else 1
            layers.append((checked(reader(layer), f"{where}: {kind}[{layer.path[-1]}]"), count))
    if not layers:
        raise InputError(f"{where}: expected layers under {', '.join(readers)}, found none")
    return layers


def dmazerunner_mapping(text: str, nest: LoopNest, where: str) -> LoopMapping:
    """A mapping as the optimizer prints it: four tuples (DRAM, SPM, RF, SPATIAL) and the orders of DRAM and SPM.

        Tiling factors (DRAM, SPM, RF, SPATIAL):  ((1, 8, ...), (...), (...), (...))
        Ordering (DRAM, SPM): (['N', 'M', ...], [...])

    Factors stand in the order of the nest's loops, orders are outermost first; the labels may be left out.
    """
    if len(text) > MAX_CHARACTERS:
        raise InputError(f"{where}: expected at most {MAX_CHARACTERS:,} characters, found {len(text):,}")
    bare = _LABELS.sub("", text)
    groups = [match[1] if match[1] is not None else match[2] for match in _GROUP.finditer(bare)]
    left = _GROUP.sub("", bare)
    if len(groups) != 6 or re.fullmatch(r"[(),\s]*", left) is None:
        found = (
            f"{len(groups)} groups in brackets" if len(groups) != 6 else f"also {printable(left.strip(' (),'), 40)!r}"
        )
        raise InputError(
            f"{where}: expected four tuples of factors (DRAM, SPM, RF, SPATIAL) and two orders of loops (DRAM, SPM), "
            f"found {found}"
        )
    dram, spm, rf, spatial = (
        _factors(group, nest, f"{where}: {level}")
        for group, level in zip(groups[:4], ("DRAM", "SPM", "RF", "SPATIAL"), strict=True)
    )
    dram_order = _order(groups[4], nest, f"{where}: order of DRAM")
    spm_order = _order(groups[5], nest, f"{where}: order of SPM")
    return exact(LoopMapping(dram, spm, rf, spatial, dram_order, spm_order), nest, where)


def _factors(group: str, nest: LoopNest, where: str) -> tuple[int, ...]:
    words = [word.strip() for word in group.split(",")]
    if any(re.fullmatch(r"[1-9][0-9]{0,9}", word) is None or int(word) > MAX_EXTENT for word in words):
        raise InputError(f"{where}: expected whole numbers above 0, found ({printable(group, 80)})")
    if len(words) != len(nest.loops):
        names = ", ".join(loop.name for loop in nest.loops)
        raise InputError(f"{where}: expected a factor for each of the loops {names}, found {len(words)}")
    return tuple(map(int, words))


def _order(group: str, nest: LoopNest, where: str) -> tuple[int, ...]:
    names: list[str] = []
    for word in group.split(","):
        match = _LOOP.fullmatch(word.strip())
        if match is None:
            raise InputError(f"{where}: expected names of loops, found [{printable(group, 80)}]")
        name = match[1] or match[2] or match[3]
        names.append(_LOOPS_OF_PRODUCTS.get(name, name) if nest.kind == "gemm" else name)
    return loop_order(names, nest, where)


def _convolution(layer: Part) -> LoopNest:
    name, size, (m, c, fx, fy), stride = _windowed(layer, "[m, c, fx, fy]")
    n, channels, rows, columns = size
    if channels != c:
        layer.refuse(f"size_tensor_A has {channels} channels and size_tensor_B {c}; expected equal numbers")
    ox, oy = _outputs(layer, size, (fx, fy), stride)
    return convolution(
        name, n=n, m=m, c=c, output=(ox, oy), window=SlidingWindow((fx, fy), stride=stride), padded=(rows, columns)
    )


def _depthwise(layer: Part) -> LoopNest:
    name, size, (m, c, fx, fy), stride = _windowed(layer, "[1, c, fx, fy]")
    n, channels, rows, columns = size
    if m != 1 or channels != c:
        layer.refuse(f"size_tensor_B begins with {m}, {c}; expected 1, {channels}: one filter for each channel")
    ox, oy = _outputs(layer, size, (fx, fy), stride)
    return depthwise(
        name, n=n, c=c, output=(ox, oy), window=SlidingWindow((fx, fy), stride=stride), padded=(rows, columns)
    )


def _product(layer: Part) -> LoopNest:
    fields = layer.fields(_LAYER_FIELDS, ("instances", *_TEXTS))
    m, k = _sizes(fields["size_tensor_A"], "[m, k]", 2)
    rows, n = _sizes(fields["size_tensor_B"], "[k, n]", 2)
    if rows != k:
        layer.refuse(f"size_tensor_A has {k} columns and size_tensor_B {rows} rows; expected equal numbers")
    return product(fields["name"].text("a name"), m=m, n=n, k=k)


def _windowed(
    layer: Part, filters: str
) -> tuple[str, tuple[int, int, int, int], tuple[int, int, int, int], tuple[int, int]]:
    """Name, input, filters and strides of a layer with windows."""
    fields = layer.fields((*_LAYER_FIELDS, "strides"), ("instances", *_TEXTS))
    n, channels, rows, columns = _sizes(fields["size_tensor_A"], "[n, c, rows, columns]", 4)
    m, c, fx, fy = _sizes(fields["size_tensor_B"], filters, 4)
    down, across = _sizes(fields["strides"], "[rows, columns]", 2, MAX_STRIDE)
    return fields["name"].text("a name"), (n, channels, rows, columns), (m, c, fx, fy), (down, across)


def _outputs(
    layer: Part, size: tuple[int, int, int, int], window: tuple[int, int], stride: tuple[int, int]
) -> tuple[int, int]:
    if window[0] > size[2] or window[1] > size[3]:
        layer.refuse(
            f"a window of {window[0]} x {window[1]} does not fit an input of {size[2]} x {size[3]}; expected the input "
            "with its padding"
        )
    return (size[2] - window[0]) // stride[0] + 1, (size[3] - window[1]) // stride[1] + 1


def _sizes(part: Part, what: str, count: int, most: int = MAX_EXTENT) -> tuple[int, ...]:
    found = part.items(f"sizes {what}")
    if len(found) != count:
        part.refuse(f"expected the {count} sizes {what}, found {len(found)}")
    return tuple(size.whole("", 1, most) for size in found)
