"""The text of one module: its schedule in comments, its kernels, and a function that starts them."""

from collections.abc import Mapping

from tilestitch.backends.triton.code import ORIGIN, WIDTH, identifier
from tilestitch.backends.triton.launch import STAGES, Launch
from tilestitch.backends.triton.plan import Draft, Module, Plan
from tilestitch.base.units import counted

_FORMS = {
    "products": "a product of blocks",
    "fused products": "products one after another; what lies between them stays on chip",
    "attention": "attention, the rows of whose softmax stream past",
    "rows": "whole rows",
    "elements": "element by element",
}


_TO_NEAREST = (
    "@triton.jit",
    "def to_nearest(x):",
    '    """The nearest whole number, ties to even: as large as this, numbers of float32 have no fraction."""',
    "    return (x + 12582912.0) - 12582912.0",
)


def module_text(plan: Plan, module: Module) -> str:
    """A module of Python that needs nothing but torch and Triton."""
    lines = [f'"""Sub-graph instance {module.name} of {_one_line(plan.schedule.graph.name)}.', ""]
    lines += _schedule(plan, module)
    lines += ['"""', "", "import triton", "import triton.language as tl", ""]
    if any("to_nearest(" in one.text for one in module.launches):
        lines += ["", *_TO_NEAREST, ""]
    for one, draft in zip(module.launches, module.drafts, strict=True):
        lines += ["", *_comment(one, draft), one.text, ""]
    names = parameters(module)
    lines += ["", "def run(", *(f"    {name}," for name in names.values()), "):"]
    lines.append('    """Start the kernels; all tensors are contiguous, and results are written into theirs."""')
    for one in module.launches:
        lines += _call(one, names)
    return "\n".join(lines) + "\n"


def parameters(module: Module) -> dict[str, str]:
    """Tensors of a module, each with the name of the parameter of `run` that it is; those that are written too."""
    tensors = dict.fromkeys(name for one in module.launches for name in one.reads)
    used: dict[str, int] = {}
    found = {}
    for name in tensors:
        wish = identifier(name)
        used[wish] = used.get(wish, 0) + 1
        found[name] = wish if used[wish] == 1 else f"{wish}__{used[wish]}"
    return found


def _schedule(plan: Plan, module: Module) -> list[str]:
    """What the schedule says of its kernels, and what became of them."""
    schedule, lines = plan.schedule, []
    for run in schedule.pieces:
        if run.first <= module.kernels[0] <= run.last:
            count = sum(one.group == run.group for one in schedule.pieces)
            lines.append(f"Sub-graph {run.group + 1}, piece {run.name}: number {run.number + 1} of {count}.")
    for run in schedule.blocks:
        if run.first <= module.kernels[0] <= run.last:
            lines.append(f"Fused block {run.number + 1}.")
    lines.append(f"Kernels of the schedule by strategy {schedule.strategy}, with its loops, tiles and estimates:")
    for line in schedule.lines_of(module.kernels):
        lines += _wrapped(_one_line(line), "         ")
    for note in module.notes:
        lines += _wrapped(_one_line(note), "  ")
    return lines


def _comment(one: Launch, draft: Draft) -> list[str]:
    """What a kernel does, of which kernels of the schedule, and what one program of it makes."""
    form = _FORMS[one.form]
    lines = _wrapped(f"{' + '.join(map(_one_line, one.operators))}: {form}{again_text(one, '; ')}.", "  ")
    of = f"Kernel {draft.kernels[0]}" if len(draft.kernels) == 1 else f"Kernels {', '.join(map(str, draft.kernels))}"
    blocks = ", ".join(f"{name} {size}" for name, size in one.blocks)
    box = "" if draft.box is None else f", the part {draft.box}"
    lines += _wrapped(f"{of} of the schedule{box}; {counted(one.programs, 'program')} with blocks {blocks}.", "  ")
    return [f"# {line}" for line in lines]


def again_text(one: Launch, before: str) -> str:
    """What a kernel computes more than once."""
    return f"{before}{_one_line(one.most)} is computed {one.again:.2f} times" if one.again > 1 else ""


def _call(one: Launch, names: Mapping[str, str]) -> list[str]:
    sizes = [f"{name}={size}" for name, size in one.blocks]
    arguments = [*(names[tensor] for tensor in one.reads), f"{ORIGIN}=0", *sizes, f"num_warps={one.warps}"]
    if one.stages != STAGES:
        arguments.append(f"num_stages={one.stages}")
    return [f"    {one.name}[({one.programs},)](", *(f"        {argument}," for argument in arguments), "    )"]


def _wrapped(text: str, indent: str) -> list[str]:
    """A text as lines, the second and the following indented; words are not cut."""
    lines, current = [], ""
    for word in text.split(" "):
        if current.strip() and len(current) + len(word) + 1 > WIDTH:
            lines.append(current)
            current = indent + word
        else:
            current = f"{current} {word}" if current or not word else word
    return [*lines, current]


def _one_line(text: str) -> str:
    """Text from a file, in a comment or a docstring of Python."""
    shown = "".join(c if c.isprintable() else " " for c in text)
    return shown.replace("\\", "/").replace('"""', "'''")
