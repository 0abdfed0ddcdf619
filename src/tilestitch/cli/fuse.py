"""The command that divides a network into fused blocks, each on a number of cores."""

from pathlib import Path

import click

from tilestitch.cli.application import held_back
from tilestitch.cli.files import expect_other, expect_writable, write_files
from tilestitch.cli.options import Choices, network_options, output_options
from tilestitch.cli.output import encoded, expect_json, json_file, show_output
from tilestitch.cli.progress import shown_progress
from tilestitch.text_files import MAX_JSON_BYTES, file_text

PLAN_HELP = (
    "baseline, fixed-cores, dynamic-cores, one-block, fixed-fusion, dlfusion, oracle, annealing, genetic, exact, or a "
    "plan's file ending in .json."
)


@click.command()
@click.argument("model")
@click.option("--machine", metavar="NAME|FILE", default="mlu100", show_default=True, help="As for compile.")
@click.option("--plan", metavar="NAME|FILE", default="exact", show_default=True, help=PLAN_HELP)
@click.option("--compare", is_flag=True, help="Set the plans of all strategies beside it.")
@click.option("--verify", is_flag=True, help="Check the proof of the best plan, independently of the search.")
@click.option("-o", "--out", metavar="FILE", type=click.Path(path_type=Path), help="Write the plan to this file.")
@network_options
@output_options
def fuse(
    model: str,
    machine: str,
    plan: str,
    compare: bool,
    verify: bool,
    out: Path | None,
    choices: Choices,
    json_path: Path | None,
    quiet: bool,
) -> None:
    """Divide MODEL into blocks of layers, each on a number of cores, and price them by the block model of DLFusion.

    The best plan of all is found too, with a proof, and lower bounds.
    """
    expect_json(json_path, model, machine, plan)
    if out is not None:
        expect_writable(out)
        for source in (model, machine, plan):
            expect_other(out, source)
    with shown_progress(quiet=quiet) as progress:
        with held_back():
            from tilestitch import api
            from tilestitch.fusion.fuse import block_cost, every_plan, verify_proof
            from tilestitch.fusion.fuse import fuse as fuse_blocks
            from tilestitch.fusion.plan_file import parse_plan, plan_json
            from tilestitch.fusion.text import fused_json, fused_text

        given = plan
        if plan.endswith(".json"):
            given = parse_plan(file_text(plan, "JSON", MAX_JSON_BYTES), Path(plan).name)
        progress("load", 0, 4)
        graph = api.load_graph(model, batch=choices.batch, dims=choices.dims)
        accelerator = api.load_machine(machine)
        progress("plan", 1, 4)
        cost = block_cost(graph, accelerator, fold_bn=choices.fold_bn)
        fused = fuse_blocks(cost, accelerator.name, given, plan if isinstance(given, str) else Path(plan).name)
        if verify:
            progress("verify", 2, 4)
            verify_proof(fused)
        progress("compare", 3, 4)
        others = every_plan(fused) if compare else []
        json_text = fused_json(fused, others)
        files = json_file(json_path, json_text)
        if out is not None:
            files.append((out, encoded(plan_json(cost.network, fused.plan))))
        write_files(files)
    show_output(fused_text(fused, others, verified=verify), json_text, json_path, quiet=quiet)
