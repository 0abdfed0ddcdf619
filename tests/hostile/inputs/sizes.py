"""Networks that are right, and far too large."""

from onnx import TensorProto

from tests.hostile.inputs.making import COMPILE, RELU, model, network, node, value, weight
from tests.hostile.inputs.networks import constant_operand, conv

SIZES = (
    network("a dim of 2^40", lambda: model(RELU, inputs=[f"x:2,{2**40}"])),
    network("a dim of 2^63 - 1", lambda: model(RELU, inputs=[f"x:{2**63 - 1}"])),
    network("a product beyond 64 bits", lambda: model(RELU, inputs=[f"x:{2**32},{2**32}"])),
    network("a product beyond any machine", lambda: model(RELU, inputs=["x:" + ",".join([str(2**20)] * 20)])),
    network(
        "an outer product of large vectors", lambda: model(node("MatMul", "x z"), inputs=["x:1000000,1", "z:1,1000000"])
    ),
    network(
        "a huge pool",
        lambda: model(node("MaxPool", kernel_shape=[1, 1], strides=[2**30, 2**30]), inputs=[f"x:1,1,{2**31},{2**31}"]),
    ),
    network("a huge expansion of an input", lambda: constant_operand("Expand", [10**6, 10**6], "x:1,1")),
    network("a huge convolution", lambda: conv(pads=[2**20] * 4)),
    network(
        "a table of no end",
        lambda: model(node("Gather", "x i"), inputs=[f"x:{2**50},8", value("i:4", TensorProto.INT64)]),
    ),
    network(
        "a huge border of a value that is computed",
        lambda: model(node("Pad", "x p v"), inputs=["x:2,3", "v:"], weights=[weight("p", [0, 0, 10**5, 10**5], int)]),
    ),
    network(
        "places of a huge pool",
        lambda: model(
            node("MaxPool", "x", "y places", kernel_shape=[2, 2], strides=[2**17, 2**17]),
            inputs=[f"x:1,1,{2**18},{2**18}"],
            outputs=["y", value("places", TensorProto.INT64)],
        ),
    ),
    network(
        "means of a huge row",
        lambda: model(node("AveragePool", kernel_shape=[3], pads=[1, 1]), inputs=[f"x:1,1,{2**33}"]),
    ),
    network(
        "a mean of a huge row",
        lambda: model(node("AveragePool", kernel_shape=[2**30], pads=[1, 1]), inputs=[f"x:1,1,{2**30}"]),
    ),
    network(
        "a huge row with other values here and there",
        lambda: model(
            node("ScatterElements", "x i u", axis=1),
            inputs=[f"x:1,{2**33}", value("i:1,2", TensorProto.INT64), "u:1,2"],
        ),
    ),
    network(
        "a huge sequence in reverse",
        lambda: model(
            node("ReverseSequence", "x n", batch_axis=0, time_axis=1),
            inputs=[f"x:1,{2**33}", value("n:1", TensorProto.INT64)],
        ),
    ),
    network(
        "a row cut into a huge sequence",
        lambda: model(
            node("SplitToSequence", "x", "s", axis=1),
            node("ConcatFromSequence", "s", axis=1),
            inputs=[f"x:1,{2**33}"],
        ),
    ),
    network("a batch of a million million", lambda: model(RELU, inputs=["x:N,3"]), f"{COMPILE} --batch 1000000000000"),
    network("a batch beyond 64 bits", lambda: model(RELU, inputs=["x:N,3"]), f"{COMPILE} --batch {10**30}"),
    network(
        "a batch of a thousand million, tried in every way",
        lambda: model(RELU, inputs=["x:N,3"]),
        f"{COMPILE} --batch 1000000000 --batch-per-cluster auto",
    ),
    network(
        "a prime batch of a thousand million", lambda: model(RELU, inputs=["x:N,3"]), f"{COMPILE} --batch 999999937"
    ),
    network("a million million batches", lambda: model(RELU, inputs=["x:N,3"]), f"{COMPILE} --batches 1000000000000"),
    network("a million batches", lambda: model(RELU, inputs=["x:N,3"]), f"{COMPILE} --batches 1000000"),
    network(
        "a million iterations",
        lambda: model(RELU, inputs=["x:N,3"]),
        f"{COMPILE} --batch 2000000 --batch-per-cluster 1",
    ),
    network(
        "a huge dim by name", lambda: model(RELU, inputs=["x:N,length"]), f"{COMPILE} --dim length=999999999999999999"
    ),
    network("an export with a fixed batch of a million million", lambda: model(RELU, inputs=[f"x:{10**12},1"])),
)
