"""The command that simulates mappings on a machine tree or an array of processing elements, cycle by cycle."""

import re
from pathlib import Path

import click

from tilestitch.base.errors import InputError, printable
from tilestitch.base.files import expect_beside, write_files
from tilestitch.cli.application import held_back
from tilestitch.cli.completion import MODEL
from tilestitch.cli.layers import goes_on_tree, open_layers
from tilestitch.cli.options import (
    OF_ONE_MAPPING,
    Choices,
    array_machine_option,
    choice_option,
    expect_none_given,
    html_option,
    is_given,
    layers_option,
    mapping_option,
    network_options,
    output_options,
)
from tilestitch.cli.output import Files, encoded, expect_json, given_command, json_file, show_output
from tilestitch.cli.progress import shown_progress
from tilestitch.ir.choices import CostMode, Objective, Values

WINDOW = "0:9999"
_NOT_ON_TREES = ("mapping", "extrapolate", "trace", "window")


@click.command("simulate")
@click.argument("model", type=MODEL)
@array_machine_option
@choice_option("--objective", OF_ONE_MAPPING, "What the simulated mappings minimise.")
@click.option("--ragged", is_flag=True, help="Mappings of which any factor need not divide; takes longer.")
@click.option(
    "--fuse",
    type=click.IntRange(2, 4),
    metavar="N",
    help="On a tree: let up to N operators run together, in the best mapping that map --fuse finds.",
)
@layers_option
@mapping_option("Simulate", "not on a tree")
@choice_option("--values", Values, "Values that move through the array and are compared with numpy's.")
@click.option("--extrapolate", is_flag=True, help="Skip passes that repeat others; computes no values.")
@click.option(
    "--stats", is_flag=True, help="Also print what elements, networks and DMA did; in the JSON for each element."
)
@click.option(
    "--trace",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Write a Chrome trace of one layer for Perfetto (ui.perfetto.dev).",
)
@click.option("--window", metavar="FIRST:LAST", default=WINDOW, show_default=True, help="Cycles that the trace shows.")
@html_option("layers, loop nests, the array or the ports cycle by cycle")
@network_options
@output_options
def simulate(
    model: str,
    machine: str,
    objective: str,
    ragged: bool,
    fuse: int | None,
    layers: tuple[str, ...],
    mapping: Path | None,
    values: str,
    extrapolate: bool,
    stats: bool,
    trace: Path | None,
    window: str,
    html: Path | None,
    choices: Choices,
    json_path: Path | None,
    quiet: bool,
) -> None:
    """Simulate MODEL's loop nests on a machine, cycle by cycle.

    MODEL is a network, a line such as "O[m,n] += A[m,k] * B[k,n]; m=64 n=64 k=64", or a file of layers, as for map.
    Each different layer runs once in its best mapping, on values, and its result is compared with numpy's. On a machine
    without PE arrays tiles move through the memories of its tree instead.
    """
    if is_given("machine") and goes_on_tree(machine):
        _simulate_on_tree(
            (model, machine, layers),
            Objective(objective),
            Values(values),
            choices,
            json_path,
            html,
            ragged=ragged,
            fuse=fuse,
            stats=stats,
            quiet=quiet,
        )
        return
    if fuse is not None:
        raise InputError("--fuse goes with a tree as --machine, such as tpu-v4i; operators of PE arrays run alone")
    _expect_sense(mapping, extrapolate, trace)
    inputs = [str(one) for one in (model, machine, mapping) if one is not None]
    expect_json(json_path, *inputs)
    span = (0, 0)
    if trace is not None:
        span = _window(window)
        expect_beside("--trace", trace, json_path, inputs)
    if html is not None:
        expect_beside("--html", html, json_path, inputs)
    with shown_progress(silent=quiet) as progress:
        with held_back():
            from tilestitch.commands.map.run import source_of
            from tilestitch.commands.map.sources import open_mapping
            from tilestitch.commands.simulate.array_trace import array_trace
            from tilestitch.commands.simulate.layers import SimulateOptions, simulate_layer
            from tilestitch.commands.simulate.run import Simulation, simulate_nests
            from tilestitch.mapping.network import MapOptions

        progress("load", 0, 1)
        source = source_of(machine)
        nests = open_layers(model, choices, layers)
        for option, given in (("--mapping", mapping), ("--trace", trace)):
            if given is not None and len(nests.layers) != 1:
                raise InputError(
                    f"{option} applies to one layer, and {nests.name} has {len(nests.layers)}; choose one with --layer"
                )
        options = SimulateOptions(Values(values), extrapolate, span, MapOptions(Objective(objective), ragged=ragged))
        if mapping is not None:
            layer = nests.layers[0]
            given = open_mapping(str(mapping), layer.nest, source, CostMode.DEFAULT)
            one = simulate_layer(layer, source.machine, given, options, progress)
            done = Simulation(nests, source, f"mapping of {printable(mapping.name, 80)}", (one,), options)
        else:
            done = simulate_nests(nests, source, options, progress)
        progress("write", 0, 1)
        json_text = done.to_json(stats=stats)
        files: Files = json_file(json_path, json_text)
        if trace is not None:
            files.append((trace, encoded(array_trace(done[0].simulated, span))))
        if html is not None:
            files.append((html, encoded(done.to_html(given_command()))))
        write_files(files)
        text = done.text(stats=stats)
    show_output(text, json_text, json_path, quiet=quiet)


def _simulate_on_tree(
    given: tuple[str, str, tuple[str, ...]],
    objective: Objective,
    values: Values,
    choices: Choices,
    json_path: Path | None,
    html: Path | None,
    *,
    ragged: bool,
    fuse: int | None,
    stats: bool,
    quiet: bool,
) -> None:
    model, machine, layers = given
    expect_none_given(_NOT_ON_TREES, "a tree is simulated in the best mapping that map finds")
    expect_json(json_path, model, machine)
    if html is not None:
        expect_beside("--html", html, json_path, (model, machine))
    with shown_progress(silent=quiet) as progress:
        with held_back():
            from tilestitch.commands.map.fused_run import FuseOptions, map_fused
            from tilestitch.commands.simulate.fused_layers import simulate_fused
            from tilestitch.commands.simulate.fused_simulation import FusedSimulation
            from tilestitch.commands.simulate.tree_layers import open_simulated, simulate_tree_layers
            from tilestitch.commands.simulate.tree_simulation import TreeSimulation
            from tilestitch.mapping.tree.choices import Ragged, SpatialSpace

        progress("load", 0, 1)
        of_network = {"batch": choices.batch, "dims": dict(choices.dims), "fold_bn": choices.fold_bn}
        space = SpatialSpace(Ragged.ALL if ragged else Ragged.FILLING)
        if fuse is None:
            task = open_simulated(model, machine, layers, space, **of_network)
            found = simulate_tree_layers(task, objective, values, progress)
            done: TreeSimulation | FusedSimulation = TreeSimulation(task, objective, values, found)
        else:
            options = FuseOptions(fuse, space=space, objective=objective)
            mapped = map_fused(model, machine, options, **of_network, layers=layers, progress=progress)
            done = FusedSimulation(mapped, values, simulate_fused(mapped, values, progress))
        progress("write", 0, 1)
        json_text = done.to_json(stats=stats)
        files: Files = json_file(json_path, json_text)
        if html is not None:
            files.append((html, encoded(done.to_html(given_command()))))
        write_files(files)
        text = done.text(stats=stats)
    show_output(text, json_text, json_path, quiet=quiet)


def _expect_sense(mapping: Path | None, extrapolate: bool, trace: Path | None) -> None:
    """Refuse options that say nothing together."""
    if mapping is not None and (is_given("objective") or is_given("ragged")):
        raise InputError("--mapping fixes what is simulated, so nothing is searched; leave out --objective, --ragged")
    if extrapolate and is_given("values"):
        raise InputError("--extrapolate computes no values, as it skips passes; leave out --values")
    if extrapolate and trace is not None:
        raise InputError("--trace shows every pass, and --extrapolate skips some; leave out one of them")
    if trace is None and is_given("window"):
        raise InputError("--window says what --trace FILE shows; give --trace as well")


def _window(text: str) -> tuple[int, int]:
    """The first cycle, and the one after the last."""
    found = re.fullmatch(r"([0-9]{1,15}):([0-9]{1,15})", text, re.ASCII)
    if found is None or int(found[1]) > int(found[2]):
        shown = printable(text, 60)
        raise InputError(
            f"--window {shown}: expected FIRST:LAST, two cycles in ascending order, such as --window 0:9999"
        )
    return int(found[1]), int(found[2]) + 1
