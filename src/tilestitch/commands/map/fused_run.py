"""The best fused mapping of every chain of a network on a machine tree."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from tilestitch.api import Model, choice_of, expect_count
from tilestitch.base.errors import DoesNotFit, InputError, TooLarge
from tilestitch.base.html import Record
from tilestitch.base.progress import Progress, quiet
from tilestitch.base.shown import Shown
from tilestitch.commands.map.chains import OpenedChains, expect_together, open_chains
from tilestitch.commands.map.fused_page import fused_result
from tilestitch.commands.map.fused_text import fused_json, fused_text
from tilestitch.commands.map.fused_value import FusedTask, MappedChains, UnmappedChain
from tilestitch.commands.map.named_chain import NamedChain, divided
from tilestitch.commands.map.tree_machines import GivenTree, open_tree
from tilestitch.commands.map.tree_sources import SUMS_AS_RESULTS, TreeLayer, as_wide_as_on, bound_nest
from tilestitch.commands.map.unreached import unreached_notes
from tilestitch.ir.choices import Objective
from tilestitch.mapping.fused.chain import MOST_OPERATORS, Chain, homes_of
from tilestitch.mapping.fused.search import MOST_LABELS, FoundChain, best_chain
from tilestitch.mapping.tree.bound import wired
from tilestitch.mapping.tree.choices import SpatialSpace
from tilestitch.mapping.tree.tables import Sums
from tilestitch.pipeline.origin import made_by, named_again, of_network, python_call
from tilestitch.report.html.page import result_page

NO_HOME = "nothing runs together: no memory but the outermost holds results as well as inputs"
IN_A_ROW = "operators that are not in a row share no loops over windows"


@dataclass(frozen=True, slots=True)
class FuseOptions:
    """How chains are fused: at most so many operators together, of two to four, labels of each group, and for what.

    The objective is energy, latency, edp or ed2p; products are those of a whole chain.
    """

    most: int = MOST_OPERATORS
    sums: Sums = Sums.FULL
    space: SpatialSpace = field(default_factory=SpatialSpace)
    effort: int = MOST_LABELS
    objective: Objective = Objective.ENERGY


@dataclass(frozen=True, repr=False)
class FusedChains(MappedChains, Shown):
    """The best fused mapping of every different chain of a network; every number is estimated."""

    call: str = field(default="", repr=False)  # in Python, that makes its page again

    def __str__(self) -> str:
        return fused_text(self)

    def to_json(self) -> str:
        """What `tilestitch map --fuse --json` writes."""
        return fused_json(self)

    def to_html(self, command: str = "") -> str:
        """What `tilestitch map --fuse --html` writes: a page to look at; `command` is said to make it again."""
        return result_page(fused_result(self), made_by(command or self.call, ()))

    def heading(self) -> str:
        """Chains, machine, and the sums."""
        return (
            f"{self.task.name} on {self.task.tree.name}: {self.energy_pj:,.0f} pJ and {self.latency_cycles:,} cycles "
            f"fused, {self.unfused_pj:,.0f} pJ and {self.unfused_cycles:,} cycles unfused (estimated)"
        )

    def records(self) -> tuple[Record, ...]:
        """A row for each chain."""
        return tuple(
            {
                "operators": chain.label,
                "times": chain.times,
                "energy_pj": found.energy_pj,
                "unfused_pj": found.unfused_pj,
                "latency_cycles": found.latency_cycles,
                "unfused_cycles": found.unfused_cycles,
                "bound": found.bound,
                "groups": len(found.groups),
                "proven_best": found.is_proven,
            }
            for chain, found in self.chains
        )


def map_fused(
    model: Model,
    machine: GivenTree,
    options: FuseOptions = FuseOptions(),
    *,
    batch: int | None = None,
    dims: Mapping[str, int] = {},
    fold_bn: bool = True,
    layers: Sequence[str] = (),
    progress: Progress | None = None,
) -> FusedChains:
    """The best fused mapping of every different chain of products of a network, on a machine tree.

    A model may also be a line of several products, such as `S[m,n] += Q[m,d] * K[n,d]; O[m,e] += softmax(S[m,n]) *
    V[n,e]; m=8 n=8 d=4 e=4`. `layers` names operators whose
    chains are mapped. Raises `InputError` for a model without products, and `DoesNotFit` where no chain has a mapping.
    """
    told, most, sums = progress or quiet, options.most, choice_of("sums", options.sums, Sums)
    objective = choice_of("objective", options.objective, Objective)
    if objective is Objective.PARETO:
        raise InputError("objective: chains have no front; ask for energy, latency, edp or ed2p")
    expect_count("effort", options.effort)
    expect_together(most)
    opened = open_chains(model, layers, batch=batch, dims=dims, fold_bn=fold_bn)
    task = _task(opened, machine, options.space, most, objective)
    found: list[tuple[NamedChain, FoundChain]] = []
    unmapped: list[UnmappedChain] = []
    links = homes = 0
    notes: list[str] = []
    waiting = [*zip(task.chains, task.layers, strict=True)][::-1]
    while waiting:
        chain, layers_of_chain = waiting.pop()
        told("map chains", len(found) + len(unmapped), len(found) + len(unmapped) + len(waiting) + 1)
        placed = tuple(bound_nest(layer, task.tree) for layer in layers_of_chain)
        bound = Chain(chain.label, placed, chain.links, readers=chain.readers, more=chain.more)
        notes += [f"{bound.name}: {IN_A_ROW}"] if not bound.is_row and bound.window_axes() else []
        links += len(bound.links)
        homes += sum(len(homes_of(bound, link)) for link in range(len(bound.links)))
        spaces = [wired(one, task.space) for one in placed]
        try:
            found.append((chain, best_chain(bound, sums, spaces, options.effort, most=most, objective=objective)))
        except (DoesNotFit, TooLarge) as error:
            parts = [(part, tuple(layers_of_chain[at] for at in numbers)) for part, numbers in divided(chain)]
            waiting += parts[::-1]
            if not parts:
                unmapped.append(UnmappedChain(chain.names, chain.label, str(error)))
    if not found:
        raise DoesNotFit("\n".join(one.reason for one in unmapped))
    notes += [NO_HOME] if links and not homes else []
    task = replace(task, notes=(*task.notes, *notes))
    named = named_again(model, opened.name), named_again(machine, task.tree.name)
    call = python_call("map_fused", *named, options, **of_network(layers, batch, dims, fold_bn=fold_bn))
    return FusedChains(task, sums, tuple(found), tuple(unmapped), call)


def _task(given: OpenedChains, machine: GivenTree, space: SpatialSpace, most: int, objective: Objective) -> FusedTask:
    opened, chains = open_tree(machine), given.chains
    flat = [TreeLayer(nest, nest.write.element_bits, nest.kind) for chain in chains for nest in chain.nests]
    wide, notes = as_wide_as_on(opened.tree, flat, (*given.notes, SUMS_AS_RESULTS))
    layers: list[tuple[TreeLayer, ...]] = []
    at = 0
    for chain in chains:
        layers.append(wide[at : at + len(chain.nests)])
        at += len(chain.nests)
    placed = [bound_nest(layer, opened.tree) for layer in wide]
    loops = (loop.name for layer in wide for loop in layer.nest.loops)
    notes = (*notes, *opened.notes, *unreached_notes(opened.tree, placed, loops))
    return FusedTask(given.name, opened.tree, chains, tuple(layers), notes, space, most, objective)
