"""The loop nests that a command is asked about."""

from typing import TYPE_CHECKING

from tilestitch.cli.options import Choices

if TYPE_CHECKING:
    from tilestitch.api import Model
    from tilestitch.commands.map.sources import Nests


def open_layers(model: "Model", choices: Choices, layers: tuple[str, ...]) -> "Nests":
    """The nests of a network, a line of einsum or a file of layers, or those of them that `layers` names."""
    from tilestitch.commands.map.run import nests_of

    return nests_of(model, layers, batch=choices.batch, dims=choices.dims, fold_bn=choices.fold_bn)


def goes_on_tree(machine: str) -> bool:
    """Whether a machine's layers are mapped on its tree: all but PE arrays, which have a mapper of their own."""
    from tilestitch.commands.map.tree_run import maps_on_tree

    return maps_on_tree(machine)
