"""`map` on a machine tree: a search, proofs that are judged, or the price of a mapping that a file gives."""

import json
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tilestitch.base.errors import InputError
from tilestitch.base.files import expect_beside, expect_folder, write_files
from tilestitch.base.text_files import MAX_JSON_BYTES, file_text
from tilestitch.cli.application import SUCCESS, WRONG_INPUT, complain, held_back
from tilestitch.cli.layers import goes_on_tree, open_layers
from tilestitch.cli.options import Choices, expect_none_given, is_given
from tilestitch.cli.output import Files, encoded, expect_json, json_file, page_file, show_output
from tilestitch.cli.progress import shown_progress
from tilestitch.ir.choices import Objective

if TYPE_CHECKING:
    from tilestitch.commands.map.tree_run import TreeTask
    from tilestitch.formats.zigzag.result import ZigzagResult

FREE = "free"  # in place of a mapping file
UNEVEN = "uneven"
EMITTED = ("zigzag", "timeloop", "accelforge")


@dataclass(frozen=True, slots=True)
class TreeFiles:
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
        return self.spatial is None or (str(self.spatial) == FREE and not self.spatial.is_file())


_NOT_ON_TREES = ("search", "dataflow", "mode", "top", "evaluate")
_NOT_WITH_A_MAPPING = (*_NOT_ON_TREES, "mapping", "ragged", "utilization", "energies", "batch", "dims", "fold_bn")
_NOT_OF_A_GIVEN = (
    *("certificate", "check", "explain", "constraints", "utilization", "ragged", "objective", "sums", "effort"),
    "storage",
)


def is_on_tree(machine: str, spatial: Path | None, energies: Path | None) -> bool:
    """Whether layers are mapped on a tree: the machine is one, or options are there that only trees have."""
    if not is_given("machine"):
        return spatial is not None or energies is not None
    if spatial is None and energies is None:
        return goes_on_tree(machine)
    from tilestitch.hardware.tree_load import has_array

    return not has_array(machine)


def search_or_check(
    files: TreeFiles, choices: Choices, layers: tuple[str, ...], json_path: Path | None, *, quiet: bool
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
            from tilestitch.commands.map.beside_compile import (
                beside_compile,
                beside_compile_text,
                expect_compiled,
                with_beside_compile,
            )
            from tilestitch.commands.map.tree_explain import explained, explained_text
            from tilestitch.commands.map.tree_files import emitted_note, expect_plain, tree_mapping_files
            from tilestitch.commands.map.tree_json import tree_json
            from tilestitch.commands.map.tree_page import tree_result
            from tilestitch.commands.map.tree_proofs import tree_certificates, tree_certificates_json
            from tilestitch.commands.map.tree_run import map_on_tree
            from tilestitch.commands.map.tree_text import tree_text
            from tilestitch.mapping.tree.tables import Sums

        progress("load", 0, 1)
        result = _result_of(given["explain"])
        if given["beside_compile"]:
            expect_compiled(files.workload, files.machine)
        task = _tree_task(files, choices, layers)
        emit: str = given["emit"] or ""
        if emit:
            expect_plain(emit, task.tree)
        mapped = map_on_tree(task, Sums(given["sums"]), given["effort"], progress, objective)
        shown = explained(mapped, result) if given["explain"] else ()
        text = "\n".join([tree_text(mapped), *(explained_text(one) for one in shown)])
        json_text = tree_json(mapped, shown)
        if given["beside_compile"]:
            beside = beside_compile(files.workload, files.machine, choices.options(beside_map=True), progress)
            text = f"{text}\n{beside_compile_text(beside)}"
            json_text = with_beside_compile(json_text, beside)
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
            if note := emitted_note(emit, mapped):
                click.echo(f"note: {note}", err=True)
        if files.html is not None:
            said = [("effort", given["effort"]), ("constraints", files.constraints or ""), ("spatial", spatial or "")]
            said += [("energies", files.energies or "")]
            written.append(page_file(files.html, tree_result(mapped, proofs), said))
        write_files([*json_file(json_path, json_text), *written])
    show_output(text, json_text, json_path, quiet=quiet)
    for one in mapped.unmapped:
        complain(f"layer {one.name}: {one.reason}")
    return WRONG_INPUT if mapped.unmapped else SUCCESS


def _price_on_tree(
    files: TreeFiles, mapping: Path, choices: Choices, layers: tuple[str, ...], json_path: Path | None, *, quiet: bool
) -> None:
    """Price a given mapping of a layer on a tree, and write it for another program where that is asked for."""
    given = click.get_current_context().params
    with shown_progress(silent=quiet) as progress:
        with held_back():
            from tilestitch.commands.map.tree_files import expect_plain, tree_mapping_files
            from tilestitch.commands.map.tree_given import given_json, given_page, given_text, open_given

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
        if files.html is not None:
            said = [("mapping", mapping), ("energies", files.energies or "")]
            written.append(page_file(files.html, given_page(found), said))
        write_files([*json_file(json_path, json_text), *written])
    show_output(text, json_text, json_path, quiet=quiet)


def _tree_task(files: TreeFiles, choices: Choices, layers: tuple[str, ...]) -> "TreeTask":
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


def _expect_written_on_tree(files: TreeFiles, objective: Objective) -> None:
    """Refuse half of what writes files, and what goes with one mapping of each layer where there is none, or more."""
    given = click.get_current_context().params
    if (given["emit"] is None) != (given["out"] is None):
        raise InputError(f"--emit and -o go together: --emit {'|'.join(EMITTED)} -o DIR")
    if given["out"] is not None:
        expect_folder(given["out"])
    if files.check is not None:
        expect_none_given(("explain", "emit"), "--check judges a certificate and searches no mapping")
    if objective is Objective.PARETO:
        expect_none_given(("explain", "emit"), "--objective pareto has several mappings of each layer")


def _result_of(explain: str) -> "ZigzagResult | None":
    """The result that a file has; nothing where only ZigZag's rules are asked for."""
    from tilestitch.formats.zigzag.result import zigzag_result

    if not explain or (explain == "zigzag" and not Path(explain).is_file()):  # a folder may be called so
        return None
    return zigzag_result(file_text(Path(explain), "JSON", MAX_JSON_BYTES), Path(explain).name)


def _expect_provable_on_tree(files: TreeFiles) -> None:
    """Refuse what says nothing beside proofs that are judged."""
    if files.check is not None and files.certificate is not None:
        raise InputError("--check judges proofs, and searches nothing; leave out --certificate")
    if files.check is not None:
        expect_none_given(("effort",), "--check judges proofs, and searches nothing")


def _check_on_tree(
    files: TreeFiles, check: Path, choices: Choices, layers: tuple[str, ...], json_path: Path | None, *, quiet: bool
) -> None:
    """Check the proofs of layers on a tree."""
    given = click.get_current_context().params
    with shown_progress(silent=quiet) as progress:
        with held_back():
            from tilestitch.commands.map.judged_page import checked_result
            from tilestitch.commands.map.tree_proofs import check_tree_certificates
            from tilestitch.hardware.tree_svg import tree_svg
            from tilestitch.mapping.tree.tables import Sums

        progress("load", 0, 1)
        task = _tree_task(files, choices, layers)
        sums = Sums(given["sums"]) if is_given("sums") else None
        objective = Objective(given["objective"]) if is_given("objective") else None
        proofs = file_text(check, "JSON", MAX_JSON_BYTES)
        text = check_tree_certificates(proofs, check.name, task, sums, objective, progress)
        json_text = json.dumps({"checked": text.splitlines()}, indent=1) + "\n"
        written = json_file(json_path, json_text)
        if files.html is not None:
            result = checked_result(task.name, task.tree.name, check.name, text, tree_svg(task.tree))
            written.append(page_file(files.html, result))
        write_files(written)
    show_output(text, json_text, json_path, quiet=quiet)
