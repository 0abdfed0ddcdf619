"""What the clock counts. Every count adds up over slots, so that those of slots that repeat can be added again."""

MAX_OPERANDS = 8

# Cycles of the whole array, by what it did or waited for.
(
    COMPUTE,  # instructions are issued
    INPUTS_WAIT,  # inputs are on their networks
    DRAIN_WAIT,  # the last instructions are in the pipeline
    SUMS_WAIT,  # elements add up what they have of one result
    RESULTS_WAIT,  # results are on their network
    LOAD_WAIT,  # DMA brings the next tile
    ROOM_WAIT,  # DMA stores results, or brings them back
    FIRST_LOAD,  # configuration, and the first tile
    LAST_STORE,
) = range(9)
CAUSES = 9
# By network: words, cycles with a word, cycles in which a bank or a FIFO held it up.
NETWORK_WORDS = CAUSES
NETWORK_BUSY = NETWORK_WORDS + 3
NETWORK_CONFLICTS = NETWORK_BUSY + 3
NETWORK_FULL = NETWORK_CONFLICTS + 3
# By operand: words of the scratchpad that networks read and write, words to and from elements.
READ = NETWORK_FULL + 3
WRITTEN = READ + MAX_OPERANDS
DELIVERED = WRITTEN + MAX_OPERANDS
COLLECTED = DELIVERED + MAX_OPERANDS
HOPS = COLLECTED + MAX_OPERANDS  # words of partial sums from element to element
SLOTS = HOPS + 1
REPEATED = SLOTS + 1  # slots that were not simulated again
DMA_BUSY = REPEATED + 1  # cycles of all channels
DMA_REQUESTS = DMA_BUSY + 1
LOADED = DMA_REQUESTS + 1  # by operand: words from DRAM
STORED = LOADED + MAX_OPERANDS
COUNTS = STORED + MAX_OPERANDS
