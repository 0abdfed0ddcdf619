"""How much the evaluation of constants may make and cost, so that a short file cannot ask for a huge one."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

from onnx import TensorProto

from tilestitch.base.errors import InputError
from tilestitch.base.units import format_bytes
from tilestitch.frontend.weights import bits_of

MAX_BYTES = 2**30  # that constants may take, besides those of the file and some copies of them
MAX_PRODUCTS = 2**34  # multiply-accumulates that constants may cost: seconds


@dataclass(slots=True)
class Budget:
    """What is left of it."""

    size_bytes: int = MAX_BYTES
    products: int = MAX_PRODUCTS

    @classmethod
    def of(cls, weights: Sequence[TensorProto]) -> "Budget":
        """That of a file with these weights: they may be transposed, cast to a wider type and joined."""
        return cls(MAX_BYTES + 4 * sum(prod(tensor.dims) * (bits_of(tensor.data_type) or 0) // 8 for tensor in weights))

    def spend(self, size_bytes: int, products: int, fault: Callable[[str], InputError]) -> None:
        """Take away what one evaluation needs; raises the `fault` of its node where too little is left."""
        if size_bytes > self.size_bytes:
            raise fault(
                f"it needs constants of {format_bytes(size_bytes)}, and constants may take "
                f"{format_bytes(self.size_bytes)} more: export the network with smaller ones."
            )
        if products > self.products:
            raise fault(
                f"it needs a constant that takes {products:,} multiply-accumulates, and constants may take "
                f"{self.products:,} more, which are seconds: export the network with the value itself."
            )
        self.size_bytes -= size_bytes
        self.products -= products
