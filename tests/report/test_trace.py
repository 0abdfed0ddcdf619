"""What a trace shows beside its instructions: flows from producer to consumer, and counters."""

import json
from itertools import pairwise

import numpy as np
import pytest

from tilestitch import api
from tilestitch.ir.program import Mode
from tilestitch.pipeline.options import Options
from tilestitch.report.counters import counters, edges, lives
from tilestitch.report.trace_json import chrome_trace


@pytest.fixture(scope="module")
def compiled():
    """Three samples of a small network on two clusters, by two strategies."""
    return {
        name: api.compile("resnet18:small", "toy", strategy=name, batch=3, options=Options(batch_per_cluster=1))
        for name in ("tvm", "graphturbo")
    }


def test_flows_lead_from_what_writes_to_what_reads(compiled):
    """Two instructions, one buffer; each arrow begins and ends inside what is drawn."""
    done = compiled["graphturbo"]
    events = json.loads(chrome_trace(done.trace, clock_hz=done.machine.clock_hz))["traceEvents"]
    drawn = {
        (event["pid"], event["tid"], event["ts"]): event["args"]["instruction"]
        for event in events
        if event["ph"] == "X"
    }
    starts = {event["id"]: event for event in events if event["ph"] == "s"}
    ends = {event["id"]: event for event in events if event["ph"] == "f"}
    assert starts.keys() == ends.keys()
    assert len(starts) > 100
    for number, start in starts.items():
        producer, consumer = (done.program[drawn[one["pid"], one["tid"], one["ts"]]] for one in (start, ends[number]))
        written = {operand.buffer for operand in producer.operands if operand.mode is not Mode.READ}
        read = {operand.buffer for operand in consumer.operands if operand.mode is not Mode.WRITE}
        assert written & read
        assert producer.number in consumer.waits
        assert done.trace.end_ticks[producer.number] <= done.trace.start_ticks[consumer.number]


@pytest.mark.parametrize("strategy", ["tvm", "graphturbo"])
def test_counters_add_up(compiled, strategy):
    """Rates over their windows are all bytes and products of the run; memories never hold more than they can."""
    done = compiled[strategy]
    trace, program = done.trace, done.program
    found = counters(trace)
    cycles = np.diff(edges(trace)) / trace.ticks_per_cycle
    names = [resource.name for resource in program.resources]
    sizes = {space.name: space.size_bytes for space in program.spaces}
    products = 0.0
    for counter in found:
        total = float((counter.values * cycles).sum())
        if counter.unit == "bytes/cycle":
            passes = [names.index(counter.name) in program.paths[path] if path >= 0 else False for path in program.path]
            assert total == pytest.approx(int(program.size_bytes[passes].sum()))
        elif counter.unit == "MACs/cycle":
            products += total
        else:
            assert 0 <= counter.values.max() <= sizes[counter.name]
    assert products == pytest.approx(sum(kernel.macs for kernel in done.report.kernels))


def test_counters_are_those_of_a_plain_walk(compiled):
    """Bytes held at the middle of each window, by looking at every buffer, are no more than the most of that window."""
    trace = compiled["graphturbo"].trace
    first, last = lives(trace)
    at = edges(trace, 37)
    held = {(one.name, one.core): one.values for one in counters(trace, 37) if one.unit == "bytes held"}
    buffers = trace.program.buffers
    for number, space in enumerate(trace.program.spaces):
        here = np.flatnonzero(buffers.space == number)
        for window, (begin, end) in enumerate(pairwise(at.tolist())):
            moments = {begin, *(int(when) for when in first[here] if begin <= when < end)}
            most = max(
                int(buffers.size_bytes[here][(first[here] <= when) & (when < last[here])].sum()) for when in moments
            )
            assert held[space.name, space.core][window] == most
