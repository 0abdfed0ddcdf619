"""Options that several commands share, and what they mean."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from functools import wraps
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import click
from click.core import ParameterSource

from tilestitch.base.errors import InputError, printable
from tilestitch.base.text_files import MAX_JSON_BYTES, file_text
from tilestitch.cli.application import State
from tilestitch.cli.completion import MACHINE, MACHINE_OR_TREE
from tilestitch.ir.choices import MAX_BATCH, BindingRule, Effort, GroupingRule, Objective, Spill, Stage
from tilestitch.pipeline.options import Options

if TYPE_CHECKING:
    from tilestitch.ir.by_hand import FusionPlan

Command: TypeAlias = Callable[..., Any]

# A test holds this list against the table of strategies.
STRATEGY_HELP = (
    "How to decide: auto (the fastest of graphturbo, astitch and stay-in-lb), best (searched by simulation, beginning "
    "with others), layerwise, tvm, stay-in-gb, stay-in-lb, graphturbo-ordering, graphturbo or astitch. Or a plan "
    "of fused blocks: baseline, fixed-cores, dynamic-cores, one-block, fixed-fusion, dlfusion, oracle, annealing, "
    "genetic, exact or exact-by-layer. Or the file of such a plan, ending in .json."
)


class ShareType(click.FloatRange):
    """A share from 0 to 1; `nan`, which no comparison finds out of range, is refused as well."""

    def __init__(self) -> None:
        super().__init__(0, 1)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        share: float = super().convert(value, param, ctx)
        if isnan(share):
            self.fail(f"{share} is not in the range {self._describe_range()}", param, ctx)
        return share


ARRAY_MACHINE = "dmazerunner-256"  # where none is named
SEARCHES = ("exact", "dmazerunner")
OF_ONE_MAPPING = tuple(one.value for one in Objective if one is not Objective.PARETO)


@dataclass(frozen=True, slots=True)
class Choices:
    """What the options say about a network and its machine."""

    batch: int | None
    dims: Mapping[str, int]
    fold_bn: bool
    machine: str = "stcp920"
    batch_per_cluster: int | str = "rule"
    batches: int = 1
    spill: Spill = Spill.NEWEST
    binding: BindingRule = BindingRule.NEAREST
    grouping: GroupingRule = GroupingRule.PAPER
    effort: Effort = Effort.MEDIUM

    @staticmethod
    def names() -> tuple[str, ...]:
        """What the command line calls all of them but the machine."""
        return tuple(field.name for field in fields(Choices) if field.name != "machine")

    def options(self, *, verify: bool = False, beside_map: bool = False, stop_after: Stage = Stage.SIMULATE) -> Options:
        """All but the machine, as the pipeline takes it."""
        return Options(
            self.batch,
            self.batch_per_cluster,
            self.batches,
            self.dims,
            self.fold_bn,
            self.spill,
            self.binding,
            self.grouping,
            self.effort,
            verify,
            beside_map,
            stop_after,
        )


def strategy_given(strategy: str) -> "str | FusionPlan":
    """What an option names: a strategy, or the plan of fused blocks in a file."""
    if not strategy.endswith(".json"):
        return strategy
    from tilestitch.commands.fuse.plan_file import parse_plan
    from tilestitch.ir.by_hand import FusionPlan

    name = Path(strategy).name
    return FusionPlan(name, parse_plan(file_text(strategy, "JSON", MAX_JSON_BYTES), name))


def network_options(command: Command) -> Command:
    """Give a command the options that a graph depends on, as one argument `choices`."""

    @click.option(
        "--batch",
        type=click.IntRange(1, MAX_BATCH),
        help="Samples in total (default: the network's own batch, else 1).",
    )
    @click.option(
        "--dim",
        "dims",
        metavar="NAME=SIZE",
        multiple=True,
        help="Size of a symbolic dim other than the batch; repeatable.",
    )
    @click.option("--fold-bn/--no-fold-bn", default=True, help="Fold batch normalisation into convolutions (default).")
    @wraps(command)
    def with_choices(batch: int | None, dims: tuple[str, ...], fold_bn: bool, **others: Any) -> Any:
        return command(choices=Choices(batch, _dims(dims), fold_bn), **others)

    return with_choices


def choice_option(name: str, choices: Iterable[str], help_text: str) -> Callable[[Command], Command]:
    """An option that chooses one of several names, the first by default."""
    names = [str(one) for one in choices]
    return click.option(name, type=click.Choice(names), default=names[0], show_default=True, help=help_text)


def compile_options(command: Command) -> Command:
    """Give a command the options that a schedule depends on, as one argument `choices`."""

    @network_options
    @click.option(
        "--machine",
        type=MACHINE,
        metavar="NAME|FILE",
        default="stcp920",
        show_default=True,
        help="A preset (see: tilestitch machines) or a YAML file.",
    )
    @click.option(
        "--batch-per-cluster",
        metavar="rule|auto|K",
        default="rule",
        show_default=True,
        help="Samples of one iteration of a cluster: chosen by rule, the best of all (auto), or K.",
    )
    @click.option(
        "--batches",
        type=click.IntRange(1, MAX_BATCH),
        default=1,
        show_default=True,
        help="Batches back to back, for the sustained throughput.",
    )
    @choice_option(
        "--spill",
        Spill,
        "Which result leaves the chip when there is no room for all: the newest, the one that stays longest, the "
        "largest, or the one that is read last.",
    )
    @choice_option(
        "--binding",
        BindingRule,
        "How kernels are divided among cores: each by its lowest estimate, or from last to first by GraphTurbo's "
        "Algorithm 4.",
    )
    @choice_option(
        "--grouping",
        GroupingRule,
        "Which operators graphturbo cuts into pieces together: by its Algorithm 2, or with the lowest estimate for "
        "all sub-graphs.",
    )
    @choice_option("--effort", Effort, "How long strategy best searches.")
    @wraps(command)
    def with_choices(
        choices: Choices,
        machine: str,
        batch_per_cluster: str,
        batches: int,
        spill: str,
        binding: str,
        grouping: str,
        effort: str,
        **others: Any,
    ) -> Any:
        choices = replace(
            choices,
            machine=machine,
            batch_per_cluster=_batch_per_cluster(batch_per_cluster),
            batches=batches,
            spill=Spill(spill),
            binding=BindingRule(binding),
            grouping=GroupingRule(grouping),
            effort=Effort(effort),
        )
        return command(choices=choices, **others)

    return with_choices


def array_machine_option(command: Command) -> Command:
    """Give a command about loop nests the machine that they run on, as `machine`."""
    return click.option(
        "--machine",
        type=MACHINE_OR_TREE,
        metavar="NAME|FILE",
        default=ARRAY_MACHINE,
        show_default=True,
        help="A machine, or the file of one: ours, dMazeRunner's JSON, Timeloop's, AccelForge's or ZigZag's YAML.",
    )(command)


def layers_option(command: Command) -> Command:
    """Give a command about loop nests the names of those that it is to look at, as `layers`; none for all."""
    return click.option("--layer", "layers", multiple=True, metavar="NAME|NUMBER", help="Only this layer; repeatable.")(
        command
    )


def mapping_option(does: str, on_trees: str) -> Callable[[Command], Command]:
    """Give a command the file of a mapping, with which it does something rather than search for one.

    `on_trees` says what of that goes with a tree.
    """
    return click.option(
        "--mapping",
        metavar="FILE",
        type=click.Path(path_type=Path),
        help=f"{does} the mapping in this file (ours, dMazeRunner's, Timeloop's, ZigZag's; {on_trees}); "
        "search nothing.",
    )


def output_options(command: Command) -> Command:
    """Give a command the options of every command: `json_path`, `quiet`, and `--debug`, which it does not see."""
    for option in (
        click.option(
            "--debug", is_flag=True, expose_value=False, callback=on_debug, help="On an error, show the traceback."
        ),
        click.option("--quiet", is_flag=True, help="Print only errors."),
        click.option(
            "--json",
            "json_path",
            metavar="FILE",
            type=click.Path(path_type=Path),
            help="Write JSON; - prints it instead of text.",
        ),
    ):
        command = option(command)
    return command


def html_option(shown: str) -> Callable[[Command], Command]:
    """Give a command the file of a page to look at, as `html`; `shown` is what it shows."""
    return click.option(
        "--html",
        metavar="FILE",
        type=click.Path(path_type=Path),
        help=f"Write an HTML page ({shown}): one file that opens offline.",
    )


def start_option(stages: str) -> Callable[[Command], Command]:
    """Give a command the file of a stage's value to go on from, as `start`; `stages` says which."""
    return click.option(
        "--from",
        "start",
        metavar="FILE",
        type=click.Path(path_type=Path),
        help=f"Continue from {stages} that compile --stop-after STAGE --json FILE wrote.",
    )


def machine_beside(start: Path | None, machine: str) -> str | None:
    """The machine to compile for; None where it is that of the file from which a run goes on.

    Refuses options that the file has.
    """
    if start is None:
        return machine
    expect_none_given(("strategy", *Choices.names()), f"--from {start}: the file says with which options it was made")
    return machine if is_given("machine") else None


def is_given(option: str) -> bool:
    """Whether an option is on the command line."""
    return click.get_current_context().get_parameter_source(option) is not ParameterSource.DEFAULT


def expect_none_given(names: Iterable[str], why: str) -> None:
    """Refuse options, by the names of their parameters, that are on the command line."""
    for name in names:
        if is_given(name):
            option = "--dim" if name == "dims" else f"--{name.replace('_', '-')}"
            raise InputError(f"{why}; leave out {option}")


def on_debug(ctx: click.Context, parameter: click.Parameter, value: bool) -> None:
    """Remember --debug."""
    ctx.ensure_object(State).debug |= value


def _batch_per_cluster(text: str) -> int | str:
    """A number where it is one; whatever else it may be is the pipeline's to refuse."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 19 else text


def _dims(bindings: tuple[str, ...]) -> dict[str, int]:
    found: dict[str, int] = {}
    for binding in bindings:
        name, _, size = binding.rpartition("=")
        if not name or not (size.isascii() and size.isdecimal() and len(size) < 19):
            shown = printable(binding, 100)
            raise InputError(f"--dim {shown}: expected NAME=SIZE with a whole number, such as --dim length=128")
        if found.setdefault(name, int(size)) != int(size):
            raise InputError(f"--dim {name}: is given twice, as {found[name]} and as {size}")
    return found
