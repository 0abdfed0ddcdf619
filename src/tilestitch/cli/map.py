"""The command that maps loop nests on a machine tree or an array of processing elements."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tilestitch.base.errors import InputError
from tilestitch.base.files import expect_beside, expect_folder, expect_other, expect_writable, write_files
from tilestitch.base.text_files import MAX_JSON_BYTES, file_text
from tilestitch.cli.application import held_back
from tilestitch.cli.completion import MODEL
from tilestitch.cli.layers import open_layers
from tilestitch.cli.map_fused import map_fused_chains
from tilestitch.cli.map_trees import EMITTED, UNEVEN, TreeFiles, is_on_tree, search_or_check
from tilestitch.cli.options import (
    SEARCHES,
    Choices,
    ShareType,
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
from tilestitch.cli.output import Files, encoded, expect_json, given_command, json_file, page_file, show_output
from tilestitch.cli.progress import shown_progress
from tilestitch.ir.choices import CostMode, Objective

if TYPE_CHECKING:
    pass

MAX_LINES_BYTES = 2**30
_NOT_BESIDE = (
    *("fuse", "mapping", "evaluate", "check", "storage", "spatial", "constraints", "energies", "mode"),
    *("search", "dataflow", "ragged", "utilization", "html"),
)


@click.command("map")
@click.argument("model", required=False, type=MODEL)
@array_machine_option
@choice_option(
    "--objective",
    Objective,
    "What to minimise; pareto finds every mapping that no other beats in both latency and energy; ed2p is energy x "
    "latency squared.",
)
@choice_option("--search", SEARCHES, "The proven best of all, or the best that dMazeRunner's rules leave.")
@click.option(
    "--dataflow",
    default="",
    metavar="NAME|A|B",
    help="Only mappings of a dataflow: output, weight, row, input, coarse-weight, or two loops spread over elements.",
)
@choice_option("--mode", CostMode, "Our cost model, or dMazeRunner's to the digit.")
@click.option("--ragged", is_flag=True, help="Factors need not divide; takes longer.")
@click.option("--top", type=click.IntRange(1, 1000), default=1, show_default=True, help="Mappings of each layer.")
@click.option(
    "--storage",
    type=click.Choice(("even", UNEVEN)),
    default="even",
    show_default=True,
    help="Of a PE array; uneven: what would be best if operands changed at places of their own, by a tree's cycles.",
)
@click.option(
    "--spatial",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="On a tree: ZigZag's mapping of ZigZag's MODEL, which fixes what is spread; or free, to search that.",
)
@click.option(
    "--constraints",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="On a tree: what is fixed of spread factors, tiles, shares and bypasses; ours or Timeloop's YAML.",
)
@click.option(
    "--energies",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="On a tree of Timeloop or AccelForge: the picojoules of its parts, an ERT as Accelergy writes it.",
)
@click.option(
    "--utilization",
    type=ShareType(),
    default=0.0,
    show_default=True,
    help="On a tree: least share of the units that has work, on average over the steps.",
)
@click.option(
    "--sums",
    type=click.Choice(("full", "final")),
    default="full",
    show_default=True,
    help="On a tree: how wide running sums are stored; final: as complete ones wherever complete ones leave.",
)
@click.option(
    "--explain",
    default="",
    metavar="zigzag|FILE",
    help="On a tree: where each layer's energy differs from what ZigZag's rule for sums gives, or from a result of "
    "ZigZag, its NAME_complete.json.",
)
@click.option(
    "--effort",
    type=click.IntRange(1, 10**8),
    default=20_000_000,
    show_default=True,
    help="On a tree: labels of each layer before the search stops and says the gap.",
)
@click.option(
    "--fuse",
    type=click.IntRange(2, 4),
    metavar="N",
    help="On a tree: let up to N operators run together, with what passes between them kept on chip.",
)
@layers_option
@mapping_option("Price", "on a tree Timeloop's or AccelForge's")
@click.option(
    "--evaluate",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Price mappings, one JSON object per line; - reads them from standard input. Needs no MODEL.",
)
@click.option("--emit", type=click.Choice(EMITTED), help="Write the best mapping of each layer for this program to -o.")
@click.option("-o", "--out", metavar="DIR", type=click.Path(path_type=Path), help="Where --emit writes.")
@click.option(
    "--certificate",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Write the proof that each mapping is the best to this file.",
)
@click.option("--check", metavar="FILE", type=click.Path(path_type=Path), help="Check such proofs; search nothing.")
@click.option(
    "--beside-compile",
    is_flag=True,
    help="Also compile the network (compile --strategy auto), and say why it takes more or less than its layers.",
)
@html_option("layers, loop nests, the array")
@network_options
@output_options
def map_(
    model: str | None,
    machine: str,
    objective: str,
    search: str,
    dataflow: str,
    mode: str,
    ragged: bool,
    top: int,
    storage: str,
    spatial: Path | None,
    constraints: Path | None,
    energies: Path | None,
    utilization: float,
    sums: str,
    explain: str,
    effort: int,
    fuse: int | None,
    layers: tuple[str, ...],
    mapping: Path | None,
    evaluate: Path | None,
    emit: str | None,
    out: Path | None,
    certificate: Path | None,
    check: Path | None,
    beside_compile: bool,
    html: Path | None,
    choices: Choices,
    json_path: Path | None,
    quiet: bool,
) -> int | None:
    """Map the loop nests of MODEL on a machine: a tree of memories, or an array of processing elements.

    MODEL is a network, a line such as "O[m,n] += A[m,k] * B[k,n]; m=64 n=64 k=64", or a file of layers:
    dMazeRunner's JSON, Timeloop's problem, ZigZag's YAML. Each different layer is mapped once, and counted as often as
    the network runs it. All numbers are estimated.
    """
    if beside_compile:
        expect_none_given(_NOT_BESIDE, "--beside-compile is of all layers of a network, each in its best mapping")
        if layers:
            raise InputError("--beside-compile is of all layers of a network; leave out --layer")
    if fuse is not None:
        return map_fused_chains(model, machine, fuse, choices, layers, json_path, html, quiet=quiet)
    if storage == UNEVEN or is_on_tree(machine, spatial, energies):
        on_tree = TreeFiles(model, machine, spatial, constraints, certificate, check, energies, html, mapping)
        return search_or_check(on_tree, choices, layers, json_path, quiet=quiet)
    expect_none_given(
        ("spatial", "energies", "sums", "effort", "explain", "utilization", "constraints"),
        "--spatial, --energies, --sums, --effort, --explain, --utilization and --constraints go with --storage uneven, "
        "or a tree as --machine",
    )
    _expect_sense(model, objective, search, dataflow, mode, ragged, top, mapping, evaluate, emit, out)
    _expect_provable(objective, search, dataflow, ragged, mapping, evaluate, emit, certificate, check)
    if check is not None:
        expect_none_given(("dataflow", "ragged", "search", "top"), "--check judges the best of all exact tilings")
    inputs = [str(one) for one in (model, machine, mapping, evaluate, check) if one is not None]
    expect_json(json_path, *inputs)
    if html is not None:
        expect_beside("--html", html, json_path, inputs)
    if out is not None:
        expect_folder(out)
    if certificate is not None:
        expect_writable(certificate)
        for source in inputs:
            expect_other(certificate, source)
    if evaluate is not None:
        _evaluate(evaluate, machine, json_path, html, quiet=quiet)
        return None
    assert model is not None
    with shown_progress(silent=quiet) as progress:
        with held_back():
            from tilestitch.commands.map.beside_compile import beside_compile as compiled_beside
            from tilestitch.commands.map.beside_compile import (
                beside_compile_text,
                expect_compiled,
                with_beside_compile,
            )
            from tilestitch.commands.map.files import mapping_files
            from tilestitch.commands.map.judged_page import checked_result
            from tilestitch.commands.map.map_json import evaluated_json
            from tilestitch.commands.map.map_page import given_result, named_by
            from tilestitch.commands.map.map_text import evaluated_text
            from tilestitch.commands.map.proofs import certificates_json, check_certificates
            from tilestitch.commands.map.run import map_nests, source_of
            from tilestitch.commands.map.sources import open_mapping
            from tilestitch.mapping.evaluate import price
            from tilestitch.mapping.network import MapOptions

        progress("load", 0, 1)
        source = source_of(machine)
        if beside_compile:
            expect_compiled(model, machine)
        nests = open_layers(model, choices, layers)
        files: Files = []
        if check is not None:
            proofs = file_text(check, "JSON", MAX_JSON_BYTES)
            asked_mode = CostMode(mode) if is_given("mode") else None
            sought = Objective(objective) if is_given("objective") else None
            text = check_certificates(proofs, check.name, nests, source.machine, progress, asked_mode, sought)
            json_text = json.dumps({"checked": text.splitlines()}, indent=1) + "\n"
            found = []
            if html is not None:
                files.append(page_file(html, checked_result(named_by(nests), source.machine.name, check.name, text)))
        elif mapping is not None:
            if len(nests.layers) != 1:
                raise InputError(
                    f"--mapping describes one layer, and {nests.name} has {len(nests.layers)}; choose one with --layer"
                )
            nest = nests.layers[0].nest
            given = open_mapping(str(mapping), nest, source, CostMode(mode))
            shown = (nest, source, given, price(nest, source.machine, given, CostMode(mode)), CostMode(mode))
            text, json_text = evaluated_text(*shown), evaluated_json(*shown)
            found = [(nest, given)]
            if html is not None:
                files.append(page_file(html, given_result(*shown), [("mapping", mapping)]))
        else:
            options = MapOptions(
                Objective(objective),
                CostMode(mode),
                pruned=search == "dmazerunner",
                ragged=ragged,
                dataflow=dataflow,
                top=top,
                certify=certificate is not None,
            )
            mapped = map_nests(nests, source, options, progress)
            text, json_text = str(mapped), mapped.to_json()
            found = [(one.layer.nest, one.found[0].mapping) for one in mapped]
            if html is not None:
                files.append((html, encoded(mapped.to_html(given_command()))))
            if beside_compile:
                beside = compiled_beside(model, machine, choices.options(beside_map=True), progress)
                text = f"{text}\n{beside_compile_text(beside)}"
                json_text = with_beside_compile(json_text, beside)
            if certificate is not None:
                proofs = certificates_json(mapped.layers, options.mode, options.objective)
                files.append((certificate, encoded(proofs)))
        if emit is not None and out is not None:
            files += [(out / name, encoded(content)) for name, content in mapping_files(emit, source.machine, found)]
        write_files([*json_file(json_path, json_text), *files])
    show_output(text, json_text, json_path, quiet=quiet)
    return None


def _expect_sense(
    model: str | None,
    objective: str,
    search: str,
    dataflow: str,
    mode: str,
    ragged: bool,
    top: int,
    mapping: Path | None,
    evaluate: Path | None,
    emit: str | None,
    out: Path | None,
) -> None:
    """Refuse options that say nothing together."""
    if evaluate is not None and (model is not None or mapping is not None or emit is not None or is_given("mode")):
        raise InputError("--evaluate prices the mappings in its lines; leave out MODEL, --mapping, --emit and --mode")
    if evaluate is None and model is None:
        raise InputError("MODEL is missing: a network, a line of einsum, or a file of layers; or give --evaluate FILE")
    if search == "dmazerunner" and (dataflow or ragged or objective == "pareto"):
        raise InputError("--search dmazerunner has rules of its own; leave out --dataflow, --ragged and pareto")
    if mode == "published" and ragged:
        raise InputError("--mode published is dMazeRunner's model, whose factors divide; leave out --ragged")
    if objective == "pareto" and top > 1:
        raise InputError("--objective pareto gives the whole front; leave out --top")
    if (emit is None) != (out is None):
        raise InputError(f"--emit and -o go together: --emit {'|'.join(EMITTED)} -o DIR")


def _expect_provable(
    objective: str,
    search: str,
    dataflow: str,
    ragged: bool,
    mapping: Path | None,
    evaluate: Path | None,
    emit: str | None,
    certificate: Path | None,
    check: Path | None,
) -> None:
    """Refuse a proof of what is not proven that way."""
    if certificate is not None and (
        objective == "pareto" or search != "exact" or dataflow or ragged or mapping is not None or evaluate is not None
    ):
        raise InputError(
            "--certificate proves the best of all exact tilings for one objective; leave out pareto, --search "
            "dmazerunner, --dataflow, --ragged, --mapping and --evaluate"
        )
    if check is not None and (certificate or mapping or evaluate or emit):
        others = "--certificate, --mapping, --evaluate and --emit"
        raise InputError(f"--check only checks proofs; leave out {others}")


def _evaluate(path: Path, machine: str, json_path: Path | None, html: Path | None, *, quiet: bool) -> None:
    """Print, or write to the file of --json, the price of every line."""
    with held_back():
        from tilestitch.commands.map.judged_page import priced_result
        from tilestitch.commands.map.run import source_of
        from tilestitch.mapping.json_lines import price_lines

    source = source_of(machine)
    text = sys.stdin.read() if path == Path("-") else file_text(path, "JSON", MAX_LINES_BYTES)
    lines = list(price_lines(text.splitlines(), source.machine))
    found = "".join(f"{line}\n" for line in lines)
    written = json_file(json_path, found)
    if html is not None:
        result = priced_result(source.machine.name, path.name, lines, source.machine.clock_hz)
        written.append(page_file(html, result))
    write_files(written)
    if not quiet and (json_path is None or json_path == Path("-")):
        click.echo(found, nl=False)
