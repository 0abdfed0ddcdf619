"""The reference of the command line, from the commands themselves: what `--help` prints, as a page."""

from collections.abc import Iterator
from inspect import cleandoc

import click

from tilestitch.cli.main import main

INTRODUCTION = """# Every command

What `tilestitch COMMAND --help` prints. `-h` is short for `--help`; every command ends with one of a few
[exit codes](../report.md#exit-codes).
"""


def command_reference() -> str:
    """The page, with a section for each command that does something."""
    found = list(_commands(main, click.Context(main, info_name="tilestitch")))
    rows = [f"| [`{one.command_path}`](#{_anchor(one)}) | {one.command.short_help} |" for one in found]
    listing = ["| command | what for |", "| --- | --- |", *rows, ""]
    return "\n".join([INTRODUCTION, *listing, *map(_section, found)])


def _commands(group: click.Group, context: click.Context) -> Iterator[click.Context]:
    for name in group.list_commands(context):
        command = group.commands[name]
        inner = click.Context(command, info_name=name, parent=context)
        if isinstance(command, click.Group):
            yield from _commands(command, inner)
        else:
            yield inner


def _anchor(context: click.Context) -> str:
    return context.command_path.removeprefix("tilestitch ").replace(" ", "-")


def _section(context: click.Context) -> str:
    command = context.command
    usage = " ".join(command.collect_usage_pieces(context))
    options = [one for one in command.get_params(context) if isinstance(one, click.Option)]
    records = [record for one in options if (record := one.get_help_record(context)) is not None]
    example = cleandoc(command.epilog or "").replace("\b", "").strip().removeprefix("Example:").strip()
    return "\n".join(
        [
            f"## {context.command_path.removeprefix('tilestitch ')}",
            "",
            cleandoc(command.help or "").replace("\b\n", ""),
            "",
            "```console",
            f"$ {context.command_path} {usage}",
            f"$ {example}",
            "```",
            "",
            "| option | meaning |",
            "| --- | --- |",
            *(f"| `{_cell(names)}` | {_cell(text)} |" for names, text in records),
            "",
        ]
    )


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
