"""Small valid files of every format of loop nests, mappings and machines, and ways to spoil them."""

import random

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


def spoilt(text: str, seed: int) -> str:
    """The text with a few characters left out, doubled, swapped or replaced."""
    draw = random.Random(seed)
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
