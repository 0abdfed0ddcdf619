"""How a network and a machine are read and rewritten."""

from tests.mutants.mutant import Mutant

OPERATORS = "test_frontend::test_a_node_means_what_onnxruntime_computes"

NETWORK = (
    Mutant(
        "a product of integers forgets what stands for zero",
        "ops/contraction.py",
        "a, b = first - zeros[0], second - zeros[1]",
        "a, b = first, second",
        ("test_quantised::test_a_quantised_network_is_verified",),
    ),
    Mutant(
        "padding of a maximum is zero",
        "frontend/operators/pooling.py",
        'float("-inf") if network.is_float',
        'float("0") if network.is_float',
        (OPERATORS,),
    ),
    Mutant(
        "an average divides by the whole window at the border",
        "frontend/operators/pooling.py",
        "window.elements(position, count_padding=count_padding)",
        "window.elements(position, count_padding=True)",
        (OPERATORS,),
    ),
    Mutant(
        "a softmax may overflow",
        "ops/normalise.py",
        "exponential = np.exp(x - x.max(axis=axes, keepdims=True))",
        "exponential = np.exp(x)",
        ("test_kernels::test_a_softmax_of_large_numbers_is_finite",),
    ),
    Mutant(
        "a larger maximum rescales nothing",
        "ops/streaming.py",
        "found += state * factor",
        "found += state",
        ("test_streamed::test_blocks_of_any_size_compute_what_whole_rows_do",),
    ),
    Mutant(
        "a part of a product reads the first weights again",
        "passes/split_k.py",
        "replace(axis, offset=axis.offset + sum(by * span[0] for dim, by in axis.terms if dim == loop))",
        "replace(axis, offset=axis.offset + sum(by * 0 for dim, by in axis.terms if dim == loop))",
        ("test_split_k::test_parts_of_any_size_compute_what_the_whole_does",),
    ),
    Mutant(
        "bounds count additions of parts",
        "cost/bounds.py",
        "    if is_partial_sum(op):\n        return False\n",
        "",
        ("test_split_k::test_bounds_do_not_depend_on_parts",),
    ),
    Mutant(
        "a part of a convolution is bounded as a smaller one",
        "ops/depthwise.py",
        "replace(found.sizes(op.dims), channels=int(block[0]))",
        "found.sizes(op.dims)",
        ("test_split_k::test_bounds_do_not_depend_on_parts",),
    ),
    Mutant(
        "a block without keys is no number",
        "ops/streaming.py",
        "np.isneginf(x) & np.isneginf(y), np.float32(0)",
        "np.isneginf(x) & False, np.float32(0)",
        ("test_streamed::test_a_block_of_which_all_keys_are_hidden_counts_nothing",),
    ),
    Mutant(
        "a fold waits for no weights",
        "hardware/units.py",
        "fold = max(rows, array[3]) if array[4] else rows + array[3]",
        "fold = rows if array[4] else rows + array[3]",
        ("test_machines::test_the_time_of_a_tile_on_a_matrix_unit",),
    ),
    Mutant(
        "half a fold takes half the time",
        "hardware/units.py",
        "cycles = groups * -(-k // array[1]) * -(-n // array[2]) * fold",
        "cycles = -(-groups * k * n * fold // (array[1] * array[2]))",
        ("test_machines::test_the_time_of_a_tile_on_a_matrix_unit",),
    ),
    Mutant(
        "a folded batch normalisation forgets the bias",
        "passes/fold.py",
        "(bias - mean) * factor + shift",
        "-mean * factor + shift",
        ("test_passes::test_batch_norm_folds_into_any_convolution",),
    ),
    Mutant(
        "a folded batch normalisation forgets its epsilon",
        "passes/fold.py",
        "np.sqrt(variance + epsilon)",
        "np.sqrt(variance)",
        ("test_passes::test_batch_norm_folds_into_any_convolution",),
    ),
    Mutant(
        "a GELU is recognised by about the right constants",
        "passes/recognise.py",
        "_TOLERANCE = 1e-4",
        "_TOLERANCE = 1e-1",
        ("test_passes::test_what_is_no_form_stays",),
    ),
    Mutant(
        "a form is recognised although others read its inside",
        "passes/recognise.py",
        "and _is_closed(match, root, graph):",
        ":",
        ("test_passes::test_what_is_no_form_stays",),
    ),
    Mutant(
        "views compose without their offsets",
        "passes/views.py",
        "        offset += stride * value.offset\n",
        "",
        ("test_passes::test_slices_read_where_the_elements_are",),
    ),
    Mutant(
        "feature maps have their rows innermost",
        "passes/layouts.py",
        "return tuple(axis for axis in range(rank) if axis not in axes) + axes",
        "return axes + tuple(axis for axis in range(rank) if axis not in axes)",
        ("test_passes::test_feature_maps_have_their_channels_innermost",),
    ),
)
