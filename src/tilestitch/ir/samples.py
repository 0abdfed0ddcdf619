"""Values that an executed program gave, beside those that they were compared with: a few of each output."""

from dataclasses import dataclass

from tilestitch.base.shown import Brief


@dataclass(frozen=True, slots=True)
class Sample:
    """One value of an output: where it lies, what there is on either side, and how far they may be apart."""

    place: tuple[int, ...]
    found: float  # by the program
    expected: float  # by onnxruntime
    bound: float  # what rounding may do to it; infinite where anything may be
    share: float  # the difference / its bound
    decided: bool  # whether a wrong value would show


@dataclass(frozen=True, repr=False)
class OutputSamples(Brief):
    """Some values of one output at one precision, of the first iteration."""

    output: str
    precision: str  # float32 or float16
    dtype: str  # in which the machine stores it
    shape: tuple[int, ...]
    values: int  # in all
    corner: tuple[int, int]  # rows and columns of its first values; places of the other axes are 0
    first: tuple[Sample, ...]  # row by row
    worst: tuple[Sample, ...]  # the largest shares, the largest first
    spread: tuple[Sample, ...]  # at equal distances


@dataclass(frozen=True, slots=True)
class TileSamples:
    """A few values of a result that operators pass on, row by row, with what wrote each of them."""

    start: tuple[int, ...]  # of the box in the tensor
    stop: tuple[int, ...]
    found: tuple[float, ...]  # by the program
    expected: tuple[float, ...]  # by onnxruntime
    bound: tuple[float, ...]  # what rounding may do to each; infinite where anything may be
    written_by: tuple[int, ...]  # the first instruction of the program that wrote each


@dataclass(frozen=True, repr=False)
class TensorSamples(Brief):
    """Some tiles of one result between operators at one precision, of the first iteration."""

    tensor: str
    precision: str  # float32 or float16
    dtype: str  # in which the machine stores it
    shape: tuple[int, ...]
    tiles: tuple[TileSamples, ...]
