"""Small valid files of every format of loop nests, mappings and machines, and ways to spoil them."""

import random
import re

from tilestitch.ir.loop_nest import LoopMapping, LoopNest, SlidingWindow, convolution, depthwise, product

EINSUM = "O[N,M,Ox,Oy] += I[N,C,2*Ox+Fx,2*Oy+Fy] * W[M,C,Fx,Fy]; N=1 M=64 C=3 Ox=112 Oy=112 Fx=7 Fy=7 I[1,3,230,230]"

DMAZERUNNER_LAYERS = """{
  "CONV": [
    {"name": "conv1", "size_tensor_A": [4, 3, 230, 230], "size_tensor_B": [64, 3, 7, 7], "strides": [2, 2]},
    {"name": "conv5_2", "size_tensor_A": [4, 512, 9, 9], "size_tensor_B": [512, 512, 3, 3], "strides": [1, 1],
     "instances": 3, "comment": "twice in the last block"}
  ],
  "GEMM": [{"name": "fc", "size_tensor_A": [4, 512], "size_tensor_B": [512, 1000]}],
  "DW_CONV": [{"name": "dw", "size_tensor_A": [1, 32, 114, 113], "size_tensor_B": [1, 32, 3, 3], "strides": [1, 2]}]
}
"""

DMAZERUNNER_MACHINE = """{
  "arch_details": {
    "pe_pipelined": true, "pe_pipeline_stages": 1, "data_type_size_in_bytes": 2, "dma_init_cycles": 291,
    "dma_cycles_per_byte": 0.24, "dma_frequency": 3200, "dataflow_accel_frequency": 500, "rf_energy": 0.96,
    "communication_energy": 2, "spm_energy": 13.5, "dram_energy": 200, "mac_energy": 0.075
  },
  "arch_basic": {
    "CGRA_SIZE": 256, "RF_SIZE": 512, "BYTES_PER_DATA": 2, "TOTAL_BANKS_IN_SPM": 32, "TOTAL_BYTES_IN_BANK": 2048
  }
}
"""

# Of conv5_2 above.
DMAZERUNNER_MAPPING = """Tiling factors (DRAM, SPM, RF, SPATIAL):  ((1, 8, 64, 1, 1, 1, 1), (1, 1, 8, 1, 1, 1, 1), \
(4, 16, 1, 1, 1, 3, 3), (1, 4, 1, 7, 7, 1, 1))
Ordering (DRAM, SPM): (['N', 'M', 'Ox', 'Oy', 'Fx', 'Fy', 'C'], ['Ox', 'Oy', 'N', 'M', 'Fx', 'Fy', 'C'])
"""


TIMELOOP_PROBLEM = """problem:
  instance: {C: 3, H: 224, Hdilation: 1, Hpad: 1, Hstride: 2, M: 32, N: 1, P: 112, Q: 112, R: 3, S: 3,
    Wdilation: 1, Wstride: 2}
  shape:
    coefficients:
    - default: 1
      name: Wstride
    - {default: 1, name: Hstride}
    - {default: 1, name: Wdilation}
    - {default: 1, name: Hdilation}
    data_spaces:
    - name: Weights
      projection:
      - - - C
      - - - M
      - - - R
      - - - S
    - name: Inputs
      projection:
      - - - N
      - - - C
      - - - R
          - Wdilation
        - - P
          - Wstride
      - - - S
          - Hdilation
        - - Q
          - Hstride
    - name: Outputs
      projection: [[[N]], [[M]], [[Q]], [[P]]]
      read_write: True
    dimensions: [C, M, R, S, N, P, Q]
    name: conv2D
"""

# A layer as CoSA writes it.
TIMELOOP_LAYER = """problem:
  C: 3
  Hdilation: 1
  Hstride: 2
  K: 64
  N: 1
  P: 112
  Q: 112
  R: 7
  S: 7
  Wdilation: 1
  Wstride: 2
  shape: cnn-layer
"""

ZIGZAG_LAYERS = """- id: 0 # conv1 stride 2
  name: conv1
  operator_type: Conv
  equation: O[b][k][oy][ox]+=W[k][c][fy][fx]*I[b][c][iy][ix]
  dimension_relations: [ix=2*ox+1*fx, iy=2*oy+1*fy]
  loop_dims: [B, K, C, OY, OX, FY, FX]
  loop_sizes: [1, 64, 3, 112, 112, 7, 7]
  operand_precision: {W: 8, I: 8, O: 16, O_final: 8}
  operand_source: {I: 0, W: 0}
  pr_loop_dims: [IY, IX]
  pr_loop_sizes: [224, 224]
  padding: [[3, 3], [3, 2]]
- id: 1
  operator_type: Pooling
  equation: O[b][g][oy][ox]+=W[fx][fy]*I[b][g][iy][ix]
  dimension_relations: [ix=2*ox+1*fx, iy=2*oy+1*fy]
  loop_dims: [B, G, OY, OX, FX, FY]
  loop_sizes: [1, 64, 56, 56, 3, 3]
  operand_precision: {I: 8, W: 0, O: 16, O_final: 8}
- id: 4
  operator_type: Add
  equation: O[b][g][oy][ox]=W[b][g][oy][ox]+I[b][g][oy][ox]
  loop_dims: [B, G, OY, OX]
  loop_sizes: [1, 64, 56, 56]
  operand_precision: {W: 8, I: 8, O: 16, O_final: 8}
"""


WORDS = ("0", "1", "2", "-1", "3.5", "1e9", "true", "null", "16777217", "99999999999999999999", "[]", "{}", "[1, 2]")
WORDS += ("x", "'*'", "C", '"1/3"', "~", "1e-30", "{a: 1}")


def spoilt(text: str, seed: int) -> str:
    """The text with a few words replaced, or a few characters left out, doubled, swapped or replaced."""
    draw = random.Random(seed)
    if seed % 2 == 0:
        for _ in range(draw.randint(1, 2)):
            words = list(re.finditer(r"[\w.]+", text)) or [re.search("", text)]
            word, other = draw.choice(words), draw.choice(words)
            assert word is not None
            assert other is not None
            new = draw.choice((*WORDS, other.group()))
            text = text[: word.start()] + new + text[word.end() :]
        return text
    letters = list(text)
    for _ in range(draw.randint(1, 4)):
        at = draw.randrange(len(letters))
        match draw.randrange(6):
            case 0:
                del letters[at : at + draw.randint(1, 12)]
            case 1:
                letters.insert(at, letters[draw.randrange(len(letters))])
            case 2:
                letters[at] = draw.choice("0123456789-+*,;:=[]{}()!&'\"\n #.eExX\t\x00\u2028é")
            case 3:
                other = draw.randrange(len(letters))
                letters[at], letters[other] = letters[other], letters[at]
            case 4:
                letters.insert(
                    at, draw.choice(("0", "-1", "99999999999999999999", "1e99", "null", "true", "NaN", "[]"))
                )
            case _:
                start = draw.randrange(len(letters))
                letters[at:at] = letters[start : start + draw.randint(1, 30)]
        letters = list("".join(letters)) or [" "]
    return "".join(letters)


def random_mapping(nest: LoopNest, seed: int) -> LoopMapping:
    """Factors that divide, and orders, without regard to any machine."""
    draw = random.Random(seed)
    levels: list[list[int]] = [[], [], [], []]
    for loop in nest.loops:
        left = loop.extent
        for level in levels[1:]:
            level.append(draw.choice([factor for factor in range(1, left + 1) if left % factor == 0]))
            left //= level[-1]
        levels[0].append(left)
    orders = [tuple(draw.sample(range(len(nest.loops)), len(nest.loops))) for _ in range(2)]
    dram, spm, rf, spatial = map(tuple, levels)
    return LoopMapping(dram, spm, rf, spatial, orders[0], orders[1])


SMALL_NESTS = (
    convolution("conv", n=2, m=6, c=4, output=(5, 6), window=SlidingWindow((3, 2), stride=(2, 1), dilation=(1, 3))),
    convolution("grouped", n=1, m=4, c=3, output=(4, 4), window=SlidingWindow((3, 3)), groups=2),
    convolution("one_by_one", n=1, m=8, c=8, output=(6, 6), window=SlidingWindow((1, 1), stride=(2, 2))),
    product("product", m=6, n=8, k=12),
    product("products", m=4, n=6, k=8, batch=3),
    depthwise("depthwise", n=1, c=6, output=(4, 4), window=SlidingWindow((3, 3), stride=(2, 2))),
)
