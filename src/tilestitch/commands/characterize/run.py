"""The study of a machine, as it shows itself."""

from dataclasses import dataclass

from tilestitch.api import Machine, machine_of
from tilestitch.base.html import Record
from tilestitch.base.shown import Shown, as_kind
from tilestitch.commands.characterize.characterize_text import ORIGIN, study_json, study_text
from tilestitch.commands.characterize.study import Study, study_of
from tilestitch.partition.blocks.synthetic import GRID
from tilestitch.report.svg import curve_svg


@dataclass(frozen=True, slots=True, repr=False)
class Characterization(Study, Shown):
    """A study with its page, its curves as pictures and its JSON; every figure is estimated."""

    def __str__(self) -> str:
        return study_text(self)

    def to_json(self) -> str:
        """What `tilestitch characterize --json` writes."""
        return study_json(self)

    def heading(self) -> str:
        """The machine, and how many layers."""
        return f"{self.machine}: {len(GRID)} synthetic convolutions, estimated"

    def records(self) -> tuple[Record, ...]:
        """Every layer of the grid, with its time on each number of cores."""
        counts = self.model.core_counts
        return tuple(
            {
                "rows": layer.extent,
                "channels": layer.channels,
                "kernel": layer.kernel,
                "operations": layer.operations,
                **{f"time_ps_on_{cores}": int(time) for cores, time in zip(counts, times, strict=True)},
                "best_cores": best,
            }
            for layer, times, best in zip(GRID, self.times, self.best_cores, strict=True)
        )

    def pictures(self) -> tuple[str, ...]:
        """A picture of every curve."""
        return tuple(curve_svg(curve, self.machine, origin=ORIGIN) for curve in self.curves)


def characterize(machine: Machine = "mlu100") -> Characterization:
    """Estimate how synthetic layers run on a machine, alone and fused, by the block model of DLFusion.

    Raises `InputError` where the machine has no block model.
    """
    return as_kind(Characterization, study_of(machine_of(machine)))
