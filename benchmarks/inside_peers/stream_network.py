"""In Stream's environment: ResNet-18 on its four TPU-like cores, by its genetic search.

`python stream_network.py FOLDER INDIVIDUALS GENERATIONS` reads `resnet18.onnx` there, and prints cycles, energy and
seconds of the processor as JSON. Layers are divided into rows of their results (`hint_loops`, as Stream's examples do).
"""

import contextlib
import io
import json
import logging
import sys
import time
from pathlib import Path

from stream.classes.stages import (
    GenerateCNWorkloadHybridStage,
    InterCoreMappingStage,
    IntraCoreMappingStage,
    StreamONNXModelParserStage,
)
from zigzag.classes.stages import AcceleratorParserStage, MainStage

logging.disable(logging.CRITICAL)


def main(folder: Path, individuals: int, generations: int) -> None:
    stages = MainStage(
        [
            AcceleratorParserStage,
            StreamONNXModelParserStage,
            GenerateCNWorkloadHybridStage,
            IntraCoreMappingStage,
            InterCoreMappingStage,
        ],
        accelerator="stream.inputs.examples.hardware.TPU_like_quad_core",
        workload_path=str(folder / "resnet18.onnx"),
        mapping_path="stream.inputs.examples.mapping.tpu_like_quad_core",
        loma_lpf_limit=6,
        nb_ga_individuals=individuals,
        nb_ga_generations=generations,
        node_hw_performances_path=str(folder / "costs.pickle"),
        plot_hof=True,  # without, no result is kept
        plot_file_name=False,
        plot_full_schedule=False,
        plot_data_transfer=False,
        cn_define_mode=1,
        hint_loops=[("OY", "all")],
        scheduler_candidate_selection="memory",
        operands_to_prefetch=[],
    )
    start = time.process_time()
    with contextlib.redirect_stdout(io.StringIO()):
        answer, _ = stages.run()
    found = answer[0] if isinstance(answer, (list, tuple)) else answer
    seconds = time.process_time() - start
    print(json.dumps({"cycles": int(found.latency), "energy_pj": float(found.energy), "seconds": round(seconds, 1)}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), *map(int, sys.argv[2:]))
