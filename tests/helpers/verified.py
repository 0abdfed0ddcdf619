"""Networks of the zoo, compiled and compared with onnxruntime."""

from functools import cache, lru_cache

import onnx

from tilestitch import zoo
from tilestitch.hardware.accelerator import Accelerator
from tilestitch.hardware.load import load_machine
from tilestitch.hardware.preset_files import chip_names
from tilestitch.ir.report import Report
from tilestitch.pipeline.compile import References, compile_network
from tilestitch.pipeline.options import Options
from tilestitch.pipeline.strategies import strategy_named

ZOO = tuple(entry.name_for("16") for entry in zoo.ENTRIES)
RUNNING = chip_names()
REFERENCES: dict[str, References] = {}


@cache
def machine_named(name: str) -> Accelerator:
    """The preset of that name; reading it takes longer than compiling a small network for it."""
    return load_machine(name)


@lru_cache(maxsize=2)  # some are larger than a gigabyte
def model(name: str, small: bool) -> onnx.ModelProto:
    return zoo.build(name, small=small)


def compiled(name: str, machine: str, strategy: str, batch: int, *, small: bool = True, **options: object) -> Report:
    """The report of a verified compilation; of small networks, strategies and machines share the expected outputs."""
    done = compile_network(
        model(name, small),
        name,
        machine_named(machine),
        strategy_named(strategy),
        Options(batch=batch, verify=True, **options),  # pyright: ignore[reportArgumentType]
        references=REFERENCES.setdefault(name, {}) if small else {},
    )
    assert done.report is not None
    return done.report


def assert_sound(report: Report) -> None:
    """Verified, and no number under its lower bound."""
    assert report.verified, report.checks
    assert report.latency_cycles >= report.bound_cycles
    assert report.ddr_bytes >= report.compulsory_bytes
