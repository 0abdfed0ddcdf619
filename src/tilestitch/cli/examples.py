"""What the list of commands says of each, in a line, and an example that can be copied."""

import click

EXAMPLES = {
    "build": (
        "Write a schedule as Triton kernels for a GPU.",
        "tilestitch build resnet18:small --machine h200 --strategy tvm -o kernels",
    ),
    "characterize": (
        "Show how layers run on a machine, alone and fused.",
        "tilestitch characterize --machine toy",
    ),
    "check": (
        "List what keeps a network from compiling.",
        "tilestitch check resnet18:small --machine toy",
    ),
    "compare": (
        "Compile a network by several strategies.",
        "tilestitch compare resnet18:small --machine toy --batch 4 --verify",
    ),
    "compile": (
        "Compile a network, simulate it, print the report.",
        "tilestitch compile resnet18:small --machine toy --verify --html page.html",
    ),
    "contest": (
        "Schedule a graph by the rules of MLSys 2026.",
        "tilestitch contest INSTANCE.json -o solution.json",
    ),
    "diff": (
        "Set two reports side by side.",
        "tilestitch diff tvm.json graphturbo.json --html differences.html",
    ),
    "explore": (
        "Run networks on many machines, print the best.",
        'tilestitch explore resnet18:small --machine toy --vary "memories.gb.size=65536,131072"',
    ),
    "fuse": (
        "Divide a network into blocks of layers.",
        "tilestitch fuse resnet18:small --machine mlu100",
    ),
    "machines": (
        "List the machines that are built in.",
        "tilestitch machines",
    ),
    "map": (
        "Find the best mapping of each layer, with a proof.",
        "tilestitch map resnet18:small --machine eyeriss --objective energy",
    ),
    "models": (
        "List the networks of the zoo, or write some.",
        "tilestitch models resnet50 -o resnet50.onnx",
    ),
    "reproduce": (
        "Print published figures beside ours.",
        "tilestitch reproduce dirac",
    ),
    "serve": (
        "Change a schedule by hand on a page, live.",
        "tilestitch serve --open",
    ),
    "show": (
        "Print a machine, or what a stage makes of a network.",
        "tilestitch show machine toy",
    ),
    "show machine": (
        "Print machines: units, peaks, memories.",
        "tilestitch show machine toy",
    ),
    "show schema": (
        "Print the JSON Schema of machine files.",
        "tilestitch show schema --json machine.schema.json",
    ),
    "show graph": (
        "Print a network as it was read.",
        "tilestitch show graph resnet18:small --simplified",
    ),
    "show schedule": (
        "Print what was decided.",
        "tilestitch show schedule resnet18:small --machine toy --strategy tvm",
    ),
    "show program": (
        "Print the instructions.",
        "tilestitch show program resnet18:small --machine toy --limit 20",
    ),
    "simulate": (
        "Simulate mappings on an array, cycle by cycle.",
        "tilestitch simulate resnet18:small --machine dmazerunner-256",
    ),
    "traffic": (
        "Find what a buffer's capacity is worth to a network.",
        "tilestitch traffic resnet18:small",
    ),
    "translate": (
        "Translate inner loops to machine code ahead.",
        "tilestitch translate",
    ),
    "validate": (
        "Compare the mapper's model with the simulation.",
        "tilestitch validate resnet18:small --machine dmazerunner-256 --mappings 20",
    ),
    "why": (
        "Say where the time beyond the bound goes.",
        "tilestitch why resnet18:small --machine toy --strategy graphturbo",
    ),
}


def with_examples(group: click.Group, names: str = "") -> None:
    """Give each command of a group, and of the groups in it, its line and its example."""
    for name, command in group.commands.items():
        whole = f"{names} {name}".strip()
        command.short_help, example = EXAMPLES[whole]
        command.epilog = f"\b\nExample:\n  {example}"
        if isinstance(command, click.Group):
            with_examples(command, whole)
