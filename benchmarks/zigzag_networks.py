"""Every layer of ResNet-18 and MobileNet-v2 on ZigZag's machines: its best mapping and ours, in its own evaluator.

ZigZag 3.9.1 runs in an environment of its own and searches the layers of the networks that it ships, with what its
mapping files spread over the units (eyeriss_like, which has none: K over 14 and C over 12; the two machines for
products, whose files name no loops of convolutions: OX, C and K over 8 each). Ours is the proven best
with the same spread, by ZigZag's rule for sums (`final`) and with sums at full width. All three are priced by its
evaluator. Runs only when it is asked for by name; it takes ZigZag 3 to 6 processor seconds a layer. What is found is
kept in a folder, so that it can be stopped and run again: `TILESTITCH_ZIGZAG`, by default below `TILESTITCH_PEERS`.
`tests/data/zigzag/networks.json` and the table in docs/tree-formats.md are what it writes.
"""

import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.peers import PEERS, environment
from tilestitch.base.errors import DoesNotFit
from tilestitch.formats.zigzag.tree_machine import zigzag_tree
from tilestitch.formats.zigzag.tree_mapping import chosen_mapping, placed_layer, zigzag_tree_mappings
from tilestitch.formats.zigzag.tree_workload import zigzag_tree_layers
from tilestitch.mapping.tree.chain import TreeMapping
from tilestitch.mapping.tree.placed import PlacedNest
from tilestitch.mapping.tree.search import best_mapping
from tilestitch.mapping.tree.tables import Sums

MACHINES = {  # with the mapping files that ZigZag has for them, or ours where it has none for convolutions
    "tpu_like": "tpu_like",
    "eyeriss_like": "eyeriss_like",
    "edge_tpu_like": "edge_tpu_like",
    "meta_prototype": "meta_prototype_like",
    "ascend_like": "ascend_like",
    "tesla_npu_like": "tesla_npu_like",
    "generic_array_cacti": "default",
    "gemm_l1": "gemm_convolution",
    "gemm_l1_l3": "gemm_convolution",
}
ROOT = Path(__file__).parent.parent
DATA = ROOT / "tests" / "data" / "zigzag"
SCRIPT = Path(__file__).parent / "inside_peers" / "zigzag_networks.py"


def main() -> None:
    python = environment(PEERS[0])
    if python is None:
        return
    kept = Path(os.environ.get("TILESTITCH_PEERS", Path.home() / ".cache" / "tilestitch" / "peers")) / "networks"
    folder = Path(os.environ.get("TILESTITCH_ZIGZAG", kept))
    for part in ("hardware", "mapping"):
        shutil.copytree(DATA / part, folder / part, dirs_exist_ok=True)
    if not (folder / "layers.json").exists():
        _run(python, "layers", str(folder))
    layers = json.loads((folder / "layers.json").read_text())
    rows: list[dict[str, Any]] = []
    for machine, mapping in MACHINES.items():
        _run(python, "search", str(folder), machine, mapping)
        ours = {one["layer"]["name"]: our_chains(machine, mapping, one["layer"]) for one in layers}
        (folder / f"ours-{machine}.json").write_text(json.dumps(ours, indent=1) + "\n")
        _run(python, "price", str(folder), machine, mapping)
        rows += _rows(folder, machine, mapping, layers)
        print("\n".join(table([row for row in rows if row["machine"] == machine])), flush=True)
    given = json.dumps([one["layer"] for one in layers])
    text = ",\n".join(json.dumps(row) for row in rows)
    (DATA / "networks.json").write_text(f'{{"layers": {given},\n"rows": [\n{text}\n]}}\n')


def placed(machine: str, mapping: str, layer: dict[str, Any]) -> PlacedNest | None:
    """A layer with what ZigZag's mapping file spreads; nothing where it leaves an axis to a search."""
    tree, _ = zigzag_tree((DATA / "hardware" / f"{machine}.yaml").read_text(encoding="utf-8"), machine)
    entries, _ = zigzag_tree_mappings((DATA / "mapping" / f"{mapping}.yaml").read_text(encoding="utf-8"), mapping)
    (found,), _ = zigzag_tree_layers(json.dumps([layer]), layer["name"])
    nests, _ = placed_layer(found, chosen_mapping(found, entries, mapping), tree)
    return nests[0] if len(nests) == 1 else None


def our_chains(machine: str, mapping: str, layer: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The best mapping by each rule for sums, as `chains.json` has mappings, with our own price."""
    nest = placed(machine, mapping, layer)
    found: dict[str, dict[str, Any]] = {}
    for sums in Sums:
        if nest is None:
            continue
        try:
            best = best_mapping(nest, sums)
        except DoesNotFit:
            continue
        assert best.is_proven
        found[str(sums)] = {**chain_text(nest, best.mapping), "price_pj": best.price.energy_pj}
    return found


def chain_text(nest: PlacedNest, mapping: TreeMapping) -> dict[str, Any]:
    """Loops from the innermost with their factors, and the cuts of each operand."""
    names = [loop.name for loop in nest.nest.loops]
    cuts = {array.name: list(ends) for array, ends in zip(nest.operands, mapping.cuts, strict=True)}
    return {"loops": " ".join(f"{names[loop]} {factor}" for loop, factor in mapping.loops), "cuts": cuts}


def _rows(folder: Path, machine: str, mapping: str, layers: list[dict[str, Any]]) -> list[dict[str, Any]]:
    theirs = json.loads((folder / f"found-{machine}.json").read_text())
    priced = json.loads((folder / f"priced-{machine}.json").read_text())
    rows: list[dict[str, Any]] = []
    for one in layers:
        name = one["layer"]["name"]
        if theirs.get(name) is not None and priced.get(name):  # else one of us has no mapping
            rows.append(
                {
                    "machine": machine,
                    "mapping": mapping,
                    "layer": name,
                    "network": one["network"],
                    "zigzag_pj": theirs[name]["energy_pj"],
                    "zigzag_seconds": theirs[name]["seconds"],
                    **{f"ours_{sums}_pj": energy for sums, energy in priced[name].items()},
                }
            )
    return rows


def table(rows: list[dict[str, Any]]) -> list[str]:
    """ZigZag's energy over ours, layer by layer; above 1 ours is better."""
    lines = ["| machine | layer | ZigZag's best pJ | ours, its rule | ratio | ours, full sums | ratio |"]
    for row in rows:
        final, full = row.get("ours_final_pj"), row.get("ours_full_pj")
        cells = [f"{one:,.0f} | {row['zigzag_pj'] / one:.4f}" if one else "- | -" for one in (final, full)]
        lines.append(f"| {row['machine']} | {row['layer']} | {row['zigzag_pj']:,.0f} | {' | '.join(cells)} |")
    return lines


def _run(python: Path, *arguments: str) -> None:
    with tempfile.TemporaryDirectory() as at:
        subprocess.run([python, SCRIPT, *arguments], check=True, cwd=at)


if __name__ == "__main__":
    main()
