"""The command that looks at many machines: parameters are varied, networks are priced on each."""

from dataclasses import replace
from pathlib import Path

import click
from click.core import ParameterSource

from tilestitch.base.errors import InputError, printable
from tilestitch.base.files import expect_beside, expect_folder, expect_other, expect_writable, write_files
from tilestitch.cli.application import BUG, FAILURE, SUCCESS, complain, held_back
from tilestitch.cli.completion import MODEL, STRATEGY
from tilestitch.cli.options import (
    OF_ONE_MAPPING,
    SEARCHES,
    STRATEGY_HELP,
    Choices,
    ShareType,
    choice_option,
    compile_options,
    expect_none_given,
    html_option,
    output_options,
    strategy_given,
)
from tilestitch.cli.output import Files, encoded, expect_json, given_command, json_file, show_output
from tilestitch.cli.progress import shown_progress
from tilestitch.cli.space_file import WithSpaceFile
from tilestitch.exploration.objectives import DEFAULT, OBJECTIVES
from tilestitch.ir.choices import CostMode, Objective
from tilestitch.pipeline.options import Options

EVALUATORS = ("simulate", "map")
METHODS = ("grid", "random", "optuna")
MAX_TRIALS = 100_000
STORE = "points.sqlite"  # in the folder of -o


@click.command(cls=WithSpaceFile)
@click.argument("models", metavar="MODEL...", type=MODEL, nargs=-1, required=True)
@click.option(
    "--by",
    type=click.Choice(EVALUATORS),
    help="Compile and simulate, or map every layer: on one array of elements, or on a tree without units.  "
    "[default: map where there is one]",
)
@click.option("--strategy", type=STRATEGY, default="auto", show_default=True, help=STRATEGY_HELP)
@compile_options
@choice_option("--least", OF_ONE_MAPPING, "What the mapping of each layer minimises, with --by map.")
@choice_option("--search", SEARCHES, "As for map.")
@click.option("--dataflow", default="", metavar="NAME|A|B", help="As for map.")
@choice_option("--mode", CostMode, "As for map.")
@click.option("--ragged", is_flag=True, help="As for map.")
@click.option(
    "--storage",
    type=click.Choice(("even", "uneven")),
    default="even",
    show_default=True,
    help="Of a PE array, as for map.",
)
@click.option("--spatial", metavar="FILE", type=click.Path(path_type=Path), help="On a tree, as for map.")
@click.option("--constraints", metavar="FILE", type=click.Path(path_type=Path), help="On a tree, as for map.")
@click.option(
    "--utilization",
    type=ShareType(),
    default=0.0,
    show_default=True,
    help="On a tree, as for map.",
)
@click.option(
    "--sums", type=click.Choice(("full", "final")), default="full", show_default=True, help="On a tree, as for map."
)
@click.option(
    "--vary",
    "varied",
    metavar="NAME=VALUES",
    multiple=True,
    help="What to vary: a path in the machine's file, such as memories.lb.size, or cores, clusters, pes, "
    "rf, spm, networks, width or bandwidth; values such as 4,8,16 or 64..1024*2 or 2..8+2. Repeatable.",
)
@click.option("--space", "space_file", metavar="FILE", default="", help="Options of this command, as YAML.")
@choice_option("--method", METHODS, "How to choose the designs.")
@click.option(
    "--trials",
    type=click.IntRange(1, MAX_TRIALS),
    default=64,
    show_default=True,
    help="Number of designs for random and optuna.",
)
@click.option(
    "--seed", type=click.IntRange(0, 2**32 - 1), default=0, show_default=True, help="Seed of random and optuna."
)
@click.option(
    "--population", type=click.IntRange(2, 1000), default=16, show_default=True, help="Designs per generation."
)
@click.option(
    "--objective",
    "objectives",
    type=click.Choice([one.name for one in OBJECTIVES]),
    multiple=True,
    help=f"What to minimise; repeatable.  [default: {', '.join(DEFAULT)}]",
)
@click.option("--scale-energy", is_flag=True, help="Energies per access grow with the sizes, as in dMazeRunner.")
@click.option(
    "--store",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help=f"Database of points, which are not evaluated again.  [default: {STORE} in the folder of -o]",
)
@click.option(
    "--workers", type=click.IntRange(1, 1024), help="Points evaluated at a time.  [default: one per processor]"
)
@click.option(
    "--cluster",
    metavar="dask://HOST:PORT|ray",
    default="",
    help="Evaluate on a running Dask or Ray cluster instead of this machine.",
)
@click.option("-o", "--out", metavar="DIR", type=click.Path(path_type=Path), help="Write tables, plots and machines.")
@html_option("designs as points, their front, what each is")
@output_options
def explore(
    models: tuple[str, ...],
    by: str | None,
    strategy: str,
    choices: Choices,
    least: str,
    search: str,
    dataflow: str,
    mode: str,
    ragged: bool,
    storage: str,
    spatial: Path | None,
    constraints: Path | None,
    utilization: float,
    sums: str,
    varied: tuple[str, ...],
    space_file: str,
    method: str,
    trials: int,
    seed: int,
    population: int,
    objectives: tuple[str, ...],
    scale_energy: bool,
    store: Path | None,
    workers: int | None,
    cluster: str,
    out: Path | None,
    html: Path | None,
    json_path: Path | None,
    quiet: bool,
) -> int:
    """Run every MODEL on many machines, and print those that no other beats: the Pareto front.

    Points are stored one by one: the same command after an interruption evaluates only what is left. The exit
    code is 1 if Tilestitch itself fails on one of the machines.
    """
    if cluster and workers is not None:
        raise InputError(
            "--workers runs processes on this machine, and --cluster uses other machines; leave out one of them"
        )
    of_trees = [str(one) for one in (spatial, constraints) if one is not None]
    sources = (*models, choices.machine, strategy, space_file, *of_trees)
    expect_json(json_path, *sources)
    if html is not None:
        expect_beside("--html", html, json_path, sources)
    if out is not None:
        expect_folder(out)
        store = out / STORE if store is None else store
    if store is not None:
        expect_writable(store)
        for source in sources:
            expect_other(store, source)
    with shown_progress(silent=quiet) as progress:
        with held_back():
            from tilestitch.commands.explore.run import ExploreOptions, way_of
            from tilestitch.commands.explore.run import explore as explored_by
            from tilestitch.commands.map.tree_value import TreeOptions
            from tilestitch.exploration.explore_text import front_machines, front_pictures, points_csv
            from tilestitch.hardware.tree_load import TreeMachine, load_either
            from tilestitch.mapping.network import MapOptions
            from tilestitch.mapping.tree.tables import Sums

        progress("load", 0, 1)
        pairs = [_pair(one) for one in varied]
        base = load_either(choices.machine)
        by = way_of(base, by or "")
        _expect_sense(by)
        if by == "map":
            if isinstance(base, TreeMachine) or storage == "uneven":
                expect_none_given(_OF_ARRAYS, "--search, --dataflow and --mode are of machines with a PE array")
                mapping = TreeOptions(
                    Objective(least),
                    spatial,
                    utilization,
                    ragged,
                    constraints,
                    Sums(sums),
                    uneven=storage == "uneven",
                )
            else:
                words = "--spatial, --constraints, --utilization and --sums go with --storage uneven, or a tree"
                expect_none_given(_OF_TREES, f"{words} as --machine")
                mapping = MapOptions(Objective(least), CostMode(mode), search == "dmazerunner", ragged, dataflow)
            options = ExploreOptions(mapping=mapping, compilation=Options(batch=choices.batch, dims=choices.dims))
        else:
            options = ExploreOptions(strategy=strategy_given(strategy), compilation=choices.options())
        explored = explored_by(
            models,
            choices.machine,
            pairs,
            replace(
                options,
                by=by,
                method=method,
                trials=trials,
                seed=seed,
                population=population,
                objectives=objectives or DEFAULT,
                scale_energy=scale_energy,
            ),
            store=store,
            workers=workers,
            cluster=cluster,
            progress=progress,
        )
        progress("write", 0, 1)
        text, json_text = str(explored), explored.to_json()
        files: Files = json_file(json_path, json_text)
        if out is not None:
            files += [
                (out / "explore.txt", encoded(text)),
                (out / "explore.json", encoded(json_text)),
                (out / "points.csv", encoded(points_csv(explored))),
            ]
            files += [(out / f"{name}.svg", encoded(picture)) for name, picture in front_pictures(explored)]
            files += [
                (out / "machines" / f"{design}.yaml", encoded(machine)) for design, machine in front_machines(explored)
            ]
        if html is not None:
            files.append((html, encoded(explored.to_html(given_command()))))
        write_files(files)
    show_output(text, json_text, json_path, quiet=quiet)
    for design, network, reason in explored.bugs[:1]:
        more = f" (and {len(explored.bugs) - 1:,} more)" if len(explored.bugs) > 1 else ""
        complain(f"design {design} with {network}{more}: {reason}\n{BUG}")
    return FAILURE if explored.bugs else SUCCESS


_OF_ARRAYS = ("search", "dataflow", "mode")
_OF_TREES = ("spatial", "constraints", "utilization", "sums")
_OF_ONE = {
    "simulate": ("strategy", "fold_bn", "batch_per_cluster", "batches", "spill", "binding", "grouping", "effort"),
    "map": ("least", "ragged", "storage", *_OF_ARRAYS, *_OF_TREES),
}


def _expect_sense(by: str) -> None:
    """Refuse options of the other way to evaluate."""
    context = click.get_current_context()
    for other in EVALUATORS:
        for name in _OF_ONE[other] if other != by else ():
            if context.get_parameter_source(name) is not ParameterSource.DEFAULT:
                option = "--no-fold-bn" if name == "fold_bn" else f"--{name.replace('_', '-')}"
                raise InputError(f"{option} belongs to --by {other}, and this is --by {by}; leave out one of them")


def _pair(text: str) -> tuple[str, str]:
    name, equals, values = text.partition("=")
    if not equals or not name.strip():
        shown = printable(text, 100)
        raise InputError(f"--vary {shown}: expected NAME=VALUES, such as --vary memories.lb.size=65536,131072")
    return name.strip(), values
