"""What is published of dMazeRunner, as it stands in data/dmazerunner.yaml and data/dmazerunner-sweep.yaml."""

from tilestitch.reproduction.published import Published


class Shape(Published):
    """A square convolution: channels of one group, sizes of outputs, windows and padded inputs."""

    m: int
    c: int
    output: int
    window: int
    stride: int
    padded: int
    groups: int = 1


class BestMapping(Published):
    """What the best mapping of a space takes; its energy-delay product has seven digits."""

    edp: float
    cycles: int
    energy_pj: int


class PublishedLayer(Published):
    """Tilings that fit (all, OPT1, OPT1 and 2, OPT1 to 3), and the best of all and of OPT1 to 3."""

    name: str
    shape: Shape
    tilings: list[int]
    best: BestMapping
    pruned: BestMapping


class Spaces(Published):
    """Sources of the layers' numbers, and sums of their tilings with three digits."""

    source: str
    best_source: str
    sums: list[float]
    sums_source: str


class Losses(Published):
    """What OPT1 to 3 lose: of the released code, and of the code of the paper, whose conv1 is worse."""

    source: str
    percent: float
    paper_percent: float
    paper_conv1: float


class Reductions(Published):
    """By how much orders, and mappings in all, become fewer."""

    source: str
    orders: float
    methods: float


class Tiling(Published):
    """Factors of N, M, C, Ox, Oy, Fx, Fy."""

    dram: list[int]
    spm: list[int]
    rf: list[int]
    spatial: list[int]


class ValidationRow(Tiling):
    """Energies of one mapping, in two models."""

    pair: str
    yang_pj: int
    energy_pj: int


class Validation(Published):
    """Differences of two models of energy."""

    source: str
    layer: str
    mean_percent: float
    least_percent: float
    most_percent: float
    rows: list[ValidationRow]


class Example(Published):
    """Two mappings of a layer side by side."""

    source: str
    layer: str
    moc: Tiling
    ours: Tiling
    moc_cycles_without_stalls: int
    cycles: int
    ideal_cycles: int
    speed_up: float
    edp_ratio: float
    input_reduction: float
    weight_reduction: float


class Bar(Published):
    """Totals under one pair of loops over elements: what the figure calls it, and what the code does."""

    label: str
    pair: str
    edp: float
    cycles: float
    layers: tuple[float, ...] = ()


class DataflowBars(Published):
    """Bars of two figures."""

    layers_source: str
    totals_source: str
    more_source: str
    cycles_source: str
    cycles_why: str
    bars: list[Bar]
    more: list[Bar]


class Before(Published):
    """Totals of an earlier mapping, and the label of the bar it is set against."""

    name: str
    label: str
    edp: float
    cycles: float


class Averages(Published):
    """Mean ratios over earlier mappings."""

    source: str
    edp: float
    cycles: float
    edp_tolerance: float
    cycles_tolerance: float
    before: list[Before]


class LeastEnergy(Published):
    """Energies of the most frugal mapping."""

    yang_pj: float
    energy_pj: float


class LeastEnergies(Published):
    """By layer."""

    source: str
    yang_source: str
    layers: dict[str, LeastEnergy]


class EyerissLayer(Published):
    """Cycles of four images."""

    name: str
    shape: Shape
    ideal: int
    reported: int
    dmazerunner: int


class EyerissTable(Published):
    """A network on another machine."""

    source: str
    machine: str
    why: str
    chain_why: str
    wide_why: str
    layers: list[EyerissLayer]


class PublishedDMazeRunner(Published):
    """Everything of data/dmazerunner.yaml."""

    machine: str
    batch: int
    layers: list[PublishedLayer]
    spaces: Spaces
    losses: Losses
    reductions: Reductions
    validation: Validation
    example: Example
    dataflows: DataflowBars
    averages: Averages
    least_energy: LeastEnergies
    eyeriss: EyerissTable


class SweptLayer(Published):
    """Energy-delay products and tilings, by scratchpad and register file; None where nothing fits."""

    edp: list[list[float | None]]
    tilings: list[list[int]]


class Figure12(Published):
    """Sums over all layers, by scratchpad; columns as in the sweep."""

    source: str
    edp: dict[int, list[float]]


class BestSize(Published):
    """Of one layer."""

    scratchpad_kib: int
    edp: float


class BestSizes(Published):
    """The best memories; totals by scratchpad, with four digits."""

    source: str
    register_bytes: int
    total: dict[int, float]
    layers: dict[str, BestSize]


class PublishedSweep(Published):
    """Everything of data/dmazerunner-sweep.yaml."""

    source: str
    scratchpad_kib: list[int]
    register_bytes: list[int]
    register_pj: float
    scratchpad_pj: list[float]
    thresholds: tuple[float, float, float]
    layers: dict[str, SweptLayer]
    figure_12: Figure12
    best: BestSizes
