"""In ZigZag's environment: what its evaluator says of random orders of loops on its own machines.

`python zigzag_chains.py FOLDER` reads `hardware/` and `mapping/` there and writes `chains.json`. Orders and places are
drawn from a fixed seed; capacities are left aside, because the evaluator does not look at them either.
"""

import json
import logging
import random
import sys
import tempfile
from pathlib import Path
from typing import Any

import yaml
from zigzag.cost_model.cost_model import CostModelEvaluation
from zigzag.datatypes import LayerDim, LayerOperand
from zigzag.mapping.temporal_mapping import TemporalMapping, TemporalMappingType
from zigzag.opt.loma.engine import LomaEngine
from zigzag.stages.mapping.spatial_mapping_conversion import SpatialMappingConversionStage
from zigzag.stages.mapping.spatial_mapping_generation import SpatialMappingGeneratorStage
from zigzag.stages.parser.accelerator_parser import AcceleratorParserStage
from zigzag.stages.parser.workload_parser import WorkloadParserStage

logging.disable(logging.CRITICAL)

PAIRS = (
    *(("tpu_like", "tpu_like"), ("ascend_like", "ascend_like"), ("edge_tpu_like", "edge_tpu_like")),
    *(("eyeriss_like", "eyeriss_like"), ("generic_array_cacti", "default"), ("meta_prototype", "meta_prototype_like")),
    *(("tesla_npu_like", "tesla_npu_like"), ("gemm_l1", "gemm_l1"), ("gemm_l1_l3", "gemm_l1_l3")),
    *(("ascend_like", "ascend_like_mixed"), ("edge_tpu_like", "edge_tpu_like_mixed"), ("tpu_like", "tpu_like_mixed")),
)
SEEDS = ((1, 4, True), (2, 10, False))  # seed, chains of each layer, whether with latencies (slow)


def layer(name: str, kind: str, equation: str, sizes: dict[str, int], bits: tuple[int, int], **more: Any) -> dict:
    """A layer as ZigZag's workloads have it; `bits` are those of W and of partial sums."""
    return {
        "id": 0,
        "name": name,
        "operator_type": kind,
        "equation": equation,
        "dimension_relations": [],
        "loop_dims": list(sizes),
        "loop_sizes": list(sizes.values()),
        "operand_precision": {"W": bits[0], "I": 8, "O": bits[1], "O_final": 8},
        "operand_source": {"I": 0, "W": 0},
        **more,
    }


def convolution(name: str, sizes: dict[str, int], stride: int = 1, *, padded: bool = True, bits: int = 16) -> dict:
    group = "[g]" if "G" in sizes else ""
    equation = f"O[b]{group}[k][oy][ox]+=W{group}[k][c][fy][fx]*I[b]{group}[c][iy][ix]"
    relations = [f"ix={stride}*ox+1*fx", f"iy={stride}*oy+1*fy"]
    around = [[sizes[loop] // 2] * 2 for loop in ("FX", "FY")]
    padding = {"pr_loop_dims": ["IX", "IY"], "padding": around} if padded else {}
    return layer(name, "Conv", equation, sizes, (8, bits), **{"dimension_relations": relations, **padding})


def sized(*sizes: int, names: str = "B K C OY OX FY FX") -> dict[str, int]:
    return dict(zip(names.split(), sizes, strict=True))


LAYERS = (
    convolution("conv2_2", sized(1, 64, 64, 56, 56, 3, 3), padded=False),
    convolution("conv1", sized(1, 64, 3, 112, 112, 7, 7), 2),
    convolution("conv5_2", sized(1, 512, 512, 7, 7, 3, 3)),
    convolution("down", sized(1, 128, 64, 28, 28, 1, 1), 2, padded=False),
    convolution("dw", sized(1, 96, 1, 1, 14, 14, 3, 3, names="B G K C OY OX FY FX")),
    convolution("odd", sized(2, 50, 30, 13, 17, 5, 3), bits=24),
    convolution("fc", sized(1, 1000, 512, 1, 1, 1, 1), padded=False),
    layer(
        "add",
        "Add",
        "O[b][g][oy][ox]=W[b][g][oy][ox]+I[b][g][oy][ox]",
        sized(1, 64, 28, 28, names="B G OY OX"),
        (8, 16),
    ),
    layer(
        *("pool", "Pooling", "O[b][g][oy][ox]+=W[fx][fy]*I[b][g][iy][ix]"),
        *(sized(1, 64, 28, 28, 3, 3, names="B G OY OX FY FX"), (0, 16)),
        dimension_relations=["ix=2*ox+1*fx", "iy=2*oy+1*fy"],
    ),
)
PRODUCTS = tuple(
    layer(name, "Gemm", "O[d0][d1]+=I[d0][d2]*W[d2][d1]", sized(*sizes, names="D0 D1 D2"), (8, 32))
    for name, sizes in (("gemm", (64, 96, 40)), ("gemm2", (17, 30, 100)))
)


class Unasked:
    """A stage that the others want to be followed by."""


class Opened:
    """One layer on one machine of ZigZag's, with what its mapping file spreads over the units."""

    def __init__(self, folder: Path, pair: tuple[str, str], given: dict) -> None:
        self.accelerator = AcceleratorParserStage.parse_accelerator(str(folder / "hardware" / f"{pair[0]}.yaml"))
        with tempfile.TemporaryDirectory() as at:
            workload = Path(at) / "workload.yaml"
            workload.write_text(yaml.safe_dump([given]))
            mapping = str(folder / "mapping" / f"{pair[1]}.yaml")
            parser = WorkloadParserStage([Unasked], workload=str(workload), mapping=mapping)  # pyright: ignore
            self.node = next(iter(parser.parse_workload().node_list))
        (unrolled,) = SpatialMappingGeneratorStage(
            [Unasked], accelerator=self.accelerator, layer=self.node
        ).generate_spatial_mappings()  # pyright: ignore
        self.node.spatial_mapping = unrolled
        stage = SpatialMappingConversionStage([Unasked], accelerator=self.accelerator, layer=self.node)  # pyright: ignore
        self.spatial, self.whole = stage.convert_user_spatial_mapping(unrolled)

    def loops(self) -> list[tuple[str, int]]:
        """The temporal loops by their primes."""
        engine = LomaEngine(
            accelerator=self.accelerator,
            layer=self.node,
            spatial_mapping=self.spatial,
            mapping_type=TemporalMappingType.UNEVEN,
        )
        return [(str(dim), prime) for dim, size in engine.get_temporal_loops().items() for prime in primes(int(size))]

    def memories(self, operand: LayerOperand) -> int:
        """How many memories an operand has one above another."""
        home = self.node.memory_operand_links.layer_to_mem_op(operand)
        return len(self.accelerator.memory_hierarchy.get_memory_levels(home))

    def priced(self, chain: dict, model: type[CostModelEvaluation] = CostModelEvaluation) -> CostModelEvaluation:
        """What the evaluator says of loops from the innermost and cuts, the text and numbers of `chains.json`."""
        words = chain["loops"].split()
        loops = [(name, int(size)) for name, size in zip(words[::2], words[1::2], strict=True)]
        levels: dict[LayerOperand, list] = {}
        for operand in self.node.layer_operands:
            ends = chain["cuts"][str(operand)]
            parts = zip([0, *ends], ends, strict=False)
            levels[operand] = [[(LayerDim(dim), size) for dim, size in loops[start:end]] for start, end in parts]
        return model(
            accelerator=self.accelerator,
            layer=self.node,
            spatial_mapping=self.spatial,
            spatial_mapping_int=self.whole,
            temporal_mapping=TemporalMapping(levels, self.node, TemporalMappingType.UNEVEN),
        )


def evaluated(folder: Path, pair: tuple[str, str], given: dict, seed: random.Random, latency: bool) -> dict:
    """One random chain of a layer with its price."""
    opened = Opened(folder, pair, given)
    loops = opened.loops()
    seed.shuffle(loops)
    cuts: dict[str, list[int]] = {}
    for operand in opened.node.layer_operands:
        inner = (seed.randint(0, len(loops)) for _ in range(opened.memories(operand) - 1))
        cuts[str(operand)] = [*sorted(inner), len(loops)]
    chain = {"loops": " ".join(f"{dim} {size}" for dim, size in loops), "cuts": cuts}
    found = opened.priced(chain, CostModelEvaluation if latency else EnergyOnly)
    cycles = float(found.latency_total2) if latency else None
    return {
        "machine": pair[0],
        "mapping": pair[1],
        "layer": given["name"],
        **chain,
        "energy_pj": float(found.energy_total),
        "latency_cycles": cycles,
    }


class EnergyOnly(CostModelEvaluation):
    """The evaluator without its latency, which takes nearly all of its time."""

    def run(self) -> None:
        self.calc_memory_utilization()
        self.calc_memory_word_access()
        self.calc_energy()


def primes(number: int) -> list[int]:
    found, prime = [], 2
    while number > 1:
        if number % prime:
            prime += 1
        else:
            found, number = [*found, prime], number // prime
    return found


def main(folder: Path) -> None:
    chains = []
    for number, count, latency in SEEDS:
        seed = random.Random(number)
        for pair in PAIRS:
            for given in PRODUCTS if pair[0].startswith("gemm") else LAYERS:
                chains += [evaluated(folder, pair, given, seed, latency) for _ in range(count)]
    layers = json.dumps([*LAYERS, *PRODUCTS])
    rows = ",\n".join(json.dumps(chain) for chain in chains)
    (folder / "chains.json").write_text(f'{{"layers": {layers},\n"chains": [\n{rows}\n]}}\n')


if __name__ == "__main__":
    main(Path(sys.argv[1]))
