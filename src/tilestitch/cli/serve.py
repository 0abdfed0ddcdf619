"""The command that serves the page on which schedules are changed by hand."""

from pathlib import Path

import click

from tilestitch.base.errors import InputError, printable
from tilestitch.cli.application import held_back
from tilestitch.cli.options import on_debug


@click.command("serve")
@click.option(
    "--folder",
    metavar="DIR",
    type=click.Path(path_type=Path),
    default=Path("."),
    help="Folder of networks (.onnx) and machines (.yaml), to which schedules are written.  [default: the current one]",
)
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, help="Port on the loopback address.  [default: any free port]"
)
@click.option("--open", "open_", is_flag=True, help="Open the page in the browser.")
@click.option("--debug", is_flag=True, expose_value=False, callback=on_debug, help="On an error, show where.")
def serve(folder: Path, port: int, open_: bool) -> None:
    """Serve a page on which a schedule is changed by hand and each change is compiled at once.

    Prints the address, which only this computer can open, and ends with Ctrl-C. It needs the packages of the extra
    `serve`: pip install 'tilestitch[serve]'.
    """
    if not folder.is_dir():
        raise InputError(f"--folder {printable(str(folder))}: there is no such folder")

    def ready(address: str) -> None:
        click.echo(address)
        if open_:
            click.launch(address)

    with held_back():
        from tilestitch.serve.server import serve as served

    served(folder.resolve(), port, ready)
