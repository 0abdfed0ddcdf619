"""Searches of tiles on one machine, each made once: kernels with other names often have the same loops and places."""

import numpy as np

from tilestitch.cost.place import Place, rates_of
from tilestitch.hardware.accelerator import Accelerator
from tilestitch.kernels.nest import Nest
from tilestitch.schedule.search import Cuts, Found, search


class Searches:
    """What was found so far, by all that a search sees but the rooms, with the rooms in which it is found."""

    def __init__(self, machine: Accelerator) -> None:
        self.rates = rates_of(machine)
        self._known: dict[tuple, list[Found]] = {}
        self._nests: dict[int, tuple[Nest, int]] = {}  # by identity, which is theirs as long as they are kept
        self._numbers: dict[tuple, int] = {}  # of nests with the same contents

    def find(self, nest: Nest, place: Place, cuts: Cuts) -> Found:
        """What `search` gives; equal arrays are one, so nobody may change them."""
        rooms, elsewhere = place.rooms, place._replace(rooms=_NO_ROOMS)
        known = self._known.setdefault((self._number(nest), _values(elsewhere), _values(cuts)), [])
        for found in known:
            if ((found.tested[:, 0] <= rooms) & (rooms < found.tested[:, 1])).all():
                return found
        known.append(search(nest, self.rates, place, cuts))
        return known[-1]

    def _number(self, nest: Nest) -> int:
        if id(nest) not in self._nests:
            contents = tuple((array.shape, array.tobytes()) for array in nest)
            self._nests[id(nest)] = nest, self._numbers.setdefault(contents, len(self._numbers))
        return self._nests[id(nest)][1]


_NO_ROOMS = np.zeros(0)


def _values(row: Place | Cuts) -> tuple:
    """The entries of a tuple, arrays by their contents; of those that `search` reads, the shapes follow from a nest."""
    return tuple(one.tobytes() if isinstance(one, np.ndarray) else one for one in row)
