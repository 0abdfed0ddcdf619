"""How operators are rewritten before they are scheduled, where a schedule asks for it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Band:
    """A depthwise convolution as a product of several channels and neighbouring results at once.

    A row of the product's result has so many channels, and so many neighbours along each axis.
    """

    operator: str
    channels: int
    neighbours: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Stream:
    """A softmax between two products that runs block by block of its axis, the keys of attention.

    Each block is a kernel with both products, which hands the state of its rows to the next one. `rows` of the queries
    run through all blocks before the next ones do.
    """

    operator: str
    keys: int  # of a block
    rows: int


@dataclass(frozen=True, slots=True)
class SplitK:
    """A product that runs in so many parts of its reduction, each right behind what makes that part of its operand."""

    operator: str
    parts: int


@dataclass(frozen=True, slots=True)
class Across:
    """A product of whose reduction different cores can add up a part each, of so many equal ones."""

    operator: str
    parts: int


@dataclass(frozen=True, slots=True)
class Again:
    """An operator that is computed once more, for some of those that read its result."""

    operator: str
    readers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Rewriting:
    """What is rewritten: by default nothing."""

    joined: bool = False  # whether what a concatenation joins is written where it lies there
    apart: bool = False  # whether element-wise operators work on the parts of a concatenation one by one
    folded: bool = False  # whether factors, and scales and shifts of norms, are part of weights, where they can be
    bands: tuple[Band, ...] = ()  # depthwise convolutions that run as banded products, in the order of the network
    streams: tuple[Stream, ...] = ()  # softmaxes that run block by block, in the order of the network
    split_k: tuple[SplitK, ...] = ()  # products in parts of their reduction, in the order of the network
    across: tuple[Across, ...] = ()  # products whose reduction is divided among cores, in the order of the network
    packed: bool = False  # whether small constants lie together, so that one transfer brings those of several operators
    again: tuple[Again, ...] = ()  # what is computed once more, in an order in which it is rewritten
