"""The text of `network.py`, which runs all modules of a build one after another."""

import json
from collections.abc import Mapping, Sequence

from tilestitch.backends.triton.code import WIDTH
from tilestitch.backends.triton.module_text import parameters
from tilestitch.backends.triton.plan import Module, Plan
from tilestitch.base.dtypes import DType

HEAD = '''"""{title}

    python network.py    # run it on inputs drawn at random, and print what leaves it

or from Python: `Network().run(inputs)`, with a dict of torch tensors by name; the result is one, too. Without a GPU,
TRITON_INTERPRET=1 runs the kernels in Triton's interpreter on the CPU, slowly.
"""

import importlib.util
import os
import sys
from pathlib import Path

try:
    import numpy
    import torch
    import triton  # noqa: F401  (the modules need it)
except ImportError as error:
    problem = f"{{error.name}} is not installed, and these kernels need numpy, torch and triton; install it."
    if __name__ == "__main__":
        print(f"error: {{problem}}", file=sys.stderr)
        raise SystemExit(2) from None
    raise ImportError(problem, name=error.name) from None

HERE = Path(__file__).resolve().parent
'''

TAIL = '''

class NoDevice(RuntimeError):
    """Nothing is there that could run the kernels."""


def device_here():
    """The device that runs the kernels: a GPU, or the CPU in Triton's interpreter."""
    if os.environ.get("TRITON_INTERPRET") == "1":
        return torch.device("cpu")
    if torch.cuda.is_available():
        return torch.device("cuda")
    raise NoDevice("no GPU is here; set TRITON_INTERPRET=1 to run the kernels in Triton's interpreter on the CPU.")


def _module(name):
    """The module of one sub-graph instance, from the file beside this one."""
    spec = importlib.util.spec_from_file_location(f"{HERE.name}_{name}", HERE / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Network:
    """The network with its weights on a device."""

    def __init__(self, device=None):
        self.device = device_here() if device is None else torch.device(device)
        with numpy.load(HERE / "weights.npz") as arrays:
            self.weights = {name: torch.from_numpy(arrays[key]).to(self.device) for name, key in WEIGHTS.items()}
        self.modules = [(_module(name), tensors, done) for name, tensors, done in STEPS]

    def run(self, inputs):
        """The outputs by name, for inputs by name; both are laid out as in the ONNX file."""
        for name, (shape, _, _, batched) in INPUTS.items():
            wanted = (shape[0] * ITERATIONS, *shape[1:]) if batched else shape
            found = tuple(inputs[name].shape) if name in inputs else None
            if found != wanted:
                raise ValueError(f"input {name!r}: expected shape {wanted}, found {found}")
        parts = [self._iteration(inputs, number) for number in range(ITERATIONS)]
        if ITERATIONS == 1:
            return parts[0]
        return {name: torch.cat([part[name] for part in parts]) for name in OUTPUTS}

    def _iteration(self, inputs, number):
        """One iteration, on its share of the samples."""
        tensors = dict(self.weights)
        for name, (shape, layout, dtype, batched) in INPUTS.items():
            value = inputs[name]
            if batched:
                value = value[number * shape[0] : (number + 1) * shape[0]]
            value = value.to(self.device, getattr(torch, dtype))
            tensors[name] = value.permute(layout).contiguous()
        for module, names, done in self.modules:
            for name in names:
                if name not in tensors:
                    shape, dtype = TENSORS[name]
                    tensors[name] = torch.empty(shape, dtype=getattr(torch, dtype), device=self.device)
            module.run(*(tensors[name] for name in names))
            for name in done:
                del tensors[name]
        return {name: tensors[name].permute(back) for name, back in OUTPUTS.items()}


def random_inputs(seed=0):
    """Normal numbers, and ones for integers, which may index anything."""
    generator = torch.Generator().manual_seed(seed)
    found = {}
    for name, (shape, _, dtype, batched) in INPUTS.items():
        wanted = (shape[0] * ITERATIONS, *shape[1:]) if batched else shape
        kind = getattr(torch, dtype)
        drawn = torch.randn(wanted, generator=generator) if kind.is_floating_point else torch.ones(wanted)
        found[name] = drawn.to(kind)
    return found


def main():
    """Run the network once."""
    try:
        network = Network()
    except NoDevice as error:
        problem = str(error)
    except OSError as error:
        problem = f"{error.filename}: cannot be read ({error.strerror}); build the network again."
    else:
        problem = ""
    if problem:
        print(f"error: {problem}", file=sys.stderr)
        raise SystemExit(2)
    for name, value in network.run(random_inputs()).items():
        print(f"{name}: {value.dtype} {tuple(value.shape)}, mean {value.float().mean().item():.6g}")


if __name__ == "__main__":
    main()
'''


def runner_text(plan: Plan, weights: Mapping[str, str]) -> str:
    """The runner; `weights` gives the name of each constant in the file of weights."""
    schedule = plan.schedule
    title = f"{_plain(schedule.graph.name)} in Triton kernels, batch {schedule.batch * schedule.iterations}."
    return HEAD.format(title=title) + "\n" + _rest(plan, weights)


def _plain(text: str) -> str:
    return "".join(c if c.isprintable() and c not in '\\"' else " " for c in text)


def literal(value: object, indent: str = "", before: int = 0) -> str:
    """A tuple, list or dict of numbers and texts as Python, on lines that are not too long.

    `before` characters stand before it on its line.
    """
    short = _short(value)
    if before + len(short) + len(indent) < WIDTH or not isinstance(value, dict | list | tuple):
        return short
    inner = f"{indent}    "
    if isinstance(value, dict):
        items = [(f"{_short(key)}: ", each) for key, each in value.items()]
    else:
        items = [("", each) for each in value]
    brackets = {dict: "{}", list: "[]", tuple: "()"}[type(value)]
    lines = [f"{inner}{key}{literal(each, inner, len(key))}," for key, each in items]
    return "\n".join([brackets[0], *lines, f"{indent}{brackets[1]}"])


def _short(value: object) -> str:
    """A value on one line."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_short(key)}: {_short(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list):
        return f"[{', '.join(map(_short, value))}]"
    if isinstance(value, tuple):
        return f"({', '.join(map(_short, value))}{',' if len(value) == 1 else ''})"
    return json.dumps(value) if isinstance(value, str) else repr(value)


def _rest(plan: Plan, weights: Mapping[str, str]) -> str:
    graph = plan.schedule.graph
    inside = [name for one in plan.modules for launch in one.launches for name in launch.reads]
    used = [name for name in dict.fromkeys(inside) if name not in weights and name not in graph.inputs]
    tensors = {name: (_stored_shape(plan, name), _dtype(plan, name)) for name in used}
    outputs = {name: _back(plan, name) for name in graph.outputs}
    inputs = {name: _input(plan, name) for name in graph.inputs}
    tables = (
        ("INPUTS", "shape, axes from outermost to innermost in memory, type, whether iterations share it out", inputs),
        ("OUTPUTS", "how the axes of each output in memory come back to the order of the ONNX file", outputs),
        ("TENSORS", "shape in memory and type of what modules pass on", tensors),
        ("WEIGHTS", "the name of each constant in weights.npz", dict(weights)),
        ("STEPS", "module, its tensors, those that nothing reads afterwards", _steps(plan)),
    )
    text = ""
    for name, what, value in tables:
        text += f"# {what}\n{name} = {literal(value, before=len(name) + 3)}\n"
    return text + f"ITERATIONS = {plan.schedule.iterations}\n" + TAIL


def _input(plan: Plan, name: str) -> tuple[tuple[int, ...], tuple[int, ...], str, bool]:
    tensor, schedule = plan.schedule.graph.tensors[name], plan.schedule
    batched = schedule.iterations > 1 and tensor.shape[:1] == (schedule.batch,)
    return tensor.shape, _layout(plan, name), _dtype(plan, name), batched


def _layout(plan: Plan, name: str) -> tuple[int, ...]:
    return plan.storage.layouts.get(name, plan.schedule.graph.tensors[name].layout)


def _stored_shape(plan: Plan, name: str) -> tuple[int, ...]:
    shape = plan.schedule.graph.tensors[name].shape
    return tuple(shape[axis] for axis in _layout(plan, name))


def _back(plan: Plan, name: str) -> tuple[int, ...]:
    layout = _layout(plan, name)
    return tuple(layout.index(axis) for axis in range(len(layout)))


def _dtype(plan: Plan, name: str) -> str:
    dtype = plan.storage.dtype(plan.schedule.graph.tensors[name].dtype)
    return str(DType(dtype))


def _steps(plan: Plan) -> list[tuple[str, list[str], list[str]]]:
    graph = plan.schedule.graph
    kept = {*graph.constants, *graph.outputs}
    used = [list(parameters(module)) for module in plan.modules]
    last = {name: number for number, names in enumerate(used) for name in names}
    return [
        (module.name, names, [name for name in names if last[name] == number and name not in kept])
        for number, (module, names) in enumerate(zip(plan.modules, used, strict=True))
    ]


def weight_names(modules: Sequence[Module], constants: Mapping[str, object]) -> dict[str, str]:
    """Constants that some kernel reads, each with a name for the file of weights."""
    read = dict.fromkeys(name for module in modules for one in module.launches for name in one.reads)
    return {name: f"w{number}" for number, name in enumerate(name for name in read if name in constants)}
