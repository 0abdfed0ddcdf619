"""What a shell completes: names of networks, machines and strategies, and files. docs/report.md#completion."""

from collections.abc import Callable, Iterable

import click
from click.shell_completion import CompletionItem


class Named(click.ParamType):
    """Text that is one of some names, or the path of a file."""

    name = "text"

    def __init__(self, names: Callable[[], Iterable[str]]) -> None:
        self.names = names

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """The names that begin so, and the files."""
        found = [CompletionItem(name) for name in self.names() if name.startswith(incomplete)]
        return [*found, CompletionItem(incomplete, type="file")]


def _models() -> list[str]:
    from tilestitch.zoo import ENTRIES

    names = [entry.name_for("128") for entry in ENTRIES]
    return [*names, *(f"{name}:small" for name in names)]


def _compilable() -> tuple[str, ...]:
    from tilestitch.hardware.compilable import compilable_presets

    return tuple(name for name, _ in compilable_presets())


def _machines_and_trees() -> tuple[str, ...]:
    from tilestitch.hardware.preset_files import preset_names

    return preset_names()


def _strategies() -> list[str]:
    from tilestitch.pipeline.strategies import FUSION_PLANS, NAMED

    return [strategy.name for strategy in (*NAMED, *FUSION_PLANS)]


MODEL, MACHINE, STRATEGY = Named(_models), Named(_compilable), Named(_strategies)
MACHINE_OR_TREE = Named(_machines_and_trees)
