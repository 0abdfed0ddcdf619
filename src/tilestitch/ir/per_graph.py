"""What is worked out of a network is kept as long as the network lives."""

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar
from weakref import finalize

from tilestitch.ir.graph import Graph

_Found = TypeVar("_Found")
_Given = ParamSpec("_Given")


def once_per_graph(
    work_out: Callable[Concatenate[Graph, _Given], _Found],
) -> Callable[Concatenate[Graph, _Given], _Found]:
    """The function, which works out each network once; what else it is given has to be hashable."""
    known: dict[int, dict[Any, _Found]] = {}  # by the identity of a network

    @wraps(work_out)
    def found(graph: Graph, *args: _Given.args, **kwargs: _Given.kwargs) -> _Found:
        if id(graph) not in known:
            known[id(graph)] = {}
            finalize(graph, known.pop, id(graph)).atexit = False
        own, given = known[id(graph)], (args, tuple(kwargs.items()))
        if given not in own:
            own[given] = work_out(graph, *args, **kwargs)
        return own[given]

    return found
