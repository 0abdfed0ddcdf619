"""A network looked at before it is compiled."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

import onnx

from tilestitch.base.errors import InputError, TilestitchError
from tilestitch.base.progress import Progress, quiet
from tilestitch.frontend.binding import exported_batch_of, with_sizes
from tilestitch.frontend.problems import read_or_problems
from tilestitch.frontend.reader import read_onnx
from tilestitch.frontend.rebatch import FixedBatch
from tilestitch.hardware.accelerator import Accelerator
from tilestitch.ir.choices import Stage
from tilestitch.ir.graph import Graph, Operator
from tilestitch.ops import generic, is_contraction, is_view
from tilestitch.ops.work import on_matrix_unit, operand_dtype, vector_operations
from tilestitch.passes import simplify
from tilestitch.pipeline.compile import compile_network
from tilestitch.pipeline.options import Options
from tilestitch.pipeline.strategies import strategy_named
from tilestitch.pipeline.views import composed_graph

STRATEGY = "auto"  # by which a network is tried on a machine, as `compile` does unless told

_MOVED = ("gather", "copy")


@dataclass(frozen=True, slots=True)
class Content:
    """What a network is made of, after the passes and with views composed away."""

    inputs: tuple[tuple[str, str, tuple[int, ...]], ...]  # name, element type in the machine, shape
    by_rule: int
    generic: tuple[tuple[str, str, str], ...]  # name, ONNX operator, where its value comes from
    views: int  # that were composed away
    constants: int
    constant_bytes: int
    macs: int
    vector_operations: int


@dataclass(frozen=True, slots=True)
class Target:
    """What a machine would do with it: how many operators and how much work each class of units has."""

    machine: str
    units: tuple[tuple[str, int, int], ...]
    kernels: int
    instructions: int
    batch: int


@dataclass(frozen=True, slots=True)
class Examined:
    """All that is wrong; what the network is if it is understood, and what a machine does with it if it can."""

    network: str
    problems: tuple[str, ...]
    content: Content | None = None
    fixed_batch: str = ""  # why it can be read only for the batch that it was exported for, and so runs in iterations
    target: Target | None = None


def examine(
    model: onnx.ModelProto,
    name: str,
    machine: Accelerator | None,
    *,
    batch: int | None = None,
    dims: Mapping[str, int] = {},
    fold_bn: bool = True,
    progress: Progress = quiet,
) -> Examined:
    """Read a network, and lower it for a machine if one is given."""
    progress("load", 0, 1)
    try:
        found = read_or_problems(model, name, batch=batch, dims=dims)
        fixed_batch = _fixed_batch(model, name, dims) if batch is None and isinstance(found, Graph) else ""
    except FixedBatch as error:
        found, fixed_batch = read_or_problems(model, name, batch=None, dims=dims), error.problem
    if isinstance(found, tuple):
        return Examined(name, found)
    progress("simplify", 0, 1)
    simple, _ = composed_graph(simplify(found, fold_bn=fold_bn))
    examined = Examined(name, (), _content(found, simple), fixed_batch)
    if machine is None:
        return examined
    options = Options(batch=batch, dims=dims, fold_bn=fold_bn, stop_after=Stage.LOWER)
    try:
        done = compile_network(model, name, machine, strategy_named(STRATEGY), options, progress=progress)
    except TilestitchError as error:
        return replace(examined, problems=(str(error),))
    assert done.schedule is not None
    assert done.program is not None
    target = Target(
        machine.name,
        _units(simple, machine),
        len(done.program.kernels),
        len(done.program),
        done.run.batch,
    )
    return replace(examined, target=target)


def _fixed_batch(model: onnx.ModelProto, name: str, dims: Mapping[str, int]) -> str:
    """Why a network can be read for its exported batch and not for twice as many samples; empty where it can."""
    model = with_sizes(name, model, dims)
    exported = exported_batch_of(model)
    try:
        if exported is not None:
            read_onnx(model, name=name, batch=2 * exported)
    except FixedBatch as error:
        return error.problem
    except InputError:  # it has no batch
        return ""
    return ""


def _content(loaded: Graph, simple: Graph) -> Content:
    """Of a network as it was read, and as it runs."""
    left = sum(map(is_view, simple.operators))
    macs = sum(vector_operations(op, op.whole) for op in simple.operators if is_contraction(op))
    return Content(
        inputs=tuple((name, str(simple.tensors[name].dtype), simple.tensors[name].shape) for name in simple.inputs),
        by_rule=sum(op.kind != generic.KIND for op in simple.operators),
        generic=tuple(
            (op.name, generic.onnx_operator(op), generic.value_source(op))
            for op in simple.operators
            if op.kind == generic.KIND
        ),
        views=sum(map(is_view, loaded.operators)) - left,
        constants=len(simple.constants),
        constant_bytes=sum(simple.tensors[name].size_bytes for name in simple.constants),
        macs=macs,
        vector_operations=sum(vector_operations(op, op.whole) for op in simple.operators if _is_computed(op)) - macs,
    )


def _is_computed(op: Operator) -> bool:
    return op.kind not in _MOVED and not is_view(op)


def _units(graph: Graph, machine: Accelerator) -> tuple[tuple[str, int, int], ...]:
    """Class of units, operators and operations; a product counts its multiply-accumulates."""
    mapped = any(core.matrix is not None and core.matrix.mapped for core in machine.cores)
    operators: Counter[str] = Counter()
    work: Counter[str] = Counter()
    for op in graph.operators:
        if not _is_computed(op):
            operators["movers"] += 1
            continue
        on_matrix = on_matrix_unit(op, operand_dtype(op, graph), machine)
        unit = ("arrays" if mapped else "matrix units") if on_matrix else "vector units"
        operators[unit] += 1
        work[unit] += vector_operations(op, op.whole)
    return tuple((unit, operators[unit], work[unit]) for unit in sorted(operators))
