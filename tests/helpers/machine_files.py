"""Every machine's file that is shipped or shown, and its values as an editor's YAML 1.2 reads them."""

import re
from pathlib import Path

from tilestitch.hardware.preset_files import preset_names, preset_text
from tilestitch.hardware.yaml_tree import Scalar, read_tree

ROOT = Path(__file__).parent.parent.parent
_BLOCK = re.compile(r"^```yaml\n(.*?)^```", re.MULTILINE | re.DOTALL)
_NUMBER = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")


def documented():
    """Machines of the documentation, whole ones, by page and number."""
    found = {}
    for page in sorted((ROOT / "docs").rglob("*.md")):
        for number, block in enumerate(_BLOCK.findall(page.read_text(encoding="utf-8"))):
            keys = set(re.findall(r"^([a-z_]+):", block, re.MULTILINE))
            if {"name", "memories"} <= keys and "operational_array" not in keys:  # which is ZigZag's
                found[f"{page.relative_to(ROOT)}#{number}"] = block
    return found


def shipped():
    return {name: preset_text(name) for name in preset_names()}


def yaml_12(text):
    """Plain values by the core schema of YAML 1.2, which editors use: `1_000` and `yes` are text there."""
    return _plain(read_tree(text, "yaml", []))


def _plain(tree):
    if isinstance(tree, dict):
        return {key: _plain(value) for key, value in tree.items()}
    if isinstance(tree, list):
        return [_plain(value) for value in tree]
    assert isinstance(tree, Scalar)
    if tree.quoted:
        return tree.text
    if tree.text in ("", "~", "null"):
        return None
    if tree.text in ("true", "false"):
        return tree.text == "true"
    if re.fullmatch(r"[-+]?[0-9]+", tree.text):
        return int(tree.text)
    return float(tree.text) if _NUMBER.fullmatch(tree.text) else tree.text
