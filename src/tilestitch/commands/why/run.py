"""Why a network is not faster: the gap between its latency and its bound, taken apart."""

from dataclasses import dataclass, replace

from tilestitch.api import Machine, Model, compile, expect_count
from tilestitch.base.errors import InputError
from tilestitch.base.html import Record
from tilestitch.base.progress import Progress
from tilestitch.base.shown import Shown, as_kind
from tilestitch.commands.why.explain import Explanation, explanation
from tilestitch.commands.why.why_json import why_json
from tilestitch.commands.why.why_text import why_text
from tilestitch.ir.by_hand import FusionPlan, HandSchedule
from tilestitch.ir.choices import Stage
from tilestitch.pipeline.compilation import Compilation
from tilestitch.pipeline.options import Options

TOP = 5


@dataclass(frozen=True, repr=False)
class Why(Explanation, Shown):
    """A gap with its parts; `blame` gives those of anything else of the run."""

    def __str__(self) -> str:
        return why_text(self)

    def to_json(self) -> str:
        """What `tilestitch why --json` writes."""
        return why_json(self)

    def heading(self) -> str:
        """Network, machine, strategy, and the gap."""
        report = self.report
        return f"{report.network} on {report.machine}, strategy {report.strategy}: {self.gap.heading()}"

    def records(self) -> tuple[Record, ...]:
        """Every part."""
        return self.gap.records()


def why(
    model: Model | Compilation,
    machine: Machine | None = None,
    *,
    strategy: str | HandSchedule | FusionPlan = "auto",
    select: str = "",
    top: int = TOP,
    batch: int | None = None,
    options: Options = Options(),
    progress: Progress | None = None,
) -> Why:
    """Take the gap between a network's latency and its bound apart, into what it waits for.

    A model may also be what `compile` gave; then nothing else says how to compile it. `select` is one of
    "operator=NAME", "kernel=NAME", "piece=NAME", "sub-graph=NAME" and "cycles=FIRST:LAST", and nothing for the whole
    run. Of what is heaviest and longest, the `top` ones are listed. Raises as `compile` does, and `InputError` where
    there is nothing like `select`.
    """
    expect_count("top", top)
    if isinstance(model, Compilation):
        if machine is not None or strategy != "auto" or batch is not None or options != Options():
            raise InputError("why: a compilation already has its machine, strategy and options; leave them out")
        done = model
    else:
        done = compile(
            model,
            machine,
            strategy=strategy,
            batch=batch,
            options=replace(options, stop_after=Stage.SIMULATE),
            progress=progress,
        )
    if done.report is None:
        raise InputError(f"{done.loaded.name}: was not simulated; compile it without stop_after")
    if done.report.batches > 1:
        raise InputError(f"batches: the gap is computed for one batch, found {done.report.batches}; leave it out")
    if progress is not None:
        progress("explain", 0, 1)
    return as_kind(Why, explanation(done, select, top))
