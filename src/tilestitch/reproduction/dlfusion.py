"""DLFusion: plans of five networks beside the published end points, and the block model beside a prototype of it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tilestitch import zoo
from tilestitch.base.errors import InputError, printable
from tilestitch.base.progress import Progress
from tilestitch.frontend.reader import read_onnx
from tilestitch.hardware.load import load_machine
from tilestitch.partition.blocks.dlfusion import PLANS, Joint, joint
from tilestitch.partition.blocks.layers import layers_of
from tilestitch.partition.blocks.model import BlockCost, BlockModel, block_model
from tilestitch.partition.blocks.synthetic import critical_operations, stack_operations
from tilestitch.partition.ideals import exact as best_partition
from tilestitch.partition.ideals import ideals
from tilestitch.passes import simplify
from tilestitch.reproduction.published import Counts, EndPoints, OneBlock, PublishedDLFusion, Variant, read
from tilestitch.reproduction.rows import Row, close, exact

Times = Mapping[str, int]  # picoseconds by plan
EXACT = "exact"
HOLDS, FAILS = "holds", "does not hold"
_COMPARED = ("fixed-cores", "dynamic-cores", "dlfusion", EXACT)  # under other constants
_AS_IF = "priced as if it fitted the memory of the cores"
_PROTOTYPE = "not published: of an earlier program with the same block model; rounded to one decimal"


def dlfusion_rows(
    *, networks: Sequence[str], machines: Sequence[str], must_match: bool, progress: Progress
) -> tuple[Row, ...]:
    """All rows, or those of some networks; see `reproduce`. Every time is estimated by the block model.

    Raises `InputError` for a network or a machine that there are no rows of.
    """
    published = read(PublishedDLFusion, "dlfusion")
    known = list(dict.fromkeys([*published.networks, *published.counts.networks]))
    for kind, given, possible in (("network", networks, known), ("machine", machines, [published.machine])):
        for name in given:
            if name not in possible:
                shown = printable(name)
                raise InputError(f"reproduce dlfusion: {kind} '{shown}': expected some of: {', '.join(possible)}")
    chosen = [name for name in known if not networks or name in networks]
    model = block_model(load_machine(published.machine))
    costs: dict[str, BlockCost] = {}
    for number, name in enumerate(chosen):
        progress(name, number, 2 * len(chosen))
        graph = read_onnx(zoo.build(name), name=name, batch=1)
        costs[name] = BlockCost(layers_of(simplify(graph), granule=model.granule), model)
    rows = _counts(published.counts, costs)
    planned = [name for name in published.networks if name in costs]
    times: dict[str, Times] = {}
    for number, name in enumerate(planned):
        progress(f"plans of {name}", len(chosen) + number, 2 * len(chosen))
        times[name] = _times(costs[name], [*PLANS, EXACT])
    rows += [row for name in planned for row in _provable(name, times[name])]
    if must_match:
        return tuple(rows)
    if len(planned) == len(published.networks):
        rows += _end_points(published.speed_ups, times)
    rows += [row for name in planned for row in _speed_ups(published, name, times[name])]
    rows += [row for name in planned for row in _orders(published.one_block, name, times[name])]
    rows += _thresholds(published.speed_ups, {name: costs[name] for name in planned})
    for variant in published.variants:
        changed = _changed(model, variant.name)
        for name in planned:
            rows += _variant(published, variant, name, replace(costs[name], model=changed))
    return tuple(rows)


def _times(cost: BlockCost, plans: Sequence[str]) -> Times:
    found = {}
    for plan in plans:
        if plan == EXACT:
            proof = best_partition(cost.network.before(), cost.price)
            assert proof is not None  # none of these networks has too many ideals
            found[plan] = proof.plan.cost
        else:
            found[plan] = PLANS[plan](cost).cost
    return found


def _counts(counts: Counts, costs: Mapping[str, BlockCost]) -> list[Row]:
    rows = []
    for name, count in counts.networks.items():
        if name in costs:
            network = costs[name].network
            table = ideals(network.before())
            rows.append(exact(f"{name}: layers", counts.source, count.layers, len(network.layers)))
            rows.append(exact(f"{name}: ideals", counts.source, count.ideals, None if table is None else len(table)))
    return rows


def _end_points(published: EndPoints, times: Mapping[str, Times]) -> list[Row]:
    gains = [plans["baseline"] / plans["dlfusion"] for plans in times.values()]
    what = f"speed-up by dlfusion over {len(gains)} networks"
    return [
        close(f"{what}: {bound}", published.source, value, ours, published.why)
        for bound, value, ours in (("least", published.least, min(gains)), ("most", published.most, max(gains)))
    ]


def _speed_ups(published: PublishedDLFusion, name: str, times: Times) -> list[Row]:
    """Every plan; of `dlfusion` whether it is inside the published range, of the others nothing is known."""
    ends = published.speed_ups
    rows = []
    for plan, time in times.items():
        if plan != "baseline":
            gain = times["baseline"] / time
            source = f"speed-up over one core without fusion, {name} on {published.machine}, estimated"
            if plan == "dlfusion":
                rows.append(_inside(plan, source, ends, gain))
            else:
                rows.append(close(plan, source, None, gain, _AS_IF if plan == "one-block" else ""))
    return rows


def _inside(what: str, source: str, ends: EndPoints | OneBlock, gain: float) -> Row:
    """Beside a range, as text: ours is inside it or not."""
    inside = ends.least <= gain <= ends.most
    why = ends.why if isinstance(ends, EndPoints) else ""
    return Row(what, source, f"{ends.least} to {ends.most}", gain, None, False, inside, why)


def _provable(name: str, times: Times) -> list[Row]:
    """What must hold in any block model: the plan on the left is chosen from more than those on the right."""
    fitting = [plan for plan in times if plan not in ("one-block", EXACT)]  # one block need not fit
    orders = [
        ("fixed-cores", "baseline", ["baseline"]),
        ("dynamic-cores", "fixed-cores", ["fixed-cores"]),
        ("oracle", "dlfusion", ["dlfusion"]),
        (EXACT, "any other plan that fits", fitting),
    ]
    source = "orders of plans that follow from what they choose from"
    return [
        exact(
            f"{name}: {better} no slower than {shown}",
            source,
            HOLDS,
            _held(all(times[better] <= times[worse] for worse in others)),
        )
        for better, shown, others in orders
    ]


def _orders(one_block: OneBlock, name: str, times: Times) -> list[Row]:
    """What is expected of the strategy, and need not hold of our reconstruction."""
    source = "orders of plans that the strategy should show (INFERRED)"
    why = "the algorithm and its threshold are INFERRED, and nothing of them is chosen so that this holds"
    held = times["dlfusion"] < times["dynamic-cores"]
    what = f"{name}: dlfusion faster than dynamic-cores"
    rows = [Row(what, source, HOLDS, _held(held), None, False, held, "" if held else why)]
    gap = close(f"{name}: time by dlfusion over that by oracle", source, 1.0, times["dlfusion"] / times["oracle"])
    rows.append(replace(gap, why=f"the abstract says close to its reduced search, without a number; {why}"))
    if name in one_block.networks:
        gain = times["baseline"] / times["one-block"]
        rows.append(_inside(f"{name}: speed-up by one-block", one_block.source, one_block, gain))
    return rows


def _thresholds(ends: EndPoints, costs: Mapping[str, BlockCost]) -> list[Row]:
    """Other readings of how much work of a core is enough."""
    rows = []
    for name, cost in costs.items():
        model = cost.model
        baseline = PLANS["baseline"](cost).cost
        readings = [
            (f"{100 * share:.0f} % of the rate", critical_operations(model, share)) for share in (0.9, 0.95, 0.5)
        ]
        stacks = stack_operations(model)
        if stacks is not None:
            readings.append(("stacks gain no more", stacks))
        for reading, threshold in readings:
            what = f"{name}: enough where {reading}, {threshold / 1e6:,.0f} million operations"
            gain = baseline / joint(cost, Joint(threshold=threshold)).cost
            rows.append(_inside(what, "speed-up by dlfusion with other thresholds, estimated", ends, gain))
    return rows


def _changed(model: BlockModel, variant: str) -> BlockModel:
    """The block model with the constants of a variant."""
    halved = replace(model, launch_ps=model.launch_ps // 2, sync_ps=model.sync_ps // 2, layer_ps=model.layer_ps // 2)
    variants = {
        "as assumed": model,
        "half the overheads": halved,
        "half the overheads, arithmetic and transfers in turn": replace(halved, serial=True),
        "half the overheads, all channels at one core": replace(halved, channel_bandwidth=model.bandwidth),
        "half the local memory": replace(model, local_bytes=model.local_bytes // 2),
    }
    return variants[variant]


def _variant(published: PublishedDLFusion, variant: Variant, name: str, cost: BlockCost) -> list[Row]:
    source = f"speed-ups with other constants, estimated: {variant.name}"
    times = _times(cost, ["baseline", *_COMPARED])
    rows = []
    for plan in _COMPARED:
        known = variant.prototype.get(plan)
        value = None if known is None else known[published.networks.index(name)]
        rows.append(
            close(f"{name}: {plan}", source, value, times["baseline"] / times[plan], _PROTOTYPE if known else "")
        )
    return rows


def _held(holds: bool) -> str:
    return HOLDS if holds else FAILS
