"""The network on arrays, untiled, operator by operator: what a schedule may not change."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from tilestitch.base.storage import array_type
from tilestitch.ir.graph import Graph, Operator
from tilestitch.sim.chip.values import constant_to_storage, evaluate, read_plans, store, to_storage


@np.errstate(all="ignore")  # as in `execute`
def interpret(
    graph: Graph,
    inputs: Mapping[str, np.ndarray],
    *,
    wide: bool,
    see: Callable[[Operator, Sequence[np.ndarray]], None] = lambda op, stored: None,
) -> dict[str, np.ndarray]:
    """The graph's outputs with every tensor stored at the machine's width (`wide`: at twice that, float32).

    `see` is shown each operator and what it reads before it is evaluated.

    `inputs` and outputs have the shapes of the graph's tensors; outputs come in their storage types.
    """
    values: dict[str, np.ndarray] = {}
    for name in graph.constants:
        if name in graph.consumers or name in graph.outputs:
            values[name] = constant_to_storage(graph.constants[name], graph.tensors[name].dtype, wide=wide)
    for name in graph.inputs:
        values[name] = to_storage(inputs[name], graph.tensors[name].dtype, wide=wide)
    uses = {name: len(graph.consumers.get(name, ())) for name in graph.tensors}
    for op in graph.operators:
        plans = read_plans(graph, op, op.whole)
        see(op, [values[plan.access.tensor] for plan in plans])
        found = evaluate(
            op, op.whole, plans, lambda n, plans=plans: values[plans[n].access.tensor][plans[n].region.slices]
        )
        for write, result in zip(op.writes, found, strict=True):
            tensor = graph.tensors[write.tensor]
            if write.tensor not in values:
                values[write.tensor] = np.zeros(tensor.shape, array_type(tensor.dtype, wide=wide))
            result = to_storage(result, tensor.dtype, wide=wide)
            store(values[write.tensor], write, op.whole, (0,) * len(tensor.shape), result)
        for name in op.inputs:
            uses[name] -= 1
            if uses[name] == 0 and name not in graph.outputs:
                del values[name]
    return {name: values[name] for name in graph.outputs}
