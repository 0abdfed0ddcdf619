"""What is written down of a window of cycles: enough to tell from it what every register has in each of them.

Outside a window a cycle asks once whether it is in one, and nothing else.
"""

from tilestitch.base.jit import lending
from tilestitch.sim.array.plan import NETWORKS
from tilestitch.sim.array.state import BUFFERS, IN_ROUND, LAST, MASK, NEXT, PASS, ROUND, SINCE, Array, Flight, Log

# The window: the first cycle whose words are written down, which may be on their way when the window begins; the first
# cycle of the window, the cycle after its last, and whether the registers at its beginning are known.
LOG_FIRST, LOG_BEGIN, LOG_END, LOG_TAKEN = range(4)
# Columns of a cycle.
(
    L_PASS,  # number of the pass whose instruction elements execute; -1: none
    L_ROW,  # the instruction
    L_MASK,  # row of the mask; -1: all elements
    L_HOP,  # first of the partial sums that go to another element
    L_HOPS,  # the one after the last
    L_RESULTS,  # first register x elements of the results that go out, or are added up
    L_LANES,  # of each lane: how many words are sent, the first of them, their place
) = range(7)
LANES = NETWORKS + 1
L_BUFFERS = L_LANES + 3 * LANES  # of every operand: first register x elements that the instruction uses


@lending
def note_begin(log: Log, array: Array, now: int) -> None:
    """Before anything happens in a cycle: the registers, if it is the first, and what will be executed."""
    window, running = log.window, array.running
    if now >= window[LOG_BEGIN] and window[LOG_TAKEN] == 0:
        window[LOG_TAKEN] = 1
        for at in range(len(log.registers)):
            log.registers[at] = array.registers[at]
    row = now % len(array.loaded)
    if now == array.loaded[row, SINCE]:
        running = array.loaded[row]
    if running[NEXT] != running[LAST] and running[IN_ROUND] < running[ROUND]:
        found = log.cycles[now - window[LOG_FIRST]]
        found[L_PASS], found[L_ROW], found[L_MASK] = running[PASS], running[NEXT], running[MASK]
        for operand in range(len(running) - BUFFERS):
            found[L_BUFFERS + operand] = running[BUFFERS + operand]


@lending
def note_sent(log: Log, flight: Flight, now: int, lane: int, hop: int, hops: int, results: int) -> None:
    """At the end of a cycle: partial sums that went on in it, and words that left."""
    row = now - log.window[LOG_FIRST]
    found = log.cycles[row]
    found[L_HOP], found[L_HOPS], found[L_RESULTS] = hop, hops, results
    for network in range(LANES):
        words = flight.words[network, lane]
        at = L_LANES + 3 * network
        found[at], found[at + 1], found[at + 2] = words, flight.first[network, lane], flight.place[network, lane]
        for one in range(words):
            log.words[row, network, one] = flight.value[network, lane, one]
