"""Random small networks and machines for property tests: branches, strides, pads, ragged sizes, two readers."""

from dataclasses import replace
from fractions import Fraction
from random import Random

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tilestitch.base.dtypes import DType
from tilestitch.hardware.accelerator import Accelerator, Core, Dataflow, Level, MatrixUnit, Memory, Sharing, VectorUnit
from tilestitch.hardware.load import load_machine


class _Network:
    """An ONNX graph under construction; `shapes` are without the batch."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.numpy = np.random.default_rng(random.randrange(1 << 30))

    def weight(self, *shape: int, scale: float = 1.0) -> str:
        name = f"w{len(self.weights)}"
        values = (self.numpy.standard_normal(shape) * scale).astype(np.float32)
        self.weights.append(numpy_helper.from_array(values, name))
        return name

    def node(self, kind: str, inputs: list[str], shape: tuple[int, ...], **attributes: object) -> str:
        name = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], name=f"{kind.lower()}{len(self.nodes)}", **attributes))
        self.shapes[name] = shape
        return name

    def images(self) -> list[str]:
        return [name for name, shape in self.shapes.items() if len(shape) == 3]

    def convolution(self, x: str) -> str:
        random, (c, h, w) = self.random, self.shapes[x]
        kh, kw = random.randint(1, 4), random.randint(1, 4)
        stride, dilation = random.randint(1, 2), random.choice([1, 1, 1, 2])
        pads = [
            random.randint(0, kh - 1),
            random.randint(0, kw - 1),
            random.randint(0, kh - 1),
            random.randint(0, kw - 1),
        ]
        oh = (h + pads[0] + pads[2] - dilation * (kh - 1) - 1) // stride + 1
        ow = (w + pads[1] + pads[3] - dilation * (kw - 1) - 1) // stride + 1
        if oh < 1 or ow < 1:
            return x
        group = random.choice([1, 1, 1, c, 2 if c % 2 == 0 else 1])
        m = group * random.randint(1, max(1, 14 // group))
        inputs = [x, self.weight(m, c // group, kh, kw, scale=(kh * kw * c / group) ** -0.5)]
        if random.random() < 0.5:
            inputs.append(self.weight(m))
        attributes = {
            "kernel_shape": [kh, kw],
            "strides": [stride] * 2,
            "pads": pads,
            "dilations": [dilation] * 2,
            "group": group,
        }
        return self.node("Conv", inputs, (m, oh, ow), **attributes)

    def pool(self, x: str) -> str:
        random, (c, h, w) = self.random, self.shapes[x]
        k, stride = random.randint(2, 3), random.randint(1, 2)
        pad = random.randint(0, k // 2)
        oh, ow = (h + 2 * pad - k) // stride + 1, (w + 2 * pad - k) // stride + 1
        if oh < 1 or ow < 1:
            return x
        attributes: dict[str, object] = {"kernel_shape": [k, k], "strides": [stride] * 2, "pads": [pad] * 4}
        kind = random.choice(["MaxPool", "AveragePool"])
        if kind == "AveragePool":
            attributes["count_include_pad"] = random.randint(0, 1)
        return self.node(kind, [x], (c, oh, ow), **attributes)

    def activation(self, x: str) -> str:
        kind = self.random.choice(["Relu", "Relu", "Sigmoid", "Tanh", "Neg", "HardSwish"])
        return self.node(kind, [x], self.shapes[x])

    def addition(self, x: str) -> str:
        like = [name for name in self.images() if self.shapes[name] == self.shapes[x] and name != x]
        if not like or self.random.random() < 0.2:
            return self.node("Mul", [x, self.weight(self.shapes[x][0], 1, 1)], self.shapes[x])
        return self.node(self.random.choice(["Add", "Max"]), [x, self.random.choice(like)], self.shapes[x])

    def concatenation(self, x: str) -> str:
        like = [name for name in self.images() if self.shapes[name][1:] == self.shapes[x][1:]]
        other = self.random.choice(like)
        c = self.shapes[x][0] + self.shapes[other][0]
        return self.node("Concat", [x, other], (c, *self.shapes[x][1:]), axis=1)

    def softmax(self, x: str) -> str:
        return self.node("Softmax", [x], self.shapes[x], axis=self.random.choice([1, 2, 3]))

    def setting(self, *values: float) -> str:
        """A constant that says how: integers, or scales."""
        name = f"w{len(self.weights)}"
        whole = all(isinstance(value, int) for value in values)
        self.weights.append(numpy_helper.from_array(np.asarray(values, np.int64 if whole else np.float32), name))
        return name

    def transposed_convolution(self, x: str) -> str:
        random, (c, h, w) = self.random, self.shapes[x]
        kernel, stride, dilation = random.randint(1, 4), random.randint(1, 4), random.choice([1, 1, 2])
        reach = dilation * (kernel - 1) + 1
        pads = [random.randint(0, (reach - 1) // 2) for _ in range(4)]
        extra = random.randint(0, stride - 1)
        group = random.choice([1, 1, c, 2 if c % 2 == 0 else 1])
        m = random.randint(1, max(1, 8 // group))
        oh, ow = (stride * (n - 1) + extra + reach - pads[i] - pads[i + 2] for i, n in enumerate((h, w)))
        if min(oh, ow) < 1 or max(oh, ow) > 40:
            return x
        inputs = [x, self.weight(c, m, kernel, kernel, scale=(kernel * kernel * c / group) ** -0.5)]
        if random.random() < 0.5:
            inputs.append(self.weight(m * group))
        attributes = {
            "strides": [stride] * 2,
            "pads": pads,
            "dilations": [dilation] * 2,
            "output_padding": [extra] * 2,
            "group": group,
        }
        return self.node("ConvTranspose", inputs, (m * group, oh, ow), **attributes)

    def padded(self, x: str) -> str:
        random, (c, h, w) = self.random, self.shapes[x]
        mode = random.choice(["constant", "constant", "reflect", "edge"])
        least = -2 if mode == "constant" else 0
        top, bottom, left, right = (random.randint(least, min(3, n - 1)) for n in (h, h, w, w))
        if h + top + bottom < 1 or w + left + right < 1:
            return x
        pads = self.setting(0, 0, top, left, 0, 0, bottom, right)
        return self.node("Pad", [x, pads], (c, h + top + bottom, w + left + right), mode=mode)

    def resized(self, x: str) -> str:
        random, (c, h, w) = self.random, self.shapes[x]
        factors = [random.choice([0.5, 2.0, 2.0, 3.0, 1.5, 0.75]) for _ in range(2)]
        shape = (c, *(int(n * factor) for n, factor in zip((h, w), factors, strict=True)))
        if not 1 <= min(shape) <= max(shape) <= 40:
            return x
        mode = random.choice(["nearest", "nearest", "linear", "cubic"])
        where = random.choice(["half_pixel", "asymmetric"])
        scales = self.setting(1.0, 1.0, *factors)
        return self.node("Resize", [x, "", scales], shape, mode=mode, coordinate_transformation_mode=where)

    def normalised(self, x: str) -> str:
        random, (c, h, w) = self.random, self.shapes[x]
        kind = random.choice(["LRN", "InstanceNormalization", "GroupNormalization"])
        if kind == "LRN" or h * w == 1:
            return self.node("LRN", [x], (c, h, w), size=random.choice([1, 3, 5]), alpha=0.5)
        attributes: dict[str, object] = {"epsilon": 0.1}
        if kind == "GroupNormalization":
            attributes["num_groups"] = random.choice([n for n in range(1, c + 1) if c % n == 0])
        return self.node(kind, [x, self.weight(c), self.weight(c)], (c, h, w), **attributes)

    def blocks(self, x: str) -> str:
        c, h, w = self.shapes[x]
        if c % 4 == 0:
            mode = self.random.choice(["DCR", "CRD"])
            return self.node("DepthToSpace", [x], (c // 4, h * 2, w * 2), blocksize=2, mode=mode)
        if h % 2 == w % 2 == 0:
            return self.node("SpaceToDepth", [x], (c * 4, h // 2, w // 2), blocksize=2)
        return x


def random_model(seed: int, *, rearranging: bool = False) -> onnx.ModelProto:
    """A network of 2 to 9 operators on one image of random size, with one or two outputs, batch symbolic.

    With `rearranging`, among them transposed convolutions, padding, resizing, norms of channels, and blocks as depth.
    """
    random = Random(seed)
    network = _Network(random)
    shape = (random.randint(1, 9), random.randint(5, 18), random.randint(5, 18))
    network.shapes["x"] = shape
    steps = [network.convolution] * 4 + [network.pool, network.activation, network.activation, network.addition]
    steps += [network.addition, network.concatenation, network.softmax]
    if rearranging:
        steps = [network.convolution, network.convolution, network.pool, network.activation, network.addition]
        steps += [network.concatenation, network.transposed_convolution, network.transposed_convolution]
        steps += [network.padded, network.resized, network.normalised, network.blocks]
    for _ in range(random.randint(2, 8)):
        # Mostly the newest tensor, sometimes an older one: that makes branches and tensors with two readers.
        images = network.images()
        x = images[-1] if random.random() < 0.7 else random.choice(images)
        random.choice(steps)(x)
    last = list(network.shapes)[-1]
    if last == "x":
        last = network.activation("x")
    if random.random() < 0.5:
        c, h, w = network.shapes[last]
        flat = network.node("Flatten", [last], (c * h * w,), axis=1)
        k, n = c * h * w, random.randint(1, 20)
        product = network.node("Gemm", [flat, network.weight(k, n, scale=k**-0.5), network.weight(n)], (n,))
        last = network.node("Softmax", [product], (n,), axis=1) if random.random() < 0.5 else product
    used = {name for node in network.nodes for name in node.input}
    ends = [name for name in network.shapes if name not in used and name != "x"]
    outputs = ends if random.random() < 0.5 else [last]
    if last not in outputs:
        outputs.append(last)
    graph = helper.make_graph(
        network.nodes,
        f"random{seed}",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", *shape])],
        [helper.make_tensor_value_info(o, TensorProto.FLOAT, ["N", *network.shapes[o]]) for o in outputs],
        network.weights,
    )
    opset, ir_version = (21, 10) if rearranging else (17, 9)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=ir_version)


def random_machine(seed: int) -> Accelerator:
    """A small machine: 1 to 4 cores, alike or not, memories from a few KiB, odd arrays, any of its memories missing.

    A core has LB or works in GB.
    """
    random = Random(seed)
    toy = load_machine("toy")
    matrix = MatrixUnit(
        name="mme",
        m=random.choice([1, 1, 4]),
        k=random.choice([3, 8, 16]),
        n=random.choice([4, 5, 8]),
        dataflow=random.choice(list(Dataflow)),
        systolic=random.random() < 0.5,
        overlapped_folds=random.random() < 0.7,
        rates=((DType.FLOAT16, Fraction(1)),),
        mac_pj=0.1,
    )
    vector = VectorUnit("vme", ((DType.FLOAT16, random.choice([3, 8, 16])),), 1.0)
    core = Core(matrix if random.random() < 0.9 else None, vector)
    cores = (core,) * random.choice([1, 2, 3, 4])
    memories = []
    for memory in toy.memories:
        size = {Level.GB: 1 << 18, Level.LB: 1 << 14, Level.WEIGHTS: 1 << 12, Level.ACCUMULATORS: 1 << 12}
        if memory.level in size:
            memory = replace(memory, size_bytes=size[memory.level] << random.randint(0, 3))
        if memory.level in (Level.GB, Level.WEIGHTS, Level.ACCUMULATORS) and random.random() < 0.25:
            continue
        rate = Fraction(random.choice([4, 8, 17, 64]))
        memories.append(replace(memory, bandwidth_bytes_per_cycle=rate, burst_bytes=random.choice([1, 32, 64])))
    if random.random() < 0.3:
        memories[0] = replace(memories[0], sharing=Sharing.CHIP)
    if random.random() < 0.3:
        memories[0] = replace(memories[0], channels=random.choice([2, 4]))
    return replace(
        toy,
        name=f"random{seed}",
        clusters=random.choice([1, 2]),
        cores=cores if random.random() < 0.5 else _unlike(random, cores, gb=any(m.level is Level.GB for m in memories)),
        memories=tuple(memories),
        granule_bytes=random.choice([256, 4096]),
    )


def _unlike(random: Random, cores: tuple[Core, ...], *, gb: bool) -> tuple[Core, ...]:
    """Cores that may lack a unit or a memory, or be narrower; where there is a GB, some of them work in it.

    One of them always has a vector unit.
    """
    found = []
    for number, core in enumerate(cores):
        if core.vector is not None and random.random() < 0.4:
            core = replace(core, vector=replace(core.vector, lanes=((DType.FLOAT16, random.choice([1, 5, 12])),)))
        if core.matrix is not None and random.random() < 0.4:
            core = replace(core, matrix=replace(core.matrix, k=random.choice([2, 8]), n=random.choice([2, 8])))
        lacks = random.choice(["nothing", "nothing", "matrix", "vector"])
        if lacks == "matrix" or (lacks == "vector" and core.matrix is not None and number > 0):
            core = replace(core, **{lacks: None})
        levels = tuple(level for level in core.levels if random.random() < 0.75 or (level is Level.LB and not gb))
        found.append(replace(core, levels=levels) if random.random() < 0.5 else core)
    random.shuffle(found)
    return tuple(found)


def machine_memory(machine: Accelerator, level: Level) -> Memory:
    """The memory of a level that the caller knows to be there."""
    found = machine.memory(level)
    assert found is not None
    return found
