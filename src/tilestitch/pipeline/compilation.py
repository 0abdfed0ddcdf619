"""What a compilation gives: the value of every stage."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from tilestitch.base.errors import InputError
from tilestitch.base.html import Record
from tilestitch.base.shown import Shown
from tilestitch.hardware.accelerator import Accelerator
from tilestitch.ir.choices import Stage
from tilestitch.ir.graph import Graph
from tilestitch.ir.partition import Partition
from tilestitch.ir.program import Program
from tilestitch.ir.run import Run
from tilestitch.ir.samples import OutputSamples, TensorSamples
from tilestitch.ir.schedule import Schedule
from tilestitch.ir.searched import Searched
from tilestitch.ir.trace import Trace
from tilestitch.pipeline.options import Options
from tilestitch.report.decided_json import decisions, operator_rows
from tilestitch.report.page import ReportPage
from tilestitch.report.report_json import report_json
from tilestitch.report.report_text import trace_text
from tilestitch.report.schedule_text import schedule_text
from tilestitch.report.totals import one_batch

if TYPE_CHECKING:
    from tilestitch.report.html.contents import SimulatedRun

_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True)
class Way:
    """Whose rules a schedule follows: those of a strategy, which may leave its sub-graphs whole."""

    strategy: str
    whole: bool = False


@dataclass(frozen=True, repr=False)
class Compilation(Shown):
    """The values after every stage that was reached; those after it are None."""

    machine: Accelerator
    options: Options
    run: Run  # how the samples are divided
    way: Way
    loaded: Graph
    simplified: Graph | None = None
    graph: Graph | None = None  # views composed away; what is partitioned
    partition: Partition | None = None
    schedule: Schedule | None = None
    program: Program | None = None
    reordered: str | None = None  # what another order of the instructions brought; "" where none was faster
    trace: Trace | None = None
    report: ReportPage | None = None
    samples: tuple[OutputSamples, ...] = ()  # of what was verified
    passed_on: tuple[TensorSamples, ...] = ()  # results between operators, likewise
    searched: Searched | None = None  # where `best` made the schedule

    def up_to(self, last: Stage) -> "Compilation":
        """Without the values of the stages after `last`."""
        kept = list(Stage)[: list(Stage).index(last) + 1]
        return replace(
            self,
            simplified=self.simplified if Stage.SIMPLIFY in kept else None,
            graph=self.graph if Stage.PARTITION in kept else None,
            partition=self.partition if Stage.PARTITION in kept else None,
            schedule=self.schedule if Stage.SCHEDULE in kept else None,
            program=self.program if Stage.LOWER in kept else None,
            reordered=self.reordered if Stage.LOWER in kept else None,
            trace=self.trace if Stage.SIMULATE in kept else None,
        )

    def texts(self, *, limit: int | None = None) -> list[tuple[str, str]]:
        """What each stage that was reached ended with, by its name; `limit` instructions of a program and its trace."""
        found = [(Stage.LOAD.value, str(self.loaded))]
        if self.simplified is not None:
            found.append((Stage.SIMPLIFY.value, str(self.simplified)))
        if self.partition is not None:
            found.append((Stage.PARTITION.value, str(self.partition)))
        if self.schedule is not None:
            found.append((Stage.SCHEDULE.value, schedule_text(self.schedule, self.machine, limit=limit)))
        if self.program is not None:
            found.append((Stage.LOWER.value, self.program.text(limit=limit)))
        if self.trace is not None:
            found.append((Stage.SIMULATE.value, trace_text(self.trace, limit=limit)))
        if self.report is not None:
            found.append(("report", self.report.page().removesuffix("\n")))
        return found

    def __str__(self) -> str:
        """The report as a page, or else what the last stage ended with."""
        return self.texts(limit=100)[-1][1]

    def heading(self) -> str:
        """That of the report, or which stage was the last."""
        if self.report is not None:
            return self.report.heading()
        last = self.texts(limit=0)[-1][0]
        return f"{self.loaded.name} on {self.machine.name}, strategy {self.way.strategy}: up to {last}"

    def records(self) -> tuple[Record, ...]:
        """The kernels of the report, or of the schedule; the operators where there is neither."""
        for value in (self.report, self.schedule, self.graph, self.simplified):
            if value is not None:
                return value.records()
        return self.loaded.records()

    def to_json(self) -> str:
        """What `tilestitch compile --json` writes of the report; a stage before it has `stage_text`."""
        if self.report is None:
            raise InputError(
                f"{self.loaded.name}: was not simulated, so it has no report; compile it without stop_after, or take "
                "tilestitch.stage_text(done, stage)"
            )
        schedule = given(self.schedule)
        batch = one_batch(schedule, given(self.trace), self.machine, self.report.iterations)
        return report_json(self.report, {"operators": operator_rows(schedule, batch), "decisions": decisions(schedule)})

    def to_html(self, command: str = "") -> str:
        """What `tilestitch compile --html` writes: a page to look at; `command` is said to make it again."""
        from tilestitch.pipeline.origin import call_text, origin_of
        from tilestitch.report.html.page import run_page

        if not command:
            command = call_text("compile", self.loaded.name, self.machine.name, [self.run.strategy], self.options)
        return run_page([self.simulated_run()], origin_of(self.options, command))

    def simulated_run(self) -> "SimulatedRun":
        """What a page draws; raises `InputError` where nothing was simulated."""
        if self.report is None or self.schedule is None or self.trace is None:
            raise InputError(f"{self.loaded.name}: was not simulated, so it has no page; compile it without stop_after")
        from tilestitch.pipeline.waiting import blame_of, idle_of
        from tilestitch.report.html.contents import SimulatedRun

        blame = None
        if self.report.batches == 1:
            blame = blame_of(self.report, self.schedule, self.trace, self.machine)
        idle = idle_of(self.schedule, self.trace, self.machine)
        return SimulatedRun(
            self.report, self.schedule, self.trace, self.machine, blame, idle, self.samples, self.passed_on
        )


def given(value: _Value | None) -> _Value:
    """The value of a stage that was reached."""
    assert value is not None, "the stage that gives this value was not reached"
    return value
