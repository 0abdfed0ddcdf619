"""Tilestitch compiles a neural network for a described accelerator, simulates the result and checks it.

    import tilestitch

    graph = tilestitch.load_graph("resnet50.onnx")
    machine = tilestitch.load_machine("stcp920")

These and `compile`, `compare`, `map_network`, `evaluate_mapping`, `simulate_layers`, `simulate_mapping` and
`with_function` come from `tilestitch.api`, which is imported when one of them is first used, so that `import
tilestitch` alone loads nothing else.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tilestitch.api import (
        compare,
        compile,
        evaluate_mapping,
        load_graph,
        load_machine,
        map_network,
        simulate_layers,
        simulate_mapping,
        with_function,
    )

__all__ = [
    "__version__",
    "compare",
    "compile",
    "evaluate_mapping",
    "load_graph",
    "load_machine",
    "map_network",
    "simulate_layers",
    "simulate_mapping",
    "with_function",
]

__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    """A public name that was not used before, from `tilestitch.api`."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from tilestitch import api

    value = getattr(api, name)
    globals()[name] = value  # found without this function from now on
    return value


def __dir__() -> list[str]:
    """The names that are here, and those that will be once they are used."""
    return sorted({*globals(), *__all__})
