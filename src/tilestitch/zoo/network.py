"""What a network of the zoo is: sizes, which can be reduced and written as a graph."""

from typing import Protocol, Self, runtime_checkable

from tilestitch.zoo.builder import GraphBuilder


class ZooNetwork(Protocol):
    """The sizes of one network."""

    def reduced(self) -> Self:
        """The same structure in small, for fast tests."""
        ...

    def graph(self) -> GraphBuilder:
        """Write the network."""
        ...


@runtime_checkable
class SequenceNetwork(ZooNetwork, Protocol):
    """The sizes of one network for sequences, which are all of one length."""

    @property
    def positions(self) -> int:
        """The length of the longest sequence."""
        ...

    def with_length(self, tokens: int) -> Self:
        """The same network for sequences of that length."""
        ...
