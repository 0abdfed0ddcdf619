"""The command that studies how a machine answers to synthetic layers."""

from pathlib import Path

import click

from tilestitch.base.files import expect_folder, write_files
from tilestitch.cli.application import held_back
from tilestitch.cli.completion import MACHINE
from tilestitch.cli.options import output_options
from tilestitch.cli.output import encoded, expect_json, json_file, show_output
from tilestitch.cli.progress import shown_progress


@click.command()
@click.option(
    "--machine", type=MACHINE, metavar="NAME|FILE", default="mlu100", show_default=True, help="As for compile."
)
@click.option(
    "-o", "--out", metavar="DIR", type=click.Path(path_type=Path), help="Write tables, and curves as CSV and SVG."
)
@output_options
def characterize(machine: str, out: Path | None, json_path: Path | None, quiet: bool) -> None:
    """Estimate how synthetic layers run on a machine, alone and fused, by the block model of DLFusion.

    Saturation with operations, the effect of channels, the best core number and its prediction, gain and harm of
    fusion.
    """
    expect_json(json_path, machine)
    if out is not None:
        expect_folder(out)
    with shown_progress(silent=quiet) as progress:
        with held_back():
            from tilestitch.commands.characterize.characterize_text import ORIGIN, curve_csv, layers_csv
            from tilestitch.commands.characterize.run import characterize as study_of
            from tilestitch.report.svg import curve_svg

        progress("study", 0, 1)
        study = study_of(machine)
        text, json_text = str(study), study.to_json()
        files = json_file(json_path, json_text)
        if out is not None:
            files += [
                (out / "characterize.txt", encoded(text)),
                (out / "characterize.json", encoded(json_text)),
                (out / "layers.csv", encoded(layers_csv(study))),
            ]
            for curve in study.curves:
                files.append((out / f"{curve.name}.csv", encoded(curve_csv(curve))))
                files.append((out / f"{curve.name}.svg", encoded(curve_svg(curve, study.machine, origin=ORIGIN))))
        write_files(files)
    show_output(text, json_text, json_path, quiet=quiet)
