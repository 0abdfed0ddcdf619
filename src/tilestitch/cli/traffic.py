"""The command that says what a buffer's capacity is worth to a network."""

from pathlib import Path

import click

from tilestitch.base.errors import InputError
from tilestitch.base.files import expect_beside, expect_folder, write_files
from tilestitch.cli.application import held_back
from tilestitch.cli.completion import MODEL
from tilestitch.cli.options import Choices, html_option, layers_option, network_options, output_options
from tilestitch.cli.output import Files, encoded, expect_json, given_command, json_file, show_output
from tilestitch.cli.progress import shown_progress


@click.command()
@click.argument("model", type=MODEL)
@click.option(
    "--capacity",
    "capacities",
    multiple=True,
    metavar="SIZE",
    help="Of the buffer, such as 65536 or 64KiB; repeatable (default: powers of two, up to what is enough).",
)
@click.option(
    "--fuse",
    type=click.IntRange(1, 4),
    default=1,
    show_default=True,
    help="Chains of products instead of layers, of which so many may run together.",
)
@layers_option
@click.option(
    "-o", "--out", metavar="DIR", type=click.Path(path_type=Path), help="Write a table, and curves as SVG, there."
)
@html_option("least traffic over capacity, layer by layer")
@network_options
@output_options
def traffic(
    model: str,
    capacities: tuple[str, ...],
    fuse: int,
    layers: tuple[str, ...],
    out: Path | None,
    html: Path | None,
    choices: Choices,
    json_path: Path | None,
    quiet: bool,
) -> None:
    """Find what each layer of MODEL moves at least between a buffer and the memory outside, by the buffer's capacity.

    MODEL is a network, a line such as "O[m,n] += A[m,k] * B[k,n]; m=64 n=64 k=64", or a file of layers, as for map.
    The least is exact over all mappings of a layer whose factors divide, with nothing kept between layers; with --fuse
    over those of chains of products, which keep there what passes between them.
    """
    expect_json(json_path, model)
    sizes = [_bytes_of(one) for one in capacities]
    if out is not None:
        expect_folder(out)
    if html is not None:
        expect_beside("--html", html, json_path, [model])
    with shown_progress(silent=quiet) as progress:
        with held_back():
            from tilestitch.commands.traffic.run import traffic as traffic_of
            from tilestitch.commands.traffic.traffic_text import traffic_csv, traffic_curves

        progress("load", 0, 1)
        of_network = {"batch": choices.batch, "dims": choices.dims, "fold_bn": choices.fold_bn}
        found = traffic_of(model, sizes, fuse=fuse, layers=layers, progress=progress, **of_network)
        text, json_text = str(found), found.to_json()
        files: Files = json_file(json_path, json_text)
        if html is not None:
            files.append((html, encoded(found.to_html(given_command()))))
        if out is not None:
            files += [(out / "traffic.txt", encoded(text)), (out / "traffic.csv", encoded(traffic_csv(found)))]
            pictures = zip(traffic_curves(found), found.pictures(), strict=True)
            files += [(out / f"{curve.name}.svg", encoded(picture)) for curve, picture in pictures]
        write_files(files)
    show_output(text, json_text, json_path, quiet=quiet)


def _bytes_of(given: str) -> int:
    """A size on the command line, as in the file of a machine."""
    from pydantic_core import PydanticCustomError

    from tilestitch.hardware.tree_fields import SizeField
    from tilestitch.hardware.yaml_tree import Scalar

    try:
        return SizeField()(Scalar(given, quoted=False)) // 8
    except PydanticCustomError as error:
        raise InputError(f"--capacity: {error.message()}") from None
