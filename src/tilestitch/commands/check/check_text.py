"""What `check` found, for people and for programs."""

import json

from tilestitch.base.errors import printable
from tilestitch.base.units import counted, format_bytes
from tilestitch.commands.check.examine import Content, Examined, Target

SHOWN_CHARACTERS = 2000  # of one line of a problem

_WIDTH = 22


def check_text(found: Examined) -> str:
    """A line for each problem, or what the network is made of; then what the machine does with it."""
    lines = [f"{found.network}: {counted(len(found.problems), 'problem') if found.problems else 'fine'}"]
    for number, problem in enumerate(found.problems, 1):
        shown = [printable(line, SHOWN_CHARACTERS) for line in problem.split("\n")]
        first, *more = shown[0].removeprefix(f"{found.network}: "), *shown[1:]
        lines += [f"  {number}. {first}", *(f"     {line}" for line in more)]
    if found.fixed_batch:
        problem = printable(found.fixed_batch, SHOWN_CHARACTERS).removeprefix(f"{found.network}: ")
        lines.append(_row("batch", f"only iterations of the batch that it was exported for: {problem}"))
    if found.content is not None:
        lines += _content_lines(found.content)
    if found.target is not None:
        lines += _target_lines(found.target)
    return "\n".join(lines) + "\n"


def _content_lines(content: Content) -> list[str]:
    operators = content.by_rule + len(content.generic)
    return [
        *(_row("input", f"{name} {dtype} {list(shape)}") for name, dtype, shape in content.inputs),
        _row("operators", f"{operators:,}: {content.by_rule:,} by rule, {len(content.generic):,} generic"),
        *(
            _row("generic", f"'{name}' ({operator}): value from {source}, not independently verified")
            for name, operator, source in content.generic
        ),
        _row("views", f"{content.views:,}, which cost nothing"),
        _row("constants", f"{content.constants:,}, {format_bytes(content.constant_bytes)}"),
        _row("multiply-accumulates", f"{content.macs:,}"),
        _row("vector operations", f"{content.vector_operations:,}"),
    ]


def _target_lines(target: Target) -> list[str]:
    return [
        f"on {target.machine}: fits",
        *(
            _row(unit, counted(operators, "operator") + (f", {work:,} operations" if work else ""))
            for unit, operators, work in target.units
        ),
        _row("program", f"{counted(target.kernels, 'kernel')}, {counted(target.instructions, 'instruction')}"),
    ]


def _row(name: str, text: str) -> str:
    return f"  {name:{_WIDTH}}{text}"


def check_json(found: Examined) -> str:
    """The same, of the format `tilestitch.check`."""
    body: dict[str, object] = {
        "format": "tilestitch.check",
        "version": 1,
        "network": found.network,
        "fine": not found.problems,
        "problems": list(found.problems),
    }
    content, target = found.content, found.target
    if found.fixed_batch:
        body["fixed_batch"] = found.fixed_batch
    if content is not None:
        body["content"] = {
            "inputs": [{"name": name, "type": dtype, "shape": list(shape)} for name, dtype, shape in content.inputs],
            "operators_by_rule": content.by_rule,
            "generic_operators": [
                {"name": name, "operator": operator, "evaluator": source} for name, operator, source in content.generic
            ],
            "views": content.views,
            "constants": content.constants,
            "constant_bytes": content.constant_bytes,
            "macs": content.macs,
            "vector_operations": content.vector_operations,
        }
    if target is not None:
        body["target"] = {
            "machine": target.machine,
            "units": [
                {"unit": unit, "operators": operators, "operations": work} for unit, operators, work in target.units
            ],
            "kernels": target.kernels,
            "instructions": target.instructions,
            "batch_per_iteration": target.batch,
        }
    return json.dumps(body, indent=2, ensure_ascii=False) + "\n"
