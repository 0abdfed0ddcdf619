"""Plans, certificates and options of fused blocks that cannot be right."""

import json
from collections.abc import Callable
from pathlib import Path

from tests.hostile.inputs.making import Hostile, model, node, whole_bytes

ERF = node("Erf")
PLAN = {
    "format": "tilestitch.fusion-plan",
    "version": 1,
    "network": "net",
    "blocks": [{"cores": 1, "layers": ["matmul"]}],
}
CERTIFICATE = {
    "format": "tilestitch.fusion-certificate",
    "version": 1,
    "network": "net.onnx",
    "machine": "toy",
    "layers": ["a"],
    "core_counts": [1, 2],
    "blocks": [{"cores": 1, "time_ps": 1, "layers": [0]}],
    "potentials_ps": {"0": 0, "1": 1},
}


def fuse(name: str, options: str, make: Callable[[], object] = lambda: None) -> Hostile:
    """A right network and wrong options."""

    def both() -> None:
        Path("net.onnx").write_bytes(whole_bytes())
        make()

    return Hostile(name, f"fuse net.onnx --machine toy {options}", both)


def text(name: str, options: str, content: str | bytes) -> Hostile:
    """The same with a file given.json."""
    data = content.encode() if isinstance(content, str) else content
    return fuse(name, options, lambda: Path("given.json").write_bytes(data))


def certificate(name: str, **changes: object) -> Hostile:
    """A certificate with something in it that cannot be."""
    return text(name, "--check given.json", json.dumps({**CERTIFICATE, **changes}))


FUSION = (
    fuse("an unknown plan", "--plan best"),
    fuse("a plan that is not there", "--plan none.json"),
    fuse("a folder as a plan", "--plan given.json", lambda: Path("given.json").mkdir()),
    text("an empty plan", "--plan given.json", ""),
    text("a plan of bytes", "--plan given.json", b"\xff\xfe"),
    text("a plan as deep as can be", "--plan given.json", "[" * 100_000),
    text("a plan of no layer of the network", "--plan given.json", json.dumps(PLAN).replace("matmul", "mat")),
    text("a plan of a thousand cores", "--plan given.json", json.dumps(PLAN).replace('"cores": 1', '"cores": 1000')),
    text(
        "a plan of a number of five thousand digits",
        "--plan given.json",
        json.dumps(PLAN).replace('"cores": 1', f'"cores": {"9" * 5000}'),
    ),
    text("a plan as a certificate", "--check given.json", json.dumps(PLAN)),
    fuse("a certificate that is not there", "--check none.json"),
    text("a certificate as deep as can be", "--check given.json", '{"a":' * 100_000),
    text("a certificate of two formats", "--check given.json", '{"format": 1, "format": 2}'),
    certificate("a certificate of another network", network="other"),
    certificate("a certificate of another machine", machine="mlu100"),
    certificate("a certificate of other layers"),
    certificate("a certificate of a network that is no name", network=["net"] * 1000),
    certificate("a certificate of an unknown field", extra=1),
    text(
        "a certificate of a cost of five thousand digits",
        "--check given.json",
        json.dumps(CERTIFICATE).replace('"1": 1', f'"1": {"9" * 5000}'),
    ),
    text(
        "a certificate of a cost that is no number",
        "--check given.json",
        json.dumps(CERTIFICATE).replace('"1": 1', '"1": NaN'),
    ),
    fuse("a certificate in the place of the network", "--certificate net.onnx"),
    fuse("a plan in the place of the network", "-o net.onnx"),
    text("a program in the place of the plan", "--plan given.json --emit cnml -o given.json", json.dumps(PLAN)),
    fuse("a certificate and a plan in one place", "--certificate a.json -o a.json"),
    fuse("a check and a search", "--check c.json --compare"),
    fuse("a program that is written nowhere", "--emit cnml"),
    fuse("constants without a program", "--constants c.bin"),
    fuse("a program in an unknown language", "--emit rust -o a.rs"),
    Hostile(
        "a program of an operator that CNML does not have",
        "fuse net.onnx --machine toy --emit cnml -o a.cpp",
        lambda: Path("net.onnx").write_bytes(model(ERF).SerializeToString()),
    ),
    fuse("a machine without a block model", "--machine goya"),
    Hostile("a study of a machine without a block model", "characterize --machine goya -o out"),
    Hostile("a study of no machine", "characterize --machine none"),
    Hostile("a study into a file", "characterize -o out", lambda: Path("out").write_text("")),
    Hostile("a study of an argument too many", "characterize resnet18"),
    Hostile("an unknown publication", "reproduce nothing"),
    Hostile("a network that a publication does not have", "reproduce dlfusion --network bert-base-128"),
    Hostile("a machine that a publication does not have", "reproduce dlfusion --machine toy"),
)
