"""The command `tilestitch`. What is slow to import is imported in the command that needs it: `--help` comes at once."""

from pathlib import Path

import click

from tilestitch import __version__
from tilestitch.base.errors import InputError
from tilestitch.base.files import expect_beside, expect_folder, write_files
from tilestitch.cli.application import Application, held_back
from tilestitch.cli.build import build
from tilestitch.cli.characterize import characterize
from tilestitch.cli.check import check
from tilestitch.cli.completion import MODEL, STRATEGY
from tilestitch.cli.contest import contest
from tilestitch.cli.diff import diff
from tilestitch.cli.examples import with_examples
from tilestitch.cli.explore import explore
from tilestitch.cli.fuse import fuse
from tilestitch.cli.inspect import machines, models, show
from tilestitch.cli.map import map_
from tilestitch.cli.options import (
    STRATEGY_HELP,
    Choices,
    compile_options,
    html_option,
    machine_beside,
    output_options,
    start_option,
    strategy_given,
)
from tilestitch.cli.output import (
    Files,
    encoded,
    expect_json,
    given_command,
    json_file,
    outputs,
    show_output,
    stages,
    verdict,
)
from tilestitch.cli.progress import shown_progress
from tilestitch.cli.reproduce import reproduce
from tilestitch.cli.serve import serve
from tilestitch.cli.simulate import simulate
from tilestitch.cli.traffic import traffic
from tilestitch.cli.translate import translate
from tilestitch.cli.validate import validate
from tilestitch.cli.why import why
from tilestitch.ir.choices import Stage


@click.group(cls=Application, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, message="%(prog)s %(version)s")
def main() -> None:
    """Compile a neural network for a described accelerator, simulate it, check it, and compare it with its bounds."""


@main.command("compile")
@click.argument("model", type=MODEL)
@click.option("--strategy", type=STRATEGY, default="auto", show_default=True, help=STRATEGY_HELP)
@compile_options
@click.option("--verify", is_flag=True, help="Execute the program and compare its outputs with onnxruntime's.")
@click.option(
    "--beside-map",
    is_flag=True,
    help="Put the sum of the layers mapped alone (map --objective latency) beside the latency, and the reasons.",
)
@click.option(
    "--stop-after",
    type=click.Choice([str(stage) for stage in Stage]),
    default=str(Stage.SIMULATE),
    help="Stop after this stage, and print its value.",
)
@start_option("the value of a stage")
@click.option("-o", "--out", metavar="DIR", type=click.Path(path_type=Path), help="Write report, schedule and trace.")
@click.option("--dump", metavar="DIR", type=click.Path(path_type=Path), help="Write the value of every stage.")
@click.option(
    "--annotate",
    metavar="FILE.onnx",
    type=click.Path(path_type=Path),
    help="Write the network with the cost of each node in its metadata, for Netron.",
)
@html_option("timeline, memories, graph, roofline")
@output_options
def compile_command(
    model: str,
    strategy: str,
    choices: Choices,
    verify: bool,
    beside_map: bool,
    stop_after: str,
    start: Path | None,
    out: Path | None,
    dump: Path | None,
    annotate: Path | None,
    html: Path | None,
    json_path: Path | None,
    quiet: bool,
) -> int:
    """Compile MODEL, simulate the program and print the report.

    MODEL is a network of the zoo (see: tilestitch models) or an ONNX file. The exit code is 1 if --verify finds
    wrong outputs.
    """
    last = Stage(stop_after)
    wanted = {"--verify": verify, "--beside-map": beside_map, "-o": out is not None}
    wanted |= {"--annotate": annotate is not None, "--html": html is not None}
    for option, given in wanted.items():
        if given and last is not Stage.SIMULATE:
            raise InputError(
                f"{option} needs the simulation, and --stop-after {stop_after} ends before it; leave out one of them "
                "(--dump DIR writes every stage that is reached)"
            )
    target = machine_beside(start, choices.machine)
    expect_json(json_path, model, choices.machine, strategy, *([] if start is None else [str(start)]))
    for option, path in (("--html", html), ("--annotate", annotate)):
        if path is not None:
            sources = [model, choices.machine, strategy, *([] if start is None else [start])]
            expect_beside(option, path, json_path, sources)
    for folder in (out, dump):
        if folder is not None:
            expect_folder(folder)
    with shown_progress(silent=quiet) as progress:
        with held_back():
            from tilestitch import api
            from tilestitch.pipeline.stage_files import stage_text

            if verify:
                import onnxruntime  # noqa: F401  (takes a while, and is needed later)

        if annotate is not None:
            api.expect_annotatable(model, annotate)
        done = api.compile(
            model,
            target,
            strategy=strategy_given(strategy),
            options=choices.options(verify=verify, beside_map=beside_map, stop_after=last),
            start=start,
            progress=progress,
        )
        progress("write", 0, 1)
        json_text = ""
        if json_path is not None:
            json_text = stage_text(done, last) if done.report is None else done.to_json()
        files = json_file(json_path, json_text)
        if out is not None:
            files += outputs(out, done)
        if dump is not None:
            files += stages(dump, done)
        if html is not None:
            files.append((html, encoded(done.to_html(given_command()))))
        if annotate is not None:
            files.append((annotate, api.annotated(done, model).SerializeToString(deterministic=True)))
        write_files(files)
    show_output(str(done), json_text, json_path, quiet=quiet)
    return verdict([] if done.report is None else [done.report])


@main.command("compare")
@click.argument("model", type=MODEL)
@click.option("--strategy", "names", type=STRATEGY, multiple=True, help=f"{STRATEGY_HELP} Repeatable; without it, all.")
@compile_options
@click.option("--verify", is_flag=True, help="Execute the programs and compare their outputs with onnxruntime's.")
@click.option("--reports", is_flag=True, help="Print the report of each strategy as well.")
@click.option("-o", "--out", metavar="DIR", type=click.Path(path_type=Path), help="Write the files of all strategies.")
@html_option("timeline, memories, graph, roofline")
@output_options
def compare_command(
    model: str,
    names: tuple[str, ...],
    choices: Choices,
    verify: bool,
    reports: bool,
    out: Path | None,
    html: Path | None,
    json_path: Path | None,
    quiet: bool,
) -> int:
    """Compile MODEL by several strategies, and print them side by side.

    Where the machine is too small for a strategy, its column says so.
    """
    expect_json(json_path, model, choices.machine, *names)
    if html is not None:
        expect_beside("--html", html, json_path, [model, choices.machine, *names])
    if out is not None:
        expect_folder(out)
    with shown_progress(silent=quiet) as progress:
        with held_back():
            from tilestitch import api
            from tilestitch.pipeline.strategies import STRATEGIES

            if verify:
                import onnxruntime  # noqa: F401  (takes a while, and is needed later)

        given = [strategy_given(name) for name in dict.fromkeys(names)] or [one.name for one in STRATEGIES]
        found = api.compare(
            model,
            choices.machine,
            given,
            options=choices.options(verify=verify),
            progress=progress,
        )
        progress("write", 0, 1)
        table, json_text = str(found), found.to_json()
        files: Files = json_file(json_path, json_text)
        if out is not None:
            files += [(out / "compare.txt", encoded(table)), (out / "compare.json", encoded(json_text))]
            for done, report in zip(found.fitting, found.reports, strict=True):
                files += outputs(out / report.strategy, done)
        if html is not None:
            files.append((html, encoded(found.to_html(given_command()))))
        write_files(files)
    shown = (table, *(map(str, found.fitting) if reports else ()))
    show_output("\n\n".join(shown), json_text, json_path, quiet=quiet)
    return verdict(found.reports)


for command in (
    *(
        build,
        check,
        diff,
        show,
        machines,
        models,
        reproduce,
        contest,
        fuse,
        characterize,
        map_,
        serve,
        simulate,
        explore,
        traffic,
        translate,
        validate,
        why,
    ),
):
    main.add_command(command)
with_examples(main)
