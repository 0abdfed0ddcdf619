"""Whole networks of the zoo, built for a GPU, give in Triton's interpreter what onnxruntime gives."""

import pytest

import tilestitch
from tests.gpu.builds import expect_equal
from tilestitch import KernelOptions

NETWORKS = (
    ("resnet18:small", 2, "tvm"),
    ("resnet50:small", 1, "one-block"),
    ("mobilenet-v2:small", 2, "one-block"),
    ("bert-base-128:small", 2, "graphturbo"),
    ("bert-base-128-decomposed:small", 1, "tvm"),
    ("vit-b16:small", 2, "one-block"),
    ("googlenet:small", 1, "tvm"),
    ("densenet121:small", 1, "tvm"),
    ("unet:small", 1, "tvm"),
    ("llama-block-prefill-128:small", 1, "tvm"),
    ("dlrm:small", 1, "tvm"),
    ("conformer:small", 1, "tvm"),
    ("alexnet:small", 1, "tvm"),
    ("vgg19:small", 1, "tvm"),
    ("bert-base-128-attention:small", 1, "tvm"),
    ("bert-large-128:small", 1, "tvm"),
    ("llama-block-prefill-128-native:small", 1, "tvm"),
    ("llama-block-decode-128:small", 1, "tvm"),
    ("llama-block-decode-128-native:small", 1, "tvm"),
)


@pytest.mark.parametrize("network, batch, strategy", NETWORKS)
def test_a_network_gives_what_onnxruntime_gives(tmp_path, network, batch, strategy):
    """In float32 and in float16."""
    builds = {
        dtype: tilestitch.build(network, strategy=strategy, batch=batch, kernels=KernelOptions(dtype=dtype))
        for dtype in ("float32", "float16")
    }
    expect_equal(tmp_path, tilestitch.open_model(network)[0], builds, batch)
