"""dMazeRunner's description of a machine, arch_spec.json, as an array with its memories.

Source: the released code of Dave et al., dMazeRunner, TECS 2019: fields, defaults and their meaning (one word a cycle
on each network, half of the scratchpad).
"""

from collections.abc import Mapping
from fractions import Fraction

from tilestitch.formats.foreign_file import Part, json_file
from tilestitch.hardware.accelerator import Reduction
from tilestitch.hardware.array_machine import ArrayMachine
from tilestitch.hardware.yaml_tree import Scalar

MAX_ELEMENTS = 2**24
MAX_BYTES = 2**40
MAX_BANKS = 2**20

# What the released code takes where a field is missing.
_DETAILS = {
    "pe_pipelined": "true",
    "pe_pipeline_stages": "1",
    "data_type_size_in_bytes": "2",
    "dma_init_cycles": "291",
    "dma_cycles_per_byte": "0.24",
    "dma_frequency": "3200",
    "dataflow_accel_frequency": "500",
    "rf_energy": "0.96",
    "communication_energy": "2",
    "spm_energy": "13.5",
    "dram_energy": "200",
    "mac_energy": "0.075",
}
_BASIC = {
    "CGRA_SIZE": "256",
    "RF_SIZE": "512",
    "BYTES_PER_DATA": "2",
    "TOTAL_BANKS_IN_SPM": "32",
    "TOTAL_BYTES_IN_BANK": "2048",
}
SEARCH_OPTIONS = (
    "PE_UTILIZATION",
    "RF_UTILIZATION",
    "SPM_UTILIZATION",
    "PRUNE_NO_FEATURE_DRAM",
    "PRUNE_NO_REDUCTION",
    "MIN_EXEC_METHODS",
    "THRESHOLD_BEGIN_REDUCE_SPM_UTIL",
    "THRESHOLD_DISABLE_OPTS",
)


def dmazerunner_machine(text: str, where: str) -> tuple[ArrayMachine, tuple[tuple[str, str], ...]]:
    """The machine, and the options of a search that the file has beside it: (name, value as written).

    Options say nothing about a machine; what becomes of them is for the caller, who must not pass over them silently.
    """
    file = json_file(text, where)
    parts = file.fields(("arch_details", "arch_basic"))
    details = _with_defaults(parts["arch_details"], _DETAILS)
    basic = _with_defaults(parts["arch_basic"], _BASIC, SEARCH_OPTIONS)
    if not details["pe_pipelined"].switch():
        details["pe_pipelined"].refuse("not supported: elements that are not pipelined have no model; write true")
    if details["pe_pipeline_stages"].whole("stages", 1, 1024) != 1:
        details["pe_pipeline_stages"].refuse("not supported: dMazeRunner reads and ignores it; write 1")
    word = basic["BYTES_PER_DATA"].whole("bytes", 1, 8)
    if details["data_type_size_in_bytes"].whole("bytes", 1, 8) != word:
        basic["BYTES_PER_DATA"].refuse(
            f"is {word}, but arch_details.data_type_size_in_bytes is another size; write one size in both"
        )
    clock = details["dataflow_accel_frequency"].ratio("MHz", 10**6) * 10**6
    if clock.denominator != 1:
        details["dataflow_accel_frequency"].expected("a frequency in MHz of whole hertz")
    per_dma_cycle = clock / (details["dma_frequency"].ratio("MHz", 10**6) * 10**6)
    machine = ArrayMachine(
        name=where,
        elements=basic["CGRA_SIZE"].whole("elements", 1, MAX_ELEMENTS),
        register_bytes=basic["RF_SIZE"].whole("bytes", 1, MAX_BYTES),
        banks=basic["TOTAL_BANKS_IN_SPM"].whole("banks", 1, MAX_BANKS),
        bank_bytes=basic["TOTAL_BYTES_IN_BANK"].whole("bytes", 1, MAX_BYTES),
        network_bytes_per_cycle=(Fraction(word), Fraction(word), Fraction(word)),
        reduction_bytes_per_cycle=Fraction(word),
        networks=3,
        multicast=True,
        reduction=Reduction.SERIAL,
        dma_setup_cycles=details["dma_init_cycles"].whole("cycles", 0, 10**9) * per_dma_cycle,
        dma_cycles_per_byte=details["dma_cycles_per_byte"].ratio("cycles", 10**9) * per_dma_cycle,
        dma_channels=1,
        operand_bits=(8 * word, 8 * word, 8 * word),
        mac_pj=details["mac_energy"].energy(),
        register_pj_per_byte=details["rf_energy"].energy() / word,
        network_pj_per_byte=details["communication_energy"].energy() / word,
        scratchpad_pj_per_byte=details["spm_energy"].energy() / word,
        dram_pj_per_byte=details["dram_energy"].energy() / word,
        clock_hz=clock.numerator,
    )
    options = tuple((name, _text(basic[name])) for name in SEARCH_OPTIONS if name in basic)
    return machine, options


def _with_defaults(part: Part, defaults: Mapping[str, str], others: tuple[str, ...] = ()) -> dict[str, Part]:
    found = part.fields((), (*defaults, *others))
    for name, value in defaults.items():
        found.setdefault(name, Part(Scalar(value, quoted=False), part.file, (*part.path, name)))
    return found


def _text(part: Part) -> str:
    return part.text("a number, true or false")
