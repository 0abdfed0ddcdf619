"""The command that translates inner loops to machine code before anybody waits for them."""

import click

from tilestitch.cli.application import held_back
from tilestitch.cli.options import on_debug
from tilestitch.cli.progress import TRANSLATING, shown_progress


@click.command()
@click.option("--quiet", is_flag=True, help="Print nothing but errors.")
@click.option("--debug", is_flag=True, expose_value=False, callback=on_debug, help="On an error, show where.")
def translate(quiet: bool) -> None:
    """Translate all inner loops to machine code now, so that no first run has to.

    What is translated is kept beside the package, or in the user's cache where that cannot be written. Useful when an
    image of a container is built.
    """
    with shown_progress(silent=quiet) as progress:
        with held_back():
            from tilestitch.base import translation

        calls = translation.calls_of(None)
        for number, call in enumerate(calls):
            progress(TRANSLATING, number, len(calls))
            translation.translate(call)
    if not quiet:
        click.echo(f"{len(calls)} functions are translated, and all that they call")
