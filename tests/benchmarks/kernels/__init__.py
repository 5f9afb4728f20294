"""Triton kernels whose configs are recorded as the pools of the package.

`POOLS` maps the name of each pool to the function that returns its kernel spec and to
the parameters of that function. Importing this makes no tensors and needs no GPU.
"""

from .attention import attention, attention_dkv, attention_dq, decode_attention
from .batched import batched_matmul, expert_matmul
from .convolutions import causal_conv1d, conv2d, max_pool
from .gathers import embedding, expert_choice, histogram, scatter_add
from .gemm import gated_linear, matmul
from .norms import add_rms_norm, group_norm, layer_norm, layer_norm_backward
from .pointwise import (
    adamw,
    bias_gelu_add,
    geglu,
    rope_pairs,
    split_heads,
    transpose_quantise,
)
from .quantised import int4_weights, int8_matmul, int8_weights, quantise_rows
from .reductions import column_moments, dot_product, row_argmax
from .scans import column_cumsum, linear_recurrence
from .softmax import causal_softmax, cross_entropy, softmax_backward
from .split_k import skinny_atomic, skinny_workspace, weight_gradient

POOLS = {
    "matmul_f16_3072_3072_1024": (matmul, {"m": 3072, "n": 3072, "k": 1024}),
    "matmul_bf16_1111_1537_2049": (
        matmul,
        {"m": 1111, "n": 1537, "k": 2049, "dtype": "bfloat16"},
    ),
    "matmul_nt_bf16_8192_768_768": (
        matmul,
        {"m": 8192, "n": 768, "k": 768, "dtype": "bfloat16", "layout": "nt"},
    ),
    "matmul_tf32_1024_1280_640": (
        matmul,
        {"m": 1024, "n": 1280, "k": 640, "dtype": "float32"},
    ),
    "gated_linear_1024_2816_1024": (gated_linear, {"m": 1024, "n": 2816, "k": 1024}),
    "batched_matmul_48_300_200_160": (
        batched_matmul,
        {"batch": 48, "m": 300, "n": 200, "k": 160},
    ),
    "expert_matmul_2048_16_1408_1024": (
        expert_matmul,
        {"tokens": 2048, "experts": 16, "n": 1408, "k": 1024},
    ),
    "skinny_atomic_16_5120_5120": (skinny_atomic, {"m": 16, "n": 5120, "k": 5120}),
    "skinny_workspace_40_2048_11008": (
        skinny_workspace,
        {"m": 40, "n": 2048, "k": 11008},
    ),
    "weight_gradient_768_640_16384": (
        weight_gradient,
        {"m": 768, "n": 640, "k": 16384},
    ),
    "attention_32_1024_64": (
        attention,
        {"heads": 32, "length": 1024, "head_size": 64, "dtype": "bfloat16"},
    ),
    "attention_causal_8_2048_128": (
        attention,
        {"heads": 8, "length": 2048, "head_size": 128, "causal": True},
    ),
    "attention_dq_16_1024_64": (
        attention_dq,
        {"heads": 16, "length": 1024, "head_size": 64},
    ),
    "attention_dkv_causal_16_1000_64": (
        attention_dkv,
        {"heads": 16, "length": 1000, "head_size": 64},
    ),
    "decode_attention_32_8_6000_128": (
        decode_attention,
        {"heads": 32, "queries": 8, "length": 6000, "head_size": 128},
    ),
    "causal_softmax_24_1024": (causal_softmax, {"heads": 24, "length": 1024}),
    "softmax_backward_4096_3000": (softmax_backward, {"rows": 4096, "cols": 3000}),
    "cross_entropy_grad_1024_32003": (cross_entropy, {"rows": 1024, "cols": 32003}),
    "layer_norm_6000_2304": (layer_norm, {"rows": 6000, "cols": 2304}),
    "add_rms_norm_2048_8192": (add_rms_norm, {"rows": 2048, "cols": 8192}),
    "group_norm_32_640_24": (
        group_norm,
        {"images": 32, "channels": 640, "height": 24, "width": 24},
    ),
    "layer_norm_backward_8192_1024": (
        layer_norm_backward,
        {"rows": 8192, "cols": 1024},
    ),
    "column_cumsum_2048_6144": (column_cumsum, {"rows": 2048, "cols": 6144}),
    "linear_recurrence_4096_2048": (linear_recurrence, {"rows": 4096, "cols": 2048}),
    "row_argmax_2000_10000": (row_argmax, {"rows": 2000, "cols": 10000}),
    "column_moments_12000_1536": (column_moments, {"rows": 12000, "cols": 1536}),
    "dot_product_20M": (dot_product, {"n": 20_000_000}),
    "embedding_8192_1024": (
        embedding,
        {"n_tokens": 8192, "length": 2048, "vocabulary": 50000, "width": 1024},
    ),
    "scatter_add_8192_768": (
        scatter_add,
        {"n_tokens": 8192, "vocabulary": 10000, "width": 768},
    ),
    "histogram_16M": (histogram, {"n": 16_000_000}),
    "expert_choice_32768_96_4": (
        expert_choice,
        {"tokens": 32768, "experts": 96, "top": 4},
    ),
    "conv2d_8_56_64_128": (
        conv2d,
        {"images": 8, "side": 56, "channels": 64, "filters": 128},
    ),
    "conv2d_stride2_32_28_192_256": (
        conv2d,
        {"images": 32, "side": 28, "channels": 192, "filters": 256, "stride": 2},
    ),
    "causal_conv1d_4_2048_2000": (
        causal_conv1d,
        {"batch": 4, "channels": 2048, "length": 2000},
    ),
    "max_pool_32_112_64": (max_pool, {"images": 32, "side": 112, "channels": 64}),
    "int8_weights_48_6144_4096": (int8_weights, {"m": 48, "n": 6144, "k": 4096}),
    "int8_matmul_2048_2560_2048": (int8_matmul, {"m": 2048, "n": 2560, "k": 2048}),
    "int4_weights_24_7168_4096": (int4_weights, {"m": 24, "n": 7168, "k": 4096}),
    "quantise_rows_4096_6000": (quantise_rows, {"rows": 4096, "cols": 6000}),
    "bias_gelu_add_8000_3072": (bias_gelu_add, {"rows": 8000, "cols": 3072}),
    "geglu_3000_11008": (geglu, {"rows": 3000, "cols": 11008}),
    "adamw_6M": (adamw, {"n": 6_000_000}),
    "rope_pairs_2_2048_24_64": (
        rope_pairs,
        {"batch": 2, "length": 2048, "heads": 24, "head_size": 64},
    ),
    "split_heads_4_2000_16_64": (
        split_heads,
        {"batch": 4, "length": 2000, "heads": 16, "head_size": 64},
    ),
    "transpose_quantise_6000_5000": (
        transpose_quantise,
        {"rows": 6000, "cols": 5000},
    ),
}
