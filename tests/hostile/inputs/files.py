"""Files that are no networks, and networks whose weights are not where they say."""

import gzip
import os
import pickle
import random
import socket
import zipfile
from pathlib import Path

import onnx
from onnx import TensorProto, helper

from tests.hostile.inputs.making import (
    COMPILE,
    Hostile,
    contents,
    external_weight,
    model,
    network,
    node,
    raw_weight,
    value,
    weight,
    whole_bytes,
)
from tilestitch import api

SPARSE_BYTES = 3 * 2**30


def _sparse() -> None:
    with open("net.onnx", "wb") as file:
        file.truncate(SPARSE_BYTES)


def _socket() -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("net.onnx")


def _archive() -> None:
    with zipfile.ZipFile("net.onnx", "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps({"weight": [1.0]}))


def _loop_of_links() -> None:
    os.symlink("other.onnx", "net.onnx")
    os.symlink("net.onnx", "other.onnx")


FILES = (
    contents("empty", b""),
    contents("one byte", b"\x08"),
    contents("zeros", bytes(4096)),
    contents("text", b"this is no network\n"),
    contents("a page of the web", b"<!DOCTYPE html><html><body>404: not found</body></html>"),
    contents("JSON", b'{"ir_version": 8, "graph": {}}'),
    contents("an image", b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + bytes(64)),
    contents("random bytes", random.Random(0).randbytes(4096)),
    contents("compressed", lambda: gzip.compress(whole_bytes(), mtime=0)),
    contents("a reference to a large file", b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n"),
    contents("cut off in the middle", lambda: whole_bytes()[: len(whole_bytes()) // 2]),
    contents("without its last byte", lambda: whole_bytes()[:-1]),
    contents("without its first byte", lambda: whole_bytes()[1:]),
    contents("twice in one file, the second cut off", lambda: whole_bytes() + whole_bytes()[:40]),
    contents("a tensor, not a network", TensorProto(dims=[2], data_type=1, raw_data=bytes(8)).SerializeToString()),
    contents("messages in messages", b"\x3a\xff\xff\xff\xff\x0f" * 1000),
    contents("a length beyond the file", b"\x08\x08\x3a\xff\xff\xff\xff\x07"),
    Hostile("an archive of another framework", COMPILE, _archive),
    Hostile("a folder", COMPILE, lambda: Path("net.onnx").mkdir()),
    Hostile("a pipe that nobody writes to", COMPILE, lambda: os.mkfifo("net.onnx")),
    Hostile("a socket", COMPILE, _socket),
    Hostile("a device without end", "compile /dev/zero --machine toy"),
    Hostile("a link to a device without end", COMPILE, lambda: os.symlink("/dev/zero", "net.onnx")),
    Hostile("a device of nothing", "compile /dev/null --machine toy"),
    Hostile("a link to nothing", COMPILE, lambda: os.symlink("nowhere", "net.onnx")),
    Hostile("links in a loop", COMPILE, _loop_of_links),
    Hostile("larger than protobuf allows", COMPILE, _sparse),
    Hostile("no name", ["compile", "", "--machine", "toy"]),
    Hostile("a name too long", f"compile {'n' * 5000}.onnx --machine toy"),
    Hostile("a name with a line end", ["compile", "a\nb.onnx"], lambda: Path("a\nb.onnx").write_bytes(b"")),
    Hostile("a name that moves the cursor", ["compile", "a\x1b[2Jb.onnx"], lambda: Path("a\x1b[2Jb.onnx").touch()),
    Hostile(
        "a name that is not UTF-8", ["compile", "a\udcffb.onnx"], lambda: Path(os.fsdecode(b"a\xffb.onnx")).touch()
    ),
    Hostile("a zero in a name", lambda: api.compile("a\0b.onnx", "toy")),
    Hostile("a file under a file", "compile net.onnx/net.onnx --machine toy", lambda: Path("net.onnx").touch()),
    Hostile("small twice", "compile resnet18:small:small --machine toy"),
)


MATMUL = node("MatMul", "x w")


def external(
    name: str, dims: tuple[int, ...] = (3, 4), make=lambda: Path("w.data").write_bytes(bytes(48)), **entries
) -> Hostile:
    """A network whose weight w lies in another file, by default in w.data, of 48 bytes."""
    entries = {"location": "w.data", **entries}
    made = network(name, lambda: model(MATMUL, weights=[external_weight("w", dims, **entries)]))

    def both() -> None:
        made.make()
        make()

    return Hostile(name, made.asked, both)


def inside_a_branch(location: str) -> onnx.ModelProto:
    """A network that adds a weight which only a branch holds, in another file."""
    branches = {
        name: helper.make_graph(
            [node("Add", "x w", "z")], name, [], [value("z")], [external_weight("w", (3,), location=location)]
        )
        for name in ("then_branch", "else_branch")
    }
    return model(node("If", "c", **branches), weights=[weight("c", True, bool)])


EXTERNAL = (
    external("missing", make=lambda: None),
    network("of a branch, missing", lambda: inside_a_branch("w.data")),
    network("of a branch, by an absolute path", lambda: inside_a_branch("/etc/passwd")),
    Hostile("of a branch, given as a value", lambda: api.compile(inside_a_branch("w.data"), "toy")),
    external("in the folder above", location="../w.data"),
    external("in the folder above, by a detour", location="sub/../../w.data"),
    external("by an absolute path", location="/etc/passwd"),
    external("by a path of another system", location="C:\\w.data"),
    external("by a link to elsewhere", make=lambda: os.symlink("/etc/passwd", "w.data")),
    external("by a folder that is a link to elsewhere", make=lambda: os.symlink("/etc", "sub"), location="sub/passwd"),
    external("nowhere", location=""),
    external("in a folder", make=lambda: Path("w.data").mkdir()),
    external("in a pipe", make=lambda: os.mkfifo("w.data")),
    external("in a device without end", make=lambda: os.symlink("/dev/zero", "w.data")),
    external("in a name with a zero", location="w\0.data"),
    external("in an empty file", make=lambda: Path("w.data").touch()),
    external("in a file that is too short", dims=(3, 400)),
    external("from after its end", offset="4096"),
    external("from before its start", offset="-4"),
    external("from a word", offset="start"),
    external("from a huge number", offset="9" * 40),
    external("of a wrong length", length="44"),
    external("of a length beyond the file", length="4800"),
    external("of a negative length", length="-1"),
    external("of a huge length", dims=(2**20, 2**20), length=str(2**42)),
    external("of huge dims", dims=(2**31, 2**31)),
    external("of negative dims", dims=(-3, -4)),
    Hostile(
        "given as a value",
        lambda: api.compile(model(MATMUL, weights=[external_weight("w", (3, 4), location="w.data")]), "toy"),
    ),
)

WEIGHTS = (
    network("fewer bytes than the shape needs", lambda: model(MATMUL, weights=[raw_weight("w", (3, 4), bytes(44))])),
    network("more bytes than the shape needs", lambda: model(MATMUL, weights=[raw_weight("w", (3, 4), bytes(52))])),
    network("no bytes", lambda: model(MATMUL, weights=[raw_weight("w", (3, 4))])),
    network("part of an element", lambda: model(MATMUL, weights=[raw_weight("w", (3, 4), bytes(46))])),
    network("a huge shape", lambda: model(MATMUL, weights=[raw_weight("w", (3, 2**40), bytes(48))])),
    network(
        "a shape whose product overflows", lambda: model(MATMUL, weights=[raw_weight("w", (2**32, 2**32), bytes(48))])
    ),
    network("a negative shape", lambda: model(MATMUL, weights=[raw_weight("w", (3, -4), bytes(48))])),
    network("an empty shape", lambda: model(MATMUL, weights=[raw_weight("w", (3, 0))])),
    network("no type", lambda: model(MATMUL, weights=[raw_weight("w", (3, 4), bytes(48), dtype=0)])),
    network(
        "a type that does not exist", lambda: model(MATMUL, weights=[raw_weight("w", (3, 4), bytes(48), dtype=99)])
    ),
    network(
        "numbers in the place of another type",
        lambda: model(MATMUL, weights=[TensorProto(name="w", dims=[3, 4], data_type=1, int32_data=range(12))]),
    ),
    network(
        "complex numbers",
        lambda: model(MATMUL, weights=[raw_weight("w", (3, 4), bytes(96), dtype=TensorProto.COMPLEX64)]),
    ),
    network(
        "text",
        lambda: model(MATMUL, weights=[TensorProto(name="w", dims=[3, 4], data_type=8, string_data=[b"a"] * 12)]),
    ),
    network(
        "another type than the other operand",
        lambda: model(MATMUL, weights=[raw_weight("w", (3, 4), bytes(96), dtype=TensorProto.DOUBLE)]),
    ),
    network("rows that do not match", lambda: model(MATMUL, weights=[raw_weight("w", (5, 4), bytes(80))])),
)
