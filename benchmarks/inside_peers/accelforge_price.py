"""In AccelForge's environment: price the mapping in a folder, or search for one; prints JSON."""

import json
import sys
import time
from pathlib import Path

import accelforge


def main(folder: Path, what: str) -> None:
    """`price`: mapping.yaml on arch.yaml; `search`: its mapper on arch.yaml, for energy."""
    files = ["workload.yaml", "arch.yaml", *(["mapping.yaml"] if what == "price" else [])]
    start = time.perf_counter()  # its workers stay, so their processor time is not to be seen
    spec = accelforge.Spec.from_yaml(*(str(folder / file) for file in files))
    found = spec.evaluate_mapping() if what == "price" else spec.map_workload_to_arch(print_progress=False)
    energy, latency = (float(found.data[f"Total<SEP>{column}"].iloc[0]) for column in ("energy", "latency"))
    print(json.dumps({"energy_pj": energy * 1e12, "seconds_of_run": latency, "seconds": time.perf_counter() - start}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
