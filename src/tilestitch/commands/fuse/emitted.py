"""A plan as a program for the interface of the machine that it is for."""

from tilestitch.base.errors import DoesNotFit
from tilestitch.base.units import counted
from tilestitch.commands.fuse.fuse import Fused
from tilestitch.formats.cnml.program import Emitted, EmittedBlock, cnml_program
from tilestitch.ir.graph import Graph
from tilestitch.passes import simplify


def cnml_of(graph: Graph, fused: Fused, *, fold_bn: bool = True) -> Emitted:
    """The plan of a network as a program for CNML.

    Raises `DoesNotFit` for a plan that is priced as if it fitted, `InputError` where CNML has no call for an operator.
    """
    plan, layers = fused.plan, fused.cost.network.layers
    if not fused.fits:
        raise DoesNotFit(
            f"--emit cnml: plan {fused.plan_name} does not fit the memory of the cores of {fused.machine}; choose "
            "another --plan"
        )
    blocks = [
        EmittedBlock(tuple(name for number in block for name in layers[number].operators), cores)
        for block, cores in zip(plan.blocks, plan.choices, strict=True)
    ]
    heading = (
        f"{fused.cost.network.name} for the MLU100: {counted(len(blocks), 'block')}, estimated to take "
        f"{plan.cost / 1e9:.4f} ms by the block model of {fused.machine}"
    )
    return cnml_program(simplify(graph, fold_bn=fold_bn), blocks, heading)
