"""A tree of memories as a machine to compile for: what its memories are for, and which trees are refused."""

import pytest

from tests.helpers.five_levels import FIVE_LEVELS
from tilestitch.base.dtypes import DType
from tilestitch.base.errors import InputError
from tilestitch.hardware.accelerator import Level, Link
from tilestitch.hardware.load import load_machine, parse_machine
from tilestitch.hardware.tree_chip import roles_of
from tilestitch.hardware.tree_load import load_tree, parse_tree

KIB, MIB = 2**10, 2**20

# Cores, and bytes of the memories that strategies speak of, by hand from the files.
CHIPS = {
    "gemmini": (1, {Level.LB: 256 * KIB, Level.ACCUMULATORS: 64 * KIB}),
    "nvdla": (1, {Level.LB: 512 * KIB, Level.ACCUMULATORS: 4 * KIB}),
    "simba": (36, {Level.LB: 64 * KIB, Level.WEIGHTS: 16 * 32 * KIB, Level.ACCUMULATORS: 16 * 3 * KIB}),
    "a100": (108, {Level.GB: 40 * MIB, Level.LB: 164 * KIB, Level.ACCUMULATORS: 4 * 64 * KIB}),
    "h200": (132, {Level.GB: 50_000_000, Level.LB: 228 * KIB, Level.ACCUMULATORS: 4 * 64 * KIB}),
    "tpu-v4i": (4, {Level.GB: 128 * MIB, Level.LB: 4 * MIB}),
}


@pytest.mark.parametrize("name", CHIPS)
def test_a_preset_becomes_cores_with_a_local_buffer_each(name: str) -> None:
    """And every unit is in one of them: the peak is that of all units."""
    machine, tree = load_machine(name), load_tree(name)
    cores, sizes = CHIPS[name]
    assert (machine.clusters, len(machine.cores)) == (1, cores)
    assert {one.level: one.size_bytes for one in machine.memories if one.level is not Level.DDR} == sizes
    units = [core.matrix for core in machine.cores if core.matrix is not None]
    assert sum(unit.m * unit.k * unit.n for unit in units) == tree.units


def test_five_levels_have_gb_outermost_lb_inside_it_and_the_others_in_the_mapping() -> None:
    """The sums of both arrays of a core are its accumulators."""
    tree, machine = parse_tree(FIVE_LEVELS, "five.yaml"), parse_machine(FIVE_LEVELS, "five.yaml")
    roles = roles_of(tree)
    assert roles.gb is not None
    assert (roles.ddr.name, roles.gb.name, roles.lb.name, roles.cores) == ("dram", "shared", "local", 4)
    inside = machine.cores[0].inside
    assert inside is not None
    assert [one.name for one in inside.memories] == ["registers", "sums", "buffer", "local"]
    accumulators = machine.memory(Level.ACCUMULATORS)
    assert accumulators is not None
    assert accumulators.size_bytes == 2 * 4 * KIB
    assert machine.link == Link(machine.memory(Level.LB).bandwidth_bytes_per_cycle, 0)  # pyright: ignore[reportOptionalMemberAccess]


@pytest.mark.parametrize(("name", "lanes"), [("gemmini", 16), ("nvdla", 32), ("h200", 128), ("tpu-v4i", 160)])
def test_what_is_no_product_takes_the_sums_that_can_be_read_in_a_cycle(name: str, lanes: int) -> None:
    """16 rows of 32 bits, 32 of them, four times 32, and 640 bytes."""
    vector = load_machine(name).cores[0].vector
    assert vector is not None
    assert vector.lanes == ((DType.FLOAT16, lanes),)


def test_dma_engines_are_those_that_the_file_says() -> None:
    """Between DRAM and the memory that cores share; else cores load for themselves, whatever is between."""
    loads = "dma:\n  - {name: loads, joins: [dram, shared], setup_cycles: 30, bandwidth: 8 B/cycle}\n"
    without, with_engine = (parse_machine(text, "five.yaml") for text in (FIVE_LEVELS, FIVE_LEVELS + loads))
    assert not without.has_dma
    assert with_engine.has_dma
    assert (without.setup.dma_cycles, with_engine.setup.dma_cycles) == (0, 30)
    assert load_machine("toy").has_dma


def test_an_engine_that_loads_gb_limits_ddr_and_not_what_cores_load() -> None:
    """All that comes from DDR passes it, and nothing that goes from GB to a core; so does one that loads a core."""
    outer = "dma:\n  - {name: outer, joins: [dram, shared], count: 2, bandwidth: 2 B/cycle}\n"
    inner = "  - {name: inner, joins: [shared, local], bandwidth: 3 B/cycle}\n"
    plain, machine = (parse_machine(text, "five.yaml") for text in (FIVE_LEVELS, FIVE_LEVELS + outer + inner))
    assert machine.ddr.bandwidth_bytes_per_cycle == 4 < plain.ddr.bandwidth_bytes_per_cycle
    gb, before = machine.memory(Level.GB), plain.memory(Level.GB)
    assert gb is not None
    assert before is not None
    assert gb.bandwidth_bytes_per_cycle == before.bandwidth_bytes_per_cycle == 64
    lb = machine.local(machine.cores[0], Level.LB)
    assert lb is not None
    assert lb.bandwidth_bytes_per_cycle == 3


@pytest.mark.parametrize("has_engine", [True, False])
def test_a_network_of_a_stated_bandwidth_carries_all_that_passes(has_engine: bool) -> None:
    """Memories that cores load from are no faster than it, as for `map`: DDR too, where no engine loads GB."""
    loads = "dma:\n  - {name: loads, joins: [dram, shared], bandwidth: 8 B/cycle}\n" if has_engine else ""
    networks = "networks: [{operands: [I, W, O], bandwidth: 0.5 GB/s}]"
    text = FIVE_LEVELS + loads
    slow = text.replace("{name: core, size: 4}", f"{{name: core, size: 4, {networks}}}")
    assert slow != text
    machine, fast = (parse_machine(one, "five.yaml") for one in (slow, text))
    gb = machine.memory(Level.GB)
    assert gb is not None
    assert (gb.bandwidth_bytes_per_cycle, machine.link.bandwidth_bytes_per_cycle) == (0.5, 0.5)
    assert machine.ddr.bandwidth_bytes_per_cycle == (fast.ddr.bandwidth_bytes_per_cycle if has_engine else 0.5)


def test_what_is_missing_of_a_tree_is_said() -> None:
    """A clock, a shared memory for inputs, and not more cores than programs have."""
    for old, new, said in (
        ("clock: 1 GHz\n", "", "it says no clock"),
        ("{name: core, size: 4}", "{name: core, size: 5000}", "it has 5,000 of local, each with a core; at most 4,096"),
        ("operands: [I, W, O], serves", "operands: [I, X, O], serves", "two inputs and a result are known"),
        ("local, size: 64 KiB", "local, size: 7 b", "local holds 7 bits, and programs place whole bytes"),
    ):
        with pytest.raises(InputError, match=said):
            parse_machine(FIVE_LEVELS.replace(old, new), "five.yaml")
    with pytest.raises(InputError, match="no memory inside l1 that several units share keeps I1"):
        load_machine("gemm-l1")
