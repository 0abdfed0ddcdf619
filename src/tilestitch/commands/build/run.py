"""A network scheduled for a GPU, as Triton kernels in files."""

import io
import json
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from tilestitch import api
from tilestitch.backends.triton.launch import Limits
from tilestitch.backends.triton.module_text import again_text, module_text
from tilestitch.backends.triton.plan import Plan, plan
from tilestitch.backends.triton.runner_text import runner_text, weight_names
from tilestitch.base.dtypes import FLOAT16_MAX, DType
from tilestitch.base.errors import DoesNotFit, InputError
from tilestitch.base.html import Record
from tilestitch.base.progress import Progress, quiet
from tilestitch.base.shown import Shown
from tilestitch.base.units import counted
from tilestitch.hardware.accelerator import Accelerator
from tilestitch.ir.by_hand import FusionPlan, HandSchedule
from tilestitch.ir.choices import Stage
from tilestitch.lower.program import expect_room_in_ddr
from tilestitch.pipeline.compilation import Compilation
from tilestitch.pipeline.options import Options

BACKENDS = ("triton",)
DTYPES = ("float16", "float32")
FUSE = ("fast", "all", "none")
CORE_AXIS = "tensor-core"  # which the trees of GPUs have inside a core


@dataclass(frozen=True, repr=False)
class Built(Shown):
    """Kernels for a network, and the files that hold them."""

    compiled: Compilation
    plan: Plan
    files: Mapping[str, bytes]  # by name

    def heading(self) -> str:
        """How many kernels there are."""
        schedule = self.plan.schedule
        launches = [one for module in self.plan.modules for one in module.launches]
        fused = sum(one.form in ("fused products", "attention") for one in launches)
        return (
            f"{schedule.graph.name} by {schedule.strategy} on {self.compiled.machine.name}: "
            f"{counted(len(schedule.kernels), 'kernel')} of the schedule, {counted(len(launches), 'Triton kernel')} "
            f"in {counted(len(self.plan.modules), 'module')}, {fused} of them fused products"
        )

    def records(self) -> tuple[Record, ...]:
        """Every kernel."""
        return tuple(
            {
                "module": module.name,
                "kernel": one.name,
                "operators": " + ".join(one.operators),
                "form": one.form,
                "programs": one.programs,
                "most computed": one.again,
            }
            for module in self.plan.modules
            for one in module.launches
        )

    def __str__(self) -> str:
        """What each kernel does, what stays apart with the reason, and what the schedule says of itself."""
        lines = [self.heading(), *(f"  {note}" for note in self.plan.schedule.notes)]
        for module in self.plan.modules:
            lines.append(f"  {module.name}.py")
            for one in module.launches:
                lines.append(f"    {' + '.join(one.operators)} ({one.form}{again_text(one, ', ')})")
            lines += [f"    {note}" for note in module.notes]
        return "\n".join(lines)

    def to_json(self) -> str:
        """Modules with their kernels and notes."""
        modules = [
            {
                "module": module.name,
                "notes": list(module.notes),
                "kernels": [
                    {
                        "name": one.name,
                        "operators": list(one.operators),
                        "form": one.form,
                        "schedule_kernels": list(draft.kernels),
                        "programs": one.programs,
                        "blocks": dict(one.blocks),
                        "most_computed": {"product": one.most, "times": one.again},
                    }
                    for one, draft in zip(module.launches, module.drafts, strict=True)
                ],
            }
            for module in self.plan.modules
        ]
        schedule = self.plan.schedule
        found = {
            "network": schedule.graph.name,
            "machine": self.compiled.machine.name,
            "strategy": schedule.strategy,
            "notes": list(schedule.notes),
            "batch": schedule.batch * schedule.iterations,
            "modules": modules,
        }
        return json.dumps(found, indent=2, allow_nan=False) + "\n"


@dataclass(frozen=True, slots=True)
class KernelOptions:
    """What a user may choose of the kernels.

    `fuse` says which kernels of the schedule become one: "fast" those that were measured to be faster so, "all"
    whatever fits, "none" none.
    """

    backend: str = "triton"
    dtype: str = "float16"  # in which floating tensors are stored, or "float32"; sums are float32
    fuse: str = "fast"
    limits: Limits | None = None  # of the blocks of a kernel; None: as many programs as the machine has cores


def build(
    model: api.Model,
    machine: api.Machine = "h200",
    *,
    strategy: str | HandSchedule | FusionPlan = "auto",
    batch: int | None = None,
    kernels: KernelOptions = KernelOptions(),
    options: Options = Options(),
    progress: Progress | None = None,
) -> Built:
    """Schedule a network for a GPU, and write the schedule as kernels; `options` are those of `compile`.

    Raises `InputError` for a machine that is no GPU and for an operator that the back end does not have.
    """
    if kernels.backend not in BACKENDS:
        raise InputError(f"backend: expected one of {', '.join(BACKENDS)}, found {kernels.backend!r}")
    if kernels.dtype not in DTYPES:
        raise InputError(f"dtype: expected one of {', '.join(DTYPES)}, found {kernels.dtype!r}")
    if kernels.fuse not in FUSE:
        raise InputError(f"fuse: expected one of {', '.join(FUSE)}, found {kernels.fuse!r}")
    target = api.machine_of(machine)
    expect_gpu(target)
    # What comes after scheduling is not needed here; a strategy that compares its schedules simulates them itself.
    asked = replace(options, stop_after=Stage.SCHEDULE, verify=False, batch=options.batch if batch is None else batch)
    compiled = _scheduled(model, target, strategy, asked, progress)
    (progress or quiet)("build", 0, 1)
    return kernels_of(compiled, kernels)


def _scheduled(
    model: api.Model,
    machine: Accelerator,
    strategy: str | HandSchedule | FusionPlan,
    options: Options,
    progress: Progress | None,
) -> Compilation:
    """A schedule; one whose program is too long to be simulated is taken as it is, without comparing it with others."""
    try:
        return api.compile(model, machine, strategy=strategy, options=options, progress=progress)
    except DoesNotFit:
        if options.batch_per_cluster != Options().batch_per_cluster or machine.clusters > 1:
            raise
        one = replace(options, batch_per_cluster=options.batch or 1)
        try:
            found = api.compile(model, machine, strategy=strategy, options=one, progress=progress)
            assert found.schedule is not None
            expect_room_in_ddr(found.schedule, machine)
        except (DoesNotFit, InputError):
            found = None
        if found is None:
            raise
    assert found.schedule is not None
    note = "All samples are one iteration; no other batch was compared, since the program is too long to be simulated."
    return replace(found, schedule=replace(found.schedule, notes=(*found.schedule.notes, note)))


def kernels_of(compiled: Compilation, kernels: KernelOptions) -> Built:
    """Kernels for a schedule that was made for a GPU."""
    assert compiled.schedule is not None
    programs = len(compiled.machine.cores)
    limits = kernels.limits or (Limits.of_all(programs) if kernels.fuse == "all" else Limits(programs=programs))
    found = plan(compiled.schedule, DType(kernels.dtype), limits, fuse=kernels.fuse != "none")
    return Built(compiled, found, _files(found))


def expect_gpu(machine: Accelerator) -> None:
    """Refuse a machine whose cores are no streaming multiprocessors."""
    trees = [core.inside for core in machine.cores if core.inside is not None]
    if not trees or not any(axis.name == CORE_AXIS for tree in trees for axis in tree.axes):
        raise InputError(
            f"{machine.name}: is no GPU, for which Triton kernels could be written; "
            f"expected a tree with an axis {CORE_AXIS!r}, such as a100 or h200"
        )


def _files(found: Plan) -> dict[str, bytes]:
    """All files of a build by name."""
    constants = found.schedule.graph.constants
    names = weight_names(found.modules, constants)
    texts = {f"{module.name}.py": module_text(found, module) for module in found.modules}
    texts["network.py"] = runner_text(found, names)
    arrays = {names[name]: _stored(found, name, constants[name]) for name in names}
    return {**{name: text.encode() for name, text in texts.items()}, "weights.npz": _npz(arrays)}


def _stored(found: Plan, name: str, array: np.ndarray) -> np.ndarray:
    """A constant in the type and the layout in which kernels read it."""
    tensor = found.schedule.graph.tensors[name]
    dtype = found.storage.dtype(tensor.dtype)
    if dtype is DType.FLOAT16:  # as everywhere in Tilestitch: what is larger is clamped, infinities stay
        array = np.where(np.isfinite(array), np.clip(array, -FLOAT16_MAX, FLOAT16_MAX), array)
    layout = found.storage.layouts.get(name, tensor.layout)
    return np.ascontiguousarray(array.reshape(tensor.shape).transpose(layout).astype(str(dtype)))


def _npz(arrays: Mapping[str, np.ndarray]) -> bytes:
    """What numpy.load reads; the same bytes for the same arrays, whatever the time."""
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as archive:
        for name, array in arrays.items():
            content = io.BytesIO()
            np.lib.format.write_array(content, array, allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(f"{name}.npy", (1980, 1, 1, 0, 0, 0)), content.getvalue())
    return held.getvalue()
