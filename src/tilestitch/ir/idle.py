"""When engines had nothing to do, and what they waited for."""

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from tilestitch.base.shown import Brief
from tilestitch.ir.program import Program


class Cause(StrEnum):
    """Why an engine is idle."""

    LOAD = "load"  # something comes closer to where it is needed
    STORE = "store"  # something goes towards GB or DDR, and is needed there
    ENGINE = "engine"  # another engine computes
    PORT = "port"  # a transfer takes most of its time to wait for its turn at a port
    ROOM = "room"  # memory is still in use
    LAUNCH = "launch"  # a kernel starts
    DONE = "done"  # nothing is left to do for this engine


CAUSES = tuple(Cause)


@dataclass(frozen=True, repr=False)
class Idle(Brief):
    """Every idle time of every engine, cut where what it waited for changes; by engine, then by time.

    `waiting` is the instruction that the engine executes next, -1 behind its last one. `waited_for` is what ran
    meanwhile and had to end first: `follower` waited for it, then another one for `follower`, and so on to `waiting`.
    Behind the last instruction `waited_for` is what the end of the program waited for.
    """

    program: Program
    engine: np.ndarray  # int64: number in `Program.engines`
    begin_ticks: np.ndarray  # int64
    end_ticks: np.ndarray  # int64
    waiting: np.ndarray  # int64: an instruction, or -1
    waited_for: np.ndarray  # int64: an instruction
    follower: np.ndarray  # int64: an instruction, or -1 for the end of the program
    cause: np.ndarray  # int8: number in `CAUSES`

    def __len__(self) -> int:
        return len(self.engine)
