"""Which rule writes out which of onnxruntime's own operators; the others are generic."""

from collections.abc import Callable, Mapping

from tilestitch.frontend.functions import Definition
from tilestitch.frontend.microsoft import activations, attention, decoding, normalisation, products, quantised
from tilestitch.frontend.network import Node, Reading

DEFINITIONS: Mapping[str, Callable[[Node, Reading], Definition]] = {
    "Attention": attention.attention,
    "BiasGelu": activations.gelu,
    "DequantizeLinear": quantised.standard("DequantizeLinear"),
    "DynamicQuantizeMatMul": products.dynamically_quantised_product,
    "EmbedLayerNormalization": normalisation.embed_layer_norm,
    "FastGelu": activations.fast_gelu,
    "FusedConv": activations.fused_convolution,
    "FusedGemm": activations.fused_gemm,
    "FusedMatMul": products.fused_product,
    "Gelu": activations.gelu,
    "GroupQueryAttention": decoding.group_query_attention,
    "MatMulIntegerToFloat": products.integer_product_to_float,
    "MatMulNBits": products.packed_product,
    "MultiHeadAttention": attention.multi_head_attention,
    "QGemm": quantised.general_product,
    "QLinearAdd": quantised.binary("Add"),
    "QLinearAveragePool": quantised.average_pool,
    "QLinearConcat": quantised.concat,
    "QLinearConv": quantised.convolution,
    "QLinearGlobalAveragePool": quantised.global_average_pool,
    "QLinearLeakyRelu": quantised.unary("LeakyRelu", alpha=0.01),
    "QLinearMul": quantised.binary("Mul"),
    "QLinearSigmoid": quantised.unary("Sigmoid"),
    "QLinearSoftmax": quantised.softmax,
    "QLinearWhere": quantised.where,
    "QuantizeLinear": quantised.standard("QuantizeLinear"),
    "QuickGelu": activations.quick_gelu,
    "RotaryEmbedding": decoding.rotary_embedding,
    "SimplifiedLayerNormalization": normalisation.rms_norm,
    "SkipLayerNormalization": normalisation.skip_layer_norm,
    "SkipSimplifiedLayerNormalization": normalisation.skip_rms_norm,
    "TransposeMatMul": products.fused_product,
}
