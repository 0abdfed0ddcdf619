"""A plan of fused blocks as a C++ program for CNML, the library of operators of the MLU100 (docs/dlfusion.md#code)."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tilestitch.base.errors import InputError, printable
from tilestitch.base.units import counted
from tilestitch.formats.cnml.calls import calls_of
from tilestitch.formats.cnml.values import AllInputs, Call, Constant, Operand, Shape, shape_of
from tilestitch.ir.graph import Graph

MAX_CORES = 32  # of the MLU100, and so of one block


@dataclass(frozen=True, slots=True)
class EmittedBlock:
    """Operators that run as one block, by name, and on how many cores."""

    operators: tuple[str, ...]
    cores: int


@dataclass(frozen=True, slots=True)
class Emitted:
    """A program, and the constants that it reads, in their order."""

    text: str
    constants: tuple[Constant, ...]

    @property
    def constant_bytes(self) -> bytes:
        """The file of constants: 32-bit floating-point numbers, the lowest byte first."""
        return b"".join(np.ascontiguousarray(constant.values, "<f4").tobytes() for constant in self.constants)


def cnml_program(graph: Graph, blocks: Sequence[EmittedBlock], heading: str) -> Emitted:
    """The program of a simplified network, whose blocks run in this order; `heading` says what it is in one line.

    Raises `InputError` where CNML has no call for an operator, or a block has too many cores.
    """
    for number, block in enumerate(blocks):
        if block.cores > MAX_CORES:
            raise InputError(
                f"block {number} runs on {block.cores} cores; CNML takes at most {MAX_CORES} for an MLU100"
            )
    return _Program(graph, blocks).emitted(heading)


class _Names:
    """Names of C++ for names of the network, each once."""

    def __init__(self) -> None:
        self.given: dict[tuple[str, str], str] = {}
        self.taken: set[str] = set()

    def __call__(self, kind: str, name: str) -> str:
        if (kind, name) not in self.given:
            plain = f"{kind}_{re.sub('[^A-Za-z0-9]+', '_', name).strip('_')}"
            found, number = plain, 2
            while found in self.taken:
                found, number = f"{plain}_{number}", number + 1
            self.taken.add(found)
            self.given[kind, name] = found
        return self.given[kind, name]


class _Program:
    def __init__(self, graph: Graph, blocks: Sequence[EmittedBlock]) -> None:
        self.graph, self.names = graph, _Names()
        self.cores = [block.cores for block in blocks]
        self.shapes: dict[str, Shape] = {}
        self.constants: dict[str, Constant] = {}
        self.blocks: list[list[Call]] = []
        sources: dict[str, str] = {}
        self.inputs = [name for name in graph.inputs if name in graph.consumers]
        for name in self.inputs:
            self.shapes[name] = shape_of(graph, graph.consumers[name][0], name)
        for block in blocks:
            calls: list[Call] = []
            for name in sorted(block.operators, key=graph.position.__getitem__):
                op = graph.by_name[name]
                found = calls_of(graph, op, sources)
                calls += found.calls
                self.shapes.update(found.between)
                if found.calls:
                    self.shapes[op.outputs[0]] = shape_of(graph, op, op.outputs[0])
                for constant in found.constants:
                    self._add(constant)
            self.blocks.append(calls)
        self.ends = [self._ends(number) for number in range(len(self.blocks))]

    def _add(self, constant: Constant) -> None:
        known = self.constants.setdefault(constant.name, constant)
        if (known.kind, known.shape) != (constant.kind, constant.shape):
            raise InputError(
                f"{self.graph.name}: constant '{constant.name}' is read as {known.kind} and as {constant.kind} of "
                "different shapes; give each operator a constant of its own"
            )

    def _ends(self, number: int) -> tuple[list[str], list[str]]:
        """What a block reads of others, and what others read of it."""
        calls = self.blocks[number]
        made = {call.output for call in calls}
        read = [name for call in calls for name in call.inputs if name not in made]
        others = {
            name for other, block in enumerate(self.blocks) if other != number for c in block for name in c.inputs
        }
        others |= set(self.graph.outputs)
        return list(dict.fromkeys(read)), [call.output for call in calls if call.output in others]

    def emitted(self, heading: str) -> Emitted:
        parts = [self._head(heading), *self._declarations(), _HELPERS, self._create(), self._blocks(), self._main()]
        return Emitted("\n".join(parts), tuple(self.constants.values()))

    def _head(self, heading: str) -> str:
        inputs = " ".join(f"INPUT{number}" for number in range(len(self.inputs)))
        outputs = " ".join(f"OUTPUT{number}" for number in range(len(self.graph.outputs)))
        return _HEAD.format(
            heading=_remark(heading), inputs=inputs, outputs=outputs, constants=counted(len(self.constants), "constant")
        )

    def _declarations(self) -> list[str]:
        lines = ["// Tensors of the network"]
        lines += [f"static cnmlTensor_t {self.names('t', name)};" for name in self.shapes]
        lines += ["", "// Constants, in the order of their file"]
        lines += [f"static cnmlTensor_t {self.names('t', name)};" for name in self.constants]
        lines += ["", "// Operators and their parameters"]
        for call in self._calls:
            if call.parameter:
                lines.append(f"static cnml{call.parameter}_t {self.names('param', call.name)};")
            lines.append(f"static cnmlBaseOp_t {self.names('op', call.name)};")
        lines += ["", "// Blocks of several operators"]
        lines += [
            f"static cnmlFusionOp_t block_{number};" for number, calls in enumerate(self.blocks) if len(calls) > 1
        ]
        return [*lines, ""]

    @property
    def _calls(self) -> list[Call]:
        return [call for calls in self.blocks for call in calls]

    def _create(self) -> str:
        lines = ["static void create_tensors(FILE *constants) {"]
        for name, shape in self.shapes.items():
            lines.append(f"  {self.names('t', name)} = tensor(CNML_TENSOR, {_listed(shape)});")
        for name, constant in self.constants.items():
            lines.append(
                f"  {self.names('t', name)} = constant({constant.kind}, {_listed(constant.shape)}, constants);"
            )
        if not self.constants:
            lines.append("  (void)constants;")
        lines += ["}", "", "static void create_operators() {"]
        for call in self._calls:
            lines += self._creation(call)
        return "\n".join([*lines, "}", ""])

    def _creation(self, call: Call) -> list[str]:
        op = self.names("op", call.name)
        arguments = [f"&{op}"]
        lines = []
        if call.parameter:
            parameter = self.names("param", call.name)
            values = ", ".join((f"&{parameter}", *call.parameter_arguments))
            lines.append(f"  CNML({call.parameter_create}({values}));")
            arguments.append(parameter)
        inputs = f"inputs_of_{op}"
        if AllInputs() in call.arguments:
            lines.append(f"  cnmlTensor_t {inputs}[] = {{{', '.join(self.names('t', name) for name in call.inputs)}}};")
        for argument in call.arguments:
            match argument:
                case Operand(name, address):
                    arguments.append(("&" if address else "") + self.names("t", name))
                case AllInputs():
                    arguments.append(inputs)
                case _:
                    arguments.append(argument)
        return [*lines, f"  CNML({call.create}({', '.join(arguments)}));"]

    def _blocks(self) -> str:
        lines: list[str] = []
        for number, (calls, cores) in enumerate(zip(self.blocks, self.cores, strict=True)):
            if calls:
                named = calls[0].name if len(calls) == 1 else f"{calls[0].name} .. {calls[-1].name}"
                lines += [
                    f"// {named}: {counted(len(calls), 'operator')} on {counted(cores, 'core')}".replace("\\", "/")
                ]
                lines += [f"static void compile_block_{number}() {{", *self._compilation(number, cores), "}", ""]
        return "\n".join(lines)

    def _compilation(self, number: int, cores: int) -> list[str]:
        calls, (inputs, outputs) = self.blocks[number], self.ends[number]
        if len(calls) == 1:
            return [f"  CNML(cnmlCompileBaseOp({self.names('op', calls[0].name)}, CNML_MLU100, {cores}));"]
        lines = [f"  CNML(cnmlCreateFusionOp(&block_{number}));"]
        lines += [f"  CNML(cnmlFuseOp({self.names('op', call.name)}, block_{number}));" for call in calls]
        lines += [
            f"  cnmlTensor_t inputs[] = {{{', '.join(self.names('t', name) for name in inputs)}}};",
            f"  cnmlTensor_t outputs[] = {{{', '.join(self.names('t', name) for name in outputs)}}};",
            f"  CNML(cnmlSetFusionIO(block_{number}, inputs, {len(inputs)}, outputs, {len(outputs)}));",
            f"  CNML(cnmlCompileFusionOp(block_{number}, CNML_MLU100, {cores}));",
        ]
        return lines

    def _main(self) -> str:
        graph, names = self.graph, self.names
        running = [number for number, calls in enumerate(self.blocks) if calls]
        kept = list(dict.fromkeys([*self.inputs, *(name for _, outputs in self.ends for name in outputs)]))
        lines = [
            "int main(int argc, char **argv) {",
            f'  if (argc != {2 + len(self.inputs) + len(graph.outputs)}) fail("expects the files named at its head");',
            "  start();",
            '  FILE *constants = opened(argv[1], "rb");',
            "  create_tensors(constants);",
            "  fclose(constants);",
            "  create_operators();",
            *(f"  compile_block_{number}();" for number in running),
            "",
            *(f"  void *{names('d', name)} = cnmlMallocBuffer({names('t', name)});" for name in kept),
        ]
        for number, name in enumerate(self.inputs):
            sizes = _listed(self.shapes[name])
            lines.append(f"  load(argv[{2 + number}], {names('t', name)}, {names('d', name)}, {sizes});")
        lines.append("")
        for number in running:
            lines += self._run(number)
        lines += ["  CNRT(cnrtSyncQueue(queue));", ""]
        for number, name in enumerate(graph.outputs):
            place = 2 + len(self.inputs) + number
            sizes = _listed(self.shapes[name])
            lines.append(f"  store(argv[{place}], {names('t', name)}, {names('d', name)}, {sizes});")
        lines.append("")
        lines += [f"  CNML(cnmlFreeBuffer({names('d', name)}));" for name in kept]
        lines += [
            f"  CNML(cnmlDestroyFusionOp(&block_{number}));" for number in running if len(self.blocks[number]) > 1
        ]
        for call in self._calls:
            lines.append(f"  CNML(cnmlDestroyBaseOp(&{names('op', call.name)}));")
            if call.parameter:
                lines.append(f"  CNML(cnmlDestroy{call.parameter}(&{names('param', call.name)}));")
        for name in (*self.shapes, *self.constants):
            lines.append(f"  CNML(cnmlDestroyTensor(&{names('t', name)}));")
        return "\n".join([*lines, "  stop();", "  return 0;", "}", ""])

    def _run(self, number: int) -> list[str]:
        calls, (inputs, outputs) = self.blocks[number], self.ends[number]
        device = [self.names("d", name) for name in (calls[0].inputs if len(calls) == 1 else inputs)]
        results = [self.names("d", name) for name in outputs]
        if len(calls) == 1 and AllInputs() not in calls[0].arguments:
            operands = ", ".join((*device, *results))
            return [f"  CNML({calls[0].compute}({self.names('op', calls[0].name)}, {operands}, &how, queue));"]
        run = f"cnmlComputeFusionOpForward_V3(block_{number}"
        if len(calls) == 1:
            run = f"{calls[0].compute}({self.names('op', calls[0].name)}"
        return [
            "  {",
            f"    void *inputs[] = {{{', '.join(device)}}};",
            f"    void *outputs[] = {{{', '.join(results)}}};",
            f"    CNML({run}, inputs, {len(device)}, outputs, {len(results)}, &how, queue));",
            "  }",
        ]


def _remark(text: str) -> str:
    """Text behind `//`: on one line, whatever it is, and no continuation of it (also not as a trigraph)."""
    return re.sub(r"\?+", "?", printable(text)).replace("\\", "/")


def _listed(shape: Shape) -> str:
    return ", ".join(map(str, shape))


_HEAD = """\
// {heading}
//
// Names and parameter lists follow the public header of CNML 1.0.0. What that header does not say of their meaning
// (on which side padding is, how filters lie in memory, when parameters may be destroyed) is INFERRED. Nothing of this
// was ever run on an MLU100; what is known is that it is well-formed C++ against declarations of those calls.
//
// Build with the vendor's kit:  g++ -std=c++11 THIS.cpp -lcnml -lcnrt
// Run:  ./a.out CONSTANTS {inputs} {outputs}
// Each file holds 32-bit floating-point numbers, the lowest byte first, in the order samples, channels, rows, columns;
// CONSTANTS the {constants} one behind the other. The device computes in float16.
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "cnml.h"
#include "cnrt.h"
"""

_HELPERS = """\
static cnrtQueue_t queue;
static int data_parallelism = 1;
static unsigned int affinity = 1;
static cnrtInvokeFuncParam_t how = {&data_parallelism, &affinity, CNRT_PARAM_END};

static void fail(const char *what) {
  fprintf(stderr, "error: %s\\n", what);
  exit(1);
}

#define CNML(call) \\
  if ((call) != CNML_STATUS_SUCCESS) fail(#call)
#define CNRT(call) \\
  if ((call) != CNRT_RET_SUCCESS) fail(#call)

static FILE *opened(const char *path, const char *mode) {
  FILE *file = fopen(path, mode);
  if (file == nullptr) fail(path);
  return file;
}

static std::vector<float> numbers(FILE *file, size_t count) {
  std::vector<float> found(count);
  if (fread(found.data(), sizeof(float), count, file) != count) fail("a file is too short");
  return found;
}

static cnmlTensor_t tensor(cnmlTensorType_t kind, int n, int c, int h, int w) {
  cnmlTensor_t made;
  CNML(cnmlCreateTensor(&made, kind, CNML_DATA_FLOAT16, n, c, h, w));
  return made;
}

static cnmlTensor_t constant(cnmlTensorType_t kind, int n, int c, int h, int w, FILE *file) {
  std::vector<float> values = numbers(file, size_t(n) * c * h * w);
  cnmlTensor_t made = tensor(kind, n, c, h, w);
  cnmlCpuTensor_t host;
  CNML(cnmlCreateCpuTensor(&host, kind, CNML_DATA_FLOAT32, CNML_NCHW, n, c, h, w));
  CNML(cnmlBindConstData(made, host, values.data()));
  CNML(cnmlDestroyCpuTensor(&host));
  return made;
}

static void load(const char *path, cnmlTensor_t target, void *device, int n, int c, int h, int w) {
  FILE *file = opened(path, "rb");
  std::vector<float> values = numbers(file, size_t(n) * c * h * w);
  fclose(file);
  cnmlCpuTensor_t host;
  CNML(cnmlCreateCpuTensor(&host, CNML_TENSOR, CNML_DATA_FLOAT32, CNML_NCHW, n, c, h, w));
  CNML(cnmlMemcpyTensorToDevice(host, values.data(), target, device));
  CNML(cnmlDestroyCpuTensor(&host));
}

static void store(const char *path, cnmlTensor_t source, void *device, int n, int c, int h, int w) {
  std::vector<float> values(size_t(n) * c * h * w);
  cnmlCpuTensor_t host;
  CNML(cnmlCreateCpuTensor(&host, CNML_TENSOR, CNML_DATA_FLOAT32, CNML_NCHW, n, c, h, w));
  CNML(cnmlMemcpyTensorToHost(source, device, host, values.data()));
  CNML(cnmlDestroyCpuTensor(&host));
  FILE *file = opened(path, "wb");
  if (fwrite(values.data(), sizeof(float), values.size(), file) != values.size()) fail(path);
  fclose(file);
}

static void start() {
  cnrtDev_t device;
  CNRT(cnrtInit(0));
  CNRT(cnrtGetDeviceHandle(&device, 0));
  CNRT(cnrtSetCurrentDevice(device));
  CNRT(cnrtCreateQueue(&queue));
  CNML(cnmlInit(0));
}

static void stop() {
  CNML(cnmlExit());
  CNRT(cnrtDestroyQueue(queue));
  cnrtDestroy();
}
"""
