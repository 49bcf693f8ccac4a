"""Op classes of XLA's kernels and primitives: tables in order, the first match decides.

They speak where neither the program's shapes nor the tables of kernel names do.
"""

from __future__ import annotations

import re

# XLA names a fusion's kernel after its root: loop_multiply_fusion, input_reduce_fusion.
XLA_KERNELS: tuple[tuple[str, str], ...] = (
    (r"(?i)im[23]d?2?col", "conv"),
    (r"^(loop_|input_|wrapped_)?(transpose|copy|concatenate|slice|dynamic_update_slice|pad|gather"
     r"|scatter|broadcast|bitcast|reverse)(_(fusion|kernel))?(_\d+)*$", "copy"),
    (r"softmax", "softmax"),
    (r"layer_?norm|rms_?norm|batch_?norm", "norm"),
    (r"^(input_|row_|wrapped_)?\w*(reduce|sort|topk|cumsum|argmax)\w*", "reduction"),
    (r"^(loop|input|wrapped|triton_loop|fusion)_?\w*", "elementwise"),
)  # fmt: skip

# The last part of jit(step)/jit(main)/layer_3/dot_general.
PRIMITIVES: tuple[tuple[str, str], ...] = (
    (r"dot_general|einsum|^dot$", "gemm"),
    (r"ragged_dot", "grouped_gemm"),
    (r"conv_general", "conv"),
    (r"dot_product_attention|flash_attention|fmha", "attention"),
    (r"psum|all_reduce|all_gather|reduce_scatter|psum_scatter|all_to_all|ppermute", "collective"),
    (r"reduce_(sum|max|min|prod|and|or|precision)|argm(ax|in)|cum(sum|max|prod|logsumexp)|sort"
     r"|top_k|reduce_window", "reduction"),
    (r"transpose|copy|concatenate|slice|pad|gather|scatter|broadcast|reshape|squeeze|rev|iota"
     r"|device_put", "copy"),
    (r"^(add|add_any|sub|mul|div|neg|exp2?|log1?p?|expm1|sqrt|rsqrt|pow|integer_pow|tanh|logistic"
     r"|erf(_inv)?|sin|cos|max|min|abs|sign|floor|ceil|round|select_n|where|eq|ne|lt|le|gt|ge|and"
     r"|or|xor|not|clamp|convert_element_type|is_finite|square|stop_gradient|rem"
     r"|threefry2x32|random_\w+|shift_\w+)$", "elementwise"),
)  # fmt: skip

# ``hlo_category`` of a TPU's profile.
CATEGORIES: tuple[tuple[str, str], ...] = (
    (r"all-|collective|reduce-scatter|send|recv", "collective"),
    (r"convolution|dot", "gemm"),
    (r"sort|reduce|cumsum", "reduction"),
    (r"copy|data formatting|pad|slice|transpose|concatenate|gather|scatter|infeed|outfeed", "copy"),
    (r"loop fusion|non-fusion elementwise|output fusion|input fusion|broadcast", "elementwise"),
)

_Table = tuple[tuple[str, str], ...]


def _first(table: _Table, text: str) -> str | None:
    return next((c for pattern, c in table if re.search(pattern, text[:1000])), None)


def xla_class(kernel: str, op_name: str, category: str) -> str | None:
    """Op class by XLA's own names, None if they do not tell it."""
    primitive = op_name.rpartition("/")[2].partition("[")[0]
    # What XLA says of a fusion's purpose is more than the name of its root.
    return (
        _first(PRIMITIVES[:4], primitive) if category.startswith(("conv", "dot")) else None
    ) or _first(CATEGORIES, category) or _first(XLA_KERNELS, kernel) or _first(
        PRIMITIVES, primitive
    )  # fmt: skip


def phase_of(op_name: str) -> str | None:
    """Phase that JAX's transformations leave in a name."""
    if "transpose(" in op_name:
        return "backward"
    return "forward" if "jvp(" in op_name else None
