"""Whether executions fit the memory of this computer, asked before one starts."""

from tilestitch.base.errors import InputError
from tilestitch.base.memory import available_bytes
from tilestitch.base.units import format_bytes
from tilestitch.ir.program import Program
from tilestitch.sim.chip.execute import memory_bytes


def fits_side_by_side(program: Program) -> bool:
    """Whether both executions fit at once; raises `InputError` where the float32 one does not even fit alone."""
    available, wide, narrow = available_bytes(), *(sum(memory_bytes(program, wide=wide)) for wide in (True, False))
    if available is None or wide + narrow <= available:
        return True
    if wide > available:
        raise InputError(
            f"{program.graph.name}: its execution takes {format_bytes(wide)} for the memories of a cluster, and "
            f"{format_bytes(available)} of this computer's memory are available; leave out --verify, or use "
            "another computer"
        )
    return False
