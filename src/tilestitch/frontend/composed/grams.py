"""Counts of sequences of tokens."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from onnx import TensorProto

from tilestitch.frontend.functions import Definition
from tilestitch.frontend.network import Node, Reading, text_of
from tilestitch.frontend.writing import Writer

_MODES = ("TF", "IDF", "TFIDF")


@dataclass(frozen=True, slots=True)
class _Grams:
    """The n-grams of one length, and the column of the result in which each is counted."""

    tokens: np.ndarray  # n-grams x length
    columns: tuple[int, ...]


def gram_counts(node: Node, network: Reading) -> Definition:
    """TfIdfVectorizer: how often each n-gram of a list occurs, with the same number of tokens skipped between each two.

    For each length of n-grams and each number of skipped tokens, all places of all n-grams are compared at once.
    """
    write = Writer(node, network)
    (x,), shape = node.inputs, network.shape(node.inputs[0])
    if len(shape) not in (1, 2):
        raise node.fault(f"operand '{x}' has shape {text_of(shape)}; expected one axis or two.")
    least, most = node.integer("min_gram_length", 1), node.integer("max_gram_length", 1)
    skipped = node.integer("max_skip_count", 0)
    mode, weights = node.text("mode", ""), node.reals("weights")
    if mode not in _MODES:
        raise node.fault(f"attribute mode={mode!r}: expected {', '.join(_MODES)}.")
    pool, width = _pool(node, network, x)
    wanted = [grams for length, grams in pool.items() if least <= length <= most]
    found, columns = [], []
    for grams in wanted:
        counts = _counted(write, x, shape, grams, skipped)
        if counts is not None:
            found.append(counts)
            columns += grams.columns
    counts = _ordered(write, shape, found, columns, width)
    if mode != "TF" and weights is not None and len(weights) != width:
        raise node.fault(f"attribute weights has {len(weights)} numbers; expected {width}.")
    if mode == "IDF":
        counts = write.op("Cast", write.op("Cast", counts, to=TensorProto.BOOL), to=TensorProto.FLOAT)
    if mode != "TF" and weights is not None:
        counts = write.op("Mul", counts, write.constant(np.array(weights, np.float32)))
    write.op("Identity", counts, output=0)
    return write.finished()


def _pool(node: Node, network: Reading, x: str) -> tuple[dict[int, _Grams], int]:
    """The n-grams by their lengths, and how many columns the result has."""
    starts, columns = node.integers("ngram_counts") or (), node.integers("ngram_indexes") or ()
    tokens = node.integers("pool_int64s")
    if tokens is None:
        raise node.not_covered("its n-grams are of text; only those of integers have a rule.")
    ends = (*starts[1:], len(tokens))
    lengths = [end - start for start, end in zip(starts, ends, strict=True)]
    counts = [found // length for length, found in enumerate(lengths, start=1)]
    if (
        any(found < 0 or found % length for length, found in enumerate(lengths, start=1))
        or starts[:1] != (0,)
        or sum(counts) != len(columns)
        or min(columns, default=-1) < 0
    ):
        raise node.fault(
            f"attributes ngram_counts={list(starts)} and ngram_indexes of {len(columns)} columns do not fit "
            f"{len(tokens)} tokens; expected whole n-grams of each length, and a column for each."
        )
    if len(set(columns)) != len(columns):
        raise node.not_covered("several n-grams are counted in one column.")
    pool, at = {}, 0
    for length, (start, end, count) in enumerate(zip(starts, ends, counts, strict=True), start=1):
        grams = np.array(tokens[start:end], network.element_type(x)).reshape(count, length)
        if count:
            pool[length] = _Grams(grams, columns[at : at + count])
        at += count
    return pool, max(columns) + 1


def _counted(write: Writer, x: str, shape: Sequence[int], grams: _Grams, skipped: int) -> str | None:
    """How often each n-gram occurs in each row; None where the rows are too short for any."""
    length, row, last = grams.tokens.shape[1], shape[-1], len(shape) - 1
    total = None
    for step in range(1, 2 if length == 1 else skipped + 2):
        places = row - step * (length - 1)
        if places <= 0:
            break
        equal = None
        for number in range(length):
            tokens = write.cut(x, last, step * number, step * number + places)
            tokens = write.op("Unsqueeze", tokens, write.integers(last + 1))
            here = write.op("Equal", tokens, write.constant(np.ascontiguousarray(grams.tokens[:, number])))
            equal = here if equal is None else write.op("And", equal, here)
        ones = write.op("Cast", equal, to=TensorProto.FLOAT)
        counts = write.op("ReduceSum", ones, write.integers(last), keepdims=0)
        total = counts if total is None else write.op("Add", total, counts)
    return total


def _ordered(write: Writer, shape: Sequence[int], found: Sequence[str], columns: Sequence[int], width: int) -> str:
    """Counts in the order of the columns; those that count nothing are 0."""
    parts, order = list(found), list(columns)
    if len(order) < width:
        parts.append(write.constant(np.zeros((*shape[:-1], 1), np.float32)))
    places = {column: place for place, column in enumerate(order)}
    counts = write.op("Concat", *parts, axis=-1) if len(parts) > 1 else parts[0]
    picked = [places.get(column, len(order)) for column in range(width)]
    return write.op("Gather", counts, write.constant(np.array(picked)), axis=-1)
