"""Commands and calls that contradict themselves, and places that cannot be written."""

import os
from collections.abc import Callable
from pathlib import Path

from tests.hostile.inputs.making import RELU, Hostile, model, whole_bytes
from tilestitch import api


def net(
    name: str, options: str, *, make: Callable[[], object] = lambda: None, command: str = "compile net.onnx"
) -> Hostile:
    """A right network and wrong options."""

    def both() -> None:
        Path("net.onnx").write_bytes(whole_bytes())
        make()

    return Hostile(name, f"{command} --machine toy {options}", both)


def call(name: str, *, strategy: object = "tvm", **options: object) -> Hostile:
    """The same for the Python API."""
    network = model(RELU, inputs=["x:N,3"])
    return Hostile(name, lambda: api.compile(network, "toy", strategy=strategy, options=api.Options(**options)))  # pyright: ignore[reportArgumentType]


OPTIONS = (
    net("a batch of zero", "--batch 0"),
    net("a negative batch", "--batch -4"),
    net("half a batch", "--batch 1.5"),
    net("a batch of a word", "--batch many"),
    net("a batch that the network does not have", "--batch 3"),
    net("a batch per cluster of zero", "--batch-per-cluster 0"),
    net("a batch per cluster below zero", "--batch-per-cluster -1"),
    net("a batch per cluster of a word", "--batch-per-cluster most"),
    net("a batch per cluster of a thousand digits", f"--batch-per-cluster {'9' * 1000}"),
    net("a batch per cluster of five thousand digits", f"--batch-per-cluster {'9' * 5000}"),
    net("no batches", "--batches 0"),
    net("a dim without a size", "--dim length"),
    net("a dim without a name", "--dim =4"),
    net("a dim of zero", "--dim N=0"),
    net("a negative dim", "--dim N=-4"),
    net("a dim of a word", "--dim N=four"),
    net("a dim in other digits", "--dim N=\u0664"),
    net("a dim of five thousand digits", f"--dim N={'9' * 5000}"),
    net("a dim that the network does not have", "--dim depth=4"),
    net("a dim twice", "--dim N=4 --dim N=5"),
    net("an unknown strategy", "--strategy best-of-all"),
    net("an unknown stage", "--stop-after tea"),
    net("an unknown policy of spilling", "--spill oldest"),
    net("an unknown binding", "--binding farthest"),
    net("an unknown grouping", "--grouping finest"),
    net("an unknown option", "--frobnicate"),
    net("an option without its value", "--batch"),
    net("an argument too many", "other.onnx"),
    net("a verification before there is a program", "--verify --stop-after load"),
    net("files of a simulation that does not happen", "-o out --stop-after load"),
    net("an unknown strategy among known ones", "--strategy tvm --strategy tmv", command="compare net.onnx"),
    net("a negative number of instructions", "--limit -1", command="show program net.onnx"),
    Hostile("no network", "compile"),
    Hostile("an unknown command", "frobnicate"),
    Hostile("networks without a place to write them", "models resnet18"),
    Hostile("two networks in one file", "models resnet18 resnet50 -o net.onnx"),
    Hostile("an unknown network to write", "models resnet19 --write out"),
    Hostile("two machines in one file", "show machine toy stcp920 --json machines.json"),
    call("a batch of text in Python", batch="4"),
    call("half a batch in Python", batch=1.5),
    call("a batch that is true in Python", batch=True),
    call("no batches in Python", batches=0),
    call("batches of text in Python", batches="2"),
    call("a batch per cluster of half in Python", batch_per_cluster=0.5),
    call("a batch per cluster of nothing in Python", batch_per_cluster=None),
    call("a dim of text in Python", dims={"N": "4"}),
    call("a dim of zero in Python", dims={"N": 0}),
    call("dims that are no mapping in Python", dims=["N"]),
    call("a strategy of nothing in Python", strategy=None),
    call("an unknown stage in Python", stop_after="tea"),
    call("an unknown policy of spilling in Python", spill="oldest"),
    call("an unknown binding in Python", binding="farthest"),
    call("an unknown grouping in Python", grouping="finest"),
    Hostile("a network of nothing in Python", lambda: api.compile(None, "toy")),  # pyright: ignore[reportArgumentType]
    Hostile("a network of bytes in Python", lambda: api.compile(whole_bytes(), "toy")),  # pyright: ignore[reportArgumentType]
    Hostile("no strategies in Python", lambda: api.compare("resnet18:small", "toy", ())),
)


def _locked() -> None:
    Path("out").mkdir()
    Path("out").chmod(0o500)


def _in_the_way(name: str) -> Callable[[], None]:
    def make() -> None:
        (Path("out") / name).mkdir(parents=True)

    return make


def _links() -> None:
    os.symlink("b", "a")
    os.symlink("a", "b")


PLACES = (
    net("a file where the folder should be", "-o out", make=lambda: Path("out").touch()),
    net("a file above the folder", "-o out/deep/er", make=lambda: Path("out").touch()),
    net("a folder where a file should be", "-o out", make=_in_the_way("report.json")),
    net("a folder where the last file should be", "-o out", make=_in_the_way("trace.json.gz")),
    net("a folder where a dump should be", "--dump out", make=_in_the_way("3-partition.txt")),
    net("a folder where the JSON should be", "--json out", make=lambda: Path("out").mkdir()),
    net("a file above the JSON", "--json out/x.json", make=lambda: Path("out").touch()),
    net("links in a loop", "-o a/out", make=_links),
    net(
        "a link to nothing in a folder that is missing",
        "-o out",
        make=lambda: os.symlink("/proc/nowhere/at/all", "out"),
    ),
    net("a place where nobody can write", "-o /proc/tilestitch"),
    net("a device", "-o /dev/null"),
    net("a name too long", f"-o {'n' * 300}"),
    net("a path too long", f"-o {'n/' * 3000}"),
    net("two answers for one file", "-o out --json out/report.json"),
    net("a report in the place of the network", "--json net.onnx"),
    Hostile("a network in the place of a folder", "models resnet18:small -o .", lambda: None),
    Hostile("networks in a file", "models resnet18:small --write out", lambda: Path("out").touch()),
    Hostile("a network under a file", "models resnet18:small -o out/net.onnx", lambda: Path("out").touch()),
)
