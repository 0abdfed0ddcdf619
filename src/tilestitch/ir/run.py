"""What one cluster is given to do."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Run:
    """A strategy by name, and how the samples are divided: so many clusters, iterations and samples an iteration."""

    strategy: str
    batch: int  # samples of one iteration of a cluster
    iterations: int
    clusters: int
