"""Random inputs: networks of any operators and attributes, machines with anything in them, files with other bytes."""

import random
from collections.abc import Sequence

import numpy as np
import onnx
import yaml
from onnx import AttributeProto, TensorProto, defs, helper, numpy_helper

OPSETS = (7, 9, 11, 13, 17, 20, 22, 23)
ELEMENTS = (TensorProto.FLOAT,) * 6 + (
    TensorProto.INT64,
    TensorProto.INT64,
    TensorProto.BOOL,
    TensorProto.INT32,
    TensorProto.FLOAT16,
    TensorProto.INT8,
    TensorProto.UINT8,
    TensorProto.DOUBLE,
    TensorProto.STRING,
    TensorProto.BFLOAT16,
)
NUMBERS = (0, 1, 1, 2, 2, 3, 4, 5, 7, 8, 16, 64, -1, -1, -2, -7)
NUMBERS += (2**31 - 1, 2**31, 2**40, -(2**40), 2**63 - 1, -(2**63))
WORDS = (
    "",
    "SAME_UPPER",
    "SAME_LOWER",
    "VALID",
    "NOTSET",
    "linear",
    "nearest",
    "constant",
    "reflect",
    "x",
    "ij,jk->ik",
)


class RandomNetwork:
    """One network, drawn node by node; what a node reads mostly exists and is mostly of the right type."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.opset = self.random.choice(OPSETS)
        self.inputs: list[onnx.ValueInfoProto] = []
        self.weights: list[TensorProto] = []
        self.nodes: list[onnx.NodeProto] = []
        self.known: list[str] = []
        self.shapes = [self.shape() for _ in range(2)]

    def model(self) -> onnx.ModelProto:
        """The network; its outputs are what the last nodes write."""
        schemas = sorted({schema.name for schema in defs.get_all_schemas() if schema.domain == ""})
        for _ in range(self.random.randint(1, 2)):
            self.input()
        for _ in range(self.random.randint(1, 5)):
            self.node(self.random.choice(schemas))
        read = {name for node in self.nodes for name in node.input}
        left = [name for node in self.nodes for name in node.output if name not in read]
        outputs = [onnx.ValueInfoProto(name=name) for name in left or self.known[-1:]]
        graph = helper.make_graph(self.nodes, "random", self.inputs, outputs, self.weights)
        opsets = [helper.make_opsetid("", self.opset)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=helper.find_min_ir_version_for(opsets))

    def shape(self) -> list[int]:
        return [self.random.choice((1, 2, 3, 4, 4, 8)) for _ in range(self.random.choice((0, 1, 2, 2, 3, 4, 4, 5)))]

    def input(self) -> str:
        name = f"x{len(self.inputs)}"
        shape: list[int | str] = list(self.random.choice(self.shapes))
        if shape and self.random.random() < 0.2:
            shape[0] = "N"
        self.inputs.append(helper.make_tensor_value_info(name, self.random.choice(ELEMENTS), shape))
        self.known.append(name)
        return name

    def weight(self) -> str:
        """A constant: a tensor like the others, or a few numbers that mean extents or places."""
        name = f"w{len(self.weights)}"
        if self.random.random() < 0.5:
            count = self.random.choice((0, 1, 1, 2, 3, 4, 4, 8))
            values = [self.random.choice(NUMBERS if self.random.random() < 0.2 else NUMBERS[:12]) for _ in range(count)]
            array = np.array(values, np.int64).reshape(() if count == 1 and self.random.random() < 0.5 else (count,))
        else:
            generator = np.random.default_rng(self.random.getrandbits(32))
            array = generator.standard_normal(self.random.choice((*self.shapes, self.shape()))).astype(np.float32)
        self.weights.append(numpy_helper.from_array(array, name))
        self.known.append(name)
        return name

    def operand(self) -> str:
        if self.random.random() < 0.35:
            return self.weight()
        if self.random.random() < 0.03:
            return ""
        return self.random.choice(self.known)

    def node(self, op_type: str) -> None:
        if not defs.has(op_type, self.opset, ""):
            return
        schema = defs.get_schema(op_type, self.opset, "")
        least, most = schema.min_input, min(schema.max_input, schema.min_input + 3)
        inputs = [self.operand() for _ in range(self.random.randint(least, max(least, most)))]
        outputs = [f"t{len(self.nodes)}_{number}" for number in range(max(1, min(schema.min_output, 8)))]
        node = onnx.NodeProto(op_type=op_type, name=f"n{len(self.nodes)}", input=inputs, output=outputs)
        for name, formal in sorted(schema.attributes.items()):
            if formal.required or self.random.random() < 0.4:
                self.attribute(node, name, formal)
        self.nodes.append(node)
        self.known += outputs

    def attribute(self, node: onnx.NodeProto, name: str, formal: defs.OpSchema.Attribute) -> None:
        kind = int(formal.type.value) if hasattr(formal.type, "value") else int(formal.type)
        if self.random.random() < 0.02:
            kind = self.random.choice((AttributeProto.INT, AttributeProto.FLOAT, AttributeProto.INTS))
        number = self.random.choice(NUMBERS if self.random.random() < 0.15 else NUMBERS[:12])
        numbers = [self.random.choice(NUMBERS[:10]) for _ in range(self.random.choice((0, 1, 2, 2, 3, 4, 4)))]
        found = AttributeProto(name=name, type=kind)
        if kind == AttributeProto.INT:
            found.i = number
        elif kind == AttributeProto.INTS:
            found.ints.extend(numbers)
        elif kind == AttributeProto.FLOAT:
            found.f = self.random.choice((0.0, 1.0, -1.0, 0.5, 1e30, float("inf"), float("nan")))
        elif kind == AttributeProto.FLOATS:
            found.floats.extend(float(one) for one in numbers)
        elif kind == AttributeProto.STRING:
            found.s = self.random.choice(WORDS).encode()
        elif kind == AttributeProto.TENSOR:
            found.t.CopyFrom(numpy_helper.from_array(np.array(numbers, np.int64), ""))
        else:
            return
        node.attribute.append(found)


def damaged(data: bytes, seed: int, others: Sequence[bytes] = (b"",)) -> bytes:
    """A file after one to four accidents: other bytes, lost ones, doubled ones, those of another file, an early end."""
    rng, found = random.Random(seed), bytearray(data)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(found) + 1)
        count = rng.choice((1, 1, 1, 2, 4, 8, 64, 1000))
        match rng.randrange(6):
            case 0 if found:
                found[min(at, len(found) - 1)] ^= 1 << rng.randrange(8)
            case 1:
                found[at : at + count] = rng.randbytes(min(count, len(found) - at))
            case 2:
                del found[at : at + count]
            case 3:
                found[at:at] = found[at : at + count]
            case 4:
                other = rng.choice(others)
                start = rng.randrange(len(other) + 1)
                found[at : at + count] = other[start : start + count]
            case _:
                del found[rng.randrange(len(found) + 1) :]
    return bytes(found)


SCALARS = (
    *("0", "1", "2", "3", "7", "-1", "64", "100", "4096", "65536", "1000000", "1048576", "1099511627776"),
    *("9223372036854775808", "0.5", "1/3", '"239/8"', "1e9", ".nan", ".inf", "true", "false", "null", "~", "''"),
    *("mme", "vme", "core", "cluster", "chip", "matrix", "vector", "float16", "int8", "[]", "{}", "[1, 2]", "{a: 1}"),
    *("weight_stationary", "output_stationary", "!!int 3", "&a 1", "*a", '"\\x00"', "x" * 300, "1_000", "0x10", "010"),
)


def changed_machine(text: str, seed: int) -> str:
    """A machine file in which one to three values are others, or keys are missing, doubled or misspelt."""
    rng = random.Random(seed)
    tree = yaml.safe_load(text)
    marks: dict[str, str] = {}
    for number in range(rng.randint(1, 3)):
        place, key = _somewhere(tree, rng)
        action = rng.random()
        if action < 0.75 or isinstance(place, list):
            marks[f"@{number}@"] = rng.choice(SCALARS)
            place[key] = f"@{number}@"
        elif action < 0.9:
            del place[key]
        else:
            place[f"{key}s"] = place.pop(key)
    written = yaml.safe_dump(tree, sort_keys=False, width=1000)
    for mark, scalar in marks.items():
        written = written.replace(f"'{mark}'", scalar)
    return written


def _somewhere(tree, rng: random.Random):
    """A random mapping or list inside a tree, and one of its keys."""
    place = tree
    while True:
        key = rng.choice(list(place)) if isinstance(place, dict) else rng.randrange(len(place))
        if isinstance(place[key], dict | list) and place[key] and rng.random() < 0.85:
            place = place[key]
        else:
            return place, key
