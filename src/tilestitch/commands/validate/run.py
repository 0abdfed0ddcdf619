"""The model of an array compared with its simulation."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import cast

from tilestitch.api import Model, expect_count, shown
from tilestitch.base.errors import InputError
from tilestitch.base.html import Record
from tilestitch.base.progress import Progress, quiet
from tilestitch.base.shown import Shown
from tilestitch.base.units import counted
from tilestitch.commands.map.map_page import named_by
from tilestitch.commands.map.run import ARRAY_MACHINE, GivenArray, nests_of, source_of
from tilestitch.commands.map.tree_run import maps_on_tree
from tilestitch.commands.simulate.tree_layers import open_simulated
from tilestitch.commands.validate.compare import compare_layers
from tilestitch.commands.validate.plot import validation_svg
from tilestitch.commands.validate.summary import Validation, records_of, worst_of
from tilestitch.commands.validate.tree_run import TreeValidation, validate_tree
from tilestitch.commands.validate.validate_json import validation_json
from tilestitch.commands.validate.validate_page import validate_result
from tilestitch.commands.validate.validate_text import validation_text
from tilestitch.hardware.tree import MachineTree
from tilestitch.pipeline.origin import made_by, named_again, of_network, python_call
from tilestitch.report.html.page import result_page

MOST_MAPPINGS = 1_000_000
MOST_WORST = 1000


@dataclass(frozen=True, slots=True)
class ValidateOptions:
    """Which mappings are drawn, and how many of the worst are explained."""

    mappings: int = 1000  # in equal parts over the layers
    seed: int = 0
    ragged: bool = False  # factors need not divide
    worst: int = 5


@dataclass(frozen=True, slots=True, repr=False)
class ValidationPage(Validation, Shown):
    """A validation with its page, its picture and its JSON."""

    options: ValidateOptions = ValidateOptions()
    model: str = ""  # what names the nests again
    asked: Mapping[str, object] = field(default_factory=dict)  # with what else the nests were opened

    def __str__(self) -> str:
        return validation_text(self)

    def to_json(self) -> str:
        """What `tilestitch validate --json` writes."""
        return validation_json(self)

    def to_html(self, command: str = "") -> str:
        """What `tilestitch validate --html` writes: a page to look at; `command` is said to make it again."""
        if not command:
            command = python_call("validate", self.model or self.name, self.machine.name, self.options, **self.asked)
        said = (("seed", self.options.seed), ("ragged factors", self.options.ragged))
        return result_page(validate_result(self), made_by(command, said))

    def svg(self) -> str:
        """What `tilestitch validate --plot` draws."""
        return validation_svg(self)

    def heading(self) -> str:
        """Network, machine, how many mappings."""
        return f"{self.name} on {self.machine.name}: the model against {counted(len(self.found), 'simulated mapping')}"

    def records(self) -> tuple[Record, ...]:
        """The errors of every layer, as parts of what was simulated."""
        return records_of(self.layers)

    def pictures(self) -> tuple[str, ...]:
        """Estimated over simulated cycles, and the distribution of errors."""
        return (self.svg(),)


def validate(
    model: Model,
    machine: GivenArray | MachineTree = ARRAY_MACHINE,
    options: ValidateOptions = ValidateOptions(),
    *,
    layers: Sequence[str] = (),
    batch: int | None = None,
    dims: Mapping[str, int] = {},
    fold_bn: bool = True,
    progress: Progress | None = None,
) -> ValidationPage | TreeValidation:
    """Compare the analytical model of an array with its simulation, over random mappings of the layers of a network.

    A model may also be a line of einsum or a file of layers, as for `tilestitch validate`. A machine that is a tree (a
    value, a name or a file) gives a `TreeValidation`. Raises as `map` does.
    """
    if not isinstance(options, ValidateOptions):
        raise InputError(f"options: expected ValidateOptions, such as ValidateOptions(200), found {shown(options)}")
    expect_count("mappings", options.mappings, MOST_MAPPINGS)
    for name, given in (("seed", options.seed), ("worst", options.worst)):
        if not isinstance(given, int) or isinstance(given, bool) or given < 0:
            raise InputError(f"{name}: expected a whole number of at least 0, found {shown(given)}")
    if options.worst > MOST_WORST:
        raise InputError(f"worst: expected at most {MOST_WORST:,}, found {options.worst:,}")
    show = progress or quiet
    if maps_on_tree(machine):
        given = machine if isinstance(machine, MachineTree) else str(machine)
        task = open_simulated(model, given, layers, batch=batch, dims=dict(dims), fold_bn=fold_bn)
        named = named_again(model, task.name), named_again(machine, task.tree.name)
        call = python_call("validate", *named, options, **of_network(layers, batch, dims, fold_bn=fold_bn))
        found = validate_tree(
            task, options.mappings, seed=options.seed, worst=options.worst, ragged=options.ragged, progress=show
        )
        return replace(found, call=call)
    array = source_of(cast(GivenArray, machine)).machine
    nests = nests_of(model, layers, batch=batch, dims=dims, fold_bn=fold_bn)
    found = compare_layers(
        nests.layers, array, options.mappings, seed=options.seed, ragged=options.ragged, progress=show
    )
    show("explain", 0, 1)
    worst = worst_of(found, array, options.worst)
    again = named_by(nests), nests.asked
    return ValidationPage(nests.name, array, options.seed, options.ragged, found, worst, nests.notes, options, *again)
