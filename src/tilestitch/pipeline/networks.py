"""The first stages, load and simplify, for one network at any batch, and what its schedules share."""

import numpy as np
import onnx

from tilestitch.base.progress import Progress, quiet
from tilestitch.frontend.reader import read_onnx
from tilestitch.hardware.accelerator import Accelerator
from tilestitch.ir.graph import Graph
from tilestitch.ir.rewriting import Rewriting
from tilestitch.passes import simplify
from tilestitch.passes.fold import Folded
from tilestitch.passes.narrow import as_wide_as
from tilestitch.passes.views import resolve_views
from tilestitch.pipeline.shared import Shared
from tilestitch.pipeline.views import WithoutViews


class Networks:
    """One network at every batch that is asked for: each is read and simplified once, and weights are shared.

    `element_bits` is how wide the machine's elements are, where it says so.
    """

    def __init__(
        self,
        model: onnx.ModelProto,
        name: str,
        *,
        fold_bn: bool,
        element_bits: int | None = None,
        progress: Progress = quiet,
    ) -> None:
        self.model, self.name, self.fold_bn, self.progress = model, name, fold_bn, progress
        self.element_bits = element_bits
        self._loaded: dict[int, Graph] = {}
        self._simplified: dict[int, Graph] = {}
        self._resolved: dict[int, WithoutViews] = {}
        self._shared: dict[tuple[int, Accelerator, Rewriting], Shared] = {}
        self._weights: dict[str, np.ndarray] = {}  # as far as they were read
        self._folded: Folded = {}  # batch normalisations, whatever the batch

    def loaded(self, batch: int) -> Graph:
        """As it was read, at a batch."""
        if batch not in self._loaded:
            self.progress("load", 0, 1)
            self._loaded[batch] = read_onnx(self.model, name=self.name, batch=batch, weights=self._weights)
        return self._loaded[batch]

    def simplified(self, batch: int) -> Graph:
        """After the passes, at a batch."""
        if batch not in self._simplified:
            loaded = self.loaded(batch)
            self.progress("simplify", 0, 1)
            simplified = simplify(loaded, fold_bn=self.fold_bn, folded=self._folded)
            self._simplified[batch] = as_wide_as(simplified, self.element_bits)
        return self._simplified[batch]

    def shared(self, batch: int, machine: Accelerator, rewriting: Rewriting = Rewriting()) -> Shared:
        """What its schedules at a batch on a machine have in common."""
        key = batch, machine, rewriting
        if key not in self._shared:
            like = next((one for (_, of, _), one in self._shared.items() if of == machine), None)
            simplified = self.simplified(batch)
            if batch not in self._resolved:
                self._resolved[batch] = resolve_views(simplified)
            self._shared[key] = Shared(simplified, machine, like, rewriting, self._resolved[batch])
        return self._shared[key]
