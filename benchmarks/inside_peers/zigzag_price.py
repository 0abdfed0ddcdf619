"""In ZigZag's environment: price the mapping in a folder, or search for one; prints JSON."""

import json
import logging
import sys
import tempfile
import time
from pathlib import Path

from zigzag.api import get_hardware_performance_zigzag

logging.disable(logging.CRITICAL)


def main(folder: Path, what: str) -> None:
    """`price`: mapping.yaml on accelerator.yaml; `search` and `search-mixed`: LOMA on machine.yaml."""
    given = what == "price"
    files = ("accelerator.yaml", "mapping.yaml") if given else ("machine.yaml", "free.yaml")
    start = time.process_time()
    with tempfile.TemporaryDirectory() as results:
        energy, cycles, _ = get_hardware_performance_zigzag(
            str(folder / "workload.yaml"),
            str(folder / files[0]),
            str(folder / files[1]),
            opt="energy",
            dump_folder=results,
            loma_show_progress_bar=False,
            enable_mix_spatial_mapping=what == "search-mixed",
        )
    print(json.dumps({"energy_pj": energy, "cycles": cycles, "seconds": time.process_time() - start}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
