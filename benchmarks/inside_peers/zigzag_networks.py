"""In ZigZag's environment: its best mapping of every layer of its own networks, and its price of ours.

`python zigzag_networks.py layers FOLDER` writes `layers.json`: the different layers of the networks that it ships, as
its ONNX reader has them. `search FOLDER MACHINE MAPPING` writes `found-MACHINE.json`: the least energy that its search
(LOMA, six loop prime factors, objective energy) finds for each layer. `price FOLDER MACHINE MAPPING` reads
`ours-MACHINE.json` and writes `priced-MACHINE.json`: what its evaluator says of our loops and cuts.
"""

import json
import logging
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import yaml
import zigzag
from zigzag.api import get_hardware_performance_zigzag
from zigzag.opt.loma.engine import NoValidLoopOrderingFoundException
from zigzag.parser.onnx.conv_parser import ConvParser
from zigzag.parser.onnx.gemm_parser import GemmParser
from zigzag.parser.onnx.onnx_model_parser import ONNXModelParser
from zigzag_chains import EnergyOnly, Opened

logging.disable(logging.CRITICAL)

NETWORKS = {"resnet18": "ResNet-18", "mobilenetv2": "MobileNet-v2"}


def layers(folder: Path) -> None:
    """The different layers of each network, in its order, under the name of the first, with how often they run."""
    inputs = Path(zigzag.__file__).parent / "inputs"
    found: dict[str, dict[str, Any]] = {}
    for network in NETWORKS:
        for given in _user_formats(inputs / "workload" / f"{network}.onnx", folder / "mapping" / "default.yaml"):
            key = json.dumps(
                {name: value for name, value in given.items() if name not in ("id", "name", "operand_source")}
            )
            if key not in found:
                number = sum(one["network"] == network for one in found.values())
                name = f"{network}_{number + 1:02d}"
                source = dict.fromkeys(given["operand_source"], 0)
                kept = {**given, "id": 0, "name": name, "operand_source": source}
                found[key] = {"network": network, "times": {}, "layer": kept}
            times = found[key]["times"]
            times[network] = times.get(network, 0) + 1
    (folder / "layers.json").write_text(json.dumps(list(found.values()), indent=1) + "\n")


def _user_formats(model: Path, mapping: Path) -> list[dict[str, Any]]:
    """The layers of a network as ZigZag's reader writes them in the form of its YAML files."""
    found: list[dict[str, Any]] = []
    for parser in (ConvParser, GemmParser):
        plain = parser.get_layer_node_user_format

        def kept(self: Any, *given: Any, plain: Any = plain, **named: Any) -> dict[str, Any]:
            layer = plain(self, *given, **named)
            found.append(json.loads(json.dumps(layer)))
            return layer

        parser.get_layer_node_user_format = kept
    ONNXModelParser(str(model), str(mapping)).run()
    return found


def search(folder: Path, machine: str, mapping: str) -> None:
    """The least energy that ZigZag finds for each layer, with its loops and the processor's seconds; or nothing."""
    out = folder / f"found-{machine}.json"
    found = json.loads(out.read_text()) if out.exists() else {}
    for one in json.loads((folder / "layers.json").read_text()):
        name = one["layer"]["name"]
        if name in found:
            continue
        with tempfile.TemporaryDirectory() as at:
            workload = Path(at) / "workload.yaml"
            workload.write_text(yaml.safe_dump([one["layer"]]))
            start = time.process_time()
            try:
                energy, _, results = get_hardware_performance_zigzag(
                    str(workload),
                    str(folder / "hardware" / f"{machine}.yaml"),
                    str(folder / "mapping" / f"{mapping}.yaml"),
                    opt="energy",
                    dump_folder=at,
                    loma_show_progress_bar=False,
                )
            except NoValidLoopOrderingFoundException:  # the layer is too large for the machine
                found[name] = None
                out.write_text(json.dumps(found, indent=1) + "\n")
                continue
            seconds = time.process_time() - start
        ((evaluated, _),) = results[0][1]
        levels = evaluated.temporal_mapping.mapping_dic_origin
        loops = {
            str(operand): [[[str(dim), int(size)] for dim, size in level] for level in of_operand]
            for operand, of_operand in levels.items()
        }
        found[name] = {"energy_pj": float(energy), "seconds": round(seconds, 2), "loops": loops}
        out.write_text(json.dumps(found, indent=1) + "\n")


def price(folder: Path, machine: str, mapping: str) -> None:
    """What the evaluator says of our loops and cuts of each layer, by the rule of partial sums that they are for."""
    ours = json.loads((folder / f"ours-{machine}.json").read_text())
    given = {one["layer"]["name"]: one["layer"] for one in json.loads((folder / "layers.json").read_text())}
    out = folder / f"priced-{machine}.json"
    found: dict[str, dict[str, float]] = json.loads(out.read_text()) if out.exists() else {}
    for name, chains in ours.items():
        if name in found:
            continue
        opened = Opened(folder, (machine, mapping), given[name])
        plain = {sums: {"loops": chain["loops"], "cuts": chain["cuts"]} for sums, chain in chains.items()}
        found[name] = {sums: float(opened.priced(chain, EnergyOnly).energy_total) for sums, chain in plain.items()}
        out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    what, place, *more = sys.argv[1:]
    {"layers": layers, "search": search, "price": price}[what](Path(place), *more)
