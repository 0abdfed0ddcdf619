"""Time and quality of mappings beside ZigZag and AccelForge, each in an environment of its own.

Our best mapping is priced by the other program's own model, beside what its search finds on the same machine for the
same objective, energy. Seconds are of the processor, of AccelForge of the clock, without imports and compilation. Runs
only when it is asked for by name, because it installs the two programs; environments are kept in TILESTITCH_PEERS, by
default ~/.cache/tilestitch/peers.

The machine is dMazeRunner's array without banks, and its network costs what writing a register does: so a word that
comes to an element has one price in all three programs. Their models differ all the same. ZigZag reads a register again
only when a loop moves the array, and shares no words between overlapping windows; AccelForge cannot keep an array in
registers while the scratchpad has its next tile. A mapping that is best here need not be best there. Where only the
scratchpad and DRAM cost energy, ZigZag and we price a product alike.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path

from tilestitch.formats.accelforge.written_mapping import accelforge_files
from tilestitch.formats.zigzag.written_mapping import zigzag_accelerator, zigzag_files
from tilestitch.hardware.array_machine import ArrayMachine, array_of_core
from tilestitch.hardware.load import load_machine
from tilestitch.ir.choices import Objective
from tilestitch.ir.loop_nest import LoopMapping, LoopNest, SlidingWindow, convolution, product
from tilestitch.mapping.search import search, search_space

LONGEST = 600  # seconds of one run of another program
NESTS = (
    convolution("conv5_2", n=1, m=512, c=512, output=(7, 7), window=SlidingWindow((3, 3))),
    convolution("conv2_2", n=1, m=64, c=64, output=(56, 56), window=SlidingWindow((3, 3))),
    product("gemm", m=512, n=768, k=768),
)
FREE_MAPPING = "- {name: default, spatial_mapping: null, memory_operand_links: {O: O, W: I2, I: I1}}\n"


@dataclass(frozen=True)
class Peer:
    """Another program: what to install, for which versions of Python, its script here, and its ways to search."""

    name: str
    packages: tuple[str, ...]
    pythons: tuple[str, ...]
    script: str
    searches: tuple[str, ...]


PEERS = (
    Peer(  # it imports six without asking for it
        "ZigZag 3.9.1",
        ("zigzag-dse==3.9.1", "six"),
        ("3.12", "3.13", "3.11"),
        "zigzag_price.py",
        ("search", "search-mixed"),
    ),
    Peer("AccelForge 1.0.467", ("accelforge==1.0.467",), ("3.12",), "accelforge_price.py", ("search",)),
)


def main() -> None:
    preset = array_of_core(load_machine("dmazerunner-256"))
    machine = replace(
        preset,
        banks=preset.scratchpad_bytes,
        bank_bytes=1,
        network_pj_per_byte=preset.register_pj_per_byte,
    )
    outside = replace(machine, register_pj_per_byte=0.0, network_pj_per_byte=0.0)
    for peer in PEERS:
        python = environment(peer)
        if python is None:
            continue
        for nest in NESTS:
            _compare(peer, python, nest, machine, "all prices")
            if nest.kind == "gemm" and peer.script == "zigzag_price.py":
                _compare(peer, python, nest, outside, "scratchpad and DRAM")


def _compare(peer: Peer, python: Path, nest: LoopNest, machine: ArrayMachine, prices: str) -> None:
    found, seconds = _ours(nest, machine)
    with tempfile.TemporaryDirectory() as place:
        _write(peer, Path(place), nest, machine, found)
        ours = _run(peer, python, place, "price")
        print(f"  {peer.name}, {nest.name}, {prices}: ours {_shown(ours)}, found in {seconds:.2f} s", flush=True)
        for what in peer.searches:
            if peer.script == "accelforge_price.py" and nest.kind != "gemm":
                print("    its search takes minutes for a convolution; left out")
                continue
            theirs = _run(peer, python, place, what)
            ratio = f", ours is {ours['energy_pj'] / theirs['energy_pj']:.3f} of it" if ours and theirs else ""
            took = f" in {theirs['seconds']:.2f} s" if theirs else ""
            print(f"    {what}: {_shown(theirs)}{took}{ratio}", flush=True)


def _ours(nest: LoopNest, machine: ArrayMachine) -> tuple[LoopMapping, float]:
    """The proven best, and the seconds of the second of two searches: the first may compile."""
    search(search_space(nest, machine), Objective.ENERGY)
    start = time.process_time()
    outcome = search(search_space(nest, machine), Objective.ENERGY)
    return outcome.best[0].mapping, time.process_time() - start


def _write(peer: Peer, place: Path, nest: LoopNest, machine: ArrayMachine, mapping: LoopMapping) -> None:
    if peer.script == "zigzag_price.py":
        files = zigzag_files(nest, machine, mapping)
        files |= {"machine.yaml": zigzag_accelerator(machine, (16, 16, 16)), "free.yaml": FREE_MAPPING}
    else:  # AccelForge charges the write of a register itself
        files = accelforge_files(nest, replace(machine, network_pj_per_byte=0.0), mapping)
    for name, text in files.items():
        (place / name).write_text(text, encoding="utf-8")


def _run(peer: Peer, python: Path, place: str, what: str) -> dict[str, float]:
    """What the other program says; nothing where it gave up."""
    script = Path(__file__).parent / "inside_peers" / peer.script
    path = f"{python.parent}{os.pathsep}{os.environ.get('PATH', '')}"
    try:
        done = subprocess.run(
            [python, script, place, what],
            capture_output=True,
            text=True,
            timeout=LONGEST,
            cwd=place,
            env={**os.environ, "PATH": path},
        )
    except subprocess.TimeoutExpired:
        print(f"    {what}: not done in {LONGEST} s")
        return {}
    if done.returncode != 0:
        reason = done.stderr.strip().splitlines()[-1:] or ["no reason"]
        print(f"    {what}: failed: {reason[0][:160]}")
        return {}
    return json.loads(done.stdout.strip().splitlines()[-1])


def _shown(result: dict[str, float]) -> str:
    return f"{result['energy_pj'] / 1e6:,.1f} uJ" if result else "nothing"


def environment(peer: Peer) -> Path | None:
    """The Python of an environment that has the program; makes it where there is none. None where it cannot be made."""
    root = Path(os.environ.get("TILESTITCH_PEERS", Path.home() / ".cache" / "tilestitch" / "peers"))
    folder = root / peer.packages[0].replace("==", "-")
    python = folder / "bin" / "python"
    if (folder / "done").exists():
        return python
    base = next((found for version in peer.pythons if (found := _python(version)) is not None), None)
    if base is None:
        print(f"  {peer.name}: needs Python {' or '.join(peer.pythons)}, found none")
        return None
    shutil.rmtree(folder, ignore_errors=True)
    print(f"  {peer.name}: installing into {folder}")
    for command in ([base, "-m", "venv", folder], [python, "-m", "pip", "install", "-q", *peer.packages]):
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            print(f"  {peer.name}: cannot be installed: {(done.stderr.strip().splitlines() or ['?'])[-1][:160]}")
            return None
    if shutil.which("dot") is None:  # AccelForge draws what it found, and fails without graphviz
        (folder / "bin" / "dot").write_text('#!/bin/sh\ncat > /dev/null\necho "<svg/>"\n', encoding="utf-8")
        (folder / "bin" / "dot").chmod(0o755)
    (folder / "done").touch()
    return python


def _python(version: str) -> str | None:
    """An interpreter of that version that starts."""
    if f"{sys.version_info.major}.{sys.version_info.minor}" == version:
        return sys.executable
    name = shutil.which(f"python{version}")
    if name is None or subprocess.run([name, "--version"], capture_output=True).returncode != 0:
        return None
    return name
