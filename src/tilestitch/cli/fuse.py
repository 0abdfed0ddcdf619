"""The command that divides a network into fused blocks, each on a number of cores."""

from pathlib import Path

import click

from tilestitch.base.errors import InputError
from tilestitch.base.files import expect_beside, expect_other, expect_writable, write_files
from tilestitch.base.text_files import MAX_JSON_BYTES, file_text
from tilestitch.cli.application import held_back
from tilestitch.cli.completion import MACHINE, MODEL
from tilestitch.cli.options import Choices, choice_option, html_option, is_given, network_options, output_options
from tilestitch.cli.output import Files, encoded, expect_json, given_command, json_file, show_output, verdict
from tilestitch.cli.progress import shown_progress

PLAN_HELP = (
    "baseline, fixed-cores, dynamic-cores, one-block, fixed-fusion, dlfusion, oracle, annealing, genetic, exact, "
    "exact-by-layer, or a plan's file ending in .json."
)
EMITTED = ("plan", "cnml")


@click.command()
@click.argument("model", type=MODEL)
@click.option(
    "--machine", type=MACHINE, metavar="NAME|FILE", default="mlu100", show_default=True, help="As for compile."
)
@click.option("--plan", metavar="NAME|FILE", default="exact", show_default=True, help=PLAN_HELP)
@click.option("--compare", is_flag=True, help="Show the plans of all strategies beside it.")
@click.option("--simulate", is_flag=True, help="Compile the plan to a program, and show its simulated times as well.")
@click.option(
    "--verify",
    is_flag=True,
    help="Check the proof of the best plan, independently of the search; with --simulate execute the program too, and "
    "compare its outputs with onnxruntime's.",
)
@click.option("-o", "--out", metavar="FILE", type=click.Path(path_type=Path), help="Write the plan to this file.")
@choice_option("--emit", EMITTED, "What -o writes: the plan as JSON, or as C++ for CNML, the library of the MLU100.")
@click.option(
    "--constants",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Write the constants that the C++ program reads to this file.",
)
@click.option(
    "--certificate",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Write the best plan and its proof to this file.",
)
@click.option("--check", metavar="FILE", type=click.Path(path_type=Path), help="Check a certificate; search nothing.")
@html_option("blocks as nests, their times beside those unfused")
@network_options
@output_options
def fuse(
    model: str,
    machine: str,
    plan: str,
    compare: bool,
    simulate: bool,
    verify: bool,
    out: Path | None,
    emit: str,
    constants: Path | None,
    certificate: Path | None,
    check: Path | None,
    html: Path | None,
    choices: Choices,
    json_path: Path | None,
    quiet: bool,
) -> int:
    """Divide MODEL into blocks of layers, each on a number of cores, and price them by the block model of DLFusion.

    The best plan of all is found too, with a proof, and lower bounds. --simulate runs the plan on one cluster of the
    machine. The exit code is 1 if --verify finds wrong outputs.
    """
    if check is not None and (compare or simulate or verify or out or certificate or html or is_given("plan")):
        others = "--plan, --compare, --simulate, --verify, -o, --certificate and --html"
        raise InputError(f"--check only checks a certificate; leave out {others}")
    if (out is None and is_given("emit")) or (emit != "cnml" and constants is not None):
        raise InputError(
            "--emit cnml selects what -o writes, and --constants belongs to it; give -o FILE.cpp --emit cnml"
        )
    written = [path for path in (out, constants, certificate) if path is not None]
    sources = [model, machine, plan, *([] if check is None else [str(check)])]
    expect_json(json_path, *sources)
    for path in written:
        expect_writable(path)
        for source in sources:
            expect_other(path, source)
    if html is not None:
        expect_beside("--html", html, json_path, sources)
    with shown_progress(silent=quiet) as progress:
        with held_back():
            from tilestitch import api
            from tilestitch.commands.fuse.certificate_file import certificate_json, checked_certificate
            from tilestitch.commands.fuse.emitted import cnml_of
            from tilestitch.commands.fuse.fuse import block_cost
            from tilestitch.commands.fuse.fuse_text import checked_json, checked_text
            from tilestitch.commands.fuse.run import fuse as fused_by

        files: Files = []
        ran = None
        if check is not None:
            proof = file_text(check, "JSON", MAX_JSON_BYTES)
            progress("load", 0, 4)
            graph = api.load_graph(model, batch=choices.batch, dims=choices.dims)
            accelerator = api.load_machine(machine)
            progress("plan", 1, 4)
            cost = block_cost(graph, accelerator, fold_bn=choices.fold_bn)
            progress("check", 2, 4)
            shown = (
                check.name,
                cost,
                accelerator.name,
                *checked_certificate(cost, accelerator.name, proof, check.name),
            )
            text, json_text = checked_text(*shown), checked_json(*shown)
        else:
            done = fused_by(
                model,
                machine,
                plan,
                choices.options(),
                compare=compare,
                simulate=simulate,
                verify=verify,
                progress=progress,
            )
            ran, text, json_text = done.ran, str(done), done.to_json()
            if html is not None:
                files.append((html, encoded(done.to_html(given_command()))))
            if certificate is not None:
                files.append((certificate, encoded(certificate_json(done.fused))))
            if out is not None and emit == "cnml":
                graph = api.load_graph(model, batch=choices.batch, dims=choices.dims)
                program = cnml_of(graph, done.fused, fold_bn=choices.fold_bn)
                files.append((out, encoded(program.text)))
                if constants is not None:
                    files.append((constants, program.constant_bytes))
            elif out is not None:
                files.append((out, encoded(done.plan_json())))
        write_files([*json_file(json_path, json_text), *files])
    show_output(text, json_text, json_path, quiet=quiet)
    return verdict([] if ran is None else [ran.report])
