"""Mappings of Timeloop and AccelForge on machines of theirs, with what those programs say of them.

Timeloop: the exercise `04-model-conv1d+oc-3levelspatial` of its tutorial (timeloop-accelergy-exercises of the Accelergy
project, MIT), said again: 16 elements, each with a buffer and registers, and two mappings. Words are those of its
results, `timeloop-model.stats.txt`, in one memory each: read, filled, updated. AccelForge: a product and a machine
of our own; bits are those that its 1.0.467 gives for each action.
"""

TIMELOOP_ARCH = """
architecture:
  version: 0.4
  nodes:
  - !Container {name: system, attributes: {technology: "40nm", global_cycle_seconds: 1e-9}}
  - !Component {name: MainMemory, class: DRAM, attributes: {width: 256, datawidth: 8}}
  - !Container {name: PE, spatial: {meshX: 16}}
  - !Component {name: GlobalBuffer, class: SRAM, attributes: {depth: 32768, width: 64, datawidth: 8}}
  - !Component {name: RegisterFile, class: regfile, attributes: {depth: 64, width: 8, datawidth: 8}}
  - !Component {name: MACC, class: intmac, attributes: {datawidth: 8}}
"""
TIMELOOP_ERT = """
ERT:
  version: 0.4
  tables:
  - {name: system.MainMemory, actions: [{name: read, energy: 2048}, {name: write, energy: 2048}]}
  - {name: system.GlobalBuffer, actions: [{name: read, energy: 43.353054}, {name: write, energy: 30.878292}]}
  - {name: system.RegisterFile, actions: [{name: read, energy: 0.42564}, {name: write, energy: 0.42564}]}
  - {name: system.MACC, actions: [{name: compute, energy: 0.845}]}
"""
TIMELOOP_PROBLEM = """
problem:
  shape:
    name: conv
    dimensions: [C, K, R, P]
    data_spaces:
    - {name: Weights, projection: [[[C]], [[K]], [[R]]]}
    - {name: Inputs, projection: [[[C]], [[R], [P]]]}
    - {name: Outputs, projection: [[[K]], [[P]]], read_write: true}
  instance: {C: 32, K: 32, R: 3, P: 16}
"""
CHANNELS_SPREAD = """
mapping:
- {target: MainMemory, type: temporal, factors: "R=1,P=1,K=1,C=1", permutation: PRKC}
- {target: inter_PE_spatial, type: spatial, factors: "R=1,P=1,K=1,C=16", permutation: PRKC}
- {target: inter_PE_spatial, type: temporal, factors: "C=1,K=1,R=1,P=1", permutation: CKRP}
- {target: inter_PE_spatial, type: dataspace, bypass: [Weights, Inputs, Outputs]}
- {target: GlobalBuffer, type: temporal, factors: "R=3,P=1,K=32,C=2", permutation: PRKC}
- {target: RegisterFile, type: temporal, factors: "R=1,P=0,K=1,C=1", permutation: RPKC}
"""
FILTERS_SPREAD = CHANNELS_SPREAD.replace("K=1,C=16", "K=16,C=1").replace("K=32,C=2", "K=2,C=32")
TIMELOOP_WORDS = {  # by memory and data space, in each instance
    CHANNELS_SPREAD: {
        ("RegisterFile", "Weights"): (3072, 192, 0),
        ("RegisterFile", "Inputs"): (3072, 1152, 0),
        ("RegisterFile", "Outputs"): (2560, 512, 3072),
        ("GlobalBuffer", "Weights"): (192, 192, 0),
        ("GlobalBuffer", "Inputs"): (1152, 36, 0),
        ("GlobalBuffer", "Outputs"): (512, 0, 1024),
        ("MainMemory", "Weights"): (3072, 0, 0),
        ("MainMemory", "Inputs"): (576, 0, 0),
        ("MainMemory", "Outputs"): (0, 0, 512),
    },
    FILTERS_SPREAD: {
        ("RegisterFile", "Weights"): (3072, 192, 0),
        ("RegisterFile", "Inputs"): (3072, 1152, 0),
        ("RegisterFile", "Outputs"): (3040, 992, 3072),
        ("GlobalBuffer", "Weights"): (192, 192, 0),
        ("GlobalBuffer", "Inputs"): (1152, 576, 0),
        ("GlobalBuffer", "Outputs"): (992, 0, 1024),
        ("MainMemory", "Weights"): (3072, 0, 0),
        ("MainMemory", "Inputs"): (576, 0, 0),
        ("MainMemory", "Outputs"): (0, 0, 512),
    },
}
FORGE_WORKLOAD = """
workload:
  bits_per_value: {I: 8, W: 8, O: 8}
  einsums:
  - name: product
    tensor_accesses:
    - name: I
      projection: {M: m, K: k}
    - name: W
      projection: {K: k, N: n}
    - name: O
      projection: {M: m, N: n}
      output: true
    iteration_space_shape: [0 <= m < 16, 0 <= n < 24, 0 <= k < 32]
"""
FORGE_ARCH = """
arch:
  nodes:
  - !Memory
    name: Main
    size: inf
    leak_power: 0
    area: 0
    actions:
    - {name: read, energy: 7e-12, throughput: 8e9}
    - {name: write, energy: 9e-12, throughput: 8e9}
    tensors: {keep: All}
  - !Memory
    name: Buffer
    size: 1000000
    leak_power: 0
    area: 0
    actions:
    - {name: read, energy: 1e-12, throughput: 64e9}
    - {name: write, energy: 2e-12, throughput: 64e9}
    tensors: {keep: I | O}
  - !Container
    name: PE
    spatial: [{name: rows, fanout: 4}, {name: columns, fanout: 2}]
  - !Memory
    name: Register
    size: 1000
    leak_power: 0
    area: 0
    actions:
    - {name: read, energy: 0.25e-12, throughput: 64e9}
    - {name: write, energy: 0.5e-12, throughput: 64e9}
    tensors: {keep: All}
  - !Compute
    name: MAC
    leak_power: 0
    area: 0
    actions: [{name: compute, energy: 0.25e-12, throughput: 1e9}]
"""
FORGE_MAPPING = """
mapping:
  nodes:
  - !Storage {tensors: [I, W, O], component: Main}
  - !Temporal {rank_variable: n, tile_shape: 12}
  - !Storage {tensors: [O], component: Buffer}
  - !Temporal {rank_variable: k, tile_shape: 16}
  - !Storage {tensors: [I], component: Buffer}
  - !Temporal {rank_variable: m, tile_shape: 8}
  - !Spatial {rank_variable: k, tile_shape: 4, name: rows, component: PE}
  - !Spatial {rank_variable: m, tile_shape: 4, name: columns, component: PE}
  - !Storage {tensors: [W], component: Register}
  - !Temporal {rank_variable: n, tile_shape: 3}
  - !Storage {tensors: [I, O], component: Register}
  - !Temporal {rank_variable: k, tile_shape: 1}
  - !Temporal {rank_variable: m, tile_shape: 1}
  - !Temporal {rank_variable: n, tile_shape: 1}
  - !Compute {einsum: product, component: MAC}
"""
FORGE_BITS = {  # (read, written)
    ("Register", "I"): (98304, 32768),
    ("Buffer", "I"): (32768, 8192),
    ("Main", "I"): (8192, 0),
    ("Register", "O"): (110592, 110592),
    ("Buffer", "O"): (6144, 6144),
    ("Main", "O"): (0, 3072),
    ("Register", "W"): (98304, 24576),
    ("Main", "W"): (12288, 0),
}
FORGE_PJ = 402_432.0
