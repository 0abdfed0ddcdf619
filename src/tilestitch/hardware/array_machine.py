"""One array of processing elements with the memories around it, as the mapping of a loop nest sees it."""

from dataclasses import dataclass, field, fields, replace
from fractions import Fraction

from tilestitch.base.errors import InputError
from tilestitch.base.html import Record
from tilestitch.base.shown import Shown
from tilestitch.base.units import ceil_div
from tilestitch.hardware.accelerator import Accelerator, Core, PEArray, Reduction
from tilestitch.hardware.microarchitecture import Microarchitecture

ROOM_BYTES = 2**40  # more than any tile


@dataclass(frozen=True, slots=True, repr=False)
class ArrayMachine(Shown):
    """A processing-element array, half of a double-buffered scratchpad, and DMA to DRAM behind it.

    Rates are bytes per cycle of the array's clock. Operands go by their place in a nest: the first that is read, the
    others that are read, and the result.
    """

    name: str
    elements: int
    register_bytes: int  # of one element, one pool for all operands
    banks: int  # that hold the tile in use; each has data of one operand
    bank_bytes: int
    network_bytes_per_cycle: tuple[Fraction, Fraction, Fraction]  # first, other reads, result
    reduction_bytes_per_cycle: Fraction
    networks: int  # 3: one for each; 2: what is read shares one; 1: one for all
    multicast: bool
    reduction: Reduction
    dma_setup_cycles: Fraction  # of each contiguous run
    dma_cycles_per_byte: Fraction
    dma_channels: int
    operand_bits: tuple[int, int, int] | None  # None: as the nest says
    mac_pj: float
    register_pj_per_byte: float
    network_pj_per_byte: float
    scratchpad_pj_per_byte: float
    dram_pj_per_byte: float
    clock_hz: int
    columns: int = 16  # of elements; a last row may be shorter
    dma_burst_bytes: int = 1  # to which runs round up
    dma_strides: int = 0  # loops around a run that one descriptor, which has the set-up, covers; 0: each run has one
    micro: Microarchitecture = field(default_factory=Microarchitecture)

    def heading(self) -> str:
        """Its name and size."""
        return f"{self.name}: an array of {self.elements:,} processing elements"

    def records(self) -> tuple[Record, ...]:
        """Every number of it, and of its microarchitecture."""
        pairs = [(one.name, getattr(self, one.name)) for one in fields(self) if one.name not in ("name", "micro")]
        pairs += [(one.name, getattr(self.micro, one.name)) for one in fields(self.micro)]
        return tuple(
            {"field": name, "value": ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)}
            for name, value in pairs
        )

    @property
    def run_start_cycles(self) -> Fraction:
        """Of each contiguous run, before its first byte: the set-up of DMA, and the latency of DRAM."""
        return self.dma_setup_cycles + self.micro.dram_latency_cycles

    @property
    def configuration_cycles(self) -> int:
        """All networks get the words of their multicast controllers at once, a word a cycle each."""
        return self.micro.configuration_words * (ceil_div(self.elements, self.columns) + self.elements)

    @property
    def scratchpad_bytes(self) -> int:
        """Room for the tile in use."""
        return self.banks * self.bank_bytes


def array_of_core(machine: Accelerator, core: Core | None = None) -> ArrayMachine:
    """The array of a core, by default of the first that has one; refuses a machine without."""
    found = core if core is not None else next((one for one in machine.cores if one.array is not None), None)
    if found is None or found.array is None:
        raise InputError(
            f"machine {machine.name!r}: no core has an array of processing elements, found "
            f"{', '.join(sorted({_unit_names(one) for one in machine.cores}))}; write a unit of kind array and name it "
            "in cores, as the presets dmazerunner-256 and eyeriss do"
        )
    unit: PEArray = found.array
    scratchpad = machine.memory(machine.home(found))
    if scratchpad is None:
        raise InputError(
            f"machine {machine.name!r}: an array works from a buffer of its core or of the cluster, found none"
        )
    into = machine.link.bandwidth_bytes_per_cycle
    setup = Fraction(machine.setup.dma_cycles) if unit.dma_setup_cycles is None else unit.dma_setup_cycles
    banks, bank_bytes = halves(scratchpad.size_bytes, scratchpad.banks)
    return _machine(
        unit,
        machine.name,
        banks,
        bank_bytes,
        setup=setup,
        per_byte=1 / min(machine.channel_bytes_per_cycle, into),
        scratchpad_pj=scratchpad.read_pj_per_byte,
        dram_pj=machine.ddr.read_pj_per_byte + machine.link.pj_per_byte,
        clock_hz=machine.clock_hz,
    )


def halves(size_bytes: int, banks: int) -> tuple[int, int]:
    """Banks for the tile in use, in one half of a scratchpad, and their bytes; without banks every byte is one."""
    half = size_bytes // 2
    used = banks // 2 if banks > 1 else half
    return used, half // used


def array_alone(unit: PEArray) -> ArrayMachine:
    """An array whose operands are in a buffer that is large enough, and nothing behind that; it is configured."""
    free = Fraction(0)
    return _machine(
        replace(unit, micro=replace(unit.micro, configuration_words=0)),
        unit.name,
        ROOM_BYTES,
        1,
        setup=free,
        per_byte=free,
        scratchpad_pj=0.0,
        dram_pj=0.0,
        clock_hz=1,
    )


def _machine(
    unit: PEArray,
    name: str,
    banks: int,
    bank_bytes: int,
    *,
    setup: Fraction,
    per_byte: Fraction,
    scratchpad_pj: float,
    dram_pj: float,
    clock_hz: int,
) -> ArrayMachine:
    for dtype, rate in unit.rates:
        if rate != 1:
            raise InputError(
                f"array {unit.name}: rates.{dtype} is {rate}; mappings are priced for one multiply-accumulate of each "
                "element a cycle; write 1, and describe faster elements as more of them"
            )
    return ArrayMachine(
        name=name,
        elements=unit.rows * unit.columns,
        register_bytes=unit.register_bytes,
        banks=banks,
        bank_bytes=bank_bytes,
        network_bytes_per_cycle=(
            unit.first_bytes_per_cycle,
            unit.second_bytes_per_cycle,
            unit.result_bytes_per_cycle,
        ),
        reduction_bytes_per_cycle=unit.reduction_bytes_per_cycle,
        networks=unit.networks,
        multicast=unit.multicast,
        reduction=unit.reduction,
        dma_setup_cycles=setup,
        dma_cycles_per_byte=per_byte,
        dma_channels=unit.dma_channels,
        operand_bits=unit.operand_bits,
        mac_pj=unit.mac_pj,
        register_pj_per_byte=unit.register_pj_per_byte,
        network_pj_per_byte=unit.network_pj_per_byte,
        scratchpad_pj_per_byte=scratchpad_pj,
        dram_pj_per_byte=dram_pj,
        clock_hz=clock_hz,
        columns=unit.columns,
        micro=unit.micro,
    )


def _unit_names(core: Core) -> str:
    kinds = (("matrix unit", core.matrix), ("vector unit", core.vector), ("array", core.array))
    return " and ".join(name for name, unit in kinds if unit is not None)
