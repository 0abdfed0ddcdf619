"""What goes over the networks in a pass: for every word its place in the scratchpad, and the registers it goes to.

A stream is the box of words that a pass's tile touches, row by row. A word goes to every element whose own box, a
window of the stream, has it: that is what the tags and windows of row and column controllers select.
"""

from dataclasses import dataclass
from math import prod

import numpy as np

from tilestitch.sim.array.geometry import Geometry, box_of, start_of, strides_of


@dataclass(frozen=True)
class Streams:
    """The words of every operand in every class of passes, one after another.

    Stream `s` of operand k in class q is s = k x classes + q. Its words are `first[s]` to `first[s + 1]`; word w is
    `offset[w]` words into the box of its pass in the scratchpad, and goes to (or comes from) the registers
    `target[aim[w]]` to `target[aim[w + 1]]`, each register x elements + element within one buffer.
    """

    classes: int
    first: np.ndarray
    offset: np.ndarray
    aim: np.ndarray
    target: np.ndarray

    def delivered(self) -> np.ndarray:
        """Words to or from elements, by stream."""
        return self.aim[self.first[1:]] - self.aim[self.first[:-1]]


def streams_of(geometry: Geometry, *, multicast: bool) -> Streams:
    """All streams of a mapping; without multicast a word is in its stream once for each element that needs it."""
    classes = 1 << len(geometry.ragged)
    first, offsets, aims, targets = [0], [], [np.zeros(1, np.int64)], []
    words = aimed = 0
    for number, operand in enumerate(geometry.nest.operands):
        written = operand is geometry.nest.write
        for one in range(classes):
            offset, counts, target = _stream(geometry, number, one)
            if not multicast and not written:
                offset, counts = np.repeat(offset, counts), np.ones(len(target), np.int64)
            words += len(offset)
            first.append(words)
            offsets.append(offset)
            aims.append(aimed + np.cumsum(counts))
            aimed += len(target)
            targets.append(target)
    return Streams(
        classes,
        np.array(first, np.int64),
        np.concatenate(offsets),
        np.concatenate(aims),
        np.concatenate(targets),
    )


def _stream(geometry: Geometry, number: int, one: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Offsets of the words, how many registers each goes to, and these, word by word."""
    operand = geometry.nest.operands[number]
    sizes = geometry.class_sizes(one)
    box = box_of(operand, np.array([sizes]))[0]
    positions = np.indices(tuple(box)).reshape(len(box), -1)
    offset = strides_of(operand.extents(geometry.tile_sizes)) @ positions
    own = geometry.own_of(sizes)
    works = (own > 0).all(axis=1)
    if operand is geometry.nest.write:  # the first of those that work on the same results has their sum
        works &= (geometry.places()[:, list(geometry.summed)] == 0).all(axis=1)
    elements = np.flatnonzero(works)
    begins = start_of(operand, geometry.places()[elements] * np.array(geometry.mapping.rf))
    boxes = box_of(operand, own[elements])
    registers = strides_of(operand.extents(geometry.own_sizes))
    along = strides_of(tuple(box))
    words, targets = [], []
    for extents in np.unique(boxes, axis=0):
        alike = np.flatnonzero((boxes == extents).all(axis=1))
        inside = np.indices(tuple(extents)).reshape(len(extents), -1)
        word = (along @ begins[alike].T)[:, None] + (along @ inside)[None, :]
        register = np.broadcast_to((registers @ inside)[None, :], word.shape)
        words.append(word.ravel())
        targets.append((register * geometry.elements + elements[alike][:, None]).ravel())
    word, target = np.concatenate(words), np.concatenate(targets)
    order = np.lexsort((target, word))
    return offset, np.bincount(word, minlength=prod(box)), target[order]
