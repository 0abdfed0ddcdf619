"""Which compiled functions the commands call: `python -m tests.helpers.translations` writes the package's list anew."""

import json
import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

from tilestitch.base import translation

GEMM = "O[m,n]+=A[m,k]*B[k,n];m=16,n=16,k=16"
PAIR = "'S[m,n] += Q[m,d] * K[n,d]; O[m,e] += S[m,n] * V[n,e]; m=16 n=16 d=16 e=16'"
COMMANDS = {  # by the name in the list: the runs that come to all that it calls
    "compile": (
        "compile resnet18:small --machine stcp920 --batch 8 --verify",
        "compile bert-base-8:small --machine toy --verify",
        "compile resnet18:small --machine stcp920 --batch 8 --strategy best",
    ),
    "map": (
        "map resnet18:small --machine eyeriss --certificate proof.json",
        "map resnet18:small --machine eyeriss --check proof.json",
    ),
    "map on a tree": tuple(
        f"map {run}"
        for run in (
            f"{GEMM} --machine gemmini --objective energy --certificate proof.json",
            f"{GEMM} --machine gemmini --check proof.json",
            f"{GEMM} --machine gemmini --objective edp --certificate proof.json",
            f"{GEMM} --machine gemmini --check proof.json",
            f"{GEMM} --machine eyeriss-like --objective edp --certificate proof.json",
            f"{GEMM} --machine eyeriss-like --check proof.json",
            f"{GEMM} --machine nvdla --objective pareto --certificate proof.json",
            f"{GEMM} --machine nvdla --check proof.json",
            f"{GEMM} --machine eyeriss --storage uneven --objective energy",
            f"{GEMM} --machine simba --objective edp",
            f"{PAIR} --machine tpu-v4i --fuse 2 --objective energy",
            f"{PAIR} --machine tpu-v4i --fuse 2 --objective edp",
        )
    ),
    "simulate": ("simulate resnet18:small --machine eyeriss",),
    "simulate on a tree": (f"simulate {GEMM} --machine gemmini", f"simulate {PAIR} --machine tpu-v4i --fuse 2"),
}
RECORDER = """
import json, sys
import numba.core.event as events
from tilestitch.base import tiers
from tilestitch.base.translation import Helper, is_tiered, spelled
from tilestitch.cli.start import main
tiers.SECONDS_PER_INSTRUCTION = 0  # nothing is interpreted
Helper.start = lambda helper, function: None  # or what it translates would be missing
depth, calls, inside = 0, [], []
class Listener(events.Listener):
    def on_start(self, event):
        global depth
        depth += 1
    def on_end(self, event):
        global depth
        depth -= 1
        function = event.data["dispatcher"].py_func
        if function.__module__.startswith("tilestitch."):
            arguments = [spelled(one) for one in event.data["args"]]
            inside.append([f"{function.__module__}:{function.__qualname__}", arguments])
        if depth == 0:
            calls.extend(inside[-1:] if is_tiered(event.data["dispatcher"]) else inside[::-1])
            inside.clear()
events.register("numba:compile", Listener())
try:
    main()
except SystemExit as end:
    if end.code:
        raise
with open(OUT, "w") as file:
    json.dump(calls, file)
"""


def recorded(command: str, folder: Path) -> list[list]:
    """The calls of one run, in which nothing is translated yet."""
    out = folder / "calls.json"
    subprocess.run(
        [sys.executable, "-c", RECORDER.replace("OUT", repr(str(out))), *shlex.split(command), "--quiet"],
        cwd=folder,
        env=os.environ | {"NUMBA_CACHE_DIR": str(folder / "cache")},
        stdout=subprocess.DEVNULL,
        check=True,
    )
    return json.loads(out.read_text())


def listed() -> dict[str, list[list]]:
    """What the list of the package has to be; each command on an empty cache of its own."""
    found: dict[str, list[list]] = {}
    for name, runs in COMMANDS.items():
        with tempfile.TemporaryDirectory() as folder:
            calls = [json.dumps(call) for run in runs for call in recorded(run, Path(folder))]
        found[name] = [json.loads(call) for call in dict.fromkeys(calls)]
    return found


def text_of(found: dict[str, list[list]]) -> str:
    """A line for each call."""
    lists = (
        f"{json.dumps(name)}: [\n" + ",\n".join(json.dumps(call) for call in calls) + "\n]"
        for name, calls in found.items()
    )
    return "{\n" + ",\n".join(lists) + "\n}\n"


if __name__ == "__main__":
    place = Path(translation.__file__).parent / translation.FILE
    place.write_text(text_of(listed()), encoding="utf-8")
