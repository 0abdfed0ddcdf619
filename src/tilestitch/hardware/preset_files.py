"""The files of the machines that come with the package, and what lists say of each without reading all of it."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from math import prod

from tilestitch.hardware.yaml_tree import Scalar, Tree, read_tree

_TREES = "trees"


@dataclass(frozen=True, slots=True)
class PresetLine:
    """A machine that is built in, in one line; its numbers by name."""

    name: str
    description: str
    size: str
    form: str  # "chip" or "tree"
    numbers: tuple[tuple[str, int], ...]


@cache
def preset_names() -> tuple[str, ...]:
    """The machines of clusters and cores that come with the package, in alphabetical order."""
    return tuple(sorted(_names("presets")))


@cache
def tree_names() -> tuple[str, ...]:
    """The machines as trees that come with the package, in alphabetical order."""
    return tuple(sorted(_names("presets", _TREES)))


def preset_text(name: str) -> str:
    """The YAML text of one of either."""
    folder = ("presets", _TREES) if name in tree_names() else ("presets",)
    return files("tilestitch.hardware").joinpath(*folder, f"{name}.yaml").read_text(encoding="utf-8")


def is_tree_file(found: Tree) -> bool:
    """Whether what a file says is meant as a tree: memories in a list, or keys that only trees have, and no cores."""
    if not isinstance(found, dict) or "cores" in found or "clusters" in found:
        return False
    return isinstance(found.get("memories"), list) or "axes" in found or "mac_pj" in found


def preset_lines() -> Iterator[PresetLine]:
    """Every machine of the package: those of clusters and cores, then trees. Reads no more than the lines say."""
    for name in (*preset_names(), *tree_names()):
        found = read_tree(preset_text(name), f"{name}.yaml", [])
        assert isinstance(found, dict), name
        yield (_tree_line if is_tree_file(found) else _chip_line)(found)


def _names(*folder: str) -> Iterator[str]:
    for entry in files("tilestitch.hardware").joinpath(*folder).iterdir():
        if entry.name.endswith(".yaml"):
            yield entry.name.removesuffix(".yaml")


def _chip_line(found: dict[str, Tree]) -> PresetLine:
    clusters = _number(found["clusters"])
    cores = sum(_number(group["count"]) for group in _mappings(found["cores"]))
    numbers = (("clusters", clusters), ("cores_per_cluster", cores), ("clock_hz", _number(found["clock_hz"])))
    return PresetLine(_text(found["name"]), _text(found["description"]), f"{clusters} x {cores} cores", "chip", numbers)


def _tree_line(found: dict[str, Tree]) -> PresetLine:
    units = prod(_number(axis["size"]) for axis in _mappings(found["axes"]))
    numbers = (("units", units), ("memories", len(_mappings(found["memories"]))))
    return PresetLine(_text(found["name"]), _text(found["description"]), f"tree, {units:,} units", "tree", numbers)


def _mappings(found: Tree) -> list[dict[str, Tree]]:
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def _text(found: Tree) -> str:
    assert isinstance(found, Scalar)
    return found.text.strip()


def _number(found: Tree) -> int:
    return int(_text(found))
