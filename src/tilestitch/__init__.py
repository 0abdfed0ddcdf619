"""Tilestitch compiles a neural network for a described accelerator, simulates the result and checks it.

    import tilestitch

    done = tilestitch.compile("resnet50", "stcp920", batch=64)
    print(done)

There is a function for each command (docs/api.md). All names are here, and each is imported from where it is when it is
first used, so that `import tilestitch` alone loads nothing else.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tilestitch.api import (
        annotated,
        compare,
        compile,
        evaluate_mapping,
        load_graph,
        open_model,
        simulate_mapping,
        with_function,
    )
    from tilestitch.base.errors import DoesNotFit, InputError, InvalidIR, MissingPackage, TilestitchError
    from tilestitch.commands.build.run import Built, KernelOptions, build
    from tilestitch.commands.characterize.run import Characterization, characterize
    from tilestitch.commands.contest.run import ContestPage, contest
    from tilestitch.commands.diff.run import Diff, diff
    from tilestitch.commands.explore.run import Exploration, ExploreOptions, explore
    from tilestitch.commands.fuse.run import Fusion, fuse
    from tilestitch.commands.listings import Listing, machines, models, strategies
    from tilestitch.commands.map.fused_run import FusedChains, FuseOptions, map_fused
    from tilestitch.commands.map.run import NetworkMapping
    from tilestitch.commands.map.tree_given import GivenOnTree
    from tilestitch.commands.map.tree_value import NetworkOnTree, TreeOptions
    from tilestitch.commands.map.tree_value import map_either as map
    from tilestitch.commands.simulate.layers import SimulateOptions
    from tilestitch.commands.simulate.run import Simulation, simulate
    from tilestitch.commands.simulate.tree_simulation import TreeSimulation
    from tilestitch.commands.traffic.run import Traffic, traffic
    from tilestitch.commands.validate.run import ValidateOptions, ValidationPage, validate
    from tilestitch.commands.why.run import Why, why
    from tilestitch.hardware.accelerator import Accelerator
    from tilestitch.hardware.array_machine import ArrayMachine
    from tilestitch.hardware.load import Machine, load_machine
    from tilestitch.hardware.tree_load import TreeMachine, load_tree
    from tilestitch.ir.by_hand import FusionPlan, HandGroup, HandItem, HandSchedule, NamedBlock
    from tilestitch.ir.graph import Graph
    from tilestitch.ir.program import Program
    from tilestitch.ir.report import Misfit
    from tilestitch.ir.schedule import Schedule
    from tilestitch.ir.trace import Trace
    from tilestitch.mapping.network import MapOptions
    from tilestitch.pipeline.comparison import Comparison
    from tilestitch.pipeline.compilation import Compilation
    from tilestitch.pipeline.options import Options
    from tilestitch.pipeline.stage_files import stage_text
    from tilestitch.report.page import ReportPage
    from tilestitch.reproduction import Reproduction, reproduce
    from tilestitch.sim.array.simulated import SimulatedMapping

_NAMES = {  # of each module; `map=map_network` is another name here
    "tilestitch.api": "annotated compare compile evaluate_mapping load_graph open_model simulate_mapping with_function",
    "tilestitch.base.errors": "DoesNotFit InputError InvalidIR MissingPackage TilestitchError",
    "tilestitch.commands.build.run": "Built KernelOptions build",
    "tilestitch.commands.characterize.run": "Characterization characterize",
    "tilestitch.commands.contest.run": "ContestPage contest",
    "tilestitch.commands.diff.run": "Diff diff",
    "tilestitch.commands.explore.run": "Exploration ExploreOptions explore",
    "tilestitch.commands.fuse.run": "Fusion fuse",
    "tilestitch.commands.listings": "Listing machines models strategies",
    "tilestitch.commands.map.fused_run": "FusedChains FuseOptions map_fused",
    "tilestitch.commands.map.run": "NetworkMapping",
    "tilestitch.commands.map.tree_given": "GivenOnTree",
    "tilestitch.commands.map.tree_value": "NetworkOnTree TreeOptions map=map_either",
    "tilestitch.commands.simulate.layers": "SimulateOptions",
    "tilestitch.commands.simulate.run": "Simulation simulate",
    "tilestitch.commands.simulate.tree_simulation": "TreeSimulation",
    "tilestitch.commands.traffic.run": "Traffic traffic",
    "tilestitch.commands.validate.run": "ValidateOptions ValidationPage validate",
    "tilestitch.commands.why.run": "Why why",
    "tilestitch.hardware.accelerator": "Accelerator",
    "tilestitch.hardware.array_machine": "ArrayMachine",
    "tilestitch.hardware.load": "Machine load_machine",
    "tilestitch.hardware.tree_load": "TreeMachine load_tree",
    "tilestitch.ir.by_hand": "FusionPlan HandGroup HandItem HandSchedule NamedBlock",
    "tilestitch.ir.graph": "Graph",
    "tilestitch.ir.program": "Program",
    "tilestitch.ir.report": "Misfit",
    "tilestitch.ir.schedule": "Schedule",
    "tilestitch.ir.trace": "Trace",
    "tilestitch.mapping.network": "MapOptions",
    "tilestitch.pipeline.comparison": "Comparison",
    "tilestitch.pipeline.compilation": "Compilation",
    "tilestitch.pipeline.options": "Options",
    "tilestitch.pipeline.stage_files": "stage_text",
    "tilestitch.report.page": "ReportPage",
    "tilestitch.reproduction": "Reproduction reproduce",
    "tilestitch.sim.array.simulated": "SimulatedMapping",
}
_HOMES = {
    name.partition("=")[0]: (module, name.partition("=")[2] or name)
    for module, names in _NAMES.items()
    for name in names.split()
}

__all__ = [
    "Accelerator",
    "ArrayMachine",
    "Built",
    "Characterization",
    "Comparison",
    "Compilation",
    "ContestPage",
    "Diff",
    "DoesNotFit",
    "Exploration",
    "ExploreOptions",
    "FuseOptions",
    "FusedChains",
    "Fusion",
    "FusionPlan",
    "GivenOnTree",
    "Graph",
    "HandGroup",
    "HandItem",
    "HandSchedule",
    "InputError",
    "InvalidIR",
    "KernelOptions",
    "Listing",
    "Machine",
    "MapOptions",
    "Misfit",
    "MissingPackage",
    "NamedBlock",
    "NetworkMapping",
    "NetworkOnTree",
    "Options",
    "Program",
    "ReportPage",
    "Reproduction",
    "Schedule",
    "SimulateOptions",
    "SimulatedMapping",
    "Simulation",
    "TilestitchError",
    "Trace",
    "Traffic",
    "TreeMachine",
    "TreeOptions",
    "TreeSimulation",
    "ValidateOptions",
    "ValidationPage",
    "Why",
    "__version__",
    "annotated",
    "build",
    "characterize",
    "compare",
    "compile",
    "contest",
    "diff",
    "evaluate_mapping",
    "explore",
    "fuse",
    "load_graph",
    "load_machine",
    "load_tree",
    "machines",
    "map",
    "map_fused",
    "models",
    "open_model",
    "reproduce",
    "simulate",
    "simulate_mapping",
    "stage_text",
    "strategies",
    "traffic",
    "validate",
    "why",
    "with_function",
]

__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    """A public name that was not used before, from where it is."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    module, there = _HOMES[name]
    value = getattr(import_module(module), there)
    globals()[name] = value  # found without this function from now on
    return value


def __dir__() -> list[str]:
    """The names that are here, and those that will be once they are used."""
    return sorted({*globals(), *__all__})
