"""The command that maps loop nests on an array of processing elements."""

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tilestitch.base.errors import InputError
from tilestitch.base.files import expect_beside, expect_folder, expect_other, expect_writable, write_files
from tilestitch.base.text_files import MAX_JSON_BYTES, file_text
from tilestitch.cli.application import SUCCESS, WRONG_INPUT, complain, held_back
from tilestitch.cli.completion import MODEL
from tilestitch.cli.layers import goes_on_tree, open_layers
from tilestitch.cli.options import (
    SEARCHES,
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
from tilestitch.ir.choices import CostMode, Objective

if TYPE_CHECKING:
    from tilestitch.commands.map.tree_run import TreeTask
    from tilestitch.formats.zigzag.result import ZigzagResult
    from tilestitch.report.html.page import Result

FREE = "free"  # in place of a mapping file
UNEVEN = "uneven"
EMITTED = ("zigzag", "timeloop", "accelforge")
MAX_LINES_BYTES = 2**30


@click.command("map")
@click.argument("model", required=False, type=MODEL)
@array_machine_option
@choice_option(
    "--objective",
    Objective,
    "What to minimise; pareto finds every mapping that no other beats in both latency and energy; ed2p (energy x "
    "latency squared) goes with a tree.",
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
    type=click.FloatRange(0, 1),
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
    help="On a tree: let up to N operators in a row run together, with what passes between them kept on chip.",
)
@layers_option
@mapping_option("Price")
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
    html: Path | None,
    choices: Choices,
    json_path: Path | None,
    quiet: bool,
) -> int | None:
    """Map the loop nests of MODEL on an array of processing elements.

    MODEL is a network, a line such as "O[m,n] += A[m,k] * B[k,n]; m=64 n=64 k=64", or a file of layers:
    dMazeRunner's JSON, Timeloop's problem, ZigZag's YAML. Each different layer is mapped once, and counted as often as
    the network runs it. All numbers are estimated.
    """
    if fuse is not None:
        return _map_fused(model, machine, fuse, choices, layers, json_path, html, quiet=quiet)
    if storage == UNEVEN or _goes_on_tree(machine, spatial, energies):
        on_tree = _TreeFiles(model, machine, spatial, constraints, certificate, check, energies, html, mapping)
        return _map_on_tree(on_tree, choices, layers, json_path, quiet=quiet)
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
            from tilestitch.commands.map.files import mapping_files
            from tilestitch.commands.map.judged_page import checked_result
            from tilestitch.commands.map.map_json import evaluated_json
            from tilestitch.commands.map.map_page import given_result, named_by
            from tilestitch.commands.map.map_text import evaluated_text
            from tilestitch.commands.map.proofs import Claimed, certificates_json, check_certificates
            from tilestitch.commands.map.run import map_nests, source_of
            from tilestitch.commands.map.sources import open_mapping
            from tilestitch.mapping.evaluate import price
            from tilestitch.mapping.network import MapOptions

        progress("load", 0, 1)
        source = source_of(machine)
        nests = open_layers(model, choices, layers)
        files: Files = []
        if check is not None:
            asked = Claimed(
                CostMode(mode) if is_given("mode") else None, Objective(objective) if is_given("objective") else None
            )
            proofs = file_text(check, "JSON", MAX_JSON_BYTES)
            text = check_certificates(proofs, check.name, nests, source.machine, progress, asked)
            json_text = json.dumps({"checked": text.splitlines()}, indent=1) + "\n"
            found = []
            if html is not None:
                files.append(_page(html, checked_result(named_by(nests), source.machine.name, check.name, text)))
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
                files.append(_page(html, given_result(*shown), [("mapping", mapping)]))
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
            if certificate is not None:
                proofs = certificates_json(mapped.layers, options.mode, options.objective)
                files.append((certificate, encoded(proofs)))
        if emit is not None and out is not None:
            files += [(out / name, encoded(content)) for name, content in mapping_files(emit, source.machine, found)]
        write_files([*json_file(json_path, json_text), *files])
    show_output(text, json_text, json_path, quiet=quiet)
    return None


_NOT_FUSED = (
    "search",
    "dataflow",
    "mode",
    "top",
    "mapping",
    "evaluate",
    "spatial",
    "constraints",
    "energies",
    "explain",
    "emit",
    "out",
    "certificate",
    "check",
)


def _map_fused(
    model: str | None,
    machine: str,
    most: int,
    choices: Choices,
    layers: tuple[str, ...],
    json_path: Path | None,
    html: Path | None,
    *,
    quiet: bool,
) -> int:
    """Map chains of operators on a tree; the exit code says whether all of them have a mapping."""
    given = click.get_current_context().params
    expect_none_given(_NOT_FUSED, "has no meaning yet with --fuse")
    if model is None:
        raise InputError("MODEL is missing: a network, or a line of several products, each behind a ';'")
    if Objective(given["objective"]) is not Objective.ENERGY:
        raise InputError("--fuse minimises energy only; write --objective energy")
    if not is_given("machine") or not (given["storage"] == UNEVEN or goes_on_tree(machine)):
        raise InputError(
            "--fuse goes with a tree as --machine, such as tpu-v4i; a PE array is one with --storage uneven"
        )
    expect_json(json_path, model, machine)
    if html is not None:
        expect_beside("--html", html, json_path, [model, machine])
    with shown_progress(silent=quiet) as progress:
        with held_back():
            from tilestitch.commands.map.fused_run import FuseOptions, map_fused
            from tilestitch.commands.map.tree_machines import uneven_array
            from tilestitch.mapping.tree.choices import Ragged, SpatialSpace
            from tilestitch.mapping.tree.tables import Sums

        is_uneven = given["storage"] == UNEVEN
        ragged = Ragged.ALL if given["ragged"] else Ragged.NONE if is_uneven else Ragged.FILLING
        found = map_fused(
            model,
            uneven_array(machine) if is_uneven else machine,
            FuseOptions(most, Sums(given["sums"]), SpatialSpace(ragged, given["utilization"]), given["effort"]),
            batch=choices.batch,
            dims=choices.dims,
            fold_bn=choices.fold_bn,
            layers=layers,
            progress=progress,
        )
        text, json_text = str(found), found.to_json()
        pages: Files = [] if html is None else [(html, encoded(found.to_html(given_command())))]
        write_files([*json_file(json_path, json_text), *pages])
    show_output(text, json_text, json_path, quiet=quiet)
    for one in found.unmapped:
        complain(f"chain {' > '.join(one.names)}: {one.reason}")
    return WRONG_INPUT if found.unmapped else SUCCESS


def _page(path: Path, result: "Result", options: Sequence[tuple[str, object]] = ()) -> tuple[Path, bytes]:
    """The file of a page that this command makes again."""
    from tilestitch.pipeline.origin import made_by
    from tilestitch.report.html.page import result_page

    return path, encoded(result_page(result, made_by(given_command(), options)))


@dataclass(frozen=True, slots=True)
class _TreeFiles:
    """What is mapped on which tree, with files of proofs; what is spread is in a file of ZigZag's, or searched."""

    workload: str | None
    machine: str
    spatial: Path | None
    constraints: Path | None
    certificate: Path | None
    check: Path | None
    energies: Path | None
    html: Path | None
    mapping: Path | None

    @property
    def is_free(self) -> bool:
        return self.spatial is None or (str(self.spatial) == FREE and not self.spatial.exists())


_NOT_ON_TREES = ("search", "dataflow", "mode", "top", "evaluate")
_NOT_WITH_A_MAPPING = (*_NOT_ON_TREES, "mapping", "ragged", "utilization", "energies", "batch", "dims", "fold_bn")
_NOT_OF_A_GIVEN = (
    *("certificate", "check", "explain", "constraints", "utilization", "ragged", "objective", "sums", "effort"),
    *("html", "storage"),
)


def _goes_on_tree(machine: str, spatial: Path | None, energies: Path | None) -> bool:
    """Whether layers are mapped on a tree: the machine is one, or options are there that only trees have."""
    if not is_given("machine"):
        return spatial is not None or energies is not None
    if spatial is None and energies is None:
        return goes_on_tree(machine)
    from tilestitch.hardware.tree_load import has_array

    return not has_array(machine)


def _map_on_tree(
    files: _TreeFiles, choices: Choices, layers: tuple[str, ...], json_path: Path | None, *, quiet: bool
) -> int:
    """Map layers on a tree; the exit code says whether all of them have a mapping."""
    if files.is_free:
        expect_none_given(_NOT_ON_TREES, "has no meaning yet on a tree")
    else:
        expect_none_given(_NOT_WITH_A_MAPPING, "has no meaning yet with --spatial FILE")
    if files.workload is None:
        raise InputError(
            "MODEL is missing: a network, a line of einsum, or a file of layers; with --spatial FILE ZigZag's"
        )
    if not is_given("machine") and click.get_current_context().params["storage"] != UNEVEN:
        raise InputError(
            "--machine is missing: with --spatial it is the YAML file of a tree, or ZigZag's of an accelerator"
        )
    if files.mapping is not None:
        expect_none_given(_NOT_OF_A_GIVEN, "--mapping prices what a file gives, and searches nothing")
    given = click.get_current_context().params
    objective = Objective(given["objective"])
    if is_given("storage") and given["storage"] != UNEVEN:
        raise InputError("--storage goes with a PE array; the file of a tree says storage for each of its memories")
    spatial = None if files.is_free else files.spatial
    others = (files.workload, files.machine, spatial, files.constraints, files.energies, files.check, files.mapping)
    inputs = [str(one) for one in others if one is not None]
    expect_json(json_path, *inputs)
    if files.html is not None:
        expect_beside("--html", files.html, json_path, inputs)
    if files.certificate is not None or files.check is not None:
        _expect_provable_on_tree(files)
    _expect_written_on_tree(files, objective)
    if files.check is not None:
        _check_on_tree(files, files.check, choices, layers, json_path, quiet=quiet)
        return SUCCESS
    if files.mapping is not None:
        _price_on_tree(files, files.mapping, choices, layers, json_path, quiet=quiet)
        return SUCCESS
    if files.certificate is not None:
        expect_beside("--certificate", files.certificate, json_path, inputs)
    with shown_progress(silent=quiet) as progress:
        with held_back():
            from tilestitch.commands.map.tree_explain import explained, explained_text
            from tilestitch.commands.map.tree_files import expect_plain, tree_mapping_files
            from tilestitch.commands.map.tree_json import tree_json
            from tilestitch.commands.map.tree_page import tree_result
            from tilestitch.commands.map.tree_proofs import tree_certificates, tree_certificates_json
            from tilestitch.commands.map.tree_run import map_on_tree
            from tilestitch.commands.map.tree_text import tree_text
            from tilestitch.mapping.tree.tables import Sums

        progress("load", 0, 1)
        result = _result_of(given["explain"])
        task = _tree_task(files, choices, layers)
        emit: str = given["emit"] or ""
        if emit:
            expect_plain(emit, task.tree)
        mapped = map_on_tree(task, Sums(given["sums"]), given["effort"], progress, objective)
        shown = explained(mapped, result) if given["explain"] else ()
        text = "\n".join([tree_text(mapped), *(explained_text(one) for one in shown)])
        json_text = tree_json(mapped, shown)
        proofs = ()
        written: Files = []
        if files.certificate is not None:
            progress("prove", 0, 1)
            proofs = tree_certificates(mapped)
            written.append((files.certificate, encoded(tree_certificates_json(mapped, proofs))))
        out: Path | None = given["out"]
        if out is not None:
            emitted = tree_mapping_files(emit, mapped)
            written += [(out / name, encoded(content)) for name, content in emitted]
        if files.html is not None:
            said = [("effort", given["effort"]), ("constraints", files.constraints or ""), ("spatial", spatial or "")]
            said += [("energies", files.energies or "")]
            written.append(_page(files.html, tree_result(mapped, proofs), said))
        write_files([*json_file(json_path, json_text), *written])
    show_output(text, json_text, json_path, quiet=quiet)
    for one in mapped.unmapped:
        complain(f"layer {one.name}: {one.reason}")
    return WRONG_INPUT if mapped.unmapped else SUCCESS


def _price_on_tree(
    files: _TreeFiles, mapping: Path, choices: Choices, layers: tuple[str, ...], json_path: Path | None, *, quiet: bool
) -> None:
    """Price a given mapping of a layer on a tree, and write it for another program where that is asked for."""
    given = click.get_current_context().params
    with shown_progress(silent=quiet) as progress:
        with held_back():
            from tilestitch.commands.map.tree_files import expect_plain, tree_mapping_files
            from tilestitch.commands.map.tree_given import given_json, given_text, open_given

        progress("load", 0, 1)
        assert files.workload is not None
        load = partial(open_layers, choices=choices, layers=())
        found = open_given(files.workload, files.machine, mapping, layers, load, files.energies)
        text, json_text = given_text(found), given_json(found)
        written: Files = []
        if given["emit"] is not None:
            expect_plain(given["emit"], found.task.tree)
            emitted = tree_mapping_files(given["emit"], found.mapped)
            written += [(given["out"] / name, encoded(content)) for name, content in emitted]
        write_files([*json_file(json_path, json_text), *written])
    show_output(text, json_text, json_path, quiet=quiet)


def _tree_task(files: _TreeFiles, choices: Choices, layers: tuple[str, ...]) -> "TreeTask":
    """The layers, the machine, and what may be spread."""
    from tilestitch.commands.map.tree_machines import uneven_array
    from tilestitch.commands.map.tree_run import open_free_task, open_tree_task
    from tilestitch.mapping.tree.choices import Ragged, SpatialSpace

    assert files.workload is not None
    given = click.get_current_context().params
    machine, ragged = files.machine, Ragged.FILLING
    if given["storage"] == UNEVEN:
        machine, ragged = uneven_array(files.machine), Ragged.NONE
    if not files.is_free:
        return open_tree_task(files.workload, machine, str(files.spatial), layers, files.constraints)
    space = SpatialSpace(Ragged.ALL if given["ragged"] else ragged, given["utilization"])
    return open_free_task(
        files.workload,
        machine,
        space,
        layers,
        lambda model: open_layers(model, choices, ()),
        files.constraints,
        files.energies,
    )


def _expect_written_on_tree(files: _TreeFiles, objective: Objective) -> None:
    """Refuse half of what writes files, and what goes with one mapping of each layer where there is none, or more."""
    given = click.get_current_context().params
    if (given["emit"] is None) != (given["out"] is None):
        raise InputError(f"--emit and -o go together: --emit {'|'.join(EMITTED)} -o DIR")
    if given["out"] is not None:
        expect_folder(given["out"])
    if files.check is not None or objective is Objective.PARETO:
        expect_none_given(("explain", "emit"), "--check and --objective pareto have not one mapping of each layer")


def _result_of(explain: str) -> "ZigzagResult | None":
    """The result that a file has; nothing where only ZigZag's rules are asked for."""
    from tilestitch.formats.zigzag.result import zigzag_result

    if not explain or (explain == "zigzag" and not Path(explain).exists()):
        return None
    return zigzag_result(file_text(Path(explain), "JSON", MAX_JSON_BYTES), Path(explain).name)


def _expect_provable_on_tree(files: _TreeFiles) -> None:
    """Refuse what says nothing beside proofs that are judged."""
    if files.check is not None and files.certificate is not None:
        raise InputError("--check judges proofs, and searches nothing; leave out --certificate")
    if files.check is not None:
        expect_none_given(("effort",), "--check judges proofs, and searches nothing")


def _check_on_tree(
    files: _TreeFiles, check: Path, choices: Choices, layers: tuple[str, ...], json_path: Path | None, *, quiet: bool
) -> None:
    """Check the proofs of layers on a tree."""
    given = click.get_current_context().params
    with shown_progress(silent=quiet) as progress:
        with held_back():
            from tilestitch.commands.map.judged_page import checked_result
            from tilestitch.commands.map.tree_proofs import TreeClaimed, check_tree_certificates
            from tilestitch.hardware.tree_svg import tree_svg
            from tilestitch.mapping.tree.tables import Sums

        progress("load", 0, 1)
        task = _tree_task(files, choices, layers)
        asked = TreeClaimed(
            Sums(given["sums"]) if is_given("sums") else None,
            Objective(given["objective"]) if is_given("objective") else None,
        )
        text = check_tree_certificates(file_text(check, "JSON", MAX_JSON_BYTES), check.name, task, asked, progress)
        json_text = json.dumps({"checked": text.splitlines()}, indent=1) + "\n"
        written = json_file(json_path, json_text)
        if files.html is not None:
            result = checked_result(task.name, task.tree.name, check.name, text, tree_svg(task.tree))
            written.append(_page(files.html, result))
        write_files(written)
    show_output(text, json_text, json_path, quiet=quiet)


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
        written.append(_page(html, result))
    write_files(written)
    if not quiet and (json_path is None or json_path == Path("-")):
        click.echo(found, nl=False)
