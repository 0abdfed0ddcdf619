"""Published numbers, as data files of the package; each entry names its table, figure or section."""

from importlib.resources import files
from typing import TypeVar

import yaml
from pydantic import BaseModel, ConfigDict

Model = TypeVar("Model", bound="Published")


class Published(BaseModel):
    """A part of a data file: no field is missing, none is unknown."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Peaks(Published):
    """Bytes live at once in the best order, of operators under the names of blocks."""

    source: str
    megabytes: dict[str, float]


class BlockFactors(Published):
    """Pieces that each block asks for by itself."""

    source: str
    capacity_bytes: int
    factors: list[int]


class Pieces(Published):
    """Peak over capacity, rounded up, without a list of factors to choose from."""

    source: str
    capacity_bytes: int
    pieces: dict[str, int]
    why: str


class SubGraphs(Published):
    """Operators and pieces of each sub-graph."""

    source: str
    images: int
    capacity_bytes: int
    fold_bn: bool
    sizes: list[int]
    factors: list[int]


class FixedOrder(Published):
    """How many sub-graphs there are when operators keep the order of the network."""

    source: str
    images: int
    capacity_bytes: int
    count: int


class HandSchedule(Published):
    """The last addition of each group but the last, and the groups' pieces."""

    source: str
    last_additions: list[int]
    factors: list[int]


class Parking(Published):
    """Most bytes that wait in GB at once, for two places to cut."""

    source: str
    after_down_sampling_megabytes: float
    at_stage_ends_megabytes: float


class Order(Published):
    """Pieces in running order, and how many are joined and parked depth first."""

    source: str
    depth_first: str
    breadth_first: str
    joined: int
    parked: int


class Transformer(Published):
    """Sub-graphs of an encoder, their factors, and the peak of the network as one."""

    source: str
    network: str
    samples: int
    count: int
    factors: list[int] = []  # in any order
    pattern: list[int] | None = None  # or in the order of the encoder, repeated
    mebibytes: float | None = None


class DdrBytes(Published):
    """Bytes that cross the borders of TVM's kernels for a sample; kinds in `alone` are kernels of their own."""

    source: str
    network: str
    samples: int
    megabytes: int
    alone: list[str]
    within: str = ""  # operators whose names begin so


class PublishedNetwork(Published):
    """A line of Table 2."""

    letter: str
    network: str
    name: str
    batch: int
    tvm_batch: int
    unit: str
    tvm_per_second: float


class SpeedUps(Published):
    """One strategy over TVM, by the letters of the networks."""

    source: str
    strategy: str
    values: dict[str, float]


class Mean(Published):
    """A mean over all networks, as the paper claims it."""

    source: str
    strategy: str
    over: str
    claimed: float


class Table1Row(Published):
    """One choice of the batch."""

    strategy: str
    batch: int
    per_cluster: int
    per_second: float
    milliseconds: float


class Table1(Published):
    """BERT-128 at several batches."""

    source: str
    rows: list[Table1Row]


class Table3(Published):
    """Tensors in DDR, GB and LB, by letter."""

    source: str
    tvm: dict[str, tuple[int, int, int]]
    graphturbo: dict[str, tuple[int, int, int]]


class Curve(Published):
    """Percent of the time in which units are at work, by batch per cluster."""

    letter: str
    element: str
    batches: list[int]
    matrix: list[int]
    vector: list[int]


class Figure16(Published):
    """Curves of several networks."""

    source: str
    vector_why: str
    int8_why: str
    curves: list[Curve]


class Stages(Published):
    """Percent of the time in which units are at work, by stage of ResNet-50."""

    matrix: list[int]
    vector: list[int]


class Figure17(Published):
    """Stages under two strategies."""

    source: str
    why: str
    tvm: Stages
    graphturbo: Stages


class PublishedGraphTurbo(Published):
    """Everything of data/graphturbo.yaml."""

    paper: str
    peaks: Peaks
    block_factors: list[BlockFactors]
    pieces_at_64_kib: Pieces
    sub_graphs: list[SubGraphs]
    fixed_order: FixedOrder
    hand_schedule: HandSchedule
    parking: Parking
    order: Order
    transformers: list[Transformer]
    ddr: list[DdrBytes]
    networks: list[PublishedNetwork]
    notes: dict[str, str]
    speed_ups: list[SpeedUps]
    vendor: SpeedUps
    means: list[Mean]
    table_1: Table1
    table_3: Table3
    figure_16: Figure16
    figure_17: Figure17


class EndPoints(Published):
    """Least and most speed-up over no optimization."""

    source: str
    least: float
    most: float
    why: str


class OneBlock(Published):
    """The range of speed-ups of everything in one block, over some networks."""

    source: str
    networks: list[str]
    least: float
    most: float


class Count(Published):
    """Layers of a network, and their order ideals."""

    layers: int
    ideals: int


class Counts(Published):
    """Of several networks."""

    source: str
    networks: dict[str, Count]


class Variant(Published):
    """Other constants of the block model, and speed-ups by plan of the networks in their order, where known."""

    name: str
    prototype: dict[str, list[float]]


class PublishedDLFusion(Published):
    """Everything of data/dlfusion.yaml."""

    paper: str
    machine: str
    networks: list[str]
    speed_ups: EndPoints
    one_block: OneBlock
    counts: Counts
    variants: list[Variant]


def read(model: type[Model], name: str) -> Model:
    """The published numbers in `data/<name>.yaml`."""
    text = files("tilestitch.reproduction").joinpath("data", f"{name}.yaml").read_text(encoding="utf-8")
    return model.model_validate(yaml.safe_load(text))
