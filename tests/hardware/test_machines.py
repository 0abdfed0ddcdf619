"""Machines: what the presets say, what a wrong file is told, and how long a tile takes on a unit."""

import re
from dataclasses import replace
from fractions import Fraction
from importlib.resources import files
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilestitch.base.dtypes import DType
from tilestitch.base.errors import InputError
from tilestitch.hardware.accelerator import Accelerator, Dataflow, Level, MatrixUnit, Sharing, VectorUnit
from tilestitch.hardware.describe import describe
from tilestitch.hardware.load import load_machine, parse_machine
from tilestitch.hardware.preset_files import chip_names
from tilestitch.hardware.read_file import MAX_FILE_BYTES
from tilestitch.hardware.tree_load import parse_tree
from tilestitch.hardware.units import matrix_tile_cycles, vector_tile_cycles

pytestmark = pytest.mark.quick

BASE = """\
name: base
description: The smallest machine that has everything
clock: 1 GHz
axes:
  - {name: core, size: 3}
  - {name: cluster, size: 2}
cores:
  - {count: 2, matrix: mme, vector: vme}
  - {count: 1, vector: vme}
units:
  mme: {kind: matrix, m: 1, k: 16, n: 8, dataflow: weight_stationary, rates: {float16: 1, int8: 2}, mac_pj: 0.075}
  vme: {kind: vector, lanes: {float16: 16}, operation_pj: 0.5}
memories:
  - name: accumulators
    size: 16 KiB
    operands: [O]
    serves: []
    bandwidth_bytes_per_cycle: 512
    burst_bytes: 32
    read_pj_per_byte: 4
    write_pj_per_byte: 4
  - name: weights
    size: 8 KiB
    operands: [W]
    serves: []
    bandwidth_bytes_per_cycle: 512
    burst_bytes: 32
    read_pj_per_byte: 5
    write_pj_per_byte: 5
  - name: lb
    size: 64 KiB
    operands: [I, O]
    serves: []
    bandwidth_bytes_per_cycle: 512
    burst_bytes: 32
    read_pj_per_byte: 6
    write_pj_per_byte: 6
  - name: gb
    size: 512 KiB
    operands: [I, W, O]
    serves: [core]
    bandwidth_bytes_per_cycle: 256
    burst_bytes: 32
    read_pj_per_byte: 7
    write_pj_per_byte: 7
  - name: ddr
    size: 64 MiB
    operands: [I, W, O]
    serves: [core]
    bandwidth_bytes_per_cycle: 34
    burst_bytes: 64
    read_pj_per_byte: 100
    write_pj_per_byte: 101.5
link: {bandwidth_bytes_per_cycle: 64, pj_per_byte: 1}
setup: {dma_cycles: 100, mover_cycles: 20, compute_cycles: 4, launch_cycles: 1000}
"""
DDR = BASE[BASE.index("  - name: ddr") : BASE.index("link:")]
GB = BASE[BASE.index("  - name: gb") : BASE.index("  - name: ddr")]
LB = BASE[BASE.index("  - name: lb") : BASE.index("  - name: gb")]
WEIGHTS = BASE[BASE.index("  - name: weights") : BASE.index("  - name: lb")]
CORES = BASE[BASE.index("cores:") : BASE.index("units:")]
ARRAY = (
    "{kind: array, rows: 4, columns: 256, register_bytes: 512, rates: {float16: 1}, "
    "first_bytes_per_cycle: 2, second_bytes_per_cycle: 2, result_bytes_per_cycle: 2, reduction_bytes_per_cycle: 1, "
    "mac_pj: 1, register_pj_per_byte: 1, network_pj_per_byte: 1}"
)
UNITS = BASE[BASE.index("units:") : BASE.index("memories:")]
SIZE = "size: 64 MiB"
CLOCK = "clock: 1 GHz"


def edited(*edits: tuple[str, str]) -> str:
    """`BASE` with texts replaced, each of which occurs once."""
    text = BASE
    for old, new in edits:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


# Mistakes that do not depend on each other, so that a file can make all of them at once.
SINGLE: dict[str, tuple[str, str]] = {
    "size-with-unknown-unit": (SIZE, "size: 4 megabytes"),
    "size-of-zero": ("size: 64 KiB", "size: 0"),
    "size-absurd": ("size: 8 KiB", "size: 2 PiB"),
    "size-with-commas": ("size: 16 KiB", 'size: "16,384"'),
    "clock-a-word": (CLOCK, "clock: fast"),
    "channels-none": ("    write_pj_per_byte: 101.5", "    write_pj_per_byte: 101.5\n    channels: 0"),
    "clusters-negative": ("{name: cluster, size: 2}", "{name: cluster, size: -2}"),
    "misspelt-key": ("burst_bytes: 64", "burst_bytes: 64\n    bust_bytes: 64"),
    "key-of-the-old-form": ("size: 512 KiB", "size: 512 KiB\n    size_bytes: 524288"),
    "misspelt-top-key": ("setup:", "setpu: {}\nsetup:"),
    "missing-energy": ("    read_pj_per_byte: 100\n", ""),
    "energy-negative": ("write_pj_per_byte: 101.5", "write_pj_per_byte: -1"),
    "bandwidth-with-unit": ("bandwidth_bytes_per_cycle: 34", "bandwidth_bytes_per_cycle: 34 GB/s"),
    "bandwidth-over-zero": ("{bandwidth_bytes_per_cycle: 64", '{bandwidth_bytes_per_cycle: "64/0"'),
    "unknown-unit": ("{count: 2, matrix: mme", "{count: 2, matrix: mne"),
    "unit-of-another-kind": ("{count: 1, vector: vme}", "{count: 1, vector: mme}"),
    "unknown-dataflow": ("dataflow: weight_stationary", "dataflow: weights_stationary"),
    "unknown-element-type": ("int8: 2}", "int9: 2}"),
    "no-lanes": ("lanes: {float16: 16}", "lanes: {}"),
    "setup-missing-cycles": ("mover_cycles: 20, ", ""),
    "systolic-yes": ("mac_pj: 0.075", "mac_pj: 0.075, systolic: yes"),
    "name-with-spaces": ("name: base", "name: my machine"),
    "description-empty": ("description: The smallest machine that has everything", "description:"),
    "extent-hexadecimal": ("m: 1,", "m: 0x10,"),
    "extent-decimal": ("n: 8,", "n: 8.0,"),
    "cycles-negative": ("dma_cycles: 100", "dma_cycles: -1"),
}

WHOLE: dict[str, str] = {
    "no-memories": BASE[: BASE.index("memories:")] + BASE[BASE.index("link:") :],
    "memory-of-no-port": edited((GB, "  - {name: gb, size: 1 KiB, operands: [I, W, O], serves: [core]}\n")),
    "memory-of-two-forms": edited(("size: 512 KiB\n", "size: 512 KiB\n    read_pj: 7\n")),
    "lb-outside-gb": edited((LB, ""), (GB, GB + LB)),
    "axis-that-is-none": edited((DDR, DDR.replace("[core]", "[core, chip]"))),
    "no-cores": edited((CORES, "cores: []\n")),
    "cores-a-number": edited((CORES, "cores: 8\n")),
    "core-without-vector": edited(("{count: 1, vector: vme}", "{count: 1}")),
    "core-not-a-mapping": edited(("{count: 1, vector: vme}", "vme")),
    "too-few-cores": edited(("{count: 2,", "{count: 1,")),
    "cores-not-counted": edited(("{count: 2, ", "{"), ("{count: 1, ", "{")),
    "too-many-cores-per-cluster": edited(("size: 3}", "size: 8192}"), ("{count: 2, ", "{")),
    "too-many-cores": edited(
        ("size: 3}", "size: 4000}"), ("{count: 2, ", "{"), ("cluster, size: 2", "cluster, size: 17")
    ),
    "no-units": edited((UNITS, "")),
    "unit-of-no-kind": edited(("kind: vector, ", "")),
    "unit-of-unknown-kind": edited(("kind: vector", "kind: scalar")),
    "energy-of-units-twice": edited(("units:", "mac_pj: 1\nunits:")),
    "array-absurd": edited(
        ("  vme: {kind", f"  pes: {ARRAY.replace('rows: 4', 'rows: 65537')}\n  vme: {{kind"),
    ),
    "array-without-networks": edited(
        ("  vme: {kind", f"  pes: {ARRAY[: ARRAY.index('first_')]}mac_pj: 1}}\n  vme: {{kind")
    ),
    "array-where-a-matrix-unit-belongs": edited(
        ("matrix: mme", "matrix: pes"), ("  vme: {kind", f"  pes: {ARRAY}\n  vme: {{kind")
    ),
    "memories-of-a-core-a-word": edited(("{count: 1, vector: vme}", "{count: 1, vector: vme, memories: lb}")),
    "memories-of-a-core-shared": edited(("{count: 1, vector: vme}", "{count: 1, vector: vme, memories: [gb]}")),
    "memories-of-a-core-twice": edited(("{count: 1, vector: vme}", "{count: 1, vector: vme, memories: [lb, lb]}")),
    "memories-of-a-core-not-described": edited(
        ("{count: 1, vector: vme}", "{count: 1, vector: vme, memories: [weights]}"), (WEIGHTS, "")
    ),
    "unit-not-a-mapping": edited(("  vme: {kind: vector, lanes: {float16: 16}, operation_pj: 0.5}", "  vme: 16")),
    "unit-with-a-key-of-the-other-kind": edited(("kind: vector, ", "kind: vector, m: 1, ")),
    "unit-name-with-spaces": edited(("  vme: {kind", "  my unit: {kind")),
    "rates-a-number": edited(("rates: {float16: 1, int8: 2}", "rates: 1")),
    "rate-of-zero": edited(("int8: 2}", "int8: 0}")),
    "rates-empty": edited(("rates: {float16: 1, int8: 2}", "rates: {}")),
    "matrix-unit-absurd": edited(("m: 1,", "m: 4096,"), ("k: 16,", "k: 4096,")),
    "bandwidth-too-small": edited(("bandwidth_bytes_per_cycle: 34", "bandwidth_bytes_per_cycle: 1e-9")),
    "bandwidth-infinite": edited(("bandwidth_bytes_per_cycle: 34", "bandwidth_bytes_per_cycle: .inf")),
    "exponent-absurd": edited((CLOCK, "clock: 1e999999999")),
    "digits-absurd": edited((CLOCK, f"clock: {'9' * 5000}")),
    "leading-zero": edited(("count: 2", "count: 02")),
    "bits-of-a-chip": edited((CLOCK, f"{CLOCK}\nbits: 8\nsum_bits: 32")),
    "sexagesimal": edited(("count: 2", "count: 1:30")),
    "key-written-twice": edited((SIZE, f"{SIZE}\n    {SIZE}")),
    "section-written-twice": BASE + UNITS,
    "key-not-a-word": edited(("burst_bytes: 64", "[1, 2]: 64")),
    "anchor": edited(("- name: ddr\n", "- name: &ddr ddr\n")),
    "alias": edited((GB, "  - *ddr\n")),
    "anchors-that-grow": "a: &a [x, x]\nb: &b [*a, *a]\nc: &c [*b, *b]\n",
    "merge-key": edited((SIZE, f"<<: {{{SIZE}}}")),
    "tag": edited(("name: base", "name: !!python/object/apply:os.system [ls]")),
    "nested-deeply": f"name: {'[' * 5000}",
    "syntax": edited(("{name: core, size: 3}", "{name: core, size: 3")),
    "tabs": edited(("    burst_bytes: 64", "\tburst_bytes: 64")),
    "unclosed-quote": edited(("name: base", 'name: "base')),
    "escape-beyond-unicode": edited(("name: base", 'name: "\\UFFFFFFFF"')),
    "control-character": edited(("name: base", "name: ba\x00se")),
    "two-documents": BASE + "---\n" + BASE,
    "empty": "",
    "a-list": "- 1\n- 2\n",
    "a-word": "toy\n",
    "only-a-name": "name: lonely\n",
}

# What is a machine, and none to compile for.
NOT_COMPILED: dict[str, str] = {
    "a-tree-without-a-clock": edited(
        (CLOCK + "\n", ""),
        (CORES + UNITS, "mac_pj: 1\n"),
        (DDR, DDR.replace("[core]", "[core, cluster]")),
        (BASE[BASE.index("link:") :], ""),
    ),
    "no-clock-nor-link": edited((CLOCK + "\n", ""), (BASE[BASE.index("link:") : BASE.index("setup:")], "")),
    "rates-inside-two-scratchpads": edited((LB, LB.replace("name: lb", "name: inner") + LB)),
    "cores-without-the-inner-scratchpad": edited(
        (LB, LB.replace("name: lb", "name: inner") + LB),
        ("{count: 2, matrix: mme, vector: vme}", "{count: 2, matrix: mme, vector: vme, memories: [lb, weights]}"),
        ("int8: 2", "int8: 1"),
    ),
    "two-shared-buffers": edited((GB, GB.replace("name: gb", "name: l2") + GB)),
    "a-buffer-for-inputs": edited((LB, LB + LB.replace("name: lb", "name: inputs").replace("[I, O]", "[I]"))),
    "weights-and-accumulators-without-lb": edited((LB, "")),
    "no-memory-for-weights": edited((WEIGHTS, "")),
    "shared-without-weights": edited((GB, GB.replace("[I, W, O]", "[I, O]"))),
    "ddr-of-some-clusters": edited(
        ("{name: cluster, size: 2}", "{name: cluster, size: 2}\n  - {name: board, size: 2}"),
        (DDR, DDR.replace("[core]", "[core, cluster]")),
    ),
    "several-ports": edited(
        (
            "    bandwidth_bytes_per_cycle: 34\n    burst_bytes: 64\n    read_pj_per_byte: 100\n"
            "    write_pj_per_byte: 101.5\n",
            "    read_pj: 1\n    write_pj: 1\n    ports: [{width_bits: 8}, {width_bits: 16}]\n",
        )
    ),
}

OLD = """\
name: old
description: Two cores as files once said it
clock_hz: 1_000_000_000
clusters: 2
cores: [{count: 2, vector: vme}, {count: 1, vector: vme}]
units:
  vme: {kind: vector, lanes: {float16: 16}, operation_pj: 0.5}
memories:
  ddr: {per: chip, size_bytes: 67108864}
  gb: {per: cluster, size_bytes: 524288}
  lb: {per: core, size_bytes: 65536}
  weights: {per: core, size_bytes: 8192}
"""


def refusal(text: str) -> str:
    with pytest.raises(InputError) as caught:
        parse_machine(text, "mine.yaml")
    return str(caught.value)


def test_the_text_that_the_wrong_files_start_from_is_a_machine():
    """Otherwise each refusal below could be about something else."""
    machine = parse_machine(BASE, "mine.yaml")
    assert [core.matrix is not None for core in machine.cores] == [True, True, False]
    assert [memory.level for memory in machine.memories] == list(Level)
    assert machine.granule_bytes == 4096
    unit = machine.cores[0].matrix
    assert unit is not None
    assert (unit.systolic, unit.overlapped_folds) == (False, True)


@pytest.mark.parametrize("case", SINGLE)
def test_a_mistake_is_told(case, golden):
    """Where, what was found, what would be right: one line for one mistake."""
    message = refusal(edited(SINGLE[case]))
    assert message.count("\n") == 0
    golden(f"machines/{case}.txt", message + "\n")


@pytest.mark.parametrize("case", WHOLE)
def test_a_wrong_file_is_told(case, golden):
    """Mistakes of form, of YAML and between fields; each line names the file."""
    message = refusal(WHOLE[case])
    assert all(line.startswith("mine.yaml: ") for line in message.splitlines())
    golden(f"machines/{case}.txt", message + "\n")


def test_what_lies_inside_a_local_buffer_is_for_the_mapping_of_tiles():
    """Cores that multiply have it; LB is the outermost, and no transfer of a program knows the inner one."""
    inner = LB.replace("name: lb", "name: inner").replace("64 KiB", "4 KiB")
    machine = parse_machine(edited((LB, inner + LB), ("int8: 2", "int8: 1")), "mine.yaml")
    flat = parse_machine(edited(("int8: 2", "int8: 1")), "mine.yaml")
    assert machine.memories == flat.memories
    assert [core.inside is not None for core in machine.cores] == [True, True, False]
    inside = machine.cores[0].inside
    assert inside is not None
    assert {memory.name: memory.size_bits for memory in inside.memories if "inner" in memory.name} == {"inner": 32768}
    assert [memory.name for memory in inside.chain("I")] == ["inner", "lb"]
    assert replace(machine.cores[2]) == flat.cores[2]
    assert all(core.inside is None for core in flat.cores)


def test_a_tree_has_every_memory_that_units_share():
    """Of a chip with two shared ones as well, which programs do not know."""
    tree = parse_tree(NOT_COMPILED["two-shared-buffers"], "mine.yaml")
    assert [memory.name for memory in tree.chain("I")] == ["lb", "l2", "gb", "ddr"]


@pytest.mark.parametrize("case", NOT_COMPILED)
def test_a_machine_that_compile_does_not_take_is_refused_in_one_sentence(case, golden):
    """It is a machine, of which map and show machine take the tree; what is missing is named."""
    parse_tree(NOT_COMPILED[case], "mine.yaml")
    message = refusal(NOT_COMPILED[case])
    assert message.count("\n") == 0
    golden(f"machines/not-compiled-{case}.txt", message + "\n")


def test_a_file_in_the_old_form_is_told_what_it_would_be_now(golden):
    """One error with the keys of today, from both loaders; a key of the old form alone is a mistake like others."""
    message = refusal(OLD)
    golden("machines/old-form.txt", message + "\n")
    with pytest.raises(InputError) as caught:
        parse_tree(OLD, "mine.yaml")
    assert str(caught.value) == message
    assert "unknown key; write clock" in refusal(BASE + "clock_hz: 1\n")


def test_every_mistake_of_a_file_is_told_at_once(golden):
    """A file with every single mistake gets the lines that each of them gets alone."""
    message = refusal(edited(*SINGLE.values()))
    assert sorted(message.splitlines()) == sorted(refusal(edited(edit)) for edit in SINGLE.values())
    golden("machines/all-at-once.txt", message + "\n")


def test_a_file_of_nothing_but_mistakes_is_told_briefly():
    """The message stays readable however long the file is."""
    lines = refusal("".join(f"key{number}: 1\n" for number in range(5000))).splitlines()
    assert len(lines) == 101
    assert lines[-1].endswith("more mistakes")


@pytest.mark.parametrize(
    "name, data",
    [
        ("not-utf-8", BASE.encode().replace(b"smallest", b"sm\xe4llest")),
        ("utf-16", BASE.encode("utf-16")),
        ("too-long", b"#" * (MAX_FILE_BYTES + 1)),
    ],
)
def test_a_file_that_is_no_text_is_told(name, data, golden, tmp_path, monkeypatch):
    """Bytes that are not UTF-8, or too many of them."""
    monkeypatch.chdir(tmp_path)
    Path("mine.yaml").write_bytes(data)
    with pytest.raises(InputError) as caught:
        load_machine("mine.yaml")
    golden(f"machines/{name}.txt", f"{caught.value}\n")


@pytest.mark.parametrize(
    "case, name",
    [
        ("unknown-preset", "stcp902"),
        ("unknown-file", "machines/mine.yaml"),
        ("folder", "."),
        ("nul-in-path", "a\0b"),
        ("no-name", ""),
    ],
)
def test_a_machine_that_is_not_there_is_told(case, name, golden, tmp_path, monkeypatch):
    """Neither a preset nor a readable file: the message lists the presets and says how to name a file."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError) as caught:
        load_machine(name)
    golden(f"machines/{case}.txt", f"{caught.value}\n")


def test_a_file_is_found_by_its_path(tmp_path, monkeypatch):
    """By a text or a `Path`; a `Path` is a file even when a preset has that name."""
    path = tmp_path / "toy"
    path.write_text(BASE, encoding="utf-8")
    assert load_machine(path) == load_machine(str(path)) == parse_machine(BASE, "base")
    monkeypatch.chdir(tmp_path)
    assert load_machine(Path("toy")).name == "base"
    assert load_machine("toy").name == "toy"


@pytest.mark.parametrize(
    "written, bandwidth",
    [
        ("29.875", Fraction(239, 8)),
        ('"239/8"', Fraction(239, 8)),
        ("239/8", Fraction(239, 8)),
        ("0.1", Fraction(1, 10)),
        ("3.4e1", Fraction(34)),
        ("1_024", Fraction(1024)),
        ("100/3", Fraction(100, 3)),
    ],
)
def test_a_bandwidth_is_exactly_what_is_written(written, bandwidth):
    """Decimals never pass through a binary float."""
    text = edited(("bandwidth_bytes_per_cycle: 34", f"bandwidth_bytes_per_cycle: {written}"))
    assert parse_machine(text, "mine.yaml").ddr.bandwidth_bytes_per_cycle == bandwidth


@pytest.mark.parametrize(
    "rate", ["12.8", "17.064", "19.2", "21.328", "25.6", "29.867", "34.1", "34.128", "51.2", "68.256"]
)
def test_usual_rates_of_dram_share_a_tick_with_powers_of_two(rate):
    """Gigabytes a second at 1 GHz."""
    text = edited(("bandwidth_bytes_per_cycle: 34", f"bandwidth_bytes_per_cycle: {rate}"))
    assert parse_machine(text, "mine.yaml").ddr.bandwidth_bytes_per_cycle == Fraction(rate)


def test_one_port_may_be_said_with_its_width_and_a_rate_a_second():
    """A burst is the least that the port moves; energies are those of its width."""
    said = edited(
        (
            "    bandwidth_bytes_per_cycle: 34\n    burst_bytes: 64\n    read_pj_per_byte: 100\n"
            "    write_pj_per_byte: 101.5\n",
            "    read_pj: 6400\n    write_pj: 6496\n    ports: [{width_bits: 512, bandwidth: 34 GB/s}]\n",
        )
    )
    assert parse_machine(said, "mine.yaml") == parse_machine(BASE, "mine.yaml")


def test_a_word_is_text_whatever_it_looks_like():
    """YAML's guesses about `no` and `920` are not taken."""
    assert parse_machine(edited(("name: base", "name: no")), "mine.yaml").name == "no"
    assert parse_machine(edited(("name: base", "name: 920")), "mine.yaml").name == "920"


def test_comments_line_ends_and_a_byte_order_mark_do_not_matter(tmp_path):
    """The same machine from a file as editors of other systems write it."""
    path = tmp_path / "windows.yaml"
    path.write_bytes(b"\xef\xbb\xbf# a comment\r\n" + BASE.replace("\n", "\r\n").encode())
    assert load_machine(path) == parse_machine(BASE, "mine.yaml")


def test_bandwidths_need_no_common_tick():
    """Any three that are positive; the simulator finds ticks for them."""
    text = edited(
        ("bandwidth_bytes_per_cycle: 34", "bandwidth_bytes_per_cycle: 33.33333333"),
        ("bandwidth_bytes_per_cycle: 256", 'bandwidth_bytes_per_cycle: "997/3"'),
        ("{bandwidth_bytes_per_cycle: 64", "{bandwidth_bytes_per_cycle: 1019"),
    )
    assert parse_machine(text, "mine.yaml").link.bandwidth_bytes_per_cycle == 1019


PIECES = sorted(set(re.findall(r"[^\s{}:,]+|[{}:,]|\n *", BASE))) + [
    "*a",
    "&a x",
    "'",
    '"',
    "[",
    "]",
    "!",
    "\t",
    "é",
    "~",
]


@given(st.lists(st.tuples(st.integers(0, len(BASE)), st.integers(0, 12), st.sampled_from(PIECES)), max_size=6))
def test_any_text_is_a_machine_or_told(edits):
    """Whatever is cut out of a file and put in, nothing but `InputError` leaves the reader."""
    text = BASE
    for start, length, piece in edits:
        text = text[:start] + piece + text[start + length :]
    message = ""
    try:
        page = describe(parse_machine(text, "mine.yaml"))
    except InputError as error:
        page, message = "", str(error)
    assert (page == "") != (message == "")
    assert all(line.startswith("mine.yaml: ") for line in message.splitlines())


# The numbers that somebody published, each with its source.
PUBLISHED = {
    "clock_hz": 10**9,  # hardware notes: 1.0 GHz
    "clusters": 4,  # Zhao et al., OSDI 2023, Fig. 1
    "cores": 8,  # Zhao et al., OSDI 2023, Fig. 1
    "macs_per_cycle": 2048,  # hardware notes: 64 x 32
    "int8_rate": 2,  # hardware notes: 256 TOPS beside 128 TFLOPS
    "vector_lanes": 64,  # hardware notes
    "ddr_sharing": Sharing.CLUSTER,  # hardware notes
    "ddr_bytes": 4 * 2**30,  # hardware notes
    "ddr_bytes_per_second": 136 * 10**9,  # CARRV'21 and Zhao et al., OSDI 2023, for the chip
    "gb_sharing": Sharing.CLUSTER,  # Zhao et al., OSDI 2023, Fig. 1
    "gb_bytes": 8 * 2**20,  # TensorTurbo manual; Zhao et al., OSDI 2023: 8 MB
    "gb_bytes_per_second": 256 * 10**9,  # vendor's table, per cluster
    "lb_bytes": 2**20,  # TensorTurbo manual: data-IO part of L1
    "lb_bytes_per_second": 512 * 10**9,  # hardware notes
    "weights_bytes": 2**18,  # TensorTurbo manual: weight part of L1
    "accumulators_bytes": 2**18,  # hardware notes: the IM buffer
    "link_bytes_per_second": 64 * 10**9,  # hardware notes: 512 bits a cycle
}


def published_facts(machine: Accelerator) -> dict[str, object]:
    core = machine.cores[0]
    assert core.matrix is not None
    facts: dict[str, object] = {
        "clock_hz": machine.clock_hz,
        "clusters": machine.clusters,
        "cores": len(machine.cores),
        "macs_per_cycle": core.matrix.m * core.matrix.k * core.matrix.n,
        "int8_rate": dict(core.matrix.rates)[DType.INT8],
        "vector_lanes": dict(core.vector.lanes)[DType.FLOAT16],
        "ddr_bytes_per_second": machine.ddr.bandwidth_bytes_per_cycle * machine.clock_hz * machine.clusters,
        "link_bytes_per_second": machine.link.bandwidth_bytes_per_cycle * machine.clock_hz,
    }
    for memory in machine.memories:
        facts[f"{memory.level}_bytes"] = memory.size_bytes
        facts.setdefault(f"{memory.level}_bytes_per_second", memory.bandwidth_bytes_per_cycle * machine.clock_hz)
        facts[f"{memory.level}_sharing"] = memory.sharing
    return {name: facts[name] for name in PUBLISHED}


def test_the_stcp920_has_the_published_numbers():
    """Every number of the preset that has a published source equals it."""
    assert published_facts(load_machine("stcp920")) == PUBLISHED


def test_the_paper_s_stcp920_differs_in_its_local_buffer_alone():
    """1.25 MiB a core, so that the eight cores of a cluster hold the 10 MiB that the paper's grouping needs."""
    chip, paper = load_machine("stcp920"), load_machine("stcp920-paper")
    local = next(memory for memory in paper.memories if memory.level is Level.LB)
    assert local.size_bytes * len(paper.cores) == 10 * 2**20
    memories = tuple(replace(local, size_bytes=2**20) if memory is local else memory for memory in paper.memories)
    assert replace(paper, name=chip.name, description=chip.description, memories=memories) == chip


def test_the_toy_is_small():
    """The sizes that examples and tests count on."""
    toy = load_machine("toy")
    assert (toy.clusters, len(toy.cores), toy.private_ddr) == (2, 2, True)
    sizes_kib = {str(memory.level): memory.size_bytes // 1024 for memory in toy.memories}
    assert sizes_kib == {"ddr": 65536, "gb": 512, "lb": 64, "weights": 8, "accumulators": 16}
    assert toy.ddr.bandwidth_bytes_per_cycle == 8


@pytest.mark.parametrize("name", chip_names())
def test_every_number_of_a_preset_has_a_source(name):
    """A comment beside the number names the publication, or says `assumed`."""
    text = files("tilestitch.hardware").joinpath("presets", f"{name}.yaml").read_text(encoding="utf-8")
    papers = r"[A-Z][a-z]+ et al\.|CARRV'21|Electronic Design|WikiChip"
    files_of_vendors = "manual|hardware notes|vendor's table|platform file|runtime header|released code"
    sources = re.compile(f"assumed|{papers}|{files_of_vendors}")
    for line in text.splitlines():
        value, _, comment = line.partition("#")
        if re.search(r"(?<![a-z])\d", value) and not value.startswith(("name", "description")):
            assert sources.search(comment), line


@pytest.mark.parametrize("name", chip_names())
def test_a_preset_is_described(name, golden):
    """One page; every number has its unit."""
    golden(f"machines/describe-{name}.txt", describe(load_machine(name)))


def test_a_machine_without_some_parts_is_described(golden):
    """One shared DDR, vector units only, cores that differ, a bandwidth that no decimal can write, a slow clock."""
    text = f"""\
name: odd
description: Two kinds of cores without matrix units
clock: 32768
axes: [{{name: core, size: 3}}]
cores: [{{count: 1, vector: wide}}, {{vector: narrow}}]
units:
  wide: {{kind: vector, lanes: {{float16: 4, float32: 2}}, operation_pj: 0}}
  narrow: {{kind: vector, lanes: {{float16: 1}}, operation_pj: 0}}
memories:
{DDR.replace("cycle: 34", "cycle: 100/3")}
link: {{bandwidth_bytes_per_cycle: 0.125, pj_per_byte: 0}}
setup: {{dma_cycles: 0, mover_cycles: 1, compute_cycles: 0, launch_cycles: 0}}
granule_bytes: 64
"""
    machine = parse_machine(text, "odd.yaml")
    assert not machine.private_ddr
    golden("machines/describe-odd.txt", describe(machine))


def matrix_unit(**changes: object) -> MatrixUnit:
    unit = MatrixUnit(
        name="mme",
        m=1,
        k=64,
        n=32,
        dataflow=Dataflow.WEIGHT_STATIONARY,
        systolic=False,
        overlapped_folds=True,
        rates=((DType.FLOAT16, Fraction(1)), (DType.FLOAT32, Fraction(1, 4)), (DType.INT8, Fraction(2))),
        mac_pj=0.075,
    )
    return replace(unit, **changes)  # pyright: ignore[reportArgumentType]


CUBE = {"m": 16, "k": 16, "n": 16, "dataflow": Dataflow.OUTPUT_STATIONARY}


@pytest.mark.parametrize(
    "changes, dtype, shape, groups, cycles",
    [
        ({}, DType.FLOAT16, (3136, 64, 64), 1, 2 * 3136),  # 1 x 2 folds, the rows hide the loading of weights
        ({}, DType.FLOAT16, (10, 64, 64), 1, 2 * 64),  # too few rows to hide 64 cycles of loading
        ({}, DType.FLOAT16, (100, 65, 33), 1, 4 * 100),  # one more than a fold in both
        ({}, DType.INT8, (3136, 64, 64), 1, 3136),  # twice the rate
        ({}, DType.INT8, (101, 64, 32), 1, 51),  # and the half cycle is rounded up
        ({}, DType.FLOAT32, (100, 64, 32), 1, 400),  # a quarter of the rate
        ({}, DType.FLOAT16, (100, 9, 1), 32, 32 * 100),  # depthwise: a fold per group
        ({"overlapped_folds": False}, DType.FLOAT16, (10, 64, 64), 1, 2 * (10 + 64)),
        ({"systolic": True}, DType.FLOAT16, (10, 64, 64), 1, 2 * 64 + 64 + 32 - 1),  # one fill and drain
        ({"systolic": True}, DType.INT8, (10, 64, 64), 1, 112),  # (128 + 95) / 2, rounded up
        ({"systolic": True}, DType.FLOAT16, (100, 9, 1), 32, 32 * 100 + 95),  # once for all groups
        (CUBE, DType.FLOAT16, (100, 100, 100), 1, 7 * 7 * 7),
        (CUBE, DType.FLOAT16, (1, 1, 1), 1, 1),
        (CUBE | {"overlapped_folds": False}, DType.FLOAT16, (100, 100, 100), 1, 7 * 7 * (7 + 1)),
    ],
)
def test_the_time_of_a_tile_on_a_matrix_unit(changes, dtype, shape, groups, cycles):
    """Cases computed by hand from the formula's words."""
    m, k, n = shape
    assert matrix_tile_cycles(matrix_unit(**changes), dtype, m=m, k=k, n=n, groups=groups) == cycles


def test_a_matrix_unit_refuses_a_type_that_it_cannot_multiply():
    """No rate is not the rate of another type."""
    with pytest.raises(KeyError, match="mme has no rate for int32"):
        matrix_tile_cycles(matrix_unit(), DType.INT32, m=1, k=1, n=1)


@pytest.mark.parametrize(
    "dtype, operations, cycles",
    [(DType.FLOAT16, 64, 1), (DType.FLOAT16, 65, 2), (DType.FLOAT16, 0, 0), (DType.INT8, 65, 1), (DType.INT32, 65, 2)],
)
def test_the_time_of_operations_on_a_vector_unit(dtype, operations, cycles):
    """Lanes at a time; a type without lanes of its own runs as float16."""
    unit = VectorUnit("vme", ((DType.FLOAT16, 64), (DType.INT8, 128)), 1.0)
    assert vector_tile_cycles(unit, dtype, operations=operations) == cycles


extents = st.integers(1, 300)
matrix_units = st.builds(
    matrix_unit,
    m=st.integers(1, 16),
    k=st.integers(1, 64),
    n=st.integers(1, 64),
    dataflow=st.sampled_from(Dataflow),
    systolic=st.booleans(),
    overlapped_folds=st.booleans(),
)
types = st.sampled_from((DType.FLOAT16, DType.FLOAT32, DType.INT8))


@given(matrix_units, types, st.tuples(extents, extents, extents, extents), st.tuples(*[st.integers(0, 50)] * 4))
def test_a_larger_product_never_takes_less_time(unit, dtype, shape, more):
    """Monotone in m, k, n and in the number of groups."""
    m, k, n, groups = shape
    dm, dk, dn, dgroups = more
    small = matrix_tile_cycles(unit, dtype, m=m, k=k, n=n, groups=groups)
    assert small <= matrix_tile_cycles(unit, dtype, m=m + dm, k=k + dk, n=n + dn, groups=groups + dgroups)


@given(matrix_units, types, st.tuples(extents, extents, extents, extents))
def test_no_product_beats_the_peak(unit, dtype, shape):
    """Never faster than every multiplier busy in every cycle; groups together never slower than one by one."""
    m, k, n, groups = shape
    cycles = matrix_tile_cycles(unit, dtype, m=m, k=k, n=n, groups=groups)
    assert cycles * unit.m * unit.k * unit.n * dict(unit.rates)[dtype] >= groups * m * k * n
    assert cycles <= groups * matrix_tile_cycles(unit, dtype, m=m, k=k, n=n)


@given(matrix_units, st.tuples(extents, extents, extents))
def test_overlap_and_rate_never_cost_time(unit, shape):
    """Overlapping folds and a higher rate can only help; so can not being systolic."""
    m, k, n = shape

    def cycles(other: MatrixUnit, dtype: DType = DType.FLOAT16) -> int:
        return matrix_tile_cycles(other, dtype, m=m, k=k, n=n)

    assert cycles(replace(unit, overlapped_folds=True)) <= cycles(unit) <= cycles(replace(unit, overlapped_folds=False))
    assert cycles(unit, DType.INT8) <= cycles(unit) <= cycles(unit, DType.FLOAT32)
    assert cycles(replace(unit, systolic=False)) <= cycles(unit)


@given(st.integers(0, 10**6), st.integers(0, 10**6))
def test_more_operations_never_take_less_time(operations, more):
    """Monotone, and splitting work in two costs at most one cycle."""
    unit = VectorUnit("vme", ((DType.FLOAT16, 64),), 1.0)

    def cycles(count: int) -> int:
        return vector_tile_cycles(unit, DType.FLOAT16, operations=count)

    assert cycles(operations) <= cycles(operations + more) <= cycles(operations) + cycles(more)
    assert cycles(operations) + cycles(more) <= cycles(operations + more) + 1
