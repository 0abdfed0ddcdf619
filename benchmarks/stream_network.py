"""ResNet-18 on the four TPU-like cores of Stream 0.0.8: its genetic search beside our strategies.

Stream runs in an environment of its own, with the machine and the mapping file that it ships. docs/peers.md has the
same machine as a tree, which is read from there. Stream's cycles are those of its model, ours are simulated. Runs only
when it is asked for by name, because it installs Stream.
"""

import json
import re
import subprocess
import tempfile
import time
from pathlib import Path

import onnx
from onnx import shape_inference

from benchmarks.peers import Peer, environment
from tilestitch import api, zoo

PEER = Peer(  # the newest packages from before Stream left the layout of zigzag-dse 2
    "Stream 0.0.8",
    ("stream-dse==0.0.8", "zigzag-dse==2.5.3", "numpy<2", "pandas", "plotly", "seaborn"),
    ("3.11",),
    "stream_network.py",
    (),
)
SEARCHES = ((4, 4), (32, 24))  # individuals and generations
PAGE = Path(__file__).parent.parent / "docs" / "peers.md"
MACHINE = re.compile(r"^<!-- file: (stream-tpu-quad\.yaml) -->\n+```yaml\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def main() -> None:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        name, text = MACHINE.findall(PAGE.read_text(encoding="utf-8"))[0]
        (folder / name).write_text(text, encoding="utf-8")
        for strategy in ("layerwise", "graphturbo", "best"):
            start = time.process_time()
            done = api.compile("resnet18", str(folder / name), strategy=strategy)
            seconds = time.process_time() - start
            assert done.trace is not None
            print(f"  {strategy}: {done.trace.latency_cycles:,} cycles (simulated), {seconds:.1f} s", flush=True)
        python = environment(PEER)
        if python is None:
            return
        onnx.save(without_norms(zoo.build("resnet18")), str(folder / "resnet18.onnx"))
        script = Path(__file__).parent / "inside_peers" / PEER.script
        for individuals, generations in SEARCHES:
            command = [python, script, str(folder), str(individuals), str(generations)]
            run = subprocess.run(command, capture_output=True, text=True, check=True)
            theirs = json.loads(run.stdout.splitlines()[-1])
            searched = f"{individuals} individuals, {generations} generations"
            print(f"  Stream, {searched}: {theirs['cycles']:,} cycles (its model), {theirs['seconds']} s", flush=True)


def without_norms(model: onnx.ModelProto) -> onnx.ModelProto:
    """A network of one sample with its shapes, and without batch normalisations, which Stream takes for layers."""
    for value in model.graph.input:
        for dim in value.type.tensor_type.shape.dim:
            dim.dim_value = dim.dim_value or 1
    model = shape_inference.infer_shapes(model)
    before: dict[str, str] = {}
    kept = []
    for node in model.graph.node:
        names = [before.get(name, name) for name in node.input]
        del node.input[:]
        node.input.extend(names)
        if node.op_type == "BatchNormalization":
            before[node.output[0]] = node.input[0]
        else:
            kept.append(node)
    del model.graph.node[:]
    model.graph.node.extend(kept)
    return model


if __name__ == "__main__":
    main()
