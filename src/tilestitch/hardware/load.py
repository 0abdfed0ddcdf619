"""Machines from YAML: one page of text becomes an `Accelerator`, or one error that lists every mistake in it.

What one field says is checked by the models of `schema`, what several fields say together by `contradictions`; neither
stops at the first mistake.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from tilestitch.base.dtypes import DType
from tilestitch.base.errors import InputError, printable
from tilestitch.base.html import Record
from tilestitch.base.shown import Shown, as_kind
from tilestitch.base.text_files import file_text
from tilestitch.hardware.accelerator import (
    WORD_CYCLES,
    Accelerator,
    Core,
    Dataflow,
    Level,
    Link,
    MatrixUnit,
    Memory,
    PEArray,
    Setup,
    VectorUnit,
)
from tilestitch.hardware.contradictions import contradictions
from tilestitch.hardware.describe import describe
from tilestitch.hardware.fields import closest
from tilestitch.hardware.microarchitecture import Microarchitecture
from tilestitch.hardware.preset_files import is_tree_file, preset_names, preset_text, tree_names
from tilestitch.hardware.schema import (
    ArrayModel,
    CoreMemoryModel,
    DDRModel,
    LocalModel,
    MachineModel,
    MatrixModel,
    OuterMemoryModel,
    VectorModel,
    mistake_of,
)
from tilestitch.hardware.yaml_path import known_path, replaced, tree_of
from tilestitch.hardware.yaml_tree import Mistake, Tree, quoted, read_tree, tree_text

MAX_FILE_BYTES = 256 * 1024
_ONE_PAGE = "; a machine is about one page of YAML"
MAX_LINES = 100  # of one error message


@dataclass(frozen=True, repr=False)
class Machine(Accelerator, Shown):
    """An accelerator with the YAML text that describes it."""

    yaml: str = field(default="", compare=False, repr=False)

    def with_(self, path: str, value: object) -> "Machine":
        """The machine with another value at a place of its YAML form, such as `memories.ddr.bandwidth_bytes_per_cycle`.

        Entries of lists go by their `name`, where they have one, or by their positions: `cores.0.count`. Raises
        `InputError` for a place that there is not, and for what the machine cannot be.
        """
        where = f"machine {printable(self.name, 80)}"
        if not isinstance(path, str):
            raise InputError(f"{where}: expected a path such as 'memories.ddr.size_bytes', found {path!r:.60}")
        tree = read_tree(self.yaml_text(), where, [])
        at = known_path(tree, path, f"{where}: with_ {printable(path, 80)!r}")
        return _machine(replaced(tree, at, tree_of(value, f"{where}: {path}")), [], where)

    def yaml_text(self) -> str:
        """Its YAML form; refused where it was changed by other means than `with_`, and has none."""
        where = f"machine {printable(self.name, 80)}"
        if _machine(read_tree(self.yaml, where, []), [], where) != self:
            raise InputError(
                f"{where}: was changed in Python by other means, so that its YAML form is out of date; make every "
                "change by with_, or load the machine from a file or a dict"
            )
        return self.yaml

    def heading(self) -> str:
        """Its name and what it is."""
        return str(self)

    def records(self) -> tuple[Record, ...]:
        """Its memories."""
        return tuple(
            {
                "memory": str(one.level),
                "per": str(one.sharing),
                "size_bytes": one.size_bytes,
                "bandwidth_bytes_per_cycle": float(one.bandwidth_bytes_per_cycle),
                "burst_bytes": one.burst_bytes,
                "read_pj_per_byte": one.read_pj_per_byte,
                "write_pj_per_byte": one.write_pj_per_byte,
            }
            for one in self.memories
        )

    def page(self) -> str:
        """Units, peaks and memories."""
        return describe(self)


def load_machine(machine: str | Path | Mapping[str, object]) -> Machine:
    """The preset of that name, the machine in that file, or the one that a dict says as such a file would.

    A `Path` is always a file, so a file called like a preset can be read too. Raises `InputError` for everything else.
    """
    if isinstance(machine, Mapping):
        return _machine(tree_of(machine, "machine"), [], "machine")
    if not isinstance(machine, str | Path):
        found = f"{type(machine).__name__} {printable(repr(machine), 50)}"
        raise InputError(f"machine: expected a name, the path of a YAML file or a dict, found {found}")
    return parse_machine(*machine_text(machine))


def machine_text(name_or_path: str | Path) -> tuple[str, str]:
    """The text of a machine that `load_machine` reads, and what its errors begin with."""
    if isinstance(name_or_path, str) and name_or_path in (*preset_names(), *tree_names()):
        return preset_text(name_or_path), f"{name_or_path}.yaml"
    return _file_text(name_or_path), printable(str(name_or_path))


def parse_machine(text: str, where: str) -> Machine:
    """The machine that a YAML text describes; `where` begins each line of an error, which lists every mistake."""
    if len(text) > MAX_FILE_BYTES:
        raise InputError(f"{where}: expected at most {MAX_FILE_BYTES:,} bytes, found more{_ONE_PAGE}")
    mistakes: list[Mistake] = []
    tree = read_tree(text, where, mistakes)
    if is_tree_file(tree):
        raise InputError(
            f"{where}: is a tree of memories, on which only map and show machine run yet; tilestitch map "
            "MODEL --machine TREE maps layers on it"
        )
    return _machine(tree, mistakes, where)


def _machine(tree: Tree, mistakes: list[Mistake], where: str) -> Machine:
    """The machine that a tree says, unless its text already has mistakes."""
    machine, wrong = _model(tree)
    mistakes += [*wrong, *contradictions(tree)]
    if machine is None or mistakes:
        lines = [f"{where}: {mistake}" for mistake in mistakes[:MAX_LINES]]
        if len(mistakes) > MAX_LINES:
            lines.append(f"{where}: and {len(mistakes) - MAX_LINES} more mistakes")
        raise InputError("\n".join(lines))
    return as_kind(Machine, _accelerator(machine), yaml=tree_text(tree))


def field_mistakes(tree: Tree) -> list[Mistake]:
    """What is wrong with single fields of a machine, whatever the others say."""
    return _model(tree)[1]


def _model(tree: Tree) -> tuple[MachineModel | None, list[Mistake]]:
    try:
        return MachineModel.model_validate(tree), []
    except ValidationError as error:
        return None, [mistake_of(details) for details in error.errors(include_url=False)]


def _file_text(path: str | Path) -> str:
    name = str(path)
    return file_text(
        path,
        "YAML",
        MAX_FILE_BYTES,
        subject=f"machine {quoted(name)}",
        missing=(
            f"expected the name of a preset or the path of a file, found neither{closest(name, preset_names())}; known "
            f"presets: {', '.join(preset_names())}; for a machine of your own write the path of its file, ending in "
            ".yaml"
        ),
        advice=_ONE_PAGE,
    )


_Number = TypeVar("_Number", int, Fraction)


def _accelerator(machine: MachineModel) -> Accelerator:
    units = {name: _unit(name, unit) for name, unit in machine.units.items()}
    cores: list[Core] = []
    for group in machine.cores:
        matrix = units[group.matrix] if group.matrix is not None else None
        vector = units[group.vector] if group.vector is not None else None
        array = units[group.array] if group.array is not None else None
        assert matrix is None or isinstance(matrix, MatrixUnit), "checked with the file"
        assert vector is None or isinstance(vector, VectorUnit), "checked with the file"
        assert array is None or isinstance(array, PEArray), "checked with the file"
        if array is not None:
            matrix, vector = _products_of(array), vector or _rest_of(array)
        own = tuple(level for level in group.memories if getattr(machine.memories, level) is not None)
        cores += [Core(matrix, vector, array, own)] * group.count
    levels = [(level, getattr(machine.memories, level)) for level in Level]
    return Accelerator(
        name=machine.name,
        description=machine.description,
        clock_hz=machine.clock_hz,
        clusters=machine.clusters,
        cores=tuple(cores),
        memories=tuple(_memory(level, memory) for level, memory in levels if memory is not None),
        link=Link(machine.link.bandwidth_bytes_per_cycle, machine.link.pj_per_byte),
        setup=Setup(
            dma_cycles=machine.setup.dma_cycles,
            mover_cycles=machine.setup.mover_cycles,
            compute_cycles=machine.setup.compute_cycles,
            launch_cycles=machine.setup.launch_cycles,
        ),
        granule_bytes=machine.granule_bytes,
    )


def _unit(name: str, unit: MatrixModel | VectorModel | ArrayModel) -> MatrixUnit | VectorUnit | PEArray:
    match unit:
        case MatrixModel():
            return MatrixUnit(
                name=name,
                m=unit.m,
                k=unit.k,
                n=unit.n,
                dataflow=unit.dataflow,
                systolic=unit.systolic,
                overlapped_folds=unit.overlapped_folds,
                rates=_by_type(unit.rates),
                mac_pj=unit.mac_pj,
            )
        case VectorModel():
            return VectorUnit(name, _by_type(unit.lanes), unit.operation_pj)
        case ArrayModel():
            return PEArray(
                name=name,
                rows=unit.rows,
                columns=unit.columns,
                register_bytes=unit.register_bytes,
                rates=_by_type(unit.rates),
                first_bytes_per_cycle=unit.first_bytes_per_cycle,
                second_bytes_per_cycle=unit.second_bytes_per_cycle,
                result_bytes_per_cycle=unit.result_bytes_per_cycle,
                reduction_bytes_per_cycle=unit.reduction_bytes_per_cycle,
                mac_pj=unit.mac_pj,
                register_pj_per_byte=unit.register_pj_per_byte,
                network_pj_per_byte=unit.network_pj_per_byte,
                networks=unit.networks,
                multicast=unit.multicast,
                reduction=unit.reduction,
                dma_setup_cycles=unit.dma_setup_cycles,
                dma_channels=unit.dma_channels,
                operand_bits=_operand_bits(unit),
                micro=_microarchitecture(unit),
            )


def _microarchitecture(unit: ArrayModel) -> Microarchitecture:
    return Microarchitecture(
        controller=unit.controller,
        multiplier_stages=unit.multiplier_stages,
        adder_stages=unit.adder_stages,
        double_buffered=(unit.first_double_buffered, unit.second_double_buffered, unit.result_double_buffered),
        network_latency_cycles=unit.network_latency_cycles,
        fifo_words=unit.fifo_words,
        register_writes_per_cycle=unit.register_writes_per_cycle,
        instruction_words=unit.instruction_words,
        configuration_words=unit.configuration_words,
        scratchpad_ports=unit.scratchpad_ports,
        scratchpad_port_bytes=unit.scratchpad_port_bytes,
        scratchpad_layout=unit.scratchpad_layout,
        dram_latency_cycles=unit.dram_latency_cycles,
    )


def _products_of(array: PEArray) -> MatrixUnit:
    """What an array is to estimates of products: rows of the result over its columns, columns over its rows."""
    return MatrixUnit(
        name=array.name,
        m=array.columns,
        k=1,
        n=array.rows,
        dataflow=Dataflow.OUTPUT_STATIONARY,
        systolic=False,
        overlapped_folds=True,
        rates=array.rates,
        mac_pj=array.mac_pj,
        network_words=(
            _words(array.first_bytes_per_cycle),
            _words(array.second_bytes_per_cycle),
            _words(array.result_bytes_per_cycle),
        ),
    )


def _words(bytes_per_cycle: Fraction) -> int:
    """Of 16 bits, in so many cycles as estimates count."""
    return max(1, int(bytes_per_cycle * WORD_CYCLES / 2))


def _rest_of(array: PEArray) -> VectorUnit:
    """What an array is to everything else: an operation of each element a cycle, or what its networks can bring.

    An operation takes two words and makes one, of 16 bits; assumed, as the sources of our arrays do only products.
    """
    rates = (array.first_bytes_per_cycle, array.second_bytes_per_cycle, array.result_bytes_per_cycle)
    lanes = max(1, min(array.rows * array.columns, *(int(rate / 2) for rate in rates)))
    energy = array.mac_pj + 6 * (array.register_pj_per_byte + array.network_pj_per_byte)
    return VectorUnit(array.name, ((DType.FLOAT16, lanes),), energy)


def _operand_bits(unit: ArrayModel) -> tuple[int, int, int] | None:
    """Widths of the operands where the file gives one of them; 16 is the default of the others."""
    if not unit.model_fields_set & {"first_bits", "second_bits", "result_bits"}:
        return None
    return unit.first_bits, unit.second_bits, unit.result_bits


def _by_type(numbers: Mapping[DType, _Number]) -> tuple[tuple[DType, _Number], ...]:
    return tuple((dtype, numbers[dtype]) for dtype in DType if dtype in numbers)


def _memory(level: Level, memory: OuterMemoryModel | CoreMemoryModel) -> Memory:
    return Memory(
        level=level,
        sharing=memory.per,
        size_bytes=memory.size_bytes,
        bandwidth_bytes_per_cycle=memory.bandwidth_bytes_per_cycle,
        burst_bytes=memory.burst_bytes,
        read_pj_per_byte=memory.read_pj_per_byte,
        write_pj_per_byte=memory.write_pj_per_byte,
        channels=memory.channels if isinstance(memory, DDRModel) else 1,
        banks=memory.banks if isinstance(memory, LocalModel) else 1,
    )
