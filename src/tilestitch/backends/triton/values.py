"""What a block of a tensor holds: loaded, or computed from the operators of the same kernel, asked for backwards."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import isfinite, prod
from typing import TypeAlias

import numpy as np

from tilestitch.backends.triton import functions
from tilestitch.backends.triton.code import WIDTH, Code, Value
from tilestitch.backends.triton.index import Guard, Index, Var, along, of_var, strides_of
from tilestitch.base.dtypes import DType
from tilestitch.base.units import ceil_div
from tilestitch.ir.graph import Access, Graph, Operator

Frame: TypeAlias = tuple[str, ...]  # what the extents of the block that is computed are called
MOST_ELEMENTS = 2**31  # of a tensor, whose places are computed in 32 bits
_SHOWN = {DType.FLOAT16: "float16", DType.FLOAT32: "float32", DType.INT32: "int32", DType.BOOL: "int1"}
_SHOWN |= {DType.INT8: "int8", DType.UINT8: "uint8", DType.INT16: "int16"}


class Unfused(Exception):
    """Why some operators cannot be one kernel."""


@dataclass(frozen=True, slots=True)
class Storage:
    """How tensors lie in memory: the type of floating ones, and the layouts of some that differ from the network's."""

    floats: DType
    layouts: Mapping[str, tuple[int, ...]]

    def dtype(self, dtype: DType) -> DType:
        """How a type of the network is stored; what the network needs in float32, as scales, stays so."""
        return self.floats if dtype.is_float and dtype is not DType.FLOAT32 else dtype


class Emitter:
    """Writes one kernel: `inside` are its operators; `rules` write those that are not element-wise."""

    def __init__(self, graph: Graph, storage: Storage, inside: Sequence[Operator], rules: Mapping[str, "Rule"]) -> None:
        self.graph, self.storage, self.rules = graph, storage, rules
        self.inside = {name: op for op in inside for name in op.outputs}
        self.code = Code()
        self.pointers: dict[str, str] = {}  # tensor -> parameter of the kernel
        self.sizes: dict[str, int] = {}  # extents of blocks, by the name of a parameter
        self.made: dict[str, Value] = {}  # operators whose block was written before it is asked for
        self.guards: list[Guard] = []  # of the lanes of the block that is stored
        self.columns: tuple[Index, ...] = ()  # that make up a whole row of the block; none: rows are cut
        self.depth_of_sums = 64  # elements of a sum that one product takes at most
        self.apart: dict[str, tuple[Index, Index]] = {}  # variables as a tile's corner and what lies inside the tile
        self.tiles: dict[str, int] = {}  # variables of a tile's inside, each with the number of tiles along its axis
        self.sums = 0  # elements of all blocks of sums
        self.fetched = 0  # bytes of products' operands that come from memory in one turn of each loop
        self.often: dict[str, float] = {}  # how often the elements of each product are computed
        self.asks = (1.0, 1.0, 1.0)  # of the next product: how often, turns of the loop around it, and halos
        self.slowly = False  # whether long sums may be added up element by element
        if len(self.inside) < sum(len(op.outputs) for op in inside):
            raise Unfused("several operators write parts of one tensor")

    def size(self, wish: str, extent: int) -> str:
        """A parameter of the kernel that holds the extent of a block."""
        name = self.code.name(wish).upper()
        self.sizes[name] = extent
        return name

    def strides(self, tensor: str) -> tuple[int, ...]:
        found = self.graph.tensors[tensor]
        if prod(found.shape) >= MOST_ELEMENTS:
            raise Unfused(f"{tensor} has {prod(found.shape):,} elements, at least 2^31")
        return strides_of(found.shape, self.storage.layouts.get(tensor, found.layout))

    def pointer(self, tensor: str) -> str:
        if tensor not in self.pointers:
            self.pointers[tensor] = self.code.name(f"{tensor}_ptr")
        return self.pointers[tensor]

    def chain(self, tensor: str) -> list[Operator]:
        """The operators of the kernel that make a tensor, from the last to the first."""
        found: list[Operator] = []
        left = [tensor]
        while left:
            before = self.inside.get(left.pop())
            if before is not None and before not in found:
                found.append(before)
                left += [access.tensor for access in before.reads]
        return found

    @contextmanager
    def asked(self, op: Operator, *, turns: int = 0, spread: float = 0.0) -> Iterator[None]:
        """Count how often a product is computed, and the one that makes its first operand, which is written meanwhile.

        A product takes that operand in so many `turns`, each of which asks for other columns of it, but for all that is
        before it once more. A depthwise convolution passes its columns on (no turns). `spread` is how often the
        elements of the operand are computed in all tiles with their halos; by default as those of the product.
        """
        before = self.asks
        times, around, halo = before
        self.often[op.name] = max(self.often.get(op.name, 0.0), times * halo)
        spread = spread or halo
        self.asks = (times * around, turns, spread) if turns else (times, around, spread)
        yield
        self.asks = before

    # -- indices

    def var(
        self, wish: str, text: str, low: int, high: int, axes: frozenset[int], guards: tuple[Guard, ...], depth: int
    ) -> Var:
        """A variable for a text; the same text gives the same variable."""
        known = self.code.known((text, axes))
        name = known.name if known is not None else self.code.let(wish, text, depth)
        if known is None:
            self.code.remember((text, axes), Value(name, "int", axes, depth))
        return Var(name, low, high, axes, guards, depth)

    def part(self, wish: str, index: Index, divisor: int, modulus: int | None) -> Index:
        """`index // divisor % modulus`; without a modulus no remainder. Of a negative index only the range counts."""
        if modulus == 1 or index.high < divisor:
            return Index()
        high = index.high // divisor
        if modulus is not None and high < modulus:
            modulus = None
        if divisor == 1 and modulus is None:
            return index
        text = str(index) if index.is_simple else f"({index})"
        text = text if divisor == 1 else f"{text} // {divisor}"
        low = index.low // divisor if modulus is None else 0 if index.low >= 0 else 1 - modulus
        text = text if modulus is None else f"{text} % {modulus}"
        high = high if modulus is None else modulus - 1
        return of_var(self.var(wish, text, low, high, index.axes, index.guards, index.depth))

    def solved(self, access: Access, index: Sequence[Index], op: Operator) -> list[Index]:
        """The iterations that write these elements, for an access that moves every dim along one axis."""
        dims: list[Index | None] = [Index() if dim.extent == 1 else None for dim in op.dims]
        for axis, at in zip(access.axes, index, strict=True):
            rest, terms = at + -axis.offset, [term for term in axis.terms if op.dims[term[0]].extent > 1]
            for place, (dim, stride) in enumerate(terms):
                if dims[dim] is not None or stride < 1:
                    raise Unfused(f"{op.name} writes elements that do not tell its iteration")
                last = place == len(terms) - 1
                span = op.dims[dim].extent
                if last and stride != 1:
                    raise Unfused(f"{op.name} writes only some elements of a tensor")
                outer = terms[place - 1][1] if place > 0 else None
                if outer is not None and outer != stride * span:
                    raise Unfused(f"{op.name} writes elements that do not tell its iteration")
                dims[dim] = self.part(op.dims[dim].name, rest, stride, None if place == 0 else span)
        missing = [dim.name for dim, found in zip(op.dims, dims, strict=True) if found is None]
        reduced = {dim.name for dim in op.dims if dim.kind == "reduction"}
        if set(missing) - reduced:
            raise Unfused(f"{op.name} writes elements that do not tell its iteration")
        return [Index() if found is None else found for found in dims]

    # -- values

    def operand(self, access: Access, dims: Sequence[Index], frame: Frame, *, raw: bool = False) -> Value:
        """What an operator reads at these iterations; `raw`: as it is stored, for a product."""
        index = [along(axis, dims) for axis in access.axes]
        return self.value(access.tensor, index, frame, pad=access.pad_value, raw=raw)

    def value(self, tensor: str, index: Sequence[Index], frame: Frame, *, pad: float = 0.0, raw: bool = False) -> Value:
        """The elements of a tensor at these indices; what lies outside it is `pad`."""
        if tensor not in self.inside:
            return self._loaded(tensor, index, pad, raw=raw)
        op = self.inside[tensor]
        number = next(i for i, access in enumerate(op.writes) if access.tensor == tensor)
        if number > 0 or len(self.graph.producers[tensor]) > 1:
            raise Unfused(f"{tensor} is one of several results, or others write parts of it as well")
        key = ("value", tensor, *index, pad)
        known = self.code.known(key)
        if known is None:
            dims = self.solved(op.writes[0], index, op)
            known = self.padded(self.computed(op, dims, frame), tensor, index, pad)
            self.code.remember(key, known)
        return self.stored(known, tensor) if raw else known

    def padded(self, value: Value, tensor: str, index: Sequence[Index], pad: float) -> Value:
        """A computed value with `pad` where its index leaves the tensor."""
        outside = self._conditions(tensor, index)
        if not outside:
            return value
        mask, axes, depth = " & ".join(outside), _axes(index), max(at.depth for at in index)
        text = f"tl.where({self._named('inside', mask, depth)}, {value.name}, {_padding(pad, value.kind)})"
        depth = max(depth, value.depth)
        return Value(self.code.let("padded", text, depth), value.kind, value.axes | axes, depth)

    def stored(self, value: Value, tensor: str) -> Value:
        """A computed value in the type in which the tensor would be stored."""
        dtype = self.storage.dtype(self.graph.tensors[tensor].dtype)
        text = f"{value.name}.to(tl.{_SHOWN[dtype]})"
        return Value(self.code.let(f"{value.name}_low", text, value.depth), value.kind, value.axes, value.depth)

    def computed(self, op: Operator, dims: Sequence[Index], frame: Frame) -> Value:
        """What an operator computes at these iterations."""
        if op.name in self.made:
            return self.made[op.name]
        if op.kind in self.rules:
            return self.rules[op.kind](self, op, dims, frame)
        if op.kind == "gather":
            return self._gathered(op, dims, frame)
        return self._elementwise(op, dims, frame)

    def _elementwise(self, op: Operator, dims: Sequence[Index], frame: Frame) -> Value:
        operands = [self.operand(access, dims, frame) for access in op.reads]
        written = functions.expression(op, [each.name for each in operands], [each.kind for each in operands])
        if written is None:
            raise Unfused(f"{op.name} ({op.kind}) takes operands that the Triton back end has no expression for")
        text, kind = written
        dtype = self.graph.tensors[op.outputs[0]].dtype
        if kind == "int" and dtype in functions.NARROW and op.kind in functions.INTEGERS:
            text = functions.wrapped(f"({text})", dtype)
        axes = frozenset(axis for each in operands for axis in each.axes)
        depth = max(each.depth for each in operands)
        return Value(self.code.let(_wish(op), text, depth), kind, axes, depth)

    def _gathered(self, op: Operator, dims: Sequence[Index], frame: Frame) -> Value:
        """Rows that another operand names; a negative number counts from the end."""
        data, places = op.reads
        axis = data.indirect_axis
        assert axis is not None, op.name
        rows = self.graph.tensors[data.tensor].shape[axis]
        place = self.operand(places, dims, frame)
        if place.kind != "int":
            raise Unfused(f"{op.name} gathers by something that is no integer")
        text = f"tl.where({place.name} < 0, {place.name} + {rows}, {place.name})"
        guards = tuple(guard for dim in dims for guard in dim.guards)
        row = self.var("row", text, 0, rows - 1, place.axes, tuple(dict.fromkeys(guards)), place.depth)
        index = [along(one, dims) for one in data.axes]
        index[axis] = of_var(row)
        return self.value(data.tensor, index, frame)

    def _loaded(self, tensor: str, index: Sequence[Index], pad: float, *, raw: bool) -> Value:
        dtype = self.storage.dtype(self.graph.tensors[tensor].dtype)
        if dtype not in _SHOWN:
            raise Unfused(f"{tensor} is of type {dtype}, which the Triton back end does not have")
        number = self._constant(tensor)
        if number is not None and not raw:
            return number
        key = ("load", tensor, *index, pad)
        known = self.code.known(key)
        kind = "float" if dtype.is_float else "bool" if dtype is DType.BOOL else "int"
        if known is None:
            depth = max((at.depth for at in index), default=0)
            text = f"tl.load({self._address(tensor, index)}{self._mask(tensor, index, pad, kind)})"
            known = Value(self.code.let(tensor, text, depth), kind, _axes(index), depth)
            self.code.remember(key, known)
        if raw or dtype in (DType.FLOAT32, DType.INT32, DType.BOOL):
            return known
        wide = self.code.known((key, "wide"))
        if wide is None:
            to = "float32" if kind == "float" else "int32"
            name = self.code.let(f"{known.name}_wide", f"{known.name}.to(tl.{to})", known.depth)
            wide = self.code.remember((key, "wide"), Value(name, kind, known.axes, known.depth))
        return wide

    def _constant(self, tensor: str) -> Value | None:
        """A constant of one element is a number in the text."""
        array = self.graph.constants.get(tensor)
        if array is None or array.size != 1:
            return None
        if array.dtype.kind in "iu":
            return Value(repr(int(array.reshape(()))), "int")
        if array.dtype.kind != "f":
            return None
        return Value(functions.number(float(array.astype(np.float32).reshape(()))), "float")

    def store(self, tensor: str, index: Sequence[Index], value: Value, guards: Sequence[Guard], frame: Frame) -> None:
        """Write a block where its lanes stand for elements; lanes that its index does not tell apart have a guard."""
        dtype = self.storage.dtype(self.graph.tensors[tensor].dtype)
        if dtype not in _SHOWN:
            raise Unfused(f"{tensor} is of type {dtype}, which the Triton back end does not have")
        mask = " & ".join(guard.text for guard in guards)
        mask = self._named("mask", mask, self.code.depth) if len(guards) > 1 else mask
        where = f", mask={mask}" if mask else ""
        address = self._address(tensor, index)
        if value.axes - _axes(index) or not _axes(index):
            address = self.code.let("places", f"tl.broadcast_to({address}, ({', '.join(frame)}))")
        self.code.line(f"tl.store({address}, {value.name}.to(tl.{_SHOWN[dtype]}){where})")

    def _address(self, tensor: str, index: Sequence[Index]) -> str:
        steps = zip(index, self.strides(tensor), strict=True)
        place = Index()
        for at, step in steps:
            place = place + at * step
        text = str(place)
        if text == "0":
            return self.pointer(tensor)
        if len(text) > WIDTH // 2 or len(place.terms) > 2:
            text = self._named(f"{tensor}_at", text, place.depth)
        return f"{self.pointer(tensor)} + {text}" if " " not in text else f"{self.pointer(tensor)} + ({text})"

    def _mask(self, tensor: str, index: Sequence[Index], pad: float, kind: str) -> str:
        guards = tuple(dict.fromkeys(guard for at in index for guard in at.guards))
        conditions = [*(guard.text for guard in guards), *self._conditions(tensor, index)]
        if not conditions:
            return ""
        depth = max([at.depth for at in index] + [guard.depth for guard in guards])
        mask = " & ".join(conditions)
        if len(conditions) > 1:
            mask = self._named("mask", mask, depth)
        return f", mask={mask}, other={_padding(pad, kind)}"

    def _conditions(self, tensor: str, index: Sequence[Index]) -> list[str]:
        """What keeps an index inside its tensor, where its variables may leave it."""
        found = []
        for at, size in zip(index, self.graph.tensors[tensor].shape, strict=True):
            text = str(at) if at.only is not None or not at.terms else self._named("at", str(at), at.depth)
            if at.low < 0:
                found.append(f"({text} >= 0)")
            if at.high >= size:
                found.append(f"({text} < {size})")
        return found

    def _named(self, wish: str, text: str, depth: int) -> str:
        known = self.code.known(("text", text))
        if known is None:
            known = self.code.remember(("text", text), Value(self.code.let(wish, text, depth), "int", depth=depth))
        return known.name

    def full(self, value: Value, frame: Frame) -> Value:
        """A value at every place of the block."""
        if len(value.axes) == len(frame):
            return value
        text = f"tl.broadcast_to({value.name}, ({', '.join(frame)}))"
        return Value(
            self.code.let(f"{value.name}_all", text, value.depth), value.kind, frozenset(range(len(frame))), value.depth
        )


Rule: TypeAlias = Callable[[Emitter, Operator, Sequence[Index], Frame], Value]


def _padding(pad: float, kind: str) -> str:
    """What lies outside a tensor, as Triton reads it."""
    if kind == "float":
        return functions.number(pad)
    return str(round(pad)) if isfinite(pad) else str(-(2**31))


def span(extent: int) -> int:
    """The smallest power of two that is no less."""
    return 1 << (extent - 1).bit_length()


def pieces(extent: int, size: int) -> int:
    return ceil_div(extent, size)


def _axes(index: Sequence[Index]) -> frozenset[int]:
    return frozenset(axis for at in index for axis in at.axes)


def _wish(op: Operator) -> str:
    return op.outputs[0]
